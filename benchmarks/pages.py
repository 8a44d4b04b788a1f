"""``python -m benchmarks report``: renders records into the documentation, between markers, and draws the picture.

A marker pair is ``<!-- measured: NAME -->`` and ``<!-- end -->``; what stands between is replaced when a record for it
is given and stays as it is otherwise. Pages of different machines have markers of the same names: only those that are
asked for are written. Records of one kind are merged: medians over runs at an equal pace of the machine, unions of
models.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import kernels, peers, picture, profile, records, report
from benchmarks.engines import OURS
from benchmarks.manifest import select
from benchmarks.report import Row

__all__ = ["add_arguments", "add_write", "fill", "main", "sections"]

ROOT = Path(__file__).parents[1]
_MEASUREMENTS = sorted(path for path in (ROOT / "docs" / "measurements").glob("*.md") if path.stem != "README")
PAGES = {path.stem: path for path in (ROOT / "README.md", ROOT / "docs" / "performance.md", *_MEASUREMENTS)}
PICTURE = ROOT / "docs" / "speed.svg"
GOAL = 0.75

_THREADS = {"1": "1 thread", "2": "2 threads"}
_MARKED = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Record = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, nargs="+", required=True, help="records of one or several runs")
    add_write(parser)


def add_write(parser: argparse.ArgumentParser) -> None:
    help_text = f"pages to write ({', '.join(PAGES)}); the picture with README (default: print)"
    parser.add_argument("--write", nargs="+", choices=PAGES, metavar="PAGE", default=[], help=help_text)


def main(options: argparse.Namespace) -> int:
    """Merge, render, print or write."""
    by_kind: dict[str, list[Record]] = {}
    for path in options.json:
        document = records.read(path)
        by_kind.setdefault(document["kind"], []).append(document)
    merged = {kind: records.merged(documents) for kind, documents in by_kind.items()}
    if "peers" in merged:
        merged |= _apart(merged["peers"])
    texts = sections(merged)
    if not options.write:
        print("\n".join(f"## {name}\n\n{text}" for name, text in texts.items()))
        return 0
    used: set[str] = set()
    for page in map(PAGES.__getitem__, options.write):
        page.write_text(fill(page.read_text(encoding="utf-8"), texts, used), encoding="utf-8")
    if "peers" in merged and "README" in options.write:
        PICTURE.write_text(_picture(records.rows_of(merged["peers"])), encoding="utf-8")
    for name in texts.keys() - used:
        print(f"none of these pages has a place for {name}")
    return 0


def fill(page: str, texts: dict[str, str], used: set[str]) -> str:
    """A page with the sections that are there; their names are added to `used`."""

    def replaced(match: re.Match[str]) -> str:
        name = match[2]
        if name not in texts:
            return match[0]
        used.add(name)
        return f"{match[1]}\n{texts[name].strip()}\n\n{match[3]}"

    return _MARKED.sub(replaced, page)


def sections(merged: dict[str, Record]) -> dict[str, str]:
    """Texts by name of the marker, of the kinds of records that are there."""
    texts: dict[str, str] = {}
    for kind, render in _RENDER.items():
        if kind in merged:
            texts |= render(merged[kind])
    if "peers" in merged:
        texts["missed"] = _missed(merged["peers"], merged.get("profile"))
    return texts


# ---- engines on models ----


_APART = ("others", "families")
"""Sets of models with tables of their own, beside the zoo."""


def _apart(document: Record) -> dict[str, Record]:
    """The record of the zoo and those of sets that are shown apart, as far as there are some."""
    kind_of = {spec.name: kind for kind in _APART for spec in select([kind])}
    results: dict[str, list[Record]] = {kind: [] for kind in ("peers", *_APART)}
    for result in document["results"]:
        results[kind_of.get(result["model"], "peers")].append(result)
    parts = {kind: {**document, "results": found} for kind, found in results.items() if found}
    for part in parts.values():
        part["engines"] = [name for name in document["engines"] if any(name in r["engines"] for r in part["results"])]
    return parts


def _set_apart(kind: str, document: Record) -> dict[str, str]:
    rows = records.rows_of(document)
    show = records.milliseconds
    text = report.markdown(rows, records.HEADS, document["engines"], OURS, show, ("of peak", "of limit"))
    return {kind: f"{records.means(document)}\n{text}"}


def _peers(document: Record) -> dict[str, str]:
    parts = []
    runs = f" Medians of {document['runs']} runs." if document.get("runs", 1) > 1 else ""
    for threads, batch in dict.fromkeys((r["threads"], r["batch"]) for r in document["results"]):
        chosen = [r for r in document["results"] if (r["threads"], r["batch"]) == (threads, batch)]
        head = f"**{threads} thread{'s' if threads > 1 else ''}, batch {batch}**\n"
        parts.append(f"{head}\n{_table({**document, 'results': chosen})}")
    machine = peers.describe(document["environment"]).strip()
    return {
        "peers": "\n".join(parts),
        "means": records.means(document) + f"\n{machine}{runs}\n",
        "readme": _short(document),
    }


def _table(document: Record) -> str:
    """A table without the columns that are the same everywhere."""
    rows = [Row(r.labels[:1], r.values, r.failures, r.errors, r.extra) for r in records.rows_of(document)]
    show = records.milliseconds
    return report.markdown(rows, ("model",), document["engines"], OURS, show, ("of peak", "of limit"))


def _contended(document: Record) -> dict[str, str]:
    rows = [Row(r.labels, r.values, r.failures, r.errors) for r in records.rows_of(document)]
    text = report.markdown(rows, records.HEADS, document["engines"], OURS, records.milliseconds)
    return {"contended": f"{text}\n{report.summary(rows, OURS)}"}


def _short(document: Record) -> str:
    """The README's: the target models at batch 1, times and ratio, and the mean over all."""
    known = {spec.name for spec in select(["target"])}
    rows = [row for row in records.rows_of(document) if row.labels[2] == "1"]
    engines = [name for name in document["engines"] if any(name in row.values for row in rows)]
    lines = ["| model | threads | " + " | ".join(engines) + " | ours / best other |"]
    lines.append("|---|--:|" + "--:|" * (len(engines) + 1))
    for row in rows:
        share = report.ratio(row, OURS)
        if row.labels[0] not in known or share is None:
            continue
        least = min(row.values.values())
        cells = [_bold(row, name, least) for name in engines]
        lines.append("| " + " | ".join([row.labels[0], row.labels[1], *cells, f"{share:.2f}"]) + " |")
    ratios = [share for row in rows if (share := report.ratio(row, OURS)) is not None]
    models = len({row.labels[0] for row in rows})
    mean = f"Geometric mean of the ratios over all {models} models: {report.geometric_mean(ratios):.2f}."
    return "\n".join(lines) + f"\n\n{mean}\n"


