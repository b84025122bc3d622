"""Losses that are maximised are told where they are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")

GROUP = events.ParameterGroup({"lr": 0.1}, [1])


def optimizer(number: int) -> events.Optimizer:
    return events.Optimizer(1, location=3, id=number, optimizer="SGD", groups=[GROUP], indices=[0])


def loss(*names: str) -> events.Loss:
    nodes = [events.LossNode(f"{name}Backward0", (), index - 1) for index, name in enumerate(names)]
    return events.Loss(1, location=3, id=1, nodes=nodes, made=3)


def steps(values: list[float], *optimizers: int) -> list[events.Event]:
    step = [
        each
        for number in optimizers
        for each in (events.OptimizerStep(3, optimizer_id=number), events.OptimizerStepEnd(4))
    ]
    return [
        each
        for value in values
        for each in (events.Backward(2, location=3, loss=1, loss_value=value), events.BackwardEnd(2), *step)
    ]


FALLING = [-0.1 * number for number in range(40)]
FASTER = [0.5 - 0.01 * number**2 for number in range(40)]
SLOWER = [30.0 - 10 * number**0.5 for number in range(40)]


@pytest.mark.parametrize(
    ("names", "values", "optimizers", "is_told"),
    [
        pytest.param(["Neg", "NllLoss"], FALLING, [1], True, id="cross entropy times -1"),
        pytest.param(["Neg", "Mean", "MseLoss"], FALLING, [1], True, id="a mean"),
        pytest.param(["Neg", "NllLoss"], FALLING, [1, 2], False, id="of two optimizers, as a GAN"),
        pytest.param(["NllLoss"], FALLING, [1], False, id="not negated"),
        pytest.param(["Mean", "Mul"], FASTER, [1], True, id="ever faster"),
        pytest.param(["Mean", "Mul"], SLOWER, [1], False, id="ever slower, as a likelihood"),
    ],
)
def test_a_loss_that_is_maximised_is_told(
    tmp_path: Path,
    write_trace: WriteTrace,
    names: list[str],
    values: list[float],
    optimizers: list[int],
    is_told: bool,
) -> None:
    made = [optimizer(number) for number in optimizers]
    happened = [*made, loss(*names), *steps(values, *optimizers)]
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), *happened))
    told = [(each.name, each.place) for each in found if each.code == "wrong-loss-sign"]
    assert told == [("loss", "train.py:20")] * is_told


@pytest.mark.parametrize(("maximize", "is_told"), [(False, True), (True, False)])
def test_a_policy_that_avoids_rewards_is_told(
    tmp_path: Path, write_trace: WriteTrace, maximize: bool, is_told: bool
) -> None:
    settings = events.ParameterGroup({"lr": 0.1, "maximize": maximize}, [1])
    two = [structs.replace(optimizer(number), groups=[settings]) for number in (1, 2)]
    record = events.GraphPattern(1, location=3, what="probability-lowered", made=3)
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), *two, record, record, *steps([1.0, 2.0], 1, 2))
    found = [(each.code, each.place) for each in find(path) if each.code == "wrong-loss-sign"]
    assert found == [("wrong-loss-sign", "train.py:20")] * is_told


@pytest.mark.parametrize("maximizes", [False, True])
def test_an_actor_that_lowers_values_is_told_where_its_loss_is_computed(
    tmp_path: Path, write_trace: WriteTrace, maximizes: bool
) -> None:
    groups = [events.ParameterGroup({"lr": 0.1, "maximize": maximizes}, [1])]
    actor = events.Optimizer(1, location=3, id=1, optimizer="Adam", groups=groups, indices=[0])
    lowered = events.SourcePattern(2, what="values-lowered", names=["actor_loss"], made=3)
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), actor, lowered, *steps([1.0], 1))
    found = [each.place for each in find(path) if each.code == "wrong-loss-sign"]
    assert found == ["train.py:20"] * (not maximizes)
