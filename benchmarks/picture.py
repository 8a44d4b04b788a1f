"""Draws how much faster than the best other engine every model runs, as an SVG that suits light and dark pages.

Written by hand: nothing to install, the same bytes for the same figures. Used by pages.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks import report
from benchmarks.report import Row

__all__ = ["draw"]

# Colours that stand out from white and from black alike.
_BARS = ("#2f81f7", "#e3872d", "#3fa34d", "#a371f7")
_TEXT, _BEHIND = "#808080", "#d9534f"
_LEFT, _RIGHT, _WIDTH, _TOP = 150, 120, 760, 74
_BAR, _GAP = 11, 8


def draw(rows: Sequence[Row], ours: str, title: str, legend: dict[str, str]) -> str:
    """SVG of a group of bars for each model, one for each entry of `legend`: from second labels to their meaning."""
    groups: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.labels[1] in legend and report.ratio(row, ours) is not None:
            groups.setdefault(row.labels[0], {})[row.labels[1]] = row
    order = sorted(groups, key=lambda name: _mean(groups[name], ours))
    speeds = [1 / _ratio(row, ours) for group in groups.values() for row in group.values()]
    most = max(1.2, *speeds) if speeds else 1.2
    step = 0.25 if most < 2.2 else 0.5
    end = math.ceil(most / step) * step
    scale = (_WIDTH - _LEFT - _RIGHT) / end
    height = _TOP + len(order) * (len(legend) * _BAR + _GAP) + 30
    parts = [_head(height, title, legend), _axis(end, step, scale, height)]
    for number, name in enumerate(order):
        top = _TOP + number * (len(legend) * _BAR + _GAP)
        middle = top + len(legend) * _BAR / 2 + 4
        parts.append(f'<text x="{_LEFT - 8}" y="{middle:.1f}" text-anchor="end">{escape(name)}</text>')
        for place, label in enumerate(legend):
            if label in groups[name]:
                parts.append(_bar(groups[name][label], ours, top + place * _BAR, scale, _BARS[place % len(_BARS)]))
    return "\n".join([*parts, "</svg>", ""])


def _ratio(row: Row, ours: str) -> float:
    share = report.ratio(row, ours)
    assert share is not None
    return share


def _mean(group: dict[str, Row], ours: str) -> float:
    return report.geometric_mean(_ratio(row, ours) for row in group.values())


def _head(height: float, title: str, legend: dict[str, str]) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        f' font-family="system-ui, sans-serif" font-size="12" fill="{_TEXT}">',
        f'<text x="{_LEFT}" y="20" font-size="14" font-weight="600">{escape(title)}</text>',
    ]
    x = float(_LEFT)
    colours = dict(zip(legend.values(), _BARS, strict=False)) | {"slower": _BEHIND}
    for text, colour in colours.items():
        parts.append(f'<rect x="{x:.1f}" y="32" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 15:.1f}" y="41">{escape(text)}</text>')
        x += 40 + 7 * len(text)
    return "\n".join(parts)


def _axis(end: float, step: float, scale: float, height: float) -> str:
    parts = []
    for number in range(round(end / step) + 1):
        value = number * step
        x, strong = _LEFT + value * scale, value == 1.0
        parts.append(
            f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{height - 24}"'
            f' stroke="{_TEXT}" stroke-opacity="{0.9 if strong else 0.2}" stroke-width="{1.5 if strong else 1}"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{_TOP - 12}" text-anchor="middle" font-size="11">{value:g}×</text>')
    parts.append(
        f'<text x="{_LEFT + scale:.1f}" y="{height - 8}" text-anchor="middle" font-size="11">'
        "as fast as the fastest other engine</text>"
    )
    return "\n".join(parts)


def _bar(row: Row, ours: str, top: float, scale: float, colour: str) -> str:
    speed = 1 / _ratio(row, ours)
    end = _LEFT + speed * scale
    fill = colour if speed >= 1 else _BEHIND
    note = f"{speed:.2f}× {report.best_peer(row, ours)}"
    return (
        f'<rect x="{_LEFT}" y="{top + 0.5:.1f}" width="{speed * scale:.1f}" height="{_BAR - 1}" rx="1" fill="{fill}"/>'
        f'<text x="{end + 5:.1f}" y="{top + 9:.1f}" font-size="10">{escape(note)}</text>'
    )
