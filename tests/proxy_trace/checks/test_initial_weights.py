"""Initial weights by which layers pass on far too much, or next to nothing, are told with what came of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, said

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")
UNITS = 16


def holds(norm: float) -> events.Statistics:
    return events.Statistics(-norm, norm, norm, bits=f"{int(norm * 1000):016x}")


def layer(number: int, factor: float, type_: str = "Linear", name: str = "weight") -> list[events.Event]:
    """A layer that multiplies what it is given by a factor: the norm of its weights is that times the root of units."""
    return [
        events.Module(number + 1, f"model.l{number}", type_, 1, 1),
        events.Parameter(
            number,
            f"model.l{number}.{name}",
            number + 1,
            f"float32[{UNITS}, {UNITS}]",
            requires_grad=True,
            statistics=holds(factor * math.sqrt(UNITS)),
        ),
    ]


def trained(count: int, steps: int, last_loss: float, gradient: float) -> list[events.Event]:
    """An optimizer of so many weights, and its steps, with the losses before them and the gradients that they found."""
    tensors = list(range(1, count + 1))
    group = events.ParameterGroup({"lr": 0.1}, tensors)
    happened: list[events.Event] = [events.Optimizer(1, id=1, optimizer="SGD", groups=[group], indices=[0])]
    for step in range(steps):
        loss = last_loss if step > steps // 4 else 1.0
        happened += [
            events.CallModule(2, step, 1, training=True),
            events.ReturnModule(3, step, 1),
            events.Backward(3, step, location=3, loss_value=loss, loss=1),
            events.BackwardEnd(4, step),
            events.OptimizerStep(5, step, location=3, optimizer="SGD", optimizer_id=1),
            *(events.Gradient(6, step, tensor=number, statistics=holds(gradient)) for number in tensors),
            *(events.Update(7, step, tensor=number, statistics=holds(10.0 + step)) for number in tensors),
            events.OptimizerStepEnd(8, step, optimizer="SGD"),
        ]
    return happened


CODES = {"exploding-gradients", "vanishing-gradients"}


def told(path: Path) -> list[tuple[str, str, str]]:
    return [(each.code, each.name, each.place) for each in find(path) if each.code in CODES]


@pytest.mark.parametrize(
    ("factors", "gradient", "extra", "is_told"),
    [
        pytest.param([5.0] * 4, 5e3, [], True, id="four layers, and large gradients"),
        pytest.param([5.0] * 3 + [1.0], 5e3, [], False, id="three layers"),
        pytest.param([1.0] * 4, 5e3, [], False, id="common weights"),
        pytest.param([5.0] * 4, 10.0, [], False, id="common gradients"),
        pytest.param(
            [5.0] * 4,
            5e3,
            [events.Module(9, "model.bn", "BatchNorm1d", 1, 1), events.CallModule(1, module=9)],
            False,
            id="a normalisation",
        ),
    ],
)
def test_layers_that_multiply_are_told_with_large_gradients(
    tmp_path: Path,
    write_trace: WriteTrace,
    factors: list[float],
    gradient: float,
    extra: list[events.Event],
    is_told: bool,
) -> None:
    layers = [event for number, factor in enumerate(factors, 1) for event in layer(number, factor)]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, *layers, *extra, *trained(len(factors), 50, 0.5, gradient))
    assert told(path) == [("exploding-gradients", "SGD", "train.py:20")] * is_told


@pytest.mark.parametrize(
    ("factors", "steps", "last_loss", "is_told"),
    [
        pytest.param([0.1] * 4, 50, 1.0, True, id="nothing is learnt"),
        pytest.param([0.1] * 4, 50, 0.5, False, id="the loss falls"),
        pytest.param([0.1] * 4, 30, 1.0, False, id="a few steps"),
        pytest.param([0.1] * 3 + [1.0], 50, 1.0, False, id="three layers"),
        pytest.param([0.0] * 4, 50, 1.0, False, id="zeros, as of layers that are to begin with nothing"),
    ],
)
def test_layers_that_pass_on_next_to_nothing_are_told_where_nothing_is_learnt(
    tmp_path: Path, write_trace: WriteTrace, factors: list[float], steps: int, last_loss: float, is_told: bool
) -> None:
    layers = [event for number, factor in enumerate(factors, 1) for event in layer(number, factor)]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, *layers, *trained(len(factors), steps, last_loss, 1e-3))
    assert told(path) == [("vanishing-gradients", "model.l1.weight", "train.py:20")] * is_told


@pytest.mark.parametrize(
    ("type_", "name", "is_told"),
    [("RNN", "weight_hh_l0", True), ("RNN", "weight_ih_l0", False), ("LSTM", "weight_hh_l0", False)],
)
def test_a_recurrent_layer_that_forgets_its_state_is_told(
    tmp_path: Path, write_trace: WriteTrace, type_: str, name: str, is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, *layer(1, 0.01, type_, name), *trained(1, 50, 1.0, 1e-3))
    assert told(path) == [("vanishing-gradients", f"model.l1.{name}", "train.py:20")] * is_told


def test_without_an_optimizer_nothing_was_checked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, *layer(1, 1.0))
    assert said(path, "initial weights") == ("not checked", ["no record of an optimizer"])
