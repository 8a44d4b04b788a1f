"""The benchmarks' arithmetic and tables; nothing here measures time or needs another engine."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

# Last, so that the installed package is found before the sources beside the benchmarks.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import compare, formats, manifest, peers, report

ROW = report.Row(("net", "1"), {"ours": 2.0, "a": 4.0, "b": 5.0}, {"c": "wrong result"}, {"ours": 3e-6})


def test_bursts_count_alike() -> None:
    assert report.of_bursts([[1.0], [3.0] * 50, [2.0, 2.0]]) == 2.0


def test_bursts_that_waited_do_not_count() -> None:
    bursts = [[9.0], [1.0], [2.0], [3.0], [8.0]]
    assert report.of_bursts(bursts, [0.5, 0.0, 0.01, 0.02, 0.4]) == 2.0
    assert report.of_bursts(bursts, [0.5, 0.15, 0.2, 0.3, 0.4]) == 2.0


def test_geometric_mean() -> None:
    assert report.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert math.isnan(report.geometric_mean([]))


def test_ratio_is_to_the_best_peer() -> None:
    assert report.best_peer(ROW, "ours") == "a"
    assert report.ratio(ROW, "ours") == 0.5


@pytest.mark.parametrize("values", [{}, {"ours": 1.0}, {"a": 1.0}])
def test_no_ratio_without_both(values: dict[str, float]) -> None:
    assert report.ratio(report.Row(("net",), values), "ours") is None


def test_table() -> None:
    text = report.markdown([ROW], ("model", "threads"), ("ours", "a", "b", "c", "absent"), "ours", "{:.1f}".format)
    head, rule, line, _, reason = text.splitlines()
    assert head == "| model | threads | ours | a | b | c | best peer | ratio | error |"
    assert rule.count("|") == head.count("|")
    assert line == "| net | 1 | 2.0 | **4.0** | 5.0 | ✗ | a | 0.50 | 3.0e-06 |"
    assert reason == "- ✗ c (net 1): wrong result"


def test_summary_names_the_worst() -> None:
    slow = report.Row(("slow", "2"), {"ours": 8.0, "a": 4.0})
    text = report.summary([ROW, slow], "ours")
    assert "1.000 over 2 rows" in text
    assert "faster in 1" in text
    assert "worst: 2.00 (slow 2)" in text
    assert report.summary([], "ours") == ""


def test_relative_error() -> None:
    expected = np.array([1.0, -4.0], np.float32)
    assert compare.relative_error(expected, expected) == 0.0
    assert compare.relative_error(expected + np.float32(0.5), expected) == pytest.approx(0.125)
    assert compare.relative_error(expected[:1], expected) == math.inf
    assert compare.relative_error(np.array([np.nan, 0], np.float32), expected) == math.inf
    assert compare.relative_error(np.array([1, 3]), np.array([1, 2])) == math.inf


def test_parts_keep_small_rows_from_hiding() -> None:
    expected = np.ones((1, 6, 3), np.float32)
    expected[:, :4] = 640
    actual = expected.copy()
    actual[:, 5] = 1.5
    assert compare.worst_error([actual], [expected]) < 1e-3
    assert compare.worst_error([actual], [expected], [(0, 4), (4, 6)]) == pytest.approx(0.5)
    assert compare.worst_error([], [expected]) == math.inf


def test_selection() -> None:
    assert [spec.name for spec in manifest.select(["quick", "squeezenet1_1"])] == manifest.sets()["quick"]
    (large,) = manifest.select(["resnet18@320"])
    assert (large.name, large.base, large.sizes["picture"]) == ("resnet18@320", "resnet18", 320)
    assert "one_step" not in [spec.name for spec in manifest.select(None)]


@pytest.mark.parametrize("words", [["resnet"], ["resnet18@big"], ["lstm@64"]])
def test_selection_refuses(words: list[str]) -> None:
    with pytest.raises(ValueError):
        manifest.select(words)


def test_options() -> None:
    assert peers.numbers("1,2") == [1, 2]
    assert peers.chosen_engines("ncnn") == ["pnnx_fast", "ncnn"]
    for wrong in ("", "1,x", "0"):
        with pytest.raises(ValueError):
            peers.numbers(wrong)
    with pytest.raises(ValueError):
        peers.chosen_engines("abacus")


def test_graph_text_counts() -> None:
    lines = formats.graph_text(5).splitlines()
    operators, operands = map(int, lines[1].split())
    assert operators == len(lines) - 2 == 7
    assert operands == 6
    assert all(line.count("=") >= 6 for line in lines[3:-1])