def _bold(row: Row, name: str, least: float) -> str:
    if name not in row.values:
        return "–"
    text = records.milliseconds(row.values[name])
    return f"**{text}**" if row.values[name] == least else text


def _picture(rows: Sequence[Row]) -> str:
    ones = [row for row in rows if row.labels[2] == "1"]
    title = "Speed relative to the fastest other engine (batch 1, float32)"
    return picture.draw(ones, OURS, title, _THREADS)


def _missed(document: Record, profiles: Record | None) -> str:
    """Rows above the goal, worst first, with where our time goes."""
    found = {(p["model"], p["threads"]): p for p in profiles["profiles"]} if profiles else {}
    pairs = list(zip(document["results"], records.rows_of(document), strict=True))
    over = [(s, r, row) for r, row in pairs if (s := report.ratio(row, OURS)) is not None and s > GOAL]
    if not over:
        return "No model misses the goal.\n"
    lines = ["| model | threads | batch | ratio | best peer | of peak | of limit | where our time goes |"]
    lines.append("| --- | ---: | ---: | ---: | --- | ---: | ---: | --- |")
    for share, result, row in sorted(over, key=lambda item: -item[0]):
        known = found.get((result["model"], result["threads"])) or found.get((result["model"], 1))
        cells = [*row.labels, f"{share:.2f}", report.best_peer(row, OURS) or "", *row.extra]
        lines.append("| " + " | ".join([*cells, _whereabouts(known) if known else ""]) + " |")
    return "\n".join(lines) + "\n"


def _whereabouts(known: Record) -> str:
    total = sum(known["classes"].values())
    shares = sorted(known["classes"].items(), key=lambda item: -item[1])[:4]
    words = [f"{kind} {seconds / total:.0%}" for kind, seconds in shares if seconds / total >= 0.02]
    return f"{', '.join(words)}; matrix kernels at {known['gflops']:.0f} GFLOP/s"


# ---- the other kinds ----


def _plain(name: str) -> Callable[[Record], dict[str, str]]:
    return lambda document: {name: records.simple_tables(document)}


_RENDER: dict[str, Callable[[Record], dict[str, str]]] = {
    "peers": _peers,
    **{kind: partial(_set_apart, kind) for kind in _APART},
    "contended": _contended,
    "kernels": lambda document: {"kernels": kernels.summary(document), "kernels-all": kernels.table(document)},
    "profile": lambda document: {"profile": profile.table(document)},
    "operators": _plain("operators"),
    "overhead": _plain("overhead"),
    "load": _plain("load"),
    "scaling": _plain("scaling"),
    "gains": _plain("gains"),
    "ncnn": _plain("ncnn"),
    "check": _plain("errors"),
    "formats": _plain("formats"),
}
