"""Loops that unfreeze what was frozen are found, and those that unfreeze it later are not."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.undone_freezes import undone_freezes
from tests.proxy_wrapper.source_patterns.found import found

SCRIPT = """
for name, p in {frozen}.named_parameters():
    if "head" not in name:
        p.requires_grad = False
{between}
for p in model.parameters():
    {after}
"""


def script(frozen: str = "model", between: str = "print(frozen)", after: str = "p.requires_grad = True") -> str:
    return SCRIPT.format(frozen=frozen, between=between, after=after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(script(), id="by assignment"),
        pytest.param(script(after="p.requires_grad_(True)"), id="by a call"),
        pytest.param(script(frozen="model.backbone"), id="a part of the model"),
        pytest.param(script(between="optimizer = SGD(model.parameters(), lr=0.1)"), id="after an optimizer"),
    ],
)
def test_a_loop_that_unfreezes_what_was_frozen(text: str) -> None:
    assert found(text, undone_freezes) == [(7, ("model",))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(script(between="train(model, 3)"), id="unfrozen after training"),
        pytest.param(script(between="for x in data: model(x)"), id="unfrozen after a loop"),
        pytest.param(script(between="loss = criterion(model(x))"), id="frozen while a loss is computed"),
        pytest.param(script(frozen="model.body", between="loss = model(x).mean()"), id="a part, likewise"),
        pytest.param(script(between="loss = loss_of(generator, model)"), id="frozen for a function"),
        pytest.param(script(between="loss = loss_of(critic=model)"), id="frozen for a keyword of one"),
        pytest.param(script(frozen="teacher"), id="another model"),
        pytest.param(script(after="if p.ndim > 1: p.requires_grad = True"), id="unfrozen in part"),
        pytest.param(script(after="p.requires_grad = False"), id="frozen"),
        pytest.param(script(after="p.requires_grad = flag"), id="by a flag"),
        pytest.param("def freeze():\n" + "".join(f"    {each}\n" for each in script().split("\n")[1:4]), id="alone"),
    ],
)
def test_a_loop_that_undoes_nothing(text: str) -> None:
    assert found(text, undone_freezes) == []
