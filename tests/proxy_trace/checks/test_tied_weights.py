"""Weights that began as one, and are two, are told where the second layer is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, STEP, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")

EMBEDDING = events.Module(2, "model.embed", "Embedding", 1, 1)
HEAD = events.Module(3, "model.head", "Linear", 1, 1, made=3)


def values(bits: str) -> events.Statistics:
    return events.Statistics(-1.0, 1.0, 2.0, bits=bits * 16)


def parameter(number: int, name: str, bits: str) -> events.Parameter:
    return events.Parameter(number, name, number, "float32[9, 4]", requires_grad=True, statistics=values(bits))


@pytest.mark.parametrize("is_trained", [True, False])
def test_a_parameter_that_came_in_the_place_of_a_tied_one_is_told(
    tmp_path: Path, write_trace: WriteTrace, is_trained: bool
) -> None:
    tied = events.Parameter(
        2,
        "model.embed.weight",
        2,
        "float32[9, 4]",
        requires_grad=True,
        aliases=["model.head.weight"],
        statistics=values("a"),
    )
    state = [tied, parameter(3, "model.head.weight", "c")]
    updates = [events.Update(4, tensor=2, statistics=values("d"))]
    updates += [events.Update(4, tensor=3, statistics=values("e"))] * is_trained
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, EMBEDDING, HEAD, *state, events.Backward(1), *updates, STEP)
    found = [(each.name, each.place) for each in find(path) if each.code == "tied-weights-apart"]
    assert found == [("model.head.weight", "train.py:20")] * is_trained


@pytest.mark.parametrize(("first", "is_told"), [("a", True), ("c", False)], ids=["a copy", "another weight"])
def test_a_copy_that_goes_its_own_way_is_told(
    tmp_path: Path, write_trace: WriteTrace, first: str, is_told: bool
) -> None:
    state = [parameter(2, "model.embed.weight", "a"), parameter(3, "model.head.weight", first)]
    updates = [events.Update(4, tensor=2, statistics=values("d")), events.Update(4, tensor=3, statistics=values("e"))]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, EMBEDDING, HEAD, *state, events.Backward(1), *updates, STEP)
    found = [(each.name, each.place) for each in find(path) if each.code == "tied-weights-apart"]
    assert found == [("model.head.weight", "train.py:20")] * is_told


@pytest.mark.parametrize("last", ["e", "d"], ids=["of its own", "still equal"])
def test_a_tie_that_the_initialiser_undoes_is_told(tmp_path: Path, write_trace: WriteTrace, last: str) -> None:
    lines = [events.Location(4, "train.py", 12, "__init__"), events.Location(5, "train.py", 16, "init_weights")]
    names = ["self.embed.weight", "self.head.weight"]
    undone = events.SourcePattern(1, what="tie-replaced", names=names, made=5, other=4)
    state = [parameter(2, "model.embed.weight", "a"), parameter(3, "model.head.weight", "c")]
    updates = [events.Update(4, tensor=2, statistics=values("d")), events.Update(4, tensor=3, statistics=values(last))]
    made = [PLACE, *lines, NET, EMBEDDING, HEAD, *state, undone]
    path = write_trace(tmp_path / "a.jsonl", *made, events.Backward(1), *updates, STEP)
    found = [(each.name, each.place) for each in find(path) if each.code == "tied-weights-apart"]
    assert found == [("model.embed.weight", "train.py:16")] * (last == "e")


def test_a_copy_is_told_where_it_is_made(tmp_path: Path, write_trace: WriteTrace) -> None:
    line = events.Location(4, "train.py", 12, "__init__")
    names = ["self.head.weight", "self.embed.weight"]
    copied = events.SourcePattern(1, what="copied-by-data", names=names, made=4)
    state = [parameter(2, "model.embed.weight", "a"), parameter(3, "model.head.weight", "a")]
    updates = [events.Update(4, tensor=2, statistics=values("d")), events.Update(4, tensor=3, statistics=values("e"))]
    made = [PLACE, line, NET, EMBEDDING, HEAD, *state, copied]
    path = write_trace(tmp_path / "a.jsonl", *made, events.Backward(1), *updates, STEP)
    assert [each.place for each in find(path) if each.code == "tied-weights-apart"] == ["train.py:12"]


@pytest.mark.parametrize(
    ("name", "shape", "last", "gradient", "is_told"),
    [
        pytest.param("Adam", "float32[9, 4]", "d", 2.0, True, id="one memory"),
        pytest.param("Adam", "float32[4, 9]", "f", 2.0, True, id="a transposed view of it"),
        pytest.param("Adam", "float32[3, 12]", "d", 2.0, False, id="another shape"),
        pytest.param("SGD", "float32[9, 4]", "d", 2.0, False, id="steps that add up"),
        pytest.param("Adam", "float32[9, 4]", "e", 2.0, False, id="other values"),
        pytest.param("Adam", "float32[9, 4]", "d", 1.0, False, id="equal gradients"),
    ],
)
def test_two_parameters_in_one_memory_are_told(
    tmp_path: Path, write_trace: WriteTrace, name: str, shape: str, last: str, gradient: float, is_told: bool
) -> None:
    modules = [events.Module(2, "model.one", "Linear", 1, 1), events.Module(3, "model.other", "Linear", 1, 1, made=3)]
    other = events.Parameter(3, "model.other.weight", 3, shape, requires_grad=True, statistics=values("a"))
    state = [parameter(2, "model.one.weight", "a"), other]
    made = events.Optimizer(1, id=1, optimizer=name, groups=[events.ParameterGroup({"lr": 0.1}, [2, 3])], indices=[0])
    gradients = [events.Gradient(3, tensor=2, statistics=events.Statistics(0.0, 1.0, 1.0))]
    gradients += [events.Gradient(3, tensor=3, statistics=events.Statistics(0.0, gradient, 1.0))]
    updates = [events.Update(4, tensor=2, statistics=values("d")), events.Update(4, tensor=3, statistics=values(last))]
    step = (events.OptimizerStep(3, optimizer_id=1), *gradients, *updates, events.OptimizerStepEnd(5))
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, *modules, *state, made, events.Backward(1), *step)
    found = [(each.name, each.place) for each in find(path) if each.code == "tied-weights-apart"]
    assert found == [("model.other.weight", "train.py:20")] * is_told
