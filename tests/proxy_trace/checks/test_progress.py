"""Training that goes nowhere is told by its gradients, its weights and its loss together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "train.py", 20, "main"), events.Location(4, "train.py", 9, "main"))
CODES = {"learning-rate-too-high", "exploding-gradients", "vanishing-gradients", "accumulation-not-scaled"}


def holds(norm: float) -> events.Statistics:
    return events.Statistics(-norm, norm, norm, bits=f"{int(norm * 1000):016x}")


def matrix(number: int) -> events.Parameter:
    return events.Parameter(number, f"model.w{number}", 1, "float32[4, 4]", requires_grad=True, statistics=holds(1.0))


def optimizer(name: str = "SGD", rate: float = 0.1, tensors: Sequence[int] = (1,)) -> events.Optimizer:
    group = events.ParameterGroup({"lr": rate}, tensors)
    return events.Optimizer(1, location=4, id=1, optimizer=name, groups=[group], indices=[0], made=4)


def iteration(
    number: int, loss: float, gradients: Sequence[float] = (1.0,), weight: float = 1.0, passes: int = 1, calls: int = 1
) -> list[events.Event]:
    """Calls, backward passes with a loss, and a step that finds gradients and leaves a first weight."""
    call = [events.CallModule(1, number, 1, training=True), events.ReturnModule(2, number, 1)]
    backward = [events.Backward(3, number, location=3, loss_value=loss, loss=1), events.BackwardEnd(4, number)]
    return [
        *(call * calls + backward) * passes,
        events.OptimizerStep(5, number, location=3, optimizer="SGD", optimizer_id=1),
        *(events.Gradient(6, number, tensor=id_, statistics=holds(of)) for id_, of in enumerate(gradients, 1)),
        events.Update(7, number, tensor=1, statistics=holds(weight)),
        events.OptimizerStepEnd(8, number, optimizer="SGD"),
    ]


def told(path: Path) -> list[tuple[str, str, str]]:
    return [(each.code, each.severity, each.place) for each in find(path) if each.code in CODES]


@pytest.mark.parametrize(
    ("name", "rate", "last_loss", "last_weight", "is_told"),
    [
        pytest.param("SGD", 5.0, 4.0, 90.0, True, id="weights and loss have grown"),
        pytest.param("SGD", 5.0, 0.5, 90.0, False, id="the loss has fallen"),
        pytest.param("SGD", 5.0, 4.0, 3.0, False, id="the weights have not grown"),
        pytest.param("Adam", 1.0, 0.5, 90.0, True, id="a rate that suits no Adam"),
        pytest.param("Adam", 0.01, 0.5, 90.0, False, id="one that does"),
    ],
)
def test_a_rate_that_is_too_high_shows_in_weights_and_loss(
    tmp_path: Path,
    write_trace: WriteTrace,
    name: str,
    rate: float,
    last_loss: float,
    last_weight: float,
    is_told: bool,
) -> None:
    happened = [
        event
        for number in range(50)
        for event in iteration(number, last_loss if number > 10 else 1.0, weight=last_weight if number > 10 else 1.1)
    ]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, matrix(1), optimizer(name, rate), *happened)
    assert told(path) == [("learning-rate-too-high", "warning", "train.py:9")] * is_told


def test_weights_that_began_with_next_to_nothing_may_grow(tmp_path: Path, write_trace: WriteTrace) -> None:
    """A matrix of sixteen elements with a norm of 0.015 has elements of 0.004."""
    tiny = events.Parameter(1, "model.w1", 1, "float32[4, 4]", requires_grad=True, statistics=holds(0.015))
    happened = [
        event
        for number in range(50)
        for event in iteration(number, 4.0 if number > 10 else 1.0, weight=9.0 if number > 10 else 0.02)
    ]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, tiny, optimizer("SGD", 5.0), *happened)
    assert told(path) == []


@pytest.mark.parametrize(
    ("calls", "is_clipped", "code"),
    [(6, False, "exploding-gradients"), (6, True, ""), (1, False, "")],
    ids=["recurrence", "clipped", "no recurrence"],
)
def test_gradients_that_grow_until_nothing_is_finite(
    tmp_path: Path, write_trace: WriteTrace, calls: int, is_clipped: bool, code: str
) -> None:
    sizes = [1.0, 1.0, 1.0, 10.0, 1e3, 1e5]
    happened = [event for number, size in enumerate(sizes) for event in iteration(number, 1.0, [size], calls=calls)]
    clip = [events.Clip(1, location=3, parameters=1, gradients=1)] if is_clipped else []
    end = events.NonFinite(9, 6, where="loss", count=1, type="float32[]")
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, matrix(1), optimizer(), *clip, *happened, end)
    assert [each[0] for each in told(path)] == ([code] if code else [])
    assert any(each.code == "non-finite" for each in find(path)) == (not code)


@pytest.mark.parametrize(
    ("gradients", "last_loss", "is_told"),
    [
        pytest.param([1e-5, 1e-2, 1e-1, 1.0], 1.0, True, id="nothing is learnt"),
        pytest.param([1e-5, 1e-2, 1e-1, 1.0], 0.5, False, id="the loss falls"),
        pytest.param([0.1, 1e-2, 1e-1, 1.0], 1.0, False, id="a tenth"),
        pytest.param([1e-5, 1e-1, 1e-2, 1.0], 1.0, False, id="not less from layer to layer"),
    ],
)
def test_gradients_that_do_not_reach_the_first_layer(
    tmp_path: Path, write_trace: WriteTrace, gradients: list[float], last_loss: float, is_told: bool
) -> None:
    happened = [
        event for number in range(50) for event in iteration(number, last_loss if number > 9 else 1.0, gradients)
    ]
    weights = [matrix(number) for number in range(1, 5)]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, *weights, optimizer(tensors=(1, 2, 3, 4)), *happened)
    assert told(path) == [("vanishing-gradients", "warning", "train.py:20")] * is_told


@pytest.mark.parametrize(
    ("name", "root", "passes", "severity"),
    [
        pytest.param("SGD", "NllLossBackward0", 8, "warning", id="as it is"),
        pytest.param("SGD", "DivBackward0", 8, "", id="divided"),
        pytest.param("SGD", "NllLossBackward0", 2, "", id="two losses"),
        pytest.param("Adam", "NllLossBackward0", 8, "note", id="an optimizer that divides"),
    ],
)
def test_sums_of_losses_are_told(
    tmp_path: Path, write_trace: WriteTrace, name: str, root: str, passes: int, severity: str
) -> None:
    loss = events.Loss(2, location=3, id=1, nodes=[events.LossNode(root)])
    happened = [event for number in range(4) for event in iteration(number, 1.0, passes=passes)]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, matrix(1), optimizer(name), loss, *happened)
    assert told(path) == ([("accumulation-not-scaled", severity, "train.py:20")] if severity else [])


@pytest.mark.parametrize(
    ("factors", "is_told"),
    [
        pytest.param([4.0], True, id="by a temperature"),
        pytest.param([0.5], True, id="by a weight"),
        pytest.param([1 / 8], False, id="by the number of passes"),
        pytest.param([1 / 32], False, id="by more"),
        pytest.param([4.0, 1 / 8], False, id="by several numbers"),
        pytest.param([], False, id="by an unknown number"),
    ],
)
def test_losses_that_are_scaled_by_another_number(
    tmp_path: Path, write_trace: WriteTrace, factors: list[float], is_told: bool
) -> None:
    loss = events.Loss(2, location=3, id=1, nodes=[events.LossNode("MulBackward0")])
    patterns = [events.GraphPattern(2, location=3, what="loss-factor", values=[factor]) for factor in factors]
    happened = [event for number in range(4) for event in iteration(number, 1.0, passes=8)]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, matrix(1), optimizer("SGD"), loss, *patterns, *happened)
    assert told(path) == [("accumulation-not-scaled", "warning", "train.py:20")] * is_told


def test_without_an_optimizer_nothing_was_checked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, matrix(1))
    assert said(path, "progress") == ("not checked", ["no record of an optimizer"])
