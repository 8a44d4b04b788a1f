"""Statistics and tables of measurements: functions from numbers to text that measure nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

__all__ = [
    "CALM",
    "Row",
    "best_peer",
    "geometric_mean",
    "markdown",
    "of_bursts",
    "plain",
    "ratio",
    "summary",
]


# Share of a burst that may be lost to other processes before the burst is left out.
CALM = 0.1


@dataclass(frozen=True)
class Row:
    """One line of a table: an amount for each engine, less being better; engines left out have a reason."""

    labels: tuple[str, ...]
    values: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    extra: tuple[str, ...] = ()


def of_bursts(bursts: Sequence[Sequence[float]], queued: Sequence[float] = ()) -> float:
    """Median of the bursts' medians, so that each round counts the same however many calls it held.

    `queued` tells for each burst which share of it was spent waiting for a processor that others held. Bursts
    that hardly waited decide; where fewer than three are such, the three that waited least.
    """
    medians = [median(burst) for burst in bursts]
    if queued:
        calm = sum(share <= CALM for share in queued)
        order = sorted(range(len(medians)), key=lambda number: queued[number])
        medians = [medians[number] for number in order[: max(3, calm)]]
    return median(medians)


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean of positive numbers; NaN of none."""
    logarithms = [math.log(value) for value in values]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else math.nan


def _is_variant(name: str, ours: str) -> bool:
    """Whether an engine is `ours` in another setting, which is named after it with a plus sign."""
    return name.startswith(f"{ours}+")


def best_peer(row: Row, ours: str) -> str | None:
    """The engine with the least amount among those that are not `ours`, whatever its variant."""
    base = ours.partition("+")[0]
    peers = {name: value for name, value in row.values.items() if name != base and not _is_variant(name, base)}
    return min(peers, key=lambda name: peers[name]) if peers else None


def ratio(row: Row, ours: str) -> float | None:
    """Our amount over the best peer's; below 1 is a win. None when either is missing."""
    best = best_peer(row, ours)
    if best is None or ours not in row.values or not row.values[best]:
        return None
    return row.values[ours] / row.values[best]


def _cell(row: Row, engine: str, best: str | None, show: Callable[[float], str]) -> str:
    if engine in row.values:
        text = show(row.values[engine])
        return f"**{text}**" if engine == best else text
    return "✗" if engine in row.failures else ""


def markdown(
    rows: Sequence[Row],
    heads: Sequence[str],
    engines: Sequence[str],
    ours: str,
    show: Callable[[float], str],
    extra_heads: Sequence[str] = (),
) -> str:
    """A Markdown table: labels, engines (the best peer in bold), ratios of ours and its variants to it, our error.

    `extra_heads` are the heads of further columns. Engines that no row knows get no column. Reasons for crosses follow
    the table, each once.
    """
    present = [e for e in engines if any(e in row.values or e in row.failures for row in rows)]
    with_errors = any(ours in row.errors for row in rows)
    variants = [e for e in present if _is_variant(e, ours)]
    ratios = ["ratio", *(f"ratio of {variant}" for variant in variants)]
    columns = [*heads, *present, "best peer", *ratios, *(["error"] if with_errors else []), *extra_heads]
    lines = ["| " + " | ".join(columns) + " |"]
    lines.append("|" + "|".join(" --- " if column in heads else " ---: " for column in columns) + "|")
    for row in rows:
        best = best_peer(row, ours)
        cells = [*row.labels, *(_cell(row, engine, best, show) for engine in present), best or ""]
        cells += ["" if (share := ratio(row, mine)) is None else f"{share:.2f}" for mine in (ours, *variants)]
        if with_errors:
            cells.append(f"{row.errors[ours]:.1e}" if ours in row.errors else "")
        lines.append("| " + " | ".join([*cells, *row.extra]) + " |")
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for engine, reason in row.failures.items():
            reasons.setdefault((engine, reason), []).append(" ".join(row.labels))
    notes = [f"- ✗ {engine} ({'; '.join(where)}): {why}" for (engine, why), where in reasons.items()]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def plain(rows: Sequence[Row], heads: Sequence[str], columns: Sequence[str], show: Callable[[float], str]) -> str:
    """A Markdown table of labels and values alone."""
    lines = ["| " + " | ".join([*heads, *columns]) + " |"]
    lines.append("|" + " --- |" * len(heads) + " ---: |" * len(columns))
    for row in rows:
        cells = [show(row.values[name]) if name in row.values else "" for name in columns]
        lines.append("| " + " | ".join([*row.labels, *cells]) + " |")
    return "\n".join(lines) + "\n"


def summary(rows: Sequence[Row], ours: str) -> str:
    """Geometric mean of the ratios and the worst of them, in one line; empty when there are none."""
    found = {row.labels: share for row in rows if (share := ratio(row, ours)) is not None}
    if not found:
        return ""
    worst = max(found, key=lambda labels: found[labels])
    mean = geometric_mean(found.values())
    won = sum(share < 1 for share in found.values())
    return (
        f"Geometric mean of the ratios to the best peer: {mean:.3f} over {len(found)} rows;"
        f" faster in {won}; worst: {found[worst]:.2f} ({' '.join(worst)}).\n"
    )
