"""Classify handwritten digits with the bundled model and show them in the terminal."""

from __future__ import annotations

import argparse
import statistics

import numpy as np

import pnnx_fast
from pnnx_fast._types import Array
from pnnx_fast.cli.bench import measure
from pnnx_fast.demo import load_digits, model_path

SHADES = " .:-=+*#%@"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast demo``."""
    parser.add_argument("--count", type=int, default=6, help="number of digits to draw")
    parser.add_argument("--seed", type=int, default=0, help="which digits to draw")
    parser.add_argument("--threads", type=int, help="number of threads, by default all CPUs")


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast demo``."""
    model = pnnx_fast.load(model_path(), num_threads=args.threads)
    digits = load_digits()
    probabilities = np.asarray(model(digits.pictures))
    guesses = probabilities.argmax(1)
    count = max(0, min(args.count, len(guesses)))
    shown = np.random.default_rng(args.seed).choice(len(guesses), count, replace=False)
    print("\n".join(_draw(digits.pictures[shown, 0])))
    print("  ".join(_caption(guesses[i], probabilities[i], digits.labels[i]) for i in shown))
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
    return ["  ".join("".join(SHADES[v] * 2 for v in picture[row]) for picture in levels) for row in range(8)]


def _caption(guess: int, probabilities: Array, truth: int) -> str:
    text = f"{guess} ({probabilities[guess]:.0%})" + ("" if guess == truth else f" is {truth}!")
    return f"{text:^16}"
