"""Finds residual connections that are prepared and not added.

    def forward(self, x):
        identity = x
        out = self.conv2(self.relu(self.conv1(x)))
        return self.relu(out)                           # `out + identity` was meant

A variable with such a name that nothing reads is what is left of the connection.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

UNREAD: Final = "residual-unread"

_RESIDUALS: Final = re.compile(r"(x_)?(identity|residual|shortcut|skip)(_x|\d)?|x_(orig|res)")


def unread_residuals(scope: Scope) -> Iterator[Pattern]:
    """The residuals that a `forward` sets aside and never reads; told where a tensor is added to itself, if one is."""
    if scope.owner is None or scope.name != "forward" or "locals" in scope.words:
        return
    methods = (each for each in scope.owner.body if isinstance(each, ast.FunctionDef) and each.name == scope.name)
    for forward in methods:
        read = {
            node.id for node in ast.walk(forward) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)
        }
        added = [line for node in scope.nodes if (line := _line_of_doubling(node))]
        for target, _ in scope.assignments:
            if isinstance(target, ast.Name) and _RESIDUALS.fullmatch(target.id) and target.id not in read:
                yield Pattern(UNREAD, added[0] if len(added) == 1 else target.lineno, (target.id,))


def _line_of_doubling(node: ast.AST) -> int:
    """The line of a statement or an expression that adds a variable to itself; 0 if it does not."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        parts: tuple[ast.expr, ast.expr] = (node.target, node.value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = (node.left, node.right)
    else:
        return 0
    first, second = parts
    is_same = isinstance(first, ast.Name) and isinstance(second, ast.Name) and first.id == second.id
    return node.lineno if is_same else 0
