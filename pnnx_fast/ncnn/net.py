"""Net: loading of parameters and weights, custom layers, inputs and outputs, with ncnn's return codes.

Every failure returns the code that ncnn returns for it and warns with the reason.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from pnnx_fast.errors import FormatError, ParameterError, PnnxFastError
from pnnx_fast.formats import ncnn_bin, ncnn_param, ncnn_param_bin
from pnnx_fast.formats.ncnn_param import LayerRecord, NcnnParam
from pnnx_fast.formats.ncnn_types import CUSTOM_BIT, type_name, type_number
from pnnx_fast.ncnn import layers
from pnnx_fast.ncnn.compiled import NetCompiler
from pnnx_fast.ncnn.extractor import Extractor
from pnnx_fast.ncnn.layer import Blob, BuiltinLayer, Layer
from pnnx_fast.ncnn.layers.leftover import leftover
from pnnx_fast.ncnn.mat import Mat
from pnnx_fast.ncnn.memory import hollow, shape_of
from pnnx_fast.ncnn.names import also_named
from pnnx_fast.ncnn.option import Option, warn
from pnnx_fast.ncnn.reader import ModelBinFromDataReader, ParamDict, read_all, source_of
from pnnx_fast.ncnn.values import MOST_ELEMENTS

__all__ = ["Net"]

_HINTS, _FEATURES = 30, 31
_INPUT = type_number("Input")
Creator = Callable[[], Layer]
Destroyer = Callable[[Layer], Any]


class Net:
    """A network.

    Loading functions return 0, or ncnn's error code with a `NcnnWarning` that says why.

    Attributes
    ----------
    opt : Option
        Set options before loading.

    Examples
    --------
    >>> import numpy as np
    >>> net = Net()
    >>> net.load_param_mem("7767517\\n2 2\\nInput in 0 1 a\\nReLU r 1 1 a b\\n")
    0
    >>> net.load_model(b"")
    0
    >>> net.input_names(), net.output_names()
    (['a'], ['b'])
    >>> ex = net.create_extractor()
    >>> ex.input("a", Mat(np.float32([-1, 2])))
    0
    >>> ex.extract("b")[1].numpy()
    array([0., 2.], dtype=float32)
    """

    def __init__(self) -> None:
        self.opt = Option()
        self._overwritten: dict[int, tuple[Creator, Destroyer | None]] = {}
        self._custom: list[tuple[str, Creator | None, Destroyer | None]] = []
        self._lock = threading.Lock()  # extractors of one net run in several threads
        self._reset()

    def _reset(self) -> None:
        self._layers: list[Layer] = []
        self._blobs: list[Blob] = []
        self._numbers: dict[str, int] = {}
        self._param: NcnnParam | None = None
        self._compiler: NetCompiler | None = None

    def __del__(self) -> None:
        with suppress(AttributeError):  # when it was never made whole
            self.clear()

    def __enter__(self) -> Net:
        return self

    def __exit__(self, *args: object) -> None:
        self.clear()

    def __repr__(self) -> str:
        return f"<ncnn.Net: {len(self._layers)} layers, {len(self._blobs)} blobs>"

    # -- custom layers -----------------------------------------------------------------------------------------

    @also_named(index="type")
    def register_custom_layer(
        self,
        type: str | int,
        creator: Creator,
        destroyer: Destroyer | None = None,
        userdata: Any = None,
    ) -> int:
        """Register a factory for the layers of a type, before parameters are loaded.

        Parameters
        ----------
        type : str or int
            A name, or a number: a built-in one replaces that layer, ``0x100 | i`` is the i-th custom type. ``index`` is
            another name of this parameter.
        creator : callable
            Returns a new Layer.
        destroyer : callable, optional
            Called with the layer when the net is cleared.
        userdata : object, optional
            Has no effect.

        Returns
        -------
        int
            0, and a warning when a layer is replaced; -1 and a warning when there is no such number.

        Raises
        ------
        TypeError
            When the type or the factory is of another kind.

        Examples
        --------
        >>> import numpy as np
        >>> class Negate(Layer):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.one_blob_only = self.support_inplace = True
        ...     def forward_inplace(self, blob, opt):
        ...         blob.numpy()[...] *= -1
        ...         return 0
        >>> net = Net()
        >>> net.register_custom_layer("Negate", Negate), net.custom_layer_to_index("Negate")
        (0, 0)
        >>> text = "7767517\\n2 2\\nInput in 0 1 a\\nNegate n 1 1 a b\\n"
        >>> net.load_param_mem(text), net.load_model_mem(b"")
        (0, 0)
        >>> ex = net.create_extractor()
        >>> ex.input("a", Mat(np.float32([1, 2]))), ex.extract("b")[1].numpy().tolist()
        (0, [-1.0, -2.0])
        """
        if not isinstance(type, (str, int)) or not callable(creator):
            raise TypeError("register_custom_layer takes a name or a number and a class or function that makes layers")
        if isinstance(type, int) and not 0 <= type < 2 * CUSTOM_BIT:
            warn(f"layer type {type} is neither below {CUSTOM_BIT} (built in) nor below {2 * CUSTOM_BIT} (custom)")
            return -1
        number = type_number(type) if isinstance(type, str) else type if not type & CUSTOM_BIT else -1
        if number >= 0:
            warn(f"overwrite built-in layer type {type}")
            self._overwritten[number] = creator, destroyer
            return 0
        if isinstance(type, int):
            place = type & ~CUSTOM_BIT
            self._custom += [("", None, None)] * (place + 1 - len(self._custom))
            self._custom[place] = self._custom[place][0], creator, destroyer
            return 0
        place = self.custom_layer_to_index(type)
        if place < 0:
            self._custom.append((type, creator, destroyer))
        else:
            warn(f"overwrite existing custom layer type {type}")
            self._custom[place] = type, creator, destroyer
        return 0

    def custom_layer_to_index(self, type: str) -> int:
        """Return the place of a custom layer type, -1 when it is not registered."""
        return next((i for i, (name, _, _) in enumerate(self._custom) if name == type), -1)

    def _create(self, kind: str | int) -> Layer | None:
        """Make a layer: a replaced built-in one, a built-in one, a custom one, or an operator that PNNX left over."""
        name = kind if isinstance(kind, str) else type_name(kind) or ""
        number = type_number(name)
        if number in self._overwritten:
            return _made_by(self._overwritten[number][0], number)
        definition = layers.find(name)
        if definition is not None:
            return BuiltinLayer(definition)
        place = kind & ~CUSTOM_BIT if isinstance(kind, int) else self.custom_layer_to_index(kind)
        creator = self._custom[place][1] if 0 <= place < len(self._custom) else None
        if creator is not None:
            return _made_by(creator, CUSTOM_BIT | place)
        rest = leftover(name)
        return BuiltinLayer(rest) if rest is not None else None

    # -- parameters --------------------------------------------------------------------------------------------

    @also_named(dr="protopath")
    def load_param(self, protopath: Any) -> int:
        """Load a text ``.param``.

        Parameters
        ----------
        protopath : str, path, bytes, file object or DataReader
            ``dr`` is another name of this parameter.

        Returns
        -------
        int
            0, or -1 and a warning when it cannot be read or a layer of it cannot be made.

        Raises
        ------
        TypeError
            When it is of another kind.
        """
        return self._load_param(protopath, ncnn_param.read_text)

    def load_param_mem(self, mem: str | bytes) -> int:
        """Load a text ``.param`` from its text, with the result of `load_param`."""
        data = mem.encode("utf-8", "surrogateescape") if isinstance(mem, str) else bytes(memoryview(mem))
        return self._load_param(data, ncnn_param.read_text)

    @also_named(dr="protopath")
    def load_param_bin(self, protopath: Any) -> int:
        """Load a binary ``.param.bin``; the argument and the result are those of `load_param`."""
        return self._load_param(protopath, ncnn_param_bin.read_binary)

    def _load_param(self, given: Any, read: Callable[[bytes, str | None], NcnnParam]) -> int:
        try:
            data, path = read_all(given)
            param = read(data, path)
        except (OSError, FormatError) as error:
            warn(str(error))
            return -1
        self.clear()
        try:
            reason = self._take(param)
        except BaseException:  # of an application's layer
            self.clear()
            raise
        if reason is None:
            return 0
        warn(reason if path is None else f"{path}: {reason}")
        self.clear()
        return -1

    def _take(self, param: NcnnParam) -> str | None:
        """Make blobs and layers; returns what is wrong."""
        names = [*param.blob_names, *[""] * (param.blob_count - len(param.blob_names))]
        for i, name in enumerate(names):
            blob = Blob()
            blob.name = name
            self._blobs.append(blob)
            if name:
                self._numbers.setdefault(name, i)
        for i, record in enumerate(param.layers):
            reason = self._add(i, record)
            if reason is not None:
                return reason
        self._param = param
        return None

    def _add(self, index: int, record: LayerRecord) -> str | None:
        where = f"layer {index} {record.type} {record.name}".rstrip()
        try:
            layer = self._create(record.type)
        except PnnxFastError as error:
            return f"{where}: {error}"
        if layer is None:
            place = f"layer {index} {record.name}".rstrip()
            return f"layer {record.type} not exists or registered ({place})"
        layer.type, layer.name = str(record.type), record.name
        layer.bottoms, layer.tops = list(record.bottoms), list(record.tops)
        for bottom in layer.bottoms:
            self._blobs[bottom].consumer = index
        for top in layer.tops:
            self._blobs[top].producer = index
        params = ncnn_param.ParamSlots({id: record.params.slot(id) for id in record.params})  # type: ignore[misc]
        reason = self._take_hints(params, layer)
        if reason is not None:
            return f"{where}: {reason}"
        try:
            code = layer.load_param(ParamDict(params))
        except PnnxFastError as error:
            return f"{where}: {error}"
        if code:
            return f"{where}: load_param returned {code}"
        self._layers.append(layer)
        if not isinstance(layer, BuiltinLayer) or layer.type == "Input":
            return None
        taken, given = len(layer.bottoms), len(layer.tops)
        if layer.one_blob_only and (taken, given) != (1, 1):
            return f"{where} takes one blob and gives one, not {taken} and {given}"
        if layer.blobs is not None and taken < layer.blobs:
            return f"{where} takes {layer.blobs} blobs, not {taken}"
        return None

    def _take_hints(self, params: ncnn_param.ParamSlots, layer: Layer) -> str | None:
        """Shapes that the file announces, and the mask of features; returns what is wrong."""
        hints = params.get_ints(_HINTS)
        if params.type(_HINTS) and params.bits(_HINTS) is None:
            return "shape hints must be an array"
        if hints:
            reason = self._hint_shapes(hints, layer)
            if reason is not None:
                return reason
        if params.type(_FEATURES) not in (0, 1, 2):
            return "the feature mask must be an integer"
        layer.featmask = params.get_int(_FEATURES)
        layer.bottom_shapes = [self._blobs[b].shape for b in layer.bottoms]
        layer.top_shapes = [self._blobs[b].shape for b in layer.tops]
        return None

    def _hint_shapes(self, hints: tuple[int, ...], layer: Layer) -> str | None:
        step = len(hints) // max(len(layer.tops), 1)
        if step not in (4, 5) or step * len(layer.tops) != len(hints):
            return f"{len(hints)} shape hints for {len(layer.tops)} blobs"
        for i, top in enumerate(layer.tops):
            rank, *sizes = hints[i * step : (i + 1) * step]
            if not 0 <= rank <= 4 or any(not 0 < v < 1 << 24 for v in sizes[:rank]):
                return f"shape hint {hints[i * step : (i + 1) * step]}"
            if rank:
                used = (*sizes[:2], sizes[3]) if rank == 3 and step == 5 else sizes[:rank]
                if math.prod(used) > MOST_ELEMENTS:
                    return f"a shape of {math.prod(used)} values"
                self._blobs[top].shape = Mat._of(hollow((1, *shape_of(used)), np.dtype(np.float32)), refcount=0)
        return None

    # -- weights -----------------------------------------------------------------------------------------------

    @also_named(dr="modelpath")
    def load_model(self, modelpath: Any) -> int:
        """Load weights, after the parameters.

        Parameters
        ----------
        modelpath : str, path, bytes, file object or DataReader
            A file is mapped, so do not write to it while the net lives. ``dr`` is another name of this parameter.

        Returns
        -------
        int
            0, or -1 and a warning when weights are missing or wrong.

        Raises
        ------
        TypeError
            When it is of another kind.
        """
        if not self._layers:
            warn("network graph not ready")
            return -1
        try:
            reader = ncnn_bin.WeightReader(source_of(modelpath))
        except OSError as error:
            warn(str(error))
            return -1
        self._compiler = None
        for i, layer in enumerate(self._layers):
            try:
                code = self._load_layer(layer, reader)
            except FormatError as error:
                code, reason = -1, str(ncnn_bin.read_error(error, f"{i} {layer.where}".rstrip()))
            except PnnxFastError as error:
                code, reason = -1, f"layer {i} {layer.where}: {error}"
            else:
                reason = f"layer {i} {layer.where}: load_model returned {code}"
            if code:
                warn(reason)
                return -1
        return 0

    def _load_layer(self, layer: Layer, reader: ncnn_bin.WeightReader) -> int:
        if isinstance(layer, BuiltinLayer):
            layer.load_weights(reader)
            return 0
        code = layer.load_model(ModelBinFromDataReader(reader))
        return code or layer.create_pipeline(self.opt)

    def load_model_mem(self, mem: Any) -> int:
        """Load weights from bytes, with the result of `load_model`; other objects that hold bytes are copied."""
        return self.load_model(bytes(memoryview(mem)))

    # -- what the net is ---------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget layers, blobs and weights."""
        for layer in self._layers:
            if isinstance(layer, BuiltinLayer):
                continue
            layer.destroy_pipeline(self.opt)
            if layer.typeindex & CUSTOM_BIT and layer.typeindex >= 0:
                destroyer = self._custom[layer.typeindex & ~CUSTOM_BIT][2]
            else:
                destroyer = self._overwritten.get(layer.typeindex, (None, None))[1]
            if destroyer is not None:
                destroyer(layer)
        self._reset()

    def create_extractor(self) -> Extractor:
        """Return an extractor: one run of the net."""
        return Extractor._of(self)

    def blobs(self) -> list[Blob]:
        """Blobs in the order of their numbers."""
        return self._blobs

    def layers(self) -> list[Layer]:
        """Layers in the order of the file."""
        return self._layers

    def input_indexes(self) -> list[int]:
        """Numbers of the blobs that Input layers make."""
        return [
            top for layer in self._layers if layer.type == "Input" or layer.typeindex == _INPUT for top in layer.tops
        ]

    def output_indexes(self) -> list[int]:
        """Numbers of the blobs that some layer makes and none takes, in their order."""
        return [i for i, blob in enumerate(self._blobs) if blob.producer >= 0 and blob.consumer < 0]

    def input_names(self) -> list[str]:
        """Names of inputs."""
        return [self._blobs[i].name for i in self.input_indexes()]

    def output_names(self) -> list[str]:
        """Names of outputs."""
        return [self._blobs[i].name for i in self.output_indexes()]

    @also_named(vkdev="device_index")
    def set_vulkan_device(self, device_index: Any) -> None:
        """Has no effect: there is no computing on graphics processors."""

    def vulkan_device(self) -> None:
        """Return None: there is no computing on graphics processors."""

    # -- for extractors ----------------------------------------------------------------------------------------

    def _compile(self) -> NetCompiler:
        with self._lock:
            if self._compiler is None:
                self._compiler = NetCompiler(self._layers, [blob.producer for blob in self._blobs])
            return self._compiler


def _made_by(creator: Creator, typeindex: int) -> Layer:
    """A layer of an application's factory."""
    made: Any = creator()
    if not isinstance(made, Layer):
        raise ParameterError(f"what was registered for the type makes no Layer but {type(made).__name__}")
    made.typeindex = typeindex
    return made
