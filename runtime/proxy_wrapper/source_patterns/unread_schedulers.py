"""Finds out whether a program ever uses a scheduler of learning rates after it has created it.

scheduler = StepLR(optimizer, step_size=10)     # and no `scheduler.step()` anywhere
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

UNREAD: Final = "scheduler-unread"

_LOOKED_UP: Final = frozenset({"locals", "globals", "vars", "eval", "exec"})
"""Functions that read variables without naming them."""
_PASSIVE: Final = frozenset({"get_last_lr", "get_lr", "state_dict", "load_state_dict", "last_epoch", "base_lrs"})
"""The attributes of a scheduler that do not advance it."""


def unread_scheduler(tree: ast.Module, line: int) -> str:
    """The variable that keeps the scheduler created at a line of a file, if nothing advances it; else "".

    Nothing in the file reads a variable of this name, except for the rate or to save the scheduler's state. An
    attribute is not judged, as code of other files may read it.
    """
    nodes = list(ast.walk(tree))
    assigned = [node for node in nodes if isinstance(node, (ast.Assign, ast.AnnAssign)) and _spans(node, line)]
    targets = [target for node in assigned for target in _targets(node)]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        return ""
    name = targets[0].id
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in nodes):
        return ""
    if any(_reads_unnamed(node, name) for node in nodes):
        return ""
    passive = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in _PASSIVE}
    variables = (node for node in nodes if isinstance(node, ast.Name) and node.id == name)
    is_read = any(isinstance(node.ctx, ast.Load) and id(node) not in passive for node in variables)
    return "" if is_read else name


def _spans(node: ast.Assign | ast.AnnAssign, line: int) -> bool:
    """Whether an assignment of a call covers a line."""
    return isinstance(node.value, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _targets(node: ast.Assign | ast.AnnAssign) -> Iterator[ast.expr]:
    yield from node.targets if isinstance(node, ast.Assign) else [node.target]


def _reads_unnamed(node: ast.AST, name: str) -> bool:
    """Whether a node may read a variable in another way than by its name as an expression."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LOOKED_UP:
        return True
    return isinstance(node, ast.Constant) and node.value == name
