"""Finds loops that add something up and return it in their first pass.

for x, y in loader:
    ...
    total += loss.item()
    return total / len(loader)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import names_in, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

LEFT: Final = "loop-left"

_ADDING: Final = frozenset({"append", "extend", "update", "add"})
"""The methods that add something to a list, a set or a meter."""


_RETRIES: Final = (ast.Continue, ast.Yield, ast.Try)
"""What a loop has that is left on purpose in its first pass that gets so far."""


def left_loops(scope: Scope) -> Iterator[Pattern]:
    """The loops of a scope whose last statement returns what they add up. `other` is the line of the loop."""
    for loop in scope.nodes:
        if not isinstance(loop, (ast.For, ast.AsyncFor)):
            continue
        last = _last_statement(loop)
        inside = nodes_within(loop)
        if last is None or last.value is None or any(isinstance(each, _RETRIES) for each in inside):
            continue
        begun = {each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        added = [name for name in _added(inside) if name in names_in(last.value)]
        if added and not (begun - _counted(inside)).intersection(added):
            yield Pattern(LEFT, last.lineno, tuple(dict.fromkeys(added)), loop.lineno)


def _last_statement(loop: ast.For | ast.AsyncFor) -> ast.Return | None:
    """The `return` that every pass of a loop reaches; None if there is none."""
    body = loop.body
    while isinstance(body[-1], (ast.With, ast.AsyncWith)):
        body = body[-1].body
    return body[-1] if isinstance(body[-1], ast.Return) else None


def _counted(inside: list[ast.AST]) -> set[str]:
    """The variables to which `+=` adds."""
    counted = (node.target for node in inside if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add))
    return {target.id for target in counted if isinstance(target, ast.Name)}


def _added(inside: list[ast.AST]) -> Iterator[str]:
    """The variables that something is added to, in order."""
    for node in inside:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            to: ast.expr = node.target
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING:
            to = node.func.value
        else:
            continue
        if isinstance(to, ast.Name):
            yield to.id
