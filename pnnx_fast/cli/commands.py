"""The subcommands, modules with ``add_arguments(parser)`` and ``run(args) -> int``, and how their faults are shown."""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

import pnnx_fast
from pnnx_fast.cli import bench, demo, diff, edit, info, ops, python, show
from pnnx_fast.cli import run as run_model
from pnnx_fast.errors import PnnxFastError

__all__ = ["COMMANDS", "run"]

COMMANDS = {
    "run": run_model,
    "info": info,
    "bench": bench,
    "demo": demo,
    "show": show,
    "diff": diff,
    "edit": edit,
    "python": python,
    "ops": ops,
}


ANSWERS_BY_EXIT_CODE = {"diff"}

_CONTROL = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\r"}


class _Shown:
    """A stream without control characters: names of a file nobody vouches for are no commands to a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text.translate(_CONTROL))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _shown(stream: TextIO | None) -> TextIO:
    return cast(TextIO, None if stream is None else _Shown(stream))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pnnx-fast",
        description="Run, inspect and edit PNNX models on the CPU.",
        epilog="pnnx-fast COMMAND --help explains a command. A model is a .pnnx.param file or a folder that holds one.",
    )
    parser.add_argument("--version", action="version", version=f"pnnx-fast {pnnx_fast.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        text = (module.__doc__ or "").partition("\n")[0]
        module.add_arguments(commands.add_parser(name, help=text, description=text))
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; an interruption is left to who calls."""
    if sys.stderr is None:
        # It is closed. What is printed to None would appear on standard output.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal without some character shows another one rather than end the program.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    args = _parser().parse_args(argv)
    with warnings.catch_warnings(), redirect_stdout(_shown(sys.stdout)), redirect_stderr(_shown(sys.stderr)):
        warnings.showwarning = _show_warning
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    try:
        code: int = COMMANDS[args.command].run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader, such as ``head``, has seen enough. What is still buffered must not fail when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1 if args.command in ANSWERS_BY_EXIT_CODE else 0  # only differences are printed
    except argparse.ArgumentTypeError as error:
        print(f"pnnx-fast {args.command}: {error}", file=sys.stderr)
        return 2
    except (PnnxFastError, OSError, MemoryError) as error:
        print(f"pnnx-fast: {_message(error)}", file=sys.stderr)
        return 2 if args.command in ANSWERS_BY_EXIT_CODE else 1


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    """Show a warning as errors are shown: who calls the command has no line of code to look at."""
    print(f"pnnx-fast: warning: {message}", file=sys.stderr)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return "; ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])
