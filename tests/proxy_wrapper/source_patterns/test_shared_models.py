"""Models that all folds share are found, and those that each fold makes or resets are not."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.program_code.syntax import scopes_of
from proxy_wrapper.source_patterns.shared_models import shared_models

SCRIPT = """
def train(net, x):
    {first}
    for epoch in range(3):
        net(x).sum().backward()
def main():
    model, data = Net(), load()
    {splitter}
    for {loop}:
        {inside}
        train(model, x[rows])
"""


def found(
    first: str = "net.train()",
    splitter: str = "folds = KFold(5)",
    loop: str = "i, (rows, _) in enumerate(folds.split(data))",
    inside: str = "print(i)",
) -> list[tuple[int, tuple[str, ...], int]]:
    tree = ast.parse(SCRIPT.format(first=first, splitter=splitter, loop=loop, inside=inside))
    return [(each.line, each.names, each.other) for each in shared_models(list(scopes_of(tree)))]


@pytest.mark.parametrize(
    ("splitter", "loop"),
    [
        pytest.param("folds = KFold(5)", "i, (rows, _) in enumerate(folds.split(data))", id="by scikit-learn"),
        pytest.param("cv = StratifiedKFold(5)", "i, (rows, _) in enumerate(cv.split(data))", id="by class"),
        pytest.param("parts = split(data)", "fold, rows in enumerate(parts)", id="counted"),
    ],
)
def test_a_model_that_all_folds_share(splitter: str, loop: str) -> None:
    assert found(splitter=splitter, loop=loop) == [(5, ("model",), 9)]


def test_models_that_folds_do_not_share() -> None:
    assert found(inside="model = Net()") == []
    assert found(inside="model.load_state_dict(start)") == []
    assert found(inside="model.apply(reset)") == []
    assert found(first="net = copy.deepcopy(net)") == []
    assert found(first="net.reset_parameters()") == []
    assert found(splitter="parts = chunks(data)", loop="i, rows in enumerate(parts)") == []
