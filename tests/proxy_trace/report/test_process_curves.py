"""What is drawn of a process is what its trace says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy_trace.reading.selection import GlobMatcher, StepRange
from proxy_trace.reading.trace import TraceFile
from proxy_trace.report.process_curves import (
    AT_LEAST,
    GRADIENT,
    MAXIMUM,
    MINIMUM,
    NORM,
    RATIO,
    CurvesTask,
    ProcessCurves,
    read_curves,
)
from proxy_wrapper import events
from tests.proxy_trace.report.conftest import (
    STEPS,
    drawn_records,
    gradient_at,
    loss_at,
    norm_at,
    rate_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy_trace.report.curves import Points
    from tests.proxy_trace.conftest import WriteTrace

WEIGHT = "model.fc.weight"


@pytest.fixture
def curves_of(tmp_path: Path, write_trace: WriteTrace) -> Callable[..., ProcessCurves]:
    def read(*records: events.Event, **task: Any) -> ProcessCurves:
        path = write_trace(tmp_path / "rank0-1.jsonl", *records)
        run = TraceFile.open(path).run
        return read_curves(CurvesTask(TraceFile(path, run), 100_000, **task), lambda _: None)

    return read


def as_dict(points: Points) -> dict[int, float]:
    return dict(zip(points.steps, points.values, strict=True))


def test_norms_extremes_and_gradients_are_those_of_the_records(curves_of: Callable[..., ProcessCurves]) -> None:
    found = curves_of(*drawn_records())
    expected = {-1: 2.0, **{step: norm_at(step) for step in range(STEPS)}}
    assert as_dict(found.state[WEIGHT, NORM]) == expected
    assert as_dict(found.state[WEIGHT, MINIMUM])[200] == -0.5 - 200 / 1024
    assert set(found.state[WEIGHT, MAXIMUM].values) == {0.5}
    assert as_dict(found.state[WEIGHT, GRADIENT]) == {step: gradient_at(step) for step in range(STEPS)}
    assert as_dict(found.state["model.mean", NORM]) == {-1: 2.0}
    assert found.tensors["model.mean"].is_buffer
    assert found.last_step == STEPS - 1


def test_losses_and_rates(curves_of: Callable[..., ProcessCurves]) -> None:
    found = curves_of(*drawn_records())
    assert as_dict(found.losses["train.py:5"]) == {step: loss_at(step) for step in range(STEPS)}
    assert as_dict(found.rates["SGD"]) == {step: rate_at(step) for step in range(STEPS)}


def test_the_ratio_of_plain_sgd_is_exact(curves_of: Callable[..., ProcessCurves]) -> None:
    found = curves_of(*drawn_records())
    ratio = as_dict(found.state[WEIGHT, RATIO])
    assert ratio[0] == rate_at(0) * gradient_at(0) / 2.0
    assert ratio[250] == rate_at(250) * gradient_at(250) / norm_at(249)
    assert (WEIGHT, AT_LEAST) not in found.state


def test_the_ratio_of_other_updates_is_a_lower_bound(curves_of: Callable[..., ProcessCurves]) -> None:
    found = curves_of(*drawn_records(momentum=0.9))
    assert (WEIGHT, RATIO) not in found.state
    at_least = as_dict(found.state[WEIGHT, AT_LEAST])
    assert at_least[0] == pytest.approx(max(abs(norm_at(0) - 2.0), 0.0) / 2.0)
    assert at_least[1] == pytest.approx(max(abs(norm_at(1) - norm_at(0)), 1 / 1024) / norm_at(0))


def test_groups_with_rates_of_their_own_are_told_apart(curves_of: Callable[..., ProcessCurves]) -> None:
    groups = [events.ParameterGroup({"lr": rate}) for rate in (0.1, 0.2)]
    optimizer = events.Optimizer(0, 0, id=1, optimizer="Adam", groups=groups, indices=[0, 1])
    found = curves_of(optimizer, events.OptimizerStep(1, 0, optimizer="Adam", optimizer_id=1))
    assert {name: list(points.values) for name, points in found.rates.items()} == {
        "Adam, group 0": [0.1],
        "Adam, group 1": [0.2],
    }


def test_values_that_are_not_finite_are_kept(curves_of: Callable[..., ProcessCurves]) -> None:
    records = drawn_records(steps=2)
    records.append(events.Update(5000, 2, 2, 3, tensor=1, statistics=events.Statistics("nan", "nan", "nan", 9)))
    records.append(events.Backward(5000, 3, location=2, loss_value="inf"))
    found = curves_of(*records)
    assert str(found.state[WEIGHT, NORM].values[-1]) == "nan"
    assert str(found.losses["train.py:5"].values[-1]) == "inf"


def test_only_some_steps_and_names(curves_of: Callable[..., ProcessCurves]) -> None:
    found = curves_of(*drawn_records(), steps=StepRange(10, 12), is_chosen=GlobMatcher(["*.weight"]), step=10)
    assert list(found.state[WEIGHT, NORM].steps) == [10, 11, 12]
    assert as_dict(found.state[WEIGHT, RATIO])[10] == rate_at(10) * gradient_at(10) / norm_at(9)
    assert set(found.tensors) == {WEIGHT}
    assert found.strip is not None
    assert found.strip.step == 10


def test_what_happens_at_which_line(curves_of: Callable[..., ProcessCurves]) -> None:
    marks = {(mark.line, mark.what): mark.times for mark in curves_of(*drawn_records()).marks}
    assert marks == {
        (4, "model is traced from here on"): 1,
        (4, "model"): STEPS,
        (5, "model.fc"): STEPS,
        (5, "backward"): STEPS,
        (6, "SGD.step"): STEPS,
    }


def test_the_calls_of_a_step_lie_within_each_other(curves_of: Callable[..., ProcessCurves]) -> None:
    strip = curves_of(*drawn_records()).strip
    assert strip is not None
    assert strip.step == 2
    assert [(call.kind, call.name, call.depth, call.duration_us) for call in strip.calls] == [
        ("module", "model", 0, 100),
        ("module", "model.fc", 1, 40),
        ("backward", "backward", 0, 100),
        ("step", "SGD.step", 0, 30),
    ]


def test_calls_of_a_run_without_steps_are_those_before_any(curves_of: Callable[..., ProcessCurves]) -> None:
    strip = curves_of(*drawn_records(steps=1)[:-3]).strip
    assert strip is not None
    assert [call.name for call in strip.calls] == ["model", "model.fc", "backward", "SGD.step"]
    assert strip.calls[-1].duration_us == -1  # It did not end.
    assert curves_of().strip is None
