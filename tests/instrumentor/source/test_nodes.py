"""The nodes of a tree are those that `ast` tells, in its order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.source.nodes import SHARED, children, walk

HERE = Path(__file__)


@pytest.mark.parametrize(
    "path", [HERE, HERE.parents[1] / "test_cli.py", Path(ast.__file__)], ids=lambda path: path.name
)
def test_they_are_those_of_ast_without_operators_and_contexts(path: Path) -> None:
    tree = ast.parse(path.read_text())
    told = list(ast.walk(tree))
    assert walk(tree) == [node for node in told if not isinstance(node, SHARED)]
    for node in told:
        assert children(node) == [each for each in ast.iter_child_nodes(node) if not isinstance(each, SHARED)]
