"""An optimizer that steps the parameters of a model which is no more is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import BACKWARD, CALLS, NET, OTHER_VALUES, VALUES, find, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

STARVED = [
    *CALLS,
    *BACKWARD,
    events.Gradient(5, tensor=1, statistics=VALUES, has_optimizer=False),
    events.Gradient(5, tensor=2, statistics=VALUES, has_optimizer=False),
]
UPDATED = events.Update(6, tensor=1, statistics=OTHER_VALUES)


def optimizer(others: int, *tensors: int) -> events.Optimizer:
    """An optimizer with some tensors that no traced module has, and the parameters with these ids."""
    group = events.ParameterGroup({"lr": 0.1}, tensors, others)
    return events.Optimizer(2, id=1, optimizer="SGD", groups=[group], indices=[0])


@pytest.mark.parametrize(
    ("happened", "is_told"),
    [
        pytest.param([*STARVED, optimizer(2)], True, id="as many tensors, none of them the model's"),
        pytest.param([*STARVED, optimizer(5)], False, id="another number: something else is trained"),
        pytest.param([*STARVED, optimizer(2, 1, 2)], False, id="the model's among them"),
        pytest.param([*CALLS, *BACKWARD, optimizer(2)], False, id="no gradient of the model's"),
        pytest.param([*STARVED, UPDATED, optimizer(2)], False, id="the model is trained by hand"),
    ],
)
def test_what_steps_strangers_while_a_model_starves_is_told(
    tmp_path: Path, write_trace: WriteTrace, happened: list[events.Event], is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), weight(2, "model.v"), *happened)
    found = [each for each in find(path) if each.code == "optimizer-of-other-model"]
    assert [each.name for each in found] == ["SGD"] * is_told
    assert said(path, "optimizers")[0] == ("finding" if is_told else "passed")


def test_without_an_optimizer_nothing_was_checked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *CALLS)
    assert said(path, "optimizers") == ("not checked", ["no record of an optimizer"])


@pytest.mark.parametrize(("others", "is_told"), [(1, True), (2, False)], ids=["as many", "another number"])
def test_a_part_that_was_replaced_since_is_told(
    tmp_path: Path, write_trace: WriteTrace, others: int, is_told: bool
) -> None:
    """A new head: the optimizer has the rest of the model, and the old head."""
    happened = [
        *CALLS,
        *BACKWARD,
        optimizer(others, 1),
        events.OptimizerStep(4, optimizer="SGD", optimizer_id=1),
        events.Gradient(5, tensor=1, statistics=VALUES),
        UPDATED,
        events.OptimizerStepEnd(7, optimizer="SGD"),
        events.Gradient(8, 1, tensor=2, statistics=VALUES, has_optimizer=False),
    ]
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), weight(2, "model.head"), *happened)
    assert [each.reason for each in find(path) if each.code == "optimizer-of-other-model"] == [
        "some of its tensors are not parameters of a traced model"
    ] * is_told


STEPS = [events.OptimizerStep(5, optimizer="SGD", optimizer_id=1), events.OptimizerStepEnd(7, optimizer="SGD")]
FED = [*BACKWARD, STEPS[0], events.Gradient(6, tensor=1, statistics=VALUES), STEPS[1]]
ZERO = [STEPS[0], events.Gradient(6, tensor=1, statistics=events.Statistics(0.0, 0.0, 0.0)), STEPS[1]]
EMPTY = [STEPS[0], events.Gradient(6, tensor=1), STEPS[1]]


@pytest.mark.parametrize(
    ("happened", "is_told"),
    [
        pytest.param(FED * 30 + [*BACKWARD, *EMPTY] * 20, True, id="passes go on"),
        pytest.param(FED * 30 + EMPTY * 20, False, id="no more passes"),
        pytest.param(FED * 30 + [*BACKWARD, *EMPTY] * 19, False, id="a few steps"),
        pytest.param(FED * 70 + [*BACKWARD, *EMPTY] * 20, False, id="a small part of all"),
        pytest.param([*BACKWARD, *EMPTY] * 40, False, id="never any gradient"),
        pytest.param(
            FED * 30 + [*BACKWARD, *ZERO] * 20, False, id="gradients of zero, as where nothing is left to learn"
        ),
        pytest.param(FED * 30 + [*BACKWARD, *EMPTY] * 20 + FED, False, id="gradients are back"),
    ],
)
def test_an_optimizer_whose_model_is_trained_no_more_while_another_is_is_told(
    tmp_path: Path, write_trace: WriteTrace, happened: list[events.Event], is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), optimizer(0, 1), *CALLS, *happened)
    reasons = [each.reason for each in find(path) if each.code == "optimizer-of-other-model"]
    assert reasons == ["its parameters no longer have gradients: another model is trained"] * is_told


@pytest.mark.parametrize(
    ("fed", "is_frozen", "is_told"),
    [(1, True, True), (1, False, False), (3, True, False)],
    ids=["after the first step", "not frozen", "after some steps"],
)
def test_an_optimizer_whose_parameters_stay_frozen_is_told(
    tmp_path: Path, write_trace: WriteTrace, fed: int, is_frozen: bool, is_told: bool
) -> None:
    frozen = [structs.replace(weight(), requires_grad=not is_frozen)]
    happened = [*FED * fed, *frozen, *([*BACKWARD, *EMPTY] * 20)]
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), optimizer(0, 1), *CALLS, *happened)
    assert any(each.code == "optimizer-stays-frozen" for each in find(path)) == is_told


def made(
    number: int, name: str = "Adam", momentum: float = 0.0, steps: int = 1, rate: float = 0.1
) -> list[events.Event]:
    """An optimizer, made at one place, and its steps."""
    group = events.ParameterGroup({"lr": rate, "momentum": momentum}, [1])
    stepped = [
        events.OptimizerStep(4, number, optimizer=name, optimizer_id=number),
        events.OptimizerStepEnd(5, number, optimizer=name),
    ]
    return [events.Optimizer(2, id=number, optimizer=name, groups=[group], indices=[0], made=3), *stepped * steps]


@pytest.mark.parametrize(
    ("optimizers", "is_told"),
    [
        pytest.param([made(number) for number in range(1, 7)], True, id="for each step"),
        pytest.param([made(number) for number in range(1, 4)], False, id="a few times"),
        pytest.param([made(number, "SGD") for number in range(1, 7)], False, id="what keeps nothing"),
        pytest.param([made(number, "SGD", 0.9) for number in range(1, 7)], True, id="what keeps momentum"),
    ],
)
def test_optimizers_that_are_made_for_each_step_are_told_where_they_are_made(
    tmp_path: Path, write_trace: WriteTrace, optimizers: list[list[events.Event]], is_told: bool
) -> None:
    place = events.Location(3, "train.py", 20, "main")
    path = write_trace(tmp_path / "a.jsonl", place, NET, weight(), *(event for each in optimizers for event in each))
    found = [each for each in find(path) if each.code == "optimizer-recreated"]
    assert [(each.place, each.severity) for each in found] == [("train.py:20", "warning")] * is_told


LOADING = events.Loading(1, id=1, sampler="RandomSampler", batches=3, count=4, trains=True)
SET_BY_HAND = events.Update(9, tensor=1, statistics=OTHER_VALUES, cause="in-place")


@pytest.mark.parametrize(
    ("happened", "function", "severity"),
    [
        pytest.param([LOADING], "main", "warning", id="for each epoch"),
        pytest.param([], "main", "note", id="for each of some phases"),
        pytest.param([], "Trainer.train_one_epoch", "warning", id="in the function of an epoch"),
        pytest.param([SET_BY_HAND], "train_epoch", "note", id="there, of weights that are set between"),
        pytest.param([structs.replace(LOADING, batches=2)], "main", "note", id="for each two epochs or so"),
        pytest.param([LOADING, SET_BY_HAND], "main", "note", id="of weights that are set between"),
    ],
)
def test_optimizers_that_are_made_for_each_epoch_are_told(
    tmp_path: Path, write_trace: WriteTrace, happened: list[events.Event], function: str, severity: str
) -> None:
    optimizers = [event for number in range(1, 7) for event in made(number, steps=3)]
    place = events.Location(3, "train.py", 20, function)
    path = write_trace(tmp_path / "a.jsonl", place, NET, weight(), *BACKWARD, *optimizers, *happened)
    found = [each for each in find(path) if each.code == "optimizer-recreated"]
    assert [(each.place, each.severity) for each in found] == [("train.py:20", severity)]


@pytest.mark.parametrize(
    ("loop", "happened", "severity"),
    [
        pytest.param("epoch", [], "warning", id="in a loop over epochs"),
        pytest.param("self.epoch_idx", [], "warning", id="over their numbers"),
        pytest.param("task", [], "note", id="over tasks"),
        pytest.param("epochs_left", [], "note", id="over something else"),
        pytest.param("epoch", [SET_BY_HAND], "note", id="of weights that are set between"),
    ],
)
def test_optimizers_that_are_made_in_a_loop_over_epochs_are_told(
    tmp_path: Path, write_trace: WriteTrace, loop: str, happened: list[events.Event], severity: str
) -> None:
    first = made(1)[0]
    assert isinstance(first, events.Optimizer)
    optimizers = [
        each
        for number in range(1, 7)
        for each in (structs.replace(first, id=number, loop=loop), *made(number, steps=3)[1:])
    ]
    place = events.Location(3, "train.py", 20, "main")
    path = write_trace(tmp_path / "a.jsonl", place, NET, weight(), *BACKWARD, *optimizers, *happened)
    assert [each.severity for each in find(path) if each.code == "optimizer-recreated"] == [severity]


def test_optimizers_of_falling_rates_are_a_schedule_by_hand(tmp_path: Path, write_trace: WriteTrace) -> None:
    optimizers = [event for number in range(1, 7) for event in made(number, steps=3, rate=1 / number)]
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *optimizers, LOADING)
    assert [each.severity for each in find(path) if each.code == "optimizer-recreated"] == ["note"]


@pytest.mark.parametrize(
    ("name", "betas", "is_told"),
    [
        ("AdamW", (0.999, 0.9), True),
        ("AdamW", (0.9, 0.999), False),
        ("AdamW", (0.95, 0.9), False),
        ("Adan", (0.98, 0.92), False),
    ],
)
def test_betas_in_the_wrong_order_are_told(
    tmp_path: Path, write_trace: WriteTrace, name: str, betas: tuple[float, float], is_told: bool
) -> None:
    settings: dict[str, events.Setting] = {f"betas.{index}": beta for index, beta in enumerate(betas)}
    adam = events.Optimizer(2, id=1, optimizer=name, groups=[events.ParameterGroup(settings, (1,))], indices=[0])
    step = events.OptimizerStep(3, optimizer=name, optimizer_id=1)
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), adam, step, step)
    assert [each.name for each in find(path) if each.code == "betas-swapped"] == [name] * is_told
