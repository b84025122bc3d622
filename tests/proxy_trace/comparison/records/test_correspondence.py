"""Modules and tensors of two runs stand for each other by name, and by their place where they were renamed."""

from __future__ import annotations

from proxy_trace.comparison.records.correspondence import Correspondence, find_correspondence
from proxy_trace.reading.names import Names
from proxy_wrapper import events


def names_of(*modules: tuple[str, str], sizes: dict[str, int] | None = None) -> Names:
    """Modules by name and type, each below the one that its name says, with a weight for each `Linear`."""
    names = Names()
    ids = {name: number for number, (name, _) in enumerate(modules, 1)}
    for name, kind in modules:
        parent = ids.get(name.rpartition(".")[0], 0)
        names.learn(events.Module(ids[name], name, kind, 1, parent, parameters=(sizes or {}).get(name, 4)))
        if kind == "Linear":
            names.learn(events.Parameter(ids[name], f"{name}.weight", ids[name], "float32[2, 2]"))
    return names


def matched(found: Correspondence, first: Names, second: Names) -> set[tuple[str, str]]:
    by_number = {number: first.modules[id_].name for id_, number in found.modules[0].items() if id_}
    return {
        (by_number[number], second.modules[id_].name)
        for id_, number in found.modules[1].items()
        if id_ and number in by_number
    }


def test_what_has_the_same_name_is_the_same_whatever_its_id() -> None:
    first = names_of(("model", "Net"), ("model.a", "Linear"), ("model.b", "Linear"))
    second = names_of(("model", "Net"), ("model.b", "Linear"), ("model.a", "Linear"))
    found = find_correspondence(first, second)
    assert matched(found, first, second) == {("model", "model"), ("model.a", "model.a"), ("model.b", "model.b")}
    assert found.modules[0][2] == found.modules[1][3]
    assert found.tensors[0][2] == found.tensors[1][3]
    assert (found.renamed, found.only_in, found.first_names) == ([], ([], []), {})


def test_a_root_of_another_name_takes_all_below_it_along() -> None:
    first = names_of(("model", "Net"), ("model.a", "Linear"))
    second = names_of(("net", "Net"), ("net.a", "Linear"))
    found = find_correspondence(first, second)
    assert matched(found, first, second) == {("model", "net"), ("model.a", "net.a")}
    assert found.renamed == [("model", "net")]
    assert found.first_names == {"net": "model", "net.a": "model.a", "net.a.weight": "model.a.weight"}
    assert found.tensors[0][2] == found.tensors[1][2]


def test_a_renamed_layer_is_the_one_of_its_type_and_size() -> None:
    first = names_of(("m", "Net"), ("m.fc1", "Linear"), ("m.act", "ReLU"), ("m.fc2", "Linear"), sizes={"m.fc2": 9})
    second = names_of(("m", "Net"), ("m.big", "Linear"), ("m.act", "ReLU"), ("m.fc1", "Linear"), sizes={"m.big": 9})
    found = find_correspondence(first, second)
    assert found.renamed == [("m.fc2", "m.big")]
    assert found.tensors[0][4] == found.tensors[1][2]


def test_what_only_one_has_stands_for_nothing() -> None:
    first = names_of(("m", "Net"), ("m.a", "Linear"))
    second = names_of(("m", "Net"), ("m.a", "Linear"), ("m.extra", "Block"), ("m.extra.fc", "Linear"))
    found = find_correspondence(first, second)
    assert found.only_in == ([], ["m.extra"])
    assert found.modules[1][3] not in found.modules[0].values()


def test_another_type_is_not_the_same_module_renamed() -> None:
    first, second = names_of(("m", "Net"), ("m.a", "Linear")), names_of(("m", "Net"), ("m.b", "Conv2d"))
    assert find_correspondence(first, second).only_in == (["m.a"], ["m.b"])


def test_ids_that_nothing_defines_are_themselves() -> None:
    found = find_correspondence(names_of(("m", "Net")), names_of(("m", "Net")))
    assert found.modules[0][0] == found.modules[1][0] == 0
    assert found.modules[0][7] == found.modules[1][7] != found.modules[0][1]


def test_modules_that_are_part_of_each_other_come_to_an_end() -> None:
    first, second = Names(), Names()
    for names in (first, second):
        names.learn(events.Module(1, "a" if names is first else "x", "L", 1, 2))
        names.learn(events.Module(2, "b", "L", 1, 1))
    assert find_correspondence(first, second).renamed == [("a", "x")]
