"""Discounted returns in another order than the steps of an episode are found by the source."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.program_code.syntax import scopes_of
from proxy_wrapper.source_patterns.misordered_returns import misordered_returns

UPDATE = """
def update(rewards, log_probs, gamma):
    total, returns = 0.0, []
    for reward in {}:
        total = {}
        {}
    return -sum(each * value for each, value in zip({}, returns))
"""
REVERSED = "reversed(rewards)"
SUM = "reward + gamma * total"
APPEND = "returns.append(total)"
LOGS = "log_probs"


def found(*parts: str) -> list[tuple[str, int]]:
    tree = ast.parse(UPDATE.format(*parts))
    return [(each.what, each.line) for each in misordered_returns(list(scopes_of(tree)))]


@pytest.mark.parametrize(
    ("rewards", "total", "what", "line"),
    [
        (REVERSED, SUM, "returns-backwards", 6),
        ("self.rewards[::-1]", "self.gamma * total + reward", "returns-backwards", 6),
        ("rewards", SUM, "returns-forwards", 4),
    ],
)
def test_returns_in_another_order(rewards: str, total: str, what: str, line: int) -> None:
    assert found(rewards, total, APPEND, LOGS) == [(what, line)]


@pytest.mark.parametrize(
    ("rewards", "total", "appended", "logs"),
    [
        pytest.param(REVERSED, SUM, "returns.insert(0, total)", LOGS, id="inserted at the beginning"),
        pytest.param(REVERSED, SUM, "returns.appendleft(total)", LOGS, id="a deque"),
        pytest.param(REVERSED, SUM, APPEND + "\n    returns.reverse()", LOGS, id="reversed afterwards"),
        pytest.param(REVERSED, SUM, APPEND, "log_probs[::-1]", id="both in reverse"),
        pytest.param("rewards", SUM, APPEND, "log_probs[::-1]", id="something else is reversed"),
        pytest.param("rewards", "reward + total", APPEND, LOGS, id="no discount"),
        pytest.param("rewards", "gamma * total + 1", APPEND, LOGS, id="no reward"),
        pytest.param("costs", SUM, APPEND, LOGS, id="no rewards"),
        pytest.param(REVERSED, SUM, APPEND, "scores", id="no log-probabilities"),
        pytest.param(REVERSED, SUM, "returns = [total, *returns]", LOGS, id="made anew"),
    ],
)
def test_other_returns(rewards: str, total: str, appended: str, logs: str) -> None:
    text = UPDATE.format(rewards, total, appended, logs)
    tree = ast.parse(text if logs != "scores" else text.replace("log_probs", "scores"))
    assert list(misordered_returns(list(scopes_of(tree)))) == []


def test_a_path_that_is_inserted_reverses_nothing() -> None:
    tree = ast.parse("import sys\nsys.path.insert(0, '..')\n" + UPDATE.format(REVERSED, SUM, APPEND, LOGS))
    (each,) = misordered_returns(list(scopes_of(tree)))
    assert each.names == ("returns",)
