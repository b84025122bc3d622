from __future__ import annotations

from proxy_trace.reading.names import Names
from proxy_wrapper import events


def test_ids_are_resolved_to_names() -> None:
    names = Names()
    for event in (
        events.Module(1, "model", "Net", 1),
        events.Parameter(1, "model.weight", 1, "float32[3]"),
        events.Location(1, "train.py", 7, "main"),
        events.Problem(1, message="defines nothing"),
    ):
        names.learn(event)
    assert (names.module_name(1), names.tensor_name(1), names.place(1)) == ("model", "model.weight", "train.py:7")


def test_the_last_definition_counts() -> None:
    names = Names()
    names.learn(events.Module(1, "encoder", "Encoder", 1))
    names.learn(events.Module(1, "model.encoder", "Encoder", 2, 2))
    assert names.module_name(1) == "model.encoder"


def test_a_place_outside_of_all_modules_is_the_innermost_one_that_is_in_no_method_of_theirs() -> None:
    names = Names()
    for event in (
        events.Module(1, "model", "Net", 1),
        events.Location(1, "train.py", 90, "main"),
        events.Location(2, "train.py", 40, "Trainer.step", 1),
        events.Location(3, "net.py", 9, "outer.<locals>.Net.predict", 2),
        events.Location(4, "net.py", 7, "Net.features", 3),
    ):
        names.learn(event)
    places = [names.place_outside_modules(number) for number in (1, 2, 3, 4, 0, 9)]
    assert places == ["train.py:90", "train.py:40", "train.py:40", "train.py:40", "", "#9"]


def test_none_has_no_name_and_the_undefined_a_number() -> None:
    names = Names()
    assert (names.module_name(0), names.tensor_name(0), names.place(0)) == ("", "", "")
    assert (names.module_name(7), names.tensor_name(8), names.place(9)) == ("#7", "#8", "#9")
