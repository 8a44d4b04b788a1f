"""Blobs and layers as applications see them, and custom layers written in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pnnx_fast.errors import ParameterError, PnnxFastError, ShapeError
from pnnx_fast.formats.ncnn_param import ParamSlots
from pnnx_fast.formats.ncnn_types import type_name, type_number
from pnnx_fast.ir.mapped import MappedFile
from pnnx_fast.ncnn import layers
from pnnx_fast.ncnn.layers.registry import Build, LayerDef
from pnnx_fast.ncnn.mat import Mat
from pnnx_fast.ncnn.memory import unpacked
from pnnx_fast.ncnn.names import also_named
from pnnx_fast.ncnn.option import Option, warn
from pnnx_fast.ncnn.reader import MatLoader, ModelBin, ParamDict
from pnnx_fast.ncnn.values import UNFORESEEN, AbsentWeights, LoadedWeights, Params, Weights

if TYPE_CHECKING:
    from pnnx_fast.ncnn.compiled import NetCompiler

__all__ = ["Blob", "BuiltinLayer", "Layer", "create_layer", "layer_to_index"]


class Blob:
    """A value between layers.

    Attributes
    ----------
    name : str
    producer : int
        Number of the layer that makes it, -1 for none.
    consumer : int
        Number of the last layer that takes it, -1 for none.
    shape : Mat
        The shape that the file announces, without values; empty when it announces none.

    Examples
    --------
    >>> from pnnx_fast.ncnn import Net
    >>> net = Net()
    >>> net.load_param_mem("7767517\\n2 2\\nInput in 0 1 x\\nReLU act 1 1 x y\\n")
    0
    >>> [(blob.name, blob.producer, blob.consumer) for blob in net.blobs()]
    [('x', 0, 1), ('y', 1, -1)]
    """

    def __init__(self) -> None:
        self.name = ""
        self.producer = -1
        self.consumer = -1
        self.shape = Mat()


_one_or_many = also_named(bottom_blobs="bottom_blob", top_blobs="top_blob", bottom_top_blobs="bottom_top_blob")


class Layer:
    """A layer; applications derive from it and override ``forward`` or ``forward_inplace``.

    A custom layer with ``one_blob_only`` gets ``forward(bottom_blob, top_blob, opt)``, else lists of Mats. It fills the
    top blobs (``top_blob.clone_from(mat)``, or assigning into the list) and returns 0, or an error code.

    Attributes
    ----------
    one_blob_only : bool
        Whether the layer takes one blob and gives one.
    support_inplace : bool
        Whether ``forward_inplace`` is called when ``forward`` is not overridden.
    support_batch, support_packing, support_vulkan and the other names that begin with support : bool
        Kept, without an effect.
    type, name : str
    typeindex : int
        Number of the type, -1 when it has none.
    bottoms, tops : list of int
        Numbers of the blobs that it takes and gives.
    bottom_shapes, top_shapes : list of Mat
        Their shapes as far as the file announces them.
    featmask : int
        The file's mask of options.
    userdata : object
        The application's own.

    Examples
    --------
    >>> class Twice(Layer):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.one_blob_only = True
    ...     def forward(self, bottom_blob, top_blob, opt):
    ...         top_blob.clone_from(Mat(bottom_blob.numpy() * 2))
    ...         return 0
    >>> top = Mat()
    >>> Twice().forward(Mat(np.float32([1, 2])), top, Option()), top.numpy().tolist()
    (0, [2.0, 4.0])
    """

    def __init__(self) -> None:
        self.one_blob_only = False
        self.support_inplace = False
        self.support_vulkan = False
        self.support_packing = False
        self.support_bf16_storage = False
        self.support_fp16_storage = False
        self.support_int8_storage = False
        self.support_vulkan_packing = False
        self.support_any_packing = False
        self.support_vulkan_any_packing = False
        self.support_batch = False
        self.typeindex = -1
        self.type = ""
        self.name = ""
        self.bottoms: list[int] = []
        self.tops: list[int] = []
        self.bottom_shapes: list[Mat] = []
        self.top_shapes: list[Mat] = []
        self.featmask = 0
        self.userdata: Any = None

    @property
    def where(self) -> str:
        """Type and name, as errors show them."""
        return f"{self.type} {self.name}".strip()

    def load_param(self, pd: ParamDict) -> int:
        """Take parameters (a ParamDict) and return 0, or an error code."""
        return 0

    def load_model(self, mb: ModelBin) -> int:
        """Take weights (a ModelBin) and return 0, or an error code."""
        return 0

    def create_pipeline(self, opt: Option) -> int:
        """Prepare to run, after weights are loaded, and return 0, or an error code."""
        return 0

    def destroy_pipeline(self, opt: Option) -> int:
        """Undo the preparation."""
        return 0

    @_one_or_many
    def forward(self, bottom_blob: Any, top_blob: Any, opt: Option) -> int:
        """Compute the top blobs.

        Parameters
        ----------
        bottom_blob, bottom_blobs : Mat or list of Mat
            One Mat when ``one_blob_only`` is set.
        top_blob, top_blobs : Mat or list of Mat
            Empty Mats to fill.
        opt : Option
            Options of the run.

        Returns
        -------
        int
            0, or an error code, -1 when a layer does not override it.
        """
        return -1

    @_one_or_many
    def forward_inplace(self, bottom_top_blob: Any, opt: Option) -> int:
        """Compute in the memory of the bottom blobs.

        Parameters
        ----------
        bottom_top_blob, bottom_top_blobs : Mat or list of Mat
            One Mat when ``one_blob_only`` is set.
        opt : Option
            Options of the run.

        Returns
        -------
        int
            0, or an error code, -1 when a layer does not override it.
        """
        return -1


class BuiltinLayer(Layer):
    """A layer of the table, usable by itself too; `create_layer` makes it."""

    def __init__(self, definition: LayerDef) -> None:
        super().__init__()
        self.definition = definition
        self.type, self.typeindex = definition.name, type_number(definition.name)
        self.one_blob_only, self.support_inplace = definition.one_blob_only, definition.inplace
        self.support_batch = True
        self.params = ParamSlots()
        self.build: Build | None = None
        self.files: set[MappedFile] = set()
        self.blobs: int | None = 1
        self.alone: dict[tuple[int, int], NetCompiler] = {}

    def load_param(self, pd: ParamDict) -> int:
        """Take parameters, check them, and return 0.

        Raises
        ------
        ParameterError
            When they cannot be used.
        """
        self.params = pd._slots
        p = self._params()
        self._define(p, AbsentWeights())
        self.blobs = p.blobs
        self.one_blob_only = p.blobs == 1
        return 0

    def _define(self, p: Params, w: Weights) -> Build:
        try:
            with np.errstate(all="ignore"):
                return self.definition.function(p, w)
        except PnnxFastError:
            raise
        except UNFORESEEN as error:
            raise ParameterError(f"the parameters cannot be used: {error}") from error

    def _params(self) -> Params:
        return Params(self.params, 1 if self.definition.one_blob_only else None)

    def load_model(self, mb: ModelBin) -> int:
        """Take weights and return 0.

        Raises
        ------
        ParameterError
            When a weight has another number of values than the layer wants.
        FormatError
            When there are too few weights.
        """
        self.load_weights(MatLoader(mb))
        return 0

    def load_weights(self, loader: Any) -> None:
        """Take weights from a reader of arrays."""
        weights = LoadedWeights(loader)
        self.build, self.files = self._define(self._params(), weights), weights.files
        self.alone = {}

    def build_alone(self) -> Build | None:
        """Return what builds the operators; without ``load_model`` only a layer that has no weights has it."""
        if self.build is None:
            weights = AbsentWeights()
            build = self._define(self._params(), weights)
            self.build = None if weights.asked else build
        return self.build

    @_one_or_many
    def forward(self, bottom_blob: Any, top_blob: Any, opt: Option) -> int:
        """Compute the top blobs and return 0.

        Parameters
        ----------
        bottom_blob, bottom_blobs : Mat or list of Mat
            A list when the layer takes several.
        top_blob, top_blobs : Mat or list of Mat
            One Mat for one, a list for a list.
        opt : Option
            Its number of threads is used.

        Raises
        ------
        ShapeError
            When the layer cannot take these blobs, or wants weights that were not loaded.
        """
        from pnnx_fast.ncnn.compiled import run_layer

        many = isinstance(bottom_blob, (list, tuple))
        bottoms = list(bottom_blob) if many else [bottom_blob]
        tops = top_blob if many else [top_blob]
        results = run_layer(self, bottoms, len(tops), opt)
        for top, result in zip(tops, results, strict=True):
            top._share(result)
        return 0

    @_one_or_many
    def forward_inplace(self, bottom_top_blob: Any, opt: Option) -> int:
        """Compute in the memory of the bottom blob and return 0.

        Raises
        ------
        ShapeError
            When the result has another shape, or the layer cannot take these blobs.
        """
        many = isinstance(bottom_top_blob, (list, tuple))
        blobs = list(bottom_top_blob) if many else [bottom_top_blob]
        tops = [Mat() for _ in blobs]
        self.forward(blobs if many else blobs[0], tops if many else tops[0], opt)
        for blob, top in zip(blobs, tops, strict=True):
            if blob._a is None or top._a is None or unpacked(blob._a, blob._pack).shape != top._a.shape:
                raise ShapeError("the layer cannot compute in place")
            memory = blob._writable() if blob._pack == 1 else np.moveaxis(blob._writable(), -1, 2)
            np.copyto(memory, top._a.reshape(memory.shape), casting="unsafe")
        return 0


def layer_to_index(type: str) -> int:
    """Return the number of a built-in layer type, -1 when there is none.

    Parameters
    ----------
    type : str

    Examples
    --------
    >>> layer_to_index("Convolution"), layer_to_index("NoSuchLayer")
    (6, -1)
    """
    return type_number(type)


@also_named(index="type")
def create_layer(type: str | int) -> Layer | None:
    """Return a new built-in layer.

    Parameters
    ----------
    type : str or int
        Name or number of the type. ``index`` is another name of this parameter.

    Returns
    -------
    Layer or None
        None, and a warning, when there is no such type.

    Examples
    --------
    >>> layer, pd, top = create_layer("ReLU"), ParamDict(), Mat()
    >>> pd.set(0, 0.5)
    >>> layer.load_param(pd)
    0
    >>> layer.forward(Mat(np.float32([-2, 2])), top, Option()), top.numpy().tolist()
    (0, [-1.0, 2.0])
    """
    name = type_name(type) if isinstance(type, int) else type
    definition = layers.find(name) if name else None
    if definition is None or type_number(definition.name) < 0:
        warn(f"layer {type} not exists or registered")
        return None
    return BuiltinLayer(definition)
