"""Ranks that train one model together: whether they began alike, see different data, and step equally often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize
from proxy_wrapper import events
from proxy_wrapper.events import Statistics
from tests.proxy_trace.checks.judged import CALLS, NET, find, said, weight

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")
SGD = events.Optimizer(1, id=1, optimizer="SGD", groups=[events.ParameterGroup({"lr": 0.1}, [1])], indices=[0])
WRAPPER = events.Module(1, "model", "DistributedDataParallel", 1)


def holds(value: int) -> Statistics:
    return Statistics(-1.0, 1.0, 2.0, bits=f"{value:016x}")


def steps(values: Sequence[int], gradients: Sequence[int]) -> list[events.Event]:
    """Steps with the values of the weight after each, and of the gradient that it found."""
    return [
        event
        for step, (value, gradient) in enumerate(zip(values, gradients, strict=True))
        for event in (
            events.Backward(step, step, location=3),
            events.BackwardEnd(step, step),
            events.OptimizerStep(step, step, location=3, optimizer="SGD", optimizer_id=1),
            events.Gradient(step, step, tensor=1, statistics=holds(gradient)),
            events.Update(step, step, tensor=1, statistics=holds(value)),
            events.OptimizerStepEnd(step, step, optimizer="SGD"),
        )
    ]


@pytest.fixture
def write_rank(tmp_path: Path, write_trace: WriteTrace) -> Callable[..., Path]:
    """Writes the file of one of two ranks in `tmp_path`."""

    def write(
        rank: int, *records: events.Event, model: events.Module = NET, first: events.Parameter | None = None, **run: Any
    ) -> Path:
        fields = {"rank": rank, "world_size": 2, "pid": 100 + rank, **run}
        definitions = (PLACE, model, first or weight(), SGD, *CALLS)
        return write_trace(tmp_path / f"rank{rank}-{fields['pid']}.jsonl", *definitions, *records, **fields).parent

    return write


def codes(path: Path) -> list[str]:
    kinds = {"unequal-steps", "equal-rank-streams", "ranks-part"}
    return [each.code for each in find(path) if each.code in kinds]


# Steps.


@pytest.mark.parametrize(
    ("counts", "last", "is_told"),
    [
        pytest.param((10, 12), (50, 50), True, id="weights are shared"),
        pytest.param((10, 12), (50, 51), False, id="each trains its own"),
        pytest.param((10, 11), (50, 50), False, id="one step more"),
        pytest.param((40, 43), (50, 50), False, id="less than a tenth"),
    ],
)
def test_ranks_that_share_their_weights_and_step_unequally_often_are_told(
    write_rank: Callable[..., Path], counts: tuple[int, int], last: tuple[int, int], is_told: bool
) -> None:
    for rank, (count, end) in enumerate(zip(counts, last, strict=True)):
        happened = steps([*range(100, 99 + count), end], [7] * count)
        path = write_rank(rank, *happened, ends=True)
    assert ("unequal-steps" in codes(path)) == is_told


def test_ranks_that_were_given_the_same_weights_between_steps_share_them(write_rank: Callable[..., Path]) -> None:
    """As where weights are averaged now and then: what comes behind the last step is recorded at the next one only."""
    for rank, count in enumerate((10, 12)):
        averaged = events.Update(count, count, tensor=1, statistics=holds(500), cause="data")
        first, last = steps(range(100, 100 + count), [7] * count), steps([900 + rank], [7])
        path = write_rank(rank, *first, averaged, *last, ends=True)
    assert "unequal-steps" in codes(path)


def test_a_rank_that_was_killed_has_not_stepped_unequally(write_rank: Callable[..., Path]) -> None:
    for rank, count in enumerate((10, 12)):
        path = write_rank(rank, *steps([50] * count, [7] * count), ends=rank == 0)
    assert "unequal-steps" not in codes(path)


# Beginnings.


@pytest.mark.parametrize(
    ("starts", "gradients", "is_told"),
    [
        pytest.param((1, 2), (7, 7), True, id="averaged gradients, other weights"),
        pytest.param((1, 2), (7, 8), False, id="each trains its own"),
        pytest.param((1, 1), (7, 7), False, id="the same weights"),
    ],
)
def test_ranks_that_average_gradients_and_began_apart_are_told(
    write_rank: Callable[..., Path], starts: tuple[int, int], gradients: tuple[int, int], is_told: bool
) -> None:
    for rank, (start, gradient) in enumerate(zip(starts, gradients, strict=True)):
        first = events.Parameter(1, "model.w", 1, "float32[2]", requires_grad=True, statistics=holds(start))
        happened = steps(range(1000 * start, 1000 * start + 4), range(gradient, gradient + 4))
        path = write_rank(rank, *happened, first=first, ends=True)
    found = [each for each in find(path) if each.reason.endswith("but its initial values were not")]
    assert [(each.code, each.name, each.place) for each in found] == [
        ("ranks-part", "model.w", "train.py:20")
    ] * is_told


# Data.


LAYER = events.Module(2, "model.fc", "Linear", 1, 1)


def given(value: int, minimum: float = 0.0) -> list[events.Event]:
    """A call of the model, and of its layer, with a tensor that has these values."""
    statistics = Statistics(minimum, 1.0, 2.0, bits=f"{value:016x}")
    return [
        events.CallModule(1, module=1, location=3, input_ids=[5], training=True),
        events.Input(2, module=1, location=3, type="float32[2, 2]", input_id=5, statistics=statistics),
        events.CallModule(3, module=2, input_ids=[5], training=True),
        events.ReturnModule(4, module=2),
        events.ReturnModule(5, module=1),
    ]


@pytest.mark.parametrize(
    ("model", "inputs", "is_told"),
    [
        pytest.param(WRAPPER, ([given(1), given(2)], [given(1), given(2)]), True, id="the same batches"),
        pytest.param(WRAPPER, ([given(1), given(2)], [given(1), given(3)]), False, id="one that differs"),
        pytest.param(WRAPPER, ([given(1)], [given(1)]), False, id="one batch"),
        pytest.param(NET, ([given(1), given(2)], [given(1), given(2)]), False, id="no wrapper averages"),
        pytest.param(WRAPPER, ([given(1, 1.0)] * 2, [given(1, 1.0)] * 2), False, id="one number in all batches"),
    ],
)
def test_ranks_of_a_wrapped_model_that_are_given_the_same_data_are_told(
    write_rank: Callable[..., Path],
    model: events.Module,
    inputs: tuple[list[list[events.Event]], list[list[events.Event]]],
    is_told: bool,
) -> None:
    for rank, calls in enumerate(inputs):
        happened = [event for call in calls for event in call]
        path = write_rank(rank, LAYER, *happened, *steps(range(4), range(4)), model=model, ends=True)
    assert ("equal-rank-streams" in codes(path)) == is_told
    assert said(path, "replicas")[0] == ("finding" if is_told else "passed")


def test_a_run_of_one_process_has_no_such_check(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), *CALLS)
    assert "replicas" not in {each.name for each in summarize(Trace.open(path)).checks}
