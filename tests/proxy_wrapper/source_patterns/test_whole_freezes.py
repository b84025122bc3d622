"""Code that freezes a whole model is found, and code that freezes a part of it is not."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.whole_freezes import whole_freezes
from tests.proxy_wrapper.source_patterns.found import found

LOOP = "for p in model.parameters():\n    {}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(LOOP.format("p.requires_grad = False"), 2, id="by assignment"),
        pytest.param(LOOP.format("p.requires_grad_(False)"), 2, id="by a call"),
        pytest.param("model.requires_grad_(False)", 1, id="at once"),
    ],
)
def test_a_model_that_is_frozen(text: str, line: int) -> None:
    assert found(text, whole_freezes) == [(line, ("model",))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOOP.format("p.requires_grad = True"), id="unfrozen"),
        pytest.param(LOOP.format("if p.ndim > 1: p.requires_grad_(False)"), id="by condition"),
        pytest.param("weight.requires_grad = False", id="one parameter"),
    ],
)
def test_a_model_that_is_not_frozen(text: str) -> None:
    assert found(text, whole_freezes) == []
