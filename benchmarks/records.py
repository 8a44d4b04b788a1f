"""Records of measurements in files: written by the commands, merged over several runs, turned into tables.

A record is a JSON object with a `kind`. Those of kinds peers and contended hold one result a model, batch and number of
threads; those of other kinds hold finished tables as rows. Measures nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple

from benchmarks import report
from benchmarks.engines import ENGINES, OURS
from benchmarks.report import Row

__all__ = [
    "Table",
    "limit",
    "means",
    "merged",
    "milliseconds",
    "read",
    "rows_of",
    "simple",
    "simple_tables",
    "table",
    "write",
]

Record = dict[str, Any]

HEADS = ("model", "threads", "batch")


def read(path: Path) -> Record:
    """A record.

    Raises
    ------
    ValueError
        The file is not one.
    """
    try:
        document: Record = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(document, dict) or "kind" not in document:
        raise ValueError(f"{path} is not a record of measurements")
    return document


def write(path: Path, document: Record) -> None:
    """Write a record, whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


class Table(NamedTuple):
    """Rows whose values are shown times `scale`; `compared`: with the best peer and our ratio to it."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Row]
    scale: float = 1.0
    decimals: int = 2
    compared: bool = True


# ---- merging ----


def merged(documents: Sequence[Record]) -> Record:
    """One record from several of a kind: medians of their figures; an engine is left out where it always failed."""
    first = documents[0]
    if len(documents) == 1:
        return first
    if first["kind"] in ("kernels", "profile"):
        return _joined(documents)
    if "results" in first:
        results: dict[tuple[Any, ...], list[Record]] = {}
        for result in (r for d in documents for r in d["results"]):
            results.setdefault((result["model"], result["batch"], result["threads"]), []).append(result)
        names = list(dict.fromkeys(name for d in documents for name in d["engines"]))
        runs = min((len(_fullest(same)) for same in results.values()), default=0)
        return {**first, "engines": names, "runs": runs, "results": list(map(_one, results.values()))}
    tables: dict[str, list[Record]] = {}
    for part in (t for d in documents for t in d["tables"]):
        tables.setdefault(part["title"], []).append(part)
    return {**first, "runs": len(documents), "tables": list(map(_one_table, tables.values()))}


def _joined(documents: Sequence[Record]) -> Record:
    """Lists one after another; of entries with the same labels the last counts."""
    name, labels = ("profiles", ("model", "threads")) if "profiles" in documents[0] else ("runs", ("isa", "threads"))
    entries = {tuple(entry[label] for label in labels): entry for d in documents for entry in d[name]}
    return {**documents[0], name: list(entries.values())}


def _fullest(results: list[Record]) -> list[Record]:
    """Those with the most engines: runs with some engines only add what the others lack."""
    most = max(len(r["engines"]) for r in results)
    return [r for r in results if len(r["engines"]) == most]


def _paces(results: list[Record]) -> list[float]:
    """How slow the machine was in each run of a row: what its engines took together, over the median of that."""
    timed = [{name for name, e in r["engines"].items() if "seconds" in e} for r in results]
    common = set.intersection(*timed)
    if not common:
        return [1.0] * len(results)
    together = [geometric_mean(r["engines"][name]["seconds"] for name in common) for r in results]
    return [seconds / median(together) for seconds in together]


def _one(results: list[Record]) -> Record:
    """Medians of seconds at an equal pace: a run in a slow minute tells of ratios as much as any other."""
    engines: dict[str, Record] = {}
    for name in dict.fromkeys(name for r in results for name in r["engines"]):
        runs = _fullest([r for r in results if name in r["engines"]])
        found = [(r["engines"][name], pace) for r, pace in zip(runs, _paces(runs), strict=True)]
        timed = [(e, e["seconds"] / pace) for e, pace in found if "seconds" in e]
        engines[name] = {**timed[0][0], "seconds": median(s for _, s in timed)} if timed else found[0][0]
    peaks = {key: max(r[key] for r in results) for key in ("peak_flops", "read_bytes")}
    return {**results[0], **peaks, "engines": engines}


def _one_table(parts: list[Record]) -> Record:
    rows: dict[tuple[str, ...], list[Record]] = {}
    for row in (row for part in parts for row in part["rows"]):
        rows.setdefault(tuple(row["labels"]), []).append(row)
    merged_rows = []
    for same in rows.values():
        names = dict.fromkeys(name for row in same for name in row["values"])
        values = {name: median(row["values"][name] for row in same if name in row["values"]) for name in names}
        failures = {name: why for row in same for name, why in row["failures"].items() if name not in values}
        merged_rows.append({**same[0], "values": values, "failures": failures})
    return {**parts[0], "rows": merged_rows}


# ---- engines on models ----


def rows_of(document: Record) -> list[Row]:
    """A row for each result, with its share of the machine's limits."""
    return [_row(result) for result in document["results"]]


