"""Measure pnnx_fast beside other engines; each command is a module of its own."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

# command: (module with add_arguments and main, what it does)
_COMMANDS = {
    "peers": ("benchmarks.peers", "time the engines in turn on models of the zoo"),
    "kernels": ("benchmarks.kernels", "time single kernels at given shapes, every algorithm"),
    "operators": ("benchmarks.operators", "time single operators of PyTorch in all engines, one thread"),
    "profile": ("benchmarks.profile", "where the time of each model goes, by class of kernel"),
    "everything": ("benchmarks.everything", "all measurements, then the report"),
    "report": ("benchmarks.pages", "write tables and the picture into the documentation"),
    "check": ("benchmarks.check", "compare our results with PyTorch's on every ISA level"),
    "load": ("benchmarks.load", "time to the first result and peak memory of fresh processes"),
    "ncnn": ("benchmarks.ncnn_models", "time the ncnn package and ours on ncnn files"),
    "overhead": ("benchmarks.overhead", "time of a call that computes next to nothing"),
    "scaling": ("benchmarks.scaling", "how time grows with batch, picture size and threads"),
    "gains": ("benchmarks.gains", "how much faster our engine gets with more threads"),
    "formats": ("benchmarks.formats", "checksum, and reading and writing of large graphs"),
    "probe": ("benchmarks.probe", "measure the machine's peak FLOP/s and bandwidth"),
    "prepare": ("benchmarks.prepare", "have the other engines convert models in advance"),
    "zoo": ("benchmarks.zoo", "build the models with golden results of PyTorch"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, text) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        importlib.import_module(module).add_arguments(command)
    options = parser.parse_args(arguments)
    try:
        return int(importlib.import_module(_COMMANDS[options.command][0]).main(options))
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
