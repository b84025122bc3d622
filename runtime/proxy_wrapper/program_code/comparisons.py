"""Reads comparisons that are counted, as by `(prediction == y).sum()`."""

from __future__ import annotations

import ast
from typing import Final

from proxy_wrapper.program_code.syntax import last_name

_REDUCES: Final = frozenset({"sum", "mean", "count_nonzero"})
_TYPES: Final = frozenset({"double", "float", "int", "long"})


def counted_comparison(node: ast.AST) -> list[ast.expr]:
    """The two sides of a comparison for equality that is added up or averaged; none for anything else."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in _REDUCES:
        return []
    value = node.args[0] if node.args else node.func
    while isinstance(value, (ast.Attribute, ast.Call)):
        if isinstance(value, ast.Attribute) and value.attr in _REDUCES | _TYPES:
            value = value.value
        elif isinstance(value, ast.Call) and last_name(value.func) in _TYPES and not value.args:
            value = value.func
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and len(value.args) == 1:
            return [value.func.value, value.args[0]] if value.func.attr == "eq" else []
        else:
            return []
    if isinstance(value, ast.Compare) and len(value.ops) == 1 and isinstance(value.ops[0], ast.Eq):
        return [value.left, value.comparators[0]]
    return []
