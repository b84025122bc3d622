"""The tree of modules, whatever a trace says of their parents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy_trace.process.module_tree import ModuleTree
from proxy_trace.process.process_summary import ModuleSummary


def tree(**parents: int) -> ModuleTree:
    return ModuleTree([ModuleSummary(place, name, parent=at) for place, (name, at) in enumerate(parents.items(), 1)])


def test_modules_come_before_those_below_them_with_their_depth() -> None:
    found = tree(model=0, a=1, b=1, a_x=2, other=0).walk()
    assert [(module.name, depth) for module, depth in found] == [
        ("model", 0),
        ("a", 1),
        ("a_x", 2),
        ("b", 1),
        ("other", 0),
    ]


def test_a_module_knows_what_it_is_part_of() -> None:
    modules = tree(model=0, a=1, x=2, other=0)
    assert [module.name for module in modules.upwards(3)] == ["x", "a", "model"]
    assert [modules.root_of(id_) for id_ in (1, 3, 4, 99)] == [1, 1, 4, 0]
    assert modules.with_those_above(["a"]) == {1, 2}
    assert modules.size(modules.roots[0]) == 3


def test_a_parent_that_is_not_there_or_is_the_module_itself_is_none() -> None:
    assert [module.name for module in tree(lost=99, own=2, model=0).roots] == ["lost", "own", "model"]


@given(st.lists(st.integers(0, 12), max_size=12))
def test_each_module_is_met_once_whatever_the_parents(parents: list[int]) -> None:
    modules = [ModuleSummary(id_, str(id_), parent=parent) for id_, parent in enumerate(parents, 1)]
    found = ModuleTree(modules)
    assert sorted(module.id for module, _ in found.walk()) == list(range(1, len(parents) + 1))
    assert sum(found.size(root) for root in found.roots) == len(parents)
    for module in modules:
        assert found.root_of(module.id) in {root.id for root in found.roots}
