"""Averages that refer to the parameters themselves are found, and copies of parameters are not."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.program_code.syntax import scopes_of
from proxy_wrapper.source_patterns.shared_averages import shared_averages

TEXT = """
class {owner}:
    def __init__(self, model):
        self.shadow = {{}}
        {store}

    def update(self, model):
        {update}
"""
STORE = "self.shadow = {n: p.data for n, p in model.named_parameters()}"
UPDATE = "for n, p in model.named_parameters(): self.shadow[n].mul_(0.9).add_(p.data, alpha=0.1)"


def found(store: str, update: str, owner: str = "Average") -> list[tuple[int, int]]:
    tree = ast.parse(TEXT.format(owner=owner, store=store, update=update))
    return [(each.line, each.other) for each in shared_averages(list(scopes_of(tree)))]


@pytest.mark.parametrize(
    "store",
    [
        STORE,
        "self.shadow = [p.detach() for p in model.parameters()]",
        "self.shadow = list(model.parameters())",
        "self.shadow = model.state_dict()",
        "self.shadow = dict(model.named_parameters())",
        "for n, p in model.named_parameters(): self.shadow[n] = p.data",
    ],
)
def test_what_is_stored_without_a_copy(store: str) -> None:
    assert found(store, UPDATE) == [(5, 8)]


@pytest.mark.parametrize(
    "update",
    [
        "for s, p in zip(self.shadow, model.parameters()): s.data.mul_(0.9).add_(p.data, alpha=0.1)",
        "for n, s in self.shadow.items(): s.lerp_(model.get_parameter(n), 0.1)",
        "for n, p in model.named_parameters(): self.shadow[n] *= 0.9",
    ],
)
def test_how_it_is_updated(update: str) -> None:
    assert found(STORE, update) == [(5, 8)]


@pytest.mark.parametrize(
    ("store", "update"),
    [
        pytest.param(STORE.replace("p.data", "p.data.clone()"), UPDATE, id="cloned"),
        pytest.param("self.shadow = copy.deepcopy(model.state_dict())", UPDATE, id="copied"),
        pytest.param(STORE, UPDATE.replace(".mul_(0.9).add_", ".copy_"), id="set"),
        pytest.param(STORE, "for n, p in model.named_parameters(): p.data.mul_(0.9)", id="of something else"),
        pytest.param(STORE, "self.shadow = {n: s.clone() for n, s in self.shadow.items()}; " + UPDATE[:0], id="later"),
        pytest.param(STORE, "for s, p in zip(self.other, self.shadow): s.mul_(0.9).add_(p)", id="the other of two"),
    ],
)
def test_what_is_no_shared_average(store: str, update: str) -> None:
    assert found(store, update) == []


@pytest.mark.parametrize(("owner", "is_found"), [("ModelEMA", True), ("Optimizer", False)])
def test_other_names_count_in_a_class_of_averages(owner: str, is_found: bool) -> None:
    text = TEXT.replace("shadow", "params").format(owner=owner, store=STORE, update=UPDATE)
    tree = ast.parse(text.replace("shadow", "params"))
    assert bool(list(shared_averages(list(scopes_of(tree))))) == is_found
