"""Beside a finding stands what it names; where it names nothing that is drawn, the loss, if it has a place in it."""

from __future__ import annotations

import pytest

from proxy_trace.checks.finding import ERROR, Finding
from proxy_trace.report.evidence import STATE, SeriesName, plot_of
from proxy_trace.report.process_curves import GRADIENT, LOSS, NORM, RATE

SERIES = [
    SeriesName(LOSS, "train.py:5"),
    SeriesName(RATE, "Adam, group 0"),
    SeriesName(RATE, "SGD"),
    SeriesName(STATE, "model.norm.mean", is_buffer=True),
    SeriesName(STATE, "model.norm.weight"),
    SeriesName(STATE, "model.fc.weight"),
]


def finding(code: str, name: str, reason: str = "", step: int | None = None, place: str = "") -> Finding:
    return Finding(code, ERROR, name, reason, [0], step=step, place=place)


@pytest.mark.parametrize(
    ("found", "series", "kinds"),
    [
        pytest.param(finding("never-updated", "model.fc.weight"), [5], (NORM,), id="a parameter"),
        pytest.param(finding("never-updated", "model.norm.*"), [4], (NORM,), id="what is below a module, not buffers"),
        pytest.param(finding("non-finite", "model.fc.weight", "gradient: 3"), [5], (GRADIENT,), id="a gradient"),
        pytest.param(finding("learning-rate-zero", "Adam"), [1], (RATE,), id="the rates of an optimizer"),
        pytest.param(finding("loss-broadcasts", "a loss", place="train.py:5"), [0], (LOSS,), id="the loss"),
        pytest.param(finding("ended-by-exception", "ValueError", step=7), [0], (LOSS,), id="the loss at a step"),
    ],
)
def test_what_is_drawn(found: Finding, series: list[int], kinds: tuple[str, ...]) -> None:
    plot = plot_of(found, SERIES)
    assert plot is not None
    assert (plot.series, plot.kinds, plot.step) == (series, kinds, found.step)


def test_nothing_is_drawn_of_what_has_no_curve() -> None:
    assert plot_of(finding("incomplete-trace", "rank0-1.jsonl"), SERIES) is None
    assert plot_of(finding("non-finite", "loss", step=1), []) is None
