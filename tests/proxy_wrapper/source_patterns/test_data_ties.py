"""Assignments of one parameter's memory to another are found, and other assignments are not."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.program_code.syntax import scopes_of
from proxy_wrapper.source_patterns.data_ties import data_ties
from tests.proxy_wrapper.source_patterns.found import found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(
            "self.head.weight.data = self.emb.weight.data", ("self.head.weight", "self.emb.weight"), id="data"
        ),
        pytest.param("head.weight.data = emb.weight.data.t()", ("head.weight", "emb.weight"), id="transposed"),
        pytest.param("head.weight.data = emb.weight", ("head.weight", "emb.weight"), id="a parameter"),
    ],
)
def test_a_parameter_in_the_memory_of_another_one(text: str, names: tuple[str, str]) -> None:
    assert found(text, data_ties) == [(1, names)]


@pytest.mark.parametrize(
    "text",
    [
        "head.weight.data = emb.weight.data.clone()",
        "head.weight.data.copy_(emb.weight.data)",
        "head.weight.copy_(emb.weight)",
        "head.weight = nn.Parameter(emb.weight.detach().clone())",
    ],
)
def test_a_parameter_with_the_values_of_another_one(text: str) -> None:
    (pattern,) = (each for scope in scopes_of(ast.parse(text)) for each in data_ties(scope))
    assert (pattern.what, pattern.names) == ("copied-by-data", ("head.weight", "emb.weight"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("head.weight = emb.weight", id="the parameter"),
        pytest.param("head.weight.data = head.weight.data", id="itself"),
        pytest.param("head.weight.data = torch.zeros(3)", id="new values"),
        pytest.param("head.weight.copy_(weights)", id="weights from elsewhere"),
        pytest.param("best = copy.deepcopy(model)", id="a copy of a model"),
    ],
)
def test_other_assignments(text: str) -> None:
    assert found(text, data_ties) == []
