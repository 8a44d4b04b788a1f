"""Records of measurements become tables, pages and a picture; nothing here measures time or needs another engine."""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

# Last, so that the installed package is found before the sources beside the benchmarks.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import kernels, pages, picture, profile, records, report

ROOT = Path(__file__).parents[1]
Row = report.Row


def engine(seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "error": 1e-6, "bursts": [seconds], "queued": [0.0], "busy": 1.0}


def result(model: str, threads: int, ours: float, theirs: float, batch: int = 1) -> dict[str, Any]:
    work = {"flops": 10**9, "bytes": 10**6, "peak_flops": 1e11, "read_bytes": 1e10}
    engines = {"pnnx_fast": engine(ours), "openvino": engine(theirs), "MNN": {"failure": "wrong result", "error": 1.0}}
    return {"model": model, "batch": batch, "threads": threads, **work, "engines": engines}


FACTS = {"cpu": "a CPU", "cores": 2, "python": "3", "versions": {"openvino": "1"}}


def peers(*results: dict[str, Any]) -> dict[str, Any]:
    names = ["pnnx_fast", "openvino", "MNN"]
    return {"kind": "peers", "environment": FACTS, "engines": names, "results": list(results)}


DOCUMENT = peers(
    result("resnet18", 1, 0.02, 0.04), result("vgg16", 1, 0.09, 0.1), result("resnet18", 2, 0.015, 0.02, batch=8)
)


def test_limit_is_the_larger_of_work_and_traffic() -> None:
    assert records.limit(result("net", 1, 1, 1)) == (0.01, False)
    assert records.limit({**result("net", 1, 1, 1), "bytes": 10**9}) == (0.1, True)


def test_table_of_engines() -> None:
    head, _, first, *_ = records.table(DOCUMENT).splitlines()
    assert head == (
        "| model | threads | batch | pnnx_fast | openvino | MNN | best peer | ratio | error | of peak | of limit |"
    )
    assert first == "| resnet18 | 1 | 1 | 20.0 | **40.0** | ✗ | openvino | 0.50 | 1.0e-06 | 50% | 50% |"
    assert "- ✗ MNN" in records.table(DOCUMENT)


def test_means() -> None:
    lines = records.means(DOCUMENT).splitlines()
    assert lines[2] == "| 1 | 1 | 2 | 0.671 | 1 | 0 | vgg16 (0.90) |"
    assert lines[3] == "| 2 | 8 | 1 | 0.750 | 0 | 0 | resnet18 (0.75) |"


def test_runs_are_merged_by_their_medians() -> None:
    runs = [peers(result("net", 1, seconds, 1.0)) for seconds in (0.3, 0.1, 0.2)]
    merged = records.merged([*runs, peers(result("other", 1, 0.5, 1.0))])
    assert [r["model"] for r in merged["results"]] == ["net", "other"]
    assert merged["results"][0]["engines"]["pnnx_fast"]["seconds"] == pytest.approx(0.2)
    assert "failure" in merged["results"][0]["engines"]["MNN"]


def test_a_slow_minute_does_not_change_ratios() -> None:
    merged = records.merged([peers(result("net", 1, 1.0, 2.0)), peers(result("net", 1, 1.5, 3.0))])
    (row,) = records.rows_of(merged)
    assert report.ratio(row, "pnnx_fast") == pytest.approx(0.5)


def test_a_run_with_fewer_engines_adds_what_is_missing() -> None:
    few = result("net", 1, 9.0, 1.0)
    few["engines"] = {"pnnx_fast": engine(9.0), "AOTInductor": engine(2.0)}
    merged = records.merged([peers(result("net", 1, 0.3, 1.0)), peers(few)])
    seconds = {name: e.get("seconds") for name, e in merged["results"][0]["engines"].items()}
    assert seconds == {"pnnx_fast": 0.3, "openvino": 1.0, "MNN": None, "AOTInductor": 2.0}
    assert merged["runs"] == 1


def test_a_variant_is_no_peer() -> None:
    row = Row(("net",), {"pnnx_fast": 3.0, "pnnx_fast+cache": 1.0, "openvino": 2.0})
    assert report.best_peer(row, "pnnx_fast") == "openvino"
    assert report.ratio(row, "pnnx_fast+cache") == 0.5
    head, _, line = report.markdown([row], ("model",), list(row.values), "pnnx_fast", str).splitlines()
    assert head == "| model | pnnx_fast | pnnx_fast+cache | openvino | best peer | ratio | ratio of pnnx_fast+cache |"
    assert line == "| net | 3.0 | 1.0 | **2.0** | openvino | 1.50 | 0.50 |"


def test_tables_are_merged() -> None:
    def one(value: float) -> dict[str, Any]:
        return records.simple(
            "overhead", FACTS, [records.Table("Time", ("what",), [Row(("a",), {"pnnx_fast": value})])]
        )

    merged = records.merged([one(1.0), one(3.0), one(2.0)])
    assert merged["tables"][0]["rows"][0]["values"] == {"pnnx_fast": 2.0}
    assert "| a | 2.00 |" in records.simple_tables(merged)


def test_records_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    records.write(path, DOCUMENT)
    assert records.read(path) == DOCUMENT
    for text in ("{", "[]", "{}"):
        path.write_text(text)
        with pytest.raises(ValueError):
            records.read(path)


