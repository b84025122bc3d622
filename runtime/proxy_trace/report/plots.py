"""Plots of how far two runs diverge, as inline SVG."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from proxy_trace.comparison.records.distances import KINDS
from proxy_trace.comparison.records.records_text import distance_words, span_words, step_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.comparison.records.distances import Distance, Series

_SMALLEST: Final = 1e-9
"""The smallest distance drawn."""

_COLOURS: Final = dict(zip(KINDS, ("#2266cc", "#cc6611", "#229955", "#9944bb"), strict=True))
_WIDTH: Final = 900
_HEIGHT: Final = 260
_LEFT: Final = 60
_TOP: Final = 20
_BOTTOM: Final = 30
_ROWS: Final = 60
_ROW_HEIGHT: Final = 16
_NAME_WIDTH: Final = 260
_LONGEST_NAME: Final = 42


def distance_chart(series: Sequence[Series], text: Callable[[object], str]) -> str:
    """Lines over the steps: the largest distance of all modules for each kind of value, on a logarithmic scale.

    Args:
        series: the distances.
        text: escapes text of a trace.
    """
    last = max(each.last_step for of_one in series for each in of_one.distances)
    lowest, highest = math.log10(_SMALLEST), 0.0

    def x_of(step: float) -> float:
        return _LEFT + (step + 1) / (last + 2) * (_WIDTH - _LEFT - 10)

    def y_of(distance: float) -> float:
        share = (math.log10(min(max(distance, _SMALLEST), 1.0)) - lowest) / (highest - lowest)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" aria-label="distances by step">']
    for power in range(int(lowest), 1, 3):
        y = y_of(10.0**power)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8885"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">1e{power}</text>'
        )
    parts.append(
        f'<text x="{x_of(-1):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">start</text>'
        f'<text x="{x_of(last):.1f}" y="{_HEIGHT - 8}" text-anchor="end">step {text(last)}</text>'
    )
    for number, kind in enumerate(KINDS):
        largest = _largest_by_span([each for each in series if each.kind == kind])
        if not largest:
            continue
        points = [(x_of((first + last_of) / 2), y_of(distance)) for (first, last_of), distance in largest.items()]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        colour = _COLOURS[kind]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in points]
        parts.append(
            f'<rect x="{_LEFT + 110 * number}" y="2" width="10" height="10" fill="{colour}"/>'
            f'<text x="{_LEFT + 110 * number + 15}" y="11">{text(kind)}</text>'
        )
    return "".join((*parts, "</svg>"))


def distance_map(series: Sequence[Series], text: Callable[[object], str]) -> str:
    """A heat map: a row per module and kind of value, a column per span of steps; darker is farther apart."""
    spans = sorted({(each.first_step, each.last_step) for of_one in series for each in of_one.distances})
    rows = series[:_ROWS]
    width = (_WIDTH - _NAME_WIDTH - 10) / len(spans)
    height = _TOP + _ROW_HEIGHT * len(rows) + _BOTTOM
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" aria-label="distances by module">']
    for row, each in enumerate(rows):
        y = _TOP + row * _ROW_HEIGHT
        rank = f" (rank {each.rank})" if each.rank else ""
        name = f"{_shortened(each.module)} {each.kind}{rank}"
        parts.append(f'<text x="{_NAME_WIDTH - 6}" y="{y + 12}" text-anchor="end">{text(name)}</text>')
        for distance in each.distances:
            column = spans.index((distance.first_step, distance.last_step))
            parts.append(
                f'<rect x="{_NAME_WIDTH + column * width:.1f}" y="{y + 1}" width="{max(width - 1, 1):.1f}" '
                f'height="{_ROW_HEIGHT - 2}" fill="{_COLOURS[each.kind]}" fill-opacity="{_darkness(distance):.2f}">'
                f"<title>{text(_cell_title(each, distance))}</title></rect>"
            )
    y = _TOP + len(rows) * _ROW_HEIGHT + 16
    parts.append(f'<text x="{_NAME_WIDTH}" y="{y}">{text(step_words(spans[0][0]))}</text>')
    parts.append(f'<text x="{_WIDTH - 10}" y="{y}" text-anchor="end">step {text(spans[-1][1])}</text></svg>')
    if len(series) > _ROWS:
        parts.append(f'<p class="dim">and {len(series) - _ROWS:,} more, that went apart later</p>')
    return "".join(parts)


def _largest_by_span(series: Sequence[Series]) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for of_one in series:
        for each in of_one.distances:
            span = (each.first_step, each.last_step)
            found[span] = max(found.get(span, 0.0), _number(each))
    return dict(sorted(found.items()))


def _number(distance: Distance) -> float:
    return math.inf if isinstance(distance.largest, str) else distance.largest


def _darkness(distance: Distance) -> float:
    """From 0.15 if only bits differ to 1 for the largest distance."""
    size = min(max(_number(distance), _SMALLEST), 1.0)
    return 0.15 + 0.85 * (1 - math.log10(size) / math.log10(_SMALLEST))


def _cell_title(series: Series, distance: Distance) -> str:
    steps = span_words(distance.first_step, distance.last_step)
    return f"{series.module} {series.kind}, {steps}: {distance_words(distance.largest)}"


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
