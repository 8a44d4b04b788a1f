"""Classify handwritten digits with the bundled model and show them in the terminal."""

from __future__ import annotations

import argparse
import shutil
import statistics

import numpy as np

import pnnx_fast
from pnnx_fast._types import Array
from pnnx_fast.cli.arguments import add_threads, natural
from pnnx_fast.cli.bench import measure
from pnnx_fast.demo import load_digits, model_path

SHADES = " .:-=+*#%@"
WIDTH = 16
"""Characters of a drawn digit."""
GAP = 2
"""Characters between two."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast demo``."""
    parser.add_argument("--count", type=natural, default=6, metavar="N", help="number of digits to draw")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="which digits to draw")
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast demo``."""
    model = pnnx_fast.load(model_path(), num_threads=args.threads)
    digits = load_digits()
    probabilities = np.asarray(model(digits.pictures))
    guesses = probabilities.argmax(1)
    shown = np.random.default_rng(args.seed).choice(len(guesses), min(args.count, len(guesses)), replace=False)
    abreast = max(1, (shutil.get_terminal_size().columns + GAP) // (WIDTH + GAP))
    for row in (shown[i : i + abreast] for i in range(0, len(shown), abreast)):
        print("\n".join(_draw(digits.pictures[row, 0])))
        print((" " * GAP).join(_caption(guesses[i], probabilities[i], digits.labels[i]) for i in row))
    right = int((guesses == digits.labels).sum())
    error = float(np.abs(probabilities - digits.probabilities).max())
    print(f"\n{right} of {len(guesses)} held-out digits right ({right / len(guesses):.2%})")
    print(f"largest difference from PyTorch's probabilities: {error:.1e}")
    one = statistics.median(measure(lambda: model(digits.pictures[:1]), 0.3))
    many = statistics.median(measure(lambda: model(digits.pictures), 0.3)) / len(guesses)
    print(f"{one * 1e6:.0f} µs for one digit, {many * 1e6:.1f} µs a digit in a batch of {len(guesses)}")
    print(f"({model.num_threads} thread(s), {model.isa})")
    return 0 if right / len(guesses) > 0.98 else 1


def _draw(pictures: Array) -> list[str]:
    """Lines of text that show pictures (n, 8, 8) side by side, two characters a pixel."""
    levels = np.clip(pictures * (len(SHADES) - 1), 0, len(SHADES) - 1).round().astype(int)
    return [(" " * GAP).join("".join(SHADES[v] * 2 for v in picture[row]) for picture in levels) for row in range(8)]


def _caption(guess: int, probabilities: Array, truth: int) -> str:
    text = f"{guess} ({probabilities[guess]:.0%})" + ("" if guess == truth else f" is {truth}!")
    return f"{text:^{WIDTH}}"
