from __future__ import annotations

import pytest

from proxy_trace.errors import StepRangeError, UnknownKindError
from proxy_trace.reading.names import Names
from proxy_trace.reading.selection import Selection, StepRange
from proxy_wrapper import events

UPDATE = events.Update(1, 3, module=2, tensor=1)
CALL = events.CallModule(1, 3, module=2)
FUNCTION = events.CallFunction(1, 3, module=1, target="torch.relu", inputs=["model.fc.weight"], outputs=["float32[3]"])


@pytest.fixture
def names() -> Names:
    names = Names()
    names.learn(events.Module(1, "model", "Net", 1))
    names.learn(events.Module(2, "model.fc", "Linear", 1, 1))
    names.learn(events.Parameter(1, "model.fc.weight", 2, "float32[3]", aliases=["model.head.weight"]))
    return names


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7", (7, 7)), ("2-5", (2, 5)), ("100-", (100, None)), ("-10", (0, 10)), (" 3 ", (3, 3)), ("4-4", (4, 4))],
)
def test_steps_are_read_as_one_or_a_range(text: str, expected: tuple[int, int | None]) -> None:
    assert StepRange.parse(text) == expected


@pytest.mark.parametrize("text", ["", "-", "x", "1-2-3", "5-2", "1.5", "--3"])
def test_other_steps_are_errors(text: str) -> None:
    with pytest.raises(StepRangeError, match=r"is not a range of steps\. Give one step"):
        StepRange.parse(text)


def test_an_unknown_kind_is_an_error_that_names_the_valid_ones() -> None:
    with pytest.raises(UnknownKindError, match=r"no event kind 'nan'\. Kinds are: run, location, .*non_finite"):
        Selection(kinds=["update,nan"])


def test_kinds_are_given_one_by_one_or_with_commas(names: Names) -> None:
    for kinds in (["update", "call_module"], ["update, call_module"]):
        selection = Selection(kinds)
        assert [selection.has(event, names) for event in (UPDATE, CALL, FUNCTION)] == [True, True, False]


def test_places_are_left_out_unless_asked_for(names: Names) -> None:
    place = events.Location(1, "train.py", 1, "main")
    assert not Selection().has(place, names)
    assert Selection(["location"]).has(place, names)


@pytest.mark.parametrize(
    ("event", "glob"),
    [
        pytest.param(UPDATE, "*.fc.weight", id="an update by its parameter"),
        pytest.param(UPDATE, "model.head.*", id="an update by an alias of its parameter"),
        pytest.param(CALL, "model.f?", id="a call by its module"),
        pytest.param(FUNCTION, "torch.*", id="a function by its name"),
        pytest.param(FUNCTION, "model.fc.weight", id="a function by what it is given"),
        pytest.param(events.ReadValue(1, target="item", inputs=["float32[]"]), "item", id="a read by its method"),
        pytest.param(events.GetAttr(1, target="grad", owner="model.w"), "model.w", id="an attribute by its owner"),
        pytest.param(events.SetAttr(1, target="grad", owner="model.w"), "grad", id="an attribute by its name"),
        pytest.param(events.OptimizerStep(1, optimizer="SGD"), "SGD", id="a step by its optimizer"),
        pytest.param(events.Module(9, "model.x", "Net", 1, 1), "model.x", id="a module by its name"),
        pytest.param(events.Buffer(9, "model.b", 1, "int64[]"), "model.b", id="a buffer by its name"),
        pytest.param(events.NonFinite(1, module=2), "model.fc", id="a NaN in an output by its module"),
        pytest.param(events.NonFinite(1, module=2, tensor=1), "*.weight", id="a NaN in a tensor by its name"),
    ],
)
def test_a_glob_finds(event: events.Event, glob: str, names: Names) -> None:
    assert Selection(names=[glob]).has(event, names)  # type: ignore[arg-type]
    assert not Selection(names=["other"]).has(event, names)  # type: ignore[arg-type]
    assert Selection(names=["other", glob]).has(event, names)  # type: ignore[arg-type]


def test_a_problem_has_no_name(names: Names) -> None:
    assert not Selection(names=["*"]).has(events.Problem(1, message="m"), names)


def test_a_module_glob_finds_what_happens_in_the_module(names: Names) -> None:
    selection = Selection(modules=["model.*"])
    assert [selection.has(event, names) for event in (UPDATE, CALL, FUNCTION)] == [True, True, False]
    parameter = events.Parameter(1, "model.fc.weight", 2, "float32[3]")
    assert selection.has(parameter, names)
    assert not Selection(modules=["*"], kinds=["run"]).has(parameter, names)


def test_steps_leave_definitions_out(names: Names) -> None:
    selection = Selection(steps=StepRange(2, 3))
    assert selection.has(CALL, names)
    assert not Selection(steps=StepRange(4, None)).has(CALL, names)
    assert not selection.has(events.Module(1, "model", "Net", 1), names)


def test_every_condition_must_be_met(names: Names) -> None:
    assert Selection(["update"], ["*.weight"], ["model.fc"], StepRange(3, 3)).has(UPDATE, names)
    assert not Selection(["update"], ["*.bias"], ["model.fc"], StepRange(3, 3)).has(UPDATE, names)