PROFILE = {
    "kind": "profile",
    "environment": FACTS,
    "profiles": [
        {
            "model": "vgg16",
            "threads": 1,
            "seconds": 1.0,
            "gflops": 99.0,
            "classes": {"convolution": 0.7, "pooling": 0.3},
            "apart": {"convolution": 0.6, "pooling": 0.4},
            "outside": {"pooling: nn.MaxPool2d": 0.3},
        }
    ],
}


def test_profile() -> None:
    text = profile.table(PROFILE)
    assert text.splitlines()[0] == (
        "| model | threads | ms | convolution | pooling | matrix GFLOP/s | outside of matrix kernels |"
    )
    assert "**30%** (40% without strips)" in text
    assert "- vgg16 (1): pooling: nn.MaxPool2d 30%" in text


@pytest.mark.parametrize(
    ("kernel", "type", "expected"),
    [
        ("conv_f32", "nn.Linear", "linear"),
        ("conv_f32", "fused.Conv2d", "convolution"),
        ("conv_depthwise_f32", "nn.Conv2d", "depthwise"),
        ("attention_f32", "F.scaled_dot_product_attention", "attention"),
        ("expression", "pnnx.Expression", "element-wise"),
        ("numpy", "torch.unique", "other"),
    ],
)
def test_classes(kernel: str, type: str, expected: str) -> None:
    assert profile.class_of(kernel, type) == expected


def test_kernels() -> None:
    def timing(shape: str, kernel: str, label: str, chosen: bool) -> dict[str, Any]:
        figures = {"seconds": 1e-3, "flops": 5 * 10**7, "nbytes": 1000}
        return {"shape": shape, "kernel": kernel, "label": label, "chosen": chosen, **figures}

    timings = [
        timing("conv:64x8x8", "conv_winograd_f32", "F(4,3)", True),
        timing("conv:64x8x8", "conv_f32", "igemm 6x64", False),
        timing("conv:64x8x8,g=64", "conv_depthwise_f32", "k3s1", True),
        timing("linear:1x64", "conv_f32", "igemm 6x64", True),
    ]
    document = {"runs": [{"isa": "avx2", "threads": 1, "peak": 1e11, "timings": timings}]}
    assert "| conv:64x8x8 | **winograd F(4,3)** | 1.000 | 50 | 50% | 0 |" in kernels.table(document)
    kinds = [line.split(" | ")[3] for line in kernels.summary(document).splitlines()[2:]]
    assert kinds == ["depthwise", "direct, depth ≥ 256", "linear, one row", "winograd"]


def test_pages_have_a_place_for_everything() -> None:
    simple = records.simple("load", FACTS, [records.Table("Time", ("what",), [Row(("a",), {"pnnx_fast": 1.0})])])
    merged = {"peers": DOCUMENT, "contended": {**DOCUMENT, "kind": "contended"}, "profile": PROFILE}
    merged |= {"kernels": {"runs": []}}
    merged |= dict.fromkeys(("overhead", "load", "scaling", "gains", "ncnn", "check", "formats"), simple)
    texts, used = pages.sections(merged), set[str]()
    for page in pages.PAGES.values():
        before = page.read_text("utf-8")
        after = pages.fill(before, texts, used)
        assert pages.fill(after, texts, set()) == after
        assert pages.fill(before, {}, set()) == before
    assert used == set(texts)


def test_only_the_pages_asked_for_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = {name: tmp_path / f"{name}.md" for name in ("README", "here", "elsewhere")}
    for page in machines.values():
        page.write_text("<!-- measured: means -->\n<!-- end -->\n", "utf-8")
    monkeypatch.setattr(pages, "PAGES", machines)
    monkeypatch.setattr(pages, "PICTURE", tmp_path / "speed.svg")
    records.write(tmp_path / "peers.json", DOCUMENT)
    parser = argparse.ArgumentParser()
    pages.add_arguments(parser)
    written = []
    for chosen in (["here"], ["here", "README"]):
        assert pages.main(parser.parse_args(["--json", str(tmp_path / "peers.json"), "--write", *chosen])) == 0
        written.append([name for name, page in machines.items() if "a CPU" in page.read_text("utf-8")])
        assert pages.PICTURE.exists() == ("README" in chosen)
    assert written == [["here"], ["README", "here"]]
    with pytest.raises(SystemExit):
        parser.parse_args(["--json", "a", "--write", "nowhere"])


def test_what_misses_the_goal() -> None:
    lines = pages.sections({"peers": DOCUMENT, "profile": PROFILE})["missed"].splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("| vgg16 | 1 | 1 | 0.90 | openvino |")
    assert "convolution 70%, pooling 30%; matrix kernels at 99 GFLOP/s" in lines[2]


def test_picture() -> None:
    rows = records.rows_of(
        peers(result("fast", 1, 0.5, 1.0), result("slow<", 1, 1.2, 1.0), result("fast", 2, 0.6, 1.0))
    )
    text = picture.draw(rows, "pnnx_fast", "Speed", {"1": "1 thread", "2": "2 threads"})
    tree = ET.fromstring(text)
    assert tree.tag.endswith("svg")
    words = [element.text for element in tree.iter() if element.text]
    assert "slow<" in words
    assert "2.00× openvino" in words
    assert picture.draw([], "pnnx_fast", "Speed", {"1": "1 thread"}).startswith("<svg")


def test_picture_of_the_readme_is_there() -> None:
    assert "docs/speed.svg" in (ROOT / "README.md").read_text("utf-8")
    ET.parse(pages.PICTURE)
