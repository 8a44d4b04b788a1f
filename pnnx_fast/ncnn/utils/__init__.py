"""ncnn.utils for detectors: records of detections, and checks. ``functional`` has the functions.

The name is ncnn's. Nothing is downloaded or drawn here: a runtime fetches nothing, and pictures are OpenCV's business.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.ncnn.utils.objects import Detect_Object, Face_Object, KeyPoint, Point, Rect, Size

__all__ = ["Detect_Object", "Face_Object", "KeyPoint", "Point", "Rect", "Size", "check_sha1", "print_topk"]


def check_sha1(filename: str | os.PathLike[str], sha1_hash: str) -> bool:
    """Whether the SHA-1 of a file starts with these hexadecimal digits, or they with it."""
    with open(filename, "rb") as file:
        digest = hashlib.file_digest(file, "sha1").hexdigest()
    size = min(len(digest), len(sha1_hash))
    return digest[:size] == sha1_hash[:size].lower()


def print_topk(cls_scores: Array, topk: int) -> None:
    """Print the classes with the highest scores, best first: ``class=score``."""
    scores = np.asarray(cls_scores).reshape(-1)
    for index in np.argsort(-scores, kind="stable")[:topk]:
        print(f"{index}={scores[index]:f}")
