"""Load, run, edit and save PNNX models on the CPU without PyTorch.

Examples
--------
>>> import pnnx_fast
>>> graph = pnnx_fast.Graph.parse('''7767517
... 3 2
... pnnx.Input  in   0 1 x #x=(1,4)f32
... F.relu      act  1 1 x y
... pnnx.Output out  1 0 y
... ''')
>>> model = pnnx_fast.Model(graph)
>>> import numpy as np
>>> model(np.float32([[-1, 2, -3, 4]]))
array([[0., 2., 0., 4.]], dtype=float32)
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pnnx_fast import demo, edit, errors, native, ncnn, runtime_graph, simplify
    from pnnx_fast._types import Source
    from pnnx_fast.ir import Attribute, Graph, Operand, Operator, Parameter
    from pnnx_fast.native import get_include
    from pnnx_fast.ops.registry import operator
    from pnnx_fast.runtime.inputs import TensorInfo
    from pnnx_fast.runtime.profile import Profile
    from pnnx_fast.runtime.session import Model

__all__ = [
    "Attribute",
    "Graph",
    "Model",
    "Operand",
    "Operator",
    "Parameter",
    "Profile",
    "TensorInfo",
    "demo",
    "edit",
    "errors",
    "get_include",
    "load",
    "native",
    "ncnn",
    "operator",
    "runtime_graph",
    "show_config",
    "simplify",
]

_HOMES = {
    "Attribute": "ir",
    "Graph": "ir",
    "Operand": "ir",
    "Operator": "ir",
    "Parameter": "ir",
    "Model": "runtime.session",
    "Profile": "runtime.profile",
    "TensorInfo": "runtime.inputs",
    "operator": "ops.registry",
    "edit": None,
    "get_include": "native",
    "errors": None,
    "native": None,
    "ncnn": None,
    "demo": None,
    "runtime_graph": None,
    "simplify": None,
}
"""Where the public names live; they are imported at first use so that ``import pnnx_fast`` stays quick."""


if not TYPE_CHECKING:  # or a type checker would take any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'pnnx_fast' has no attribute {name!r}")
        home = _HOMES[name]
        module = importlib.import_module(f"pnnx_fast.{home or name}")
        value = module if home is None else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def load(
    param: Source,
    bin: Source | None = None,
    *,
    num_threads: int | None = None,
    isa: str | None = None,
    verify: bool = True,
    optimize: bool = True,
    seed: int | None = None,
    autotune: bool | str | os.PathLike[str] = False,
    cache: bool | str | os.PathLike[str] = False,
) -> Model:
    """Load a PNNX model, ready to run.

    Parameters
    ----------
    param : path, bytes or file object
        The ``.pnnx.param`` file, or a directory that holds one.
    bin : path, bytes or file object, optional
        The ``.pnnx.bin`` file; by default the one beside the ``.param``.
    num_threads : int, optional
        Threads a call uses; by default all CPUs that the process may use.
    isa : str, optional
        Instruction set level, one of ``show_config()["isa_levels"]``; by default the best one of this CPU.
    verify : bool
        Check the CRC-32 of every weight.
    optimize : bool
        Run the rewriting passes.
    seed : int, optional
        Seed of random operators such as ``torch.randn``, 0 or more. Without it, results differ from load to load.
    autotune : bool or path
        Measure the kernels for each convolution when shapes are first seen, and use the fastest. Results are
        remembered in a file: the one named, else ``PNNX_FAST_TUNING``, else one in the user's cache folder.
    cache : bool or path
        Keep compiled programs with packed weights in a folder, so that the next process to load the same files
        starts at once. The folder is the one named, else one in the user's cache folder. It must be as trustworthy
        as code.

    Returns
    -------
    Model
        Call it with arrays.

    Raises
    ------
    FormatError
        When a file does not follow its format.
    LimitError
        When a file asks for more memory than its length or the limits justify.
    UnsupportedOperatorError
        When operator types are unknown. It lists them all, with code to paste.
    ParameterError
        When the value of an option is invalid, or an operator's parameter is unknown, missing or invalid.
    FileNotFoundError
        When a file is missing.
    TypeError
        When ``autotune`` or ``cache`` is neither a bool nor a path.

    Examples
    --------
    >>> import numpy as np
    >>> from pnnx_fast.demo import model_path
    >>> model = pnnx_fast.load(model_path(), num_threads=1)
    >>> model(np.zeros((2, 1, 8, 8), np.float32)).shape
    (2, 10)
    """
    from pnnx_fast._collector import collector_paused

    for name, given in (("autotune", autotune), ("cache", cache)):
        if not isinstance(given, bool | str | os.PathLike):
            raise TypeError(f"{name} is True, False or a path, not {type(given).__name__}")
        if given == "":
            from pnnx_fast.errors import ParameterError

            raise ParameterError("an empty path", parameter=name)
    options: dict[str, Any] = {"isa": isa, "optimize": optimize, "seed": seed, "autotune": autotune}

    def read() -> Graph:
        from pnnx_fast.ir import codec

        # Another thread checks the weights while this one imports what makes programs.
        return codec.get().load(param, bin, verify, None, lambda: importlib.import_module("pnnx_fast.runtime.compiler"))

    with collector_paused():
        from pnnx_fast.runtime.session import Model

        if cache is False:
            return Model.reading(read, None, num_threads, **options)
        from pnnx_fast._files import model_files
        from pnnx_fast.runtime.cache import ProgramCache

        files = model_files(param, bin)
        folder = None if cache is True else cache
        kept = ProgramCache(folder, *files, verify, optimize, autotune is not False)

        def read_the_same() -> Graph:
            graph = read()  # maybe much later, when programs of the folder were in use already
            kept.require_unchanged()
            return graph

        return Model.reading(read_the_same, kept, num_threads, **options)


def show_config() -> dict[str, Any]:
    """Return the version, the ISA levels of this machine, the thread team and the default thread count.

    Returns
    -------
    dict of str to object
        ``version`` : str, the version of the package. ``isa_levels`` : tuple of str, the instruction set levels that
        this CPU can run, best last. ``team`` : str, whose threads compute: ``"threads"`` or ``"openmp"``.
        ``default_threads`` : int, threads a call uses when ``num_threads`` is not given.

    Examples
    --------
    >>> config = pnnx_fast.show_config()
    >>> sorted(config)
    ['default_threads', 'isa_levels', 'team', 'version']
    >>> config["isa_levels"][0]
    'generic'
    """
    from pnnx_fast._core import program

    return {
        "version": __version__,
        "isa_levels": program.ISAS,
        "team": program.team(),
        "default_threads": program.default_threads(),
    }