def _row(result: Record) -> Row:
    engines = result["engines"]
    labels = (result["model"], str(result["threads"]), str(result["batch"]))
    values = {name: e["seconds"] for name, e in engines.items() if "seconds" in e}
    failures = {name: e["failure"] for name, e in engines.items() if "seconds" not in e}
    errors = {name: e["error"] for name, e in engines.items() if "seconds" in e and e["error"] is not None}
    return Row(labels, values, failures, errors, _shares(result, values.get(OURS)))


def limit(result: Record) -> tuple[float, bool]:
    """Least seconds that the machine needs by its peak or its memory, and whether memory binds."""
    work, traffic = result["flops"] / result["peak_flops"], result["bytes"] / result["read_bytes"]
    return max(work, traffic), traffic > work


def _shares(result: Record, seconds: float | None) -> tuple[str, ...]:
    if seconds is None:
        return ("", "")
    least, memory = limit(result)
    peak = result["flops"] / result["peak_flops"] / seconds
    return (f"{peak:.0%}", f"{least / seconds:.0%}{' (memory)' if memory else ''}")


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds with three digits or one decimal."""
    return f"{seconds * 1e3:.3g}" if seconds < 0.01 else f"{seconds * 1e3:.1f}"


def table(document: Record) -> str:
    """Markdown of a record of engines on models, a summary last."""
    rows = rows_of(document)
    text = report.markdown(rows, HEADS, document["engines"], OURS, milliseconds, ("of peak", "of limit"))
    return text + "\n" + report.summary(rows, OURS)


def means(document: Record) -> str:
    """Markdown of the geometric means for each number of threads and batch."""
    rows = rows_of(document)
    lines = [
        "| threads | batch | models | geometric mean of the ratios | above 0.75 | above 0.95 | worst |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for threads, batch in dict.fromkeys(row.labels[1:] for row in rows):
        ratios = {r.labels[0]: s for r in rows if r.labels[1:] == (threads, batch) and (s := report.ratio(r, OURS))}
        if not ratios:
            continue
        worst = max(ratios, key=lambda name: ratios[name])
        over = [sum(share > bound for share in ratios.values()) for bound in (0.75, 0.95)]
        mean = report.geometric_mean(ratios.values())
        cells = [threads, batch, len(ratios), f"{mean:.3f}", *over, f"{worst} ({ratios[worst]:.2f})"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


# ---- records of finished tables ----


def simple(kind: str, environment: Record, tables: Iterable[Table]) -> Record:
    """A record of tables."""
    parts = [{**t._asdict(), "heads": list(t.heads), "rows": [asdict(row) for row in t.rows]} for t in tables]
    return {"kind": kind, "environment": environment, "tables": parts}


def simple_tables(document: Record) -> str:
    """Markdown of all tables of a record."""
    texts = []
    for part in document["tables"]:
        rows = [Row(**{**row, "labels": tuple(row["labels"]), "extra": tuple(row["extra"])}) for row in part["rows"]]
        names = [name for name in ENGINES if any(name in row.values or name in row.failures for row in rows)]
        others = dict.fromkeys(name for row in rows for name in row.values if name not in ENGINES)
        show = _shown(part["scale"], part["decimals"])
        if part["compared"]:
            text = report.markdown(rows, part["heads"], [*names, *others], OURS, show)
        else:
            text = report.plain(rows, part["heads"], [*names, *others], show)
        texts.append(f"**{part['title']}**\n\n{text}")
    return "\n".join(texts)


def _shown(scale: float, decimals: int) -> Callable[[float], str]:
    """How values are shown; below no decimals: as powers of ten."""
    return lambda value: f"{value * scale:.{decimals}f}" if decimals >= 0 else f"{value * scale:.1e}"
