"""Finds predictions that are the index of the largest score in a whole batch.

for x, y in loader:
    correct += (model(x).argmax() == y).sum()           # where argmax(dim=1) was meant
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.comparisons import counted_comparison
from proxy_wrapper.program_code.imported_modules import TORCH
from proxy_wrapper.program_code.syntax import last_name, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

WHOLE_ARGMAX: Final = "argmax-of-batch"


def whole_argmax(scope: Scope) -> Iterator[Pattern]:
    """The lines in loops that compare a single index with the labels of a batch. `other` is the line of the loop."""
    for loop in scope.nodes:
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or not isinstance(loop.target, (ast.Tuple, ast.List)):
            continue
        given = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
        inside = nodes_within(loop)
        single = _single_indices(inside, scope)
        for node in inside:
            compared = counted_comparison(node)
            if len(compared) != 2:
                continue
            for index, labels in (compared, compared[::-1]):
                line = single.get(index.id, 0) if isinstance(index, ast.Name) else _line_of_argmax(index, scope)
                if line and isinstance(labels, ast.Name) and labels.id in given:
                    yield Pattern(WHOLE_ARGMAX, line, (ast.unparse(index), labels.id), loop.lineno)


def _single_indices(inside: list[ast.AST], scope: Scope) -> dict[str, int]:
    """The variables that are assigned a single index once, with the line."""
    found: dict[str, int] = {}
    stored: dict[str, int] = {}
    for node in inside:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            stored[node.id] = stored.get(node.id, 0) + 1
        target = node.targets[0] if isinstance(node, ast.Assign) and _line_of_argmax(node.value, scope) else None
        if isinstance(target, ast.Name):
            found[target.id] = target.lineno
    return {name: line for name, line in found.items() if stored[name] == 1}


def _line_of_argmax(value: ast.expr, scope: Scope) -> int:
    """The line of an `argmax` without a dimension; 0 for anything else."""
    if not isinstance(value, ast.Call) or last_name(value.func) != "argmax" or value.keywords:
        return 0
    is_function = isinstance(value.func, ast.Attribute) and scope.module_of(value.func.value) == TORCH
    return value.lineno if len(value.args) == int(is_function) else 0
