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


def test_none_has_no_name_and_the_undefined_a_number() -> None:
    names = Names()
    assert (names.module_name(0), names.tensor_name(0), names.place(0)) == ("", "", "")
    assert (names.module_name(7), names.tensor_name(8), names.place(9)) == ("#7", "#8", "#9")
