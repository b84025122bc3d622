"""Which names code reads as values, so that their objects may be called under any other name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.resolve.unit import Unit

_ASKING = frozenset({"isinstance", "issubclass", "hasattr"})
_OF_CLASSES = frozenset({"__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__mro__"})


def value_names(unit: Unit, nodes: Iterable[ast.AST]) -> list[ast.expr]:
    """The dotted names among some nodes that are read as values.

    These uses do not count, as they pass the object to nobody: calls, decorators, comparisons, formatted values,
    annotations, base classes, instance checks, and objects whose attribute `getattr` reads.
    """
    found: list[ast.expr] = []
    for node in nodes:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        above = unit.parents[node]
        if isinstance(above, ast.Attribute):
            continue  # part of a longer name
        if isinstance(node, ast.Attribute) and node.attr in _OF_CLASSES:
            continue
        if not _is_given_to_nobody(unit, node, above):
            found.append(node)
    return found


def _is_given_to_nobody(unit: Unit, node: ast.expr, above: ast.AST) -> bool:
    if isinstance(above, ast.Call) and above.func is node:
        return True
    while isinstance(above, (ast.Tuple, ast.BinOp, ast.Subscript)):
        node, above = above, unit.parents[above]  # in `isinstance(x, (A, B))` and `x: A | B[C]`
    if isinstance(above, ast.Call):
        asked = above.func.id if isinstance(above.func, ast.Name) else ""
        return (asked in _ASKING and node in above.args) or (asked == "getattr" and node is above.args[0])
    if isinstance(above, ast.AnnAssign):
        return node is above.annotation
    if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node is above.returns or node in above.decorator_list
    if isinstance(above, ast.ClassDef):
        return node in above.bases or node in above.decorator_list
    return isinstance(above, (ast.arg, ast.ExceptHandler, ast.Compare, ast.FormattedValue))
