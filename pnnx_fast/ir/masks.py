"""What the types noted at operands tell of attention's masks, which the converter puts anywhere among the inputs of
``nn.MultiheadAttention``; it changes no graph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pnnx_fast.ir.operator import Operand, Operator
from pnnx_fast.ir.shapes import may_be

__all__ = ["DOUBTFUL", "EACH_HEAD", "MASKS", "attention_masks", "head_masks", "mask_sizes", "means_taking_part"]

MASKS = ("attn_mask", "key_padding_mask")

DOUBTFUL = "masks_doubtful"
"""Parameter of an attention whose masks only the sizes of a call can tell from each other."""

EACH_HEAD = "average_attn_weights"
"""What attention is told when it is called, and keeps as a parameter in a graph."""

_MOST_UPSTREAM = 400
"""Operands that are looked at for what a mask comes from."""

_SHAPED = r"(Tensor|torch|aten::)\.?(size|(zeros|ones|full|empty)_like|new_(zeros|ones|full|empty))"
"""Operators that take nothing but sizes from the first input. Few models have masks that ask for it."""

_SIZE = r"size\(@[0-9]+"


def means_taking_part(mask: Operand) -> bool:
    """Whether a boolean mask of attention is one of ``scaled_dot_product_attention``, where true takes part.

    A module made of that function has a reshape in front that keeps the name of the function's argument.
    """
    reshape = mask.producer
    if reshape is None or reshape.type != "Tensor.reshape" or "attn_mask" not in reshape.inputnames:
        return False
    return (mask.dtype or reshape.inputs[0].dtype) == "bool"


def head_masks(op: Operator) -> tuple[int, int, int, int] | None:
    """Batch, heads, queries and keys of a mask of attention that the converter reshapes as if it were one for all.

    A module made of ``scaled_dot_product_attention`` takes such a mask with a matrix for each head of each row.
    """
    sizes = op.value("shape") if len(op.inputs) == 1 == len(op.outputs) else None
    given, users = op.inputs[0].shape if op.inputs else None, op.outputs[0].consumers if op.outputs else []
    if "attn_mask" not in op.inputnames or given is None or len(given) != 4 or max(given[:2]) < 2 or not users:
        return None
    heads = users[0].value("num_heads")
    query, batch_first = users[0].inputs[0].shape, users[0].value("batch_first")
    if sizes != list(given[2:]) or query is None or len(query) != 3 or not isinstance(heads, int):
        return None
    return query[0 if batch_first else 1], heads, given[2], given[3]


def mask_sizes(query: Sequence[int], key: Sequence[int], batch_first: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of a mask of keys, a row for each batch, and of a mask that has a row for each query."""
    first = 0 if batch_first else 1
    return (query[first], key[1 - first]), (query[1 - first], key[1 - first])


def attention_masks(op: Operator) -> tuple[dict[int, str], bool]:
    """Slots of the masks among the inputs of ``nn.MultiheadAttention``, by number, and whether they may be others.

    Masks that are truths have no name in a file, and of all else the last may be called ``attn_mask``. Sizes tell what
    they are; where there are as many batches as queries, or both vary, only the sizes of a call may. A mask of one
    dimension is one of keys, without batch.
    """
    names = list(op.inputnames) or [""] * len(op.inputs)
    flat = {i for i, x in enumerate(op.inputs) if x.shape is not None and len(x.shape) == 2}
    lines = {i for i, x in enumerate(op.inputs) if x.shape is not None and len(x.shape) == 1}
    told = {i for i, x in enumerate(op.inputs) if x.dtype == "bool" or _has_no_features(op, x.shape)} | lines
    told |= {i for i, name in enumerate(names) if lines and name in MASKS}
    masks = sorted(told | flat if len(told | flat) < len(op.inputs) else told)
    masks = masks or [i for i, name in enumerate(names) if name in MASKS]
    values = [x.shape for i, x in enumerate(op.inputs) if i not in masks]
    query, key = (values[0], values[min(1, len(values) - 1)]) if values else (None, None)
    if query is None or key is None or len(query) != 3 or len(key) != 3:
        return {i: "key_padding_mask" if i in lines else names[i] or "attn_mask" for i in masks}, False
    rows, cells = mask_sizes(query, key, bool(op.value("batch_first")))
    slots, doubtful = dict.fromkeys(masks, "attn_mask"), []
    for i in masks:
        shape = op.inputs[i].shape
        if shape is None or not may_be(shape, rows) or shape == cells != rows:
            continue
        slots[i] = "key_padding_mask"
        doubtful += [i] if may_be(shape, cells) and not (shape == rows != cells) else []
    if not doubtful:
        return slots, False
    others = {slots[i] for i in masks if i not in doubtful}
    keys, sure = None, True
    if "key_padding_mask" not in others:
        keys, sure = _mask_of_keys(op, doubtful, bool(others) or len(doubtful) > 1, "key_padding_mask" in names)
    return slots | {i: "key_padding_mask" if i == keys else "attn_mask" for i in doubtful}, not sure


def _has_no_features(op: Operator, shape: Sequence[int] | None) -> bool:
    """Whether a tensor of three dimensions is a mask for each head of each batch."""
    features = [op.params[key].value for key in ("embed_dim", "kdim", "vdim") if key in op.params]
    return shape is not None and len(shape) == 3 and shape[-1] >= 0 and shape[-1] not in features


def _mask_of_keys(op: Operator, doubtful: Sequence[int], several: bool, named: bool) -> tuple[int | None, bool]:
    """Which of the masks whose sizes do not tell is that of keys, and whether this is sure.

    A mask that is made of sizes alone is for positions, and beside one for positions there is one of keys: truths, or
    the last of those that are numbers. A single one is, if it is made of truths among the data.
    """
    origins = {i: _origin(op.inputs[i]) for i in doubtful}
    of_data = [i for i, (data, _) in origins.items() if data]
    if several:
        if len(doubtful) == 1 or len(of_data) == 1:
            return (of_data or doubtful)[0], True
        truths = [i for i in doubtful if op.inputs[i].dtype == "bool"]
        return (truths[0] if truths else doubtful[-1]), False
    (i,) = doubtful
    return (i if named or origins[i] == (True, True) else None), not of_data


def _origin(mask: Operand) -> tuple[bool, bool]:
    """Whether a mask is made of what an input of the graph holds, and whether truths are on the way."""
    waiting, visited = [mask], {mask}
    of_data = of_truths = False
    while waiting and len(visited) < _MOST_UPSTREAM:
        x = waiting.pop()
        op = x.producer
        of_data |= op is None or op.type == "pnnx.Input"
        of_truths |= x.dtype == "bool"
        more = set() if op is None or _takes_sizes(op) else set(op.inputs) - visited
        visited |= more
        waiting += more
    return of_data, of_truths


def _takes_sizes(op: Operator) -> bool:
    """Whether an operator takes nothing but sizes from its inputs."""
    if op.type == "pnnx.Expression" and "expr" in op.params:
        return "@" not in re.sub(_SIZE, "", op.params["expr"].text)
    return re.fullmatch(_SHAPED, op.type) is not None
