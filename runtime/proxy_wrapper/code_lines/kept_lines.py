"""Finds the line that keeps a loss after its backward pass, as in `total += loss` or `losses.append(loss)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.computed_lines import loss_variable
from proxy_wrapper.program_code.syntax import last_name, nodes_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, FrameType

_MOST_CALLERS: Final = 4
_WITH_GRAPH: Final = frozenset(
    {"clone", "cpu", "cuda", "double", "float", "mean", "reshape", "squeeze", "stack", "sum", "to", "unsqueeze", "view"}
)
"""Functions and methods of tensors whose result still has the graph."""
_USES: Final = frozenset({"backward", "print", "scale", "step"})
"""Functions that use a loss and keep nothing of it."""


def kept_line(
    frame: FrameType, syntax_of: Callable[[CodeType], ast.FunctionDef | ast.Module | None]
) -> AssignedLine | None:
    """The only line that keeps the loss which the current line of `frame` differentiates; else where it is assigned.

    If a function returns the loss, its callers are searched likewise. None if nothing is known of the loss.
    """
    assigned = loss_variable(frame)
    names = set() if assigned is None else {assigned.name}
    at: FrameType | None = frame
    for _ in range(_MOST_CALLERS):
        syntax = None if at is None else syntax_of(at.f_code)
        if at is None or syntax is None or not names:
            break
        nodes = nodes_within(syntax)
        lines = {line for name in names for line in _keeping(nodes, name)}
        if lines:
            return AssignedLine(at.f_code, lines.pop()) if len(lines) == 1 else assigned
        returns = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
        if not any(_has_graph(value, name) for value in returns for name in names):
            break
        at = at.f_back
        names = set() if at is None else _results(syntax_of(at.f_code), at.f_lineno)
    return assigned


def _results(syntax: ast.AST | None, line: int) -> set[str]:
    """The names of the variables to which a line assigns the result of a call."""
    for node in [] if syntax is None else nodes_within(syntax):
        if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or 0):
            targets = [part for target in node.targets for part in ast.walk(target)]
            return {part.id for part in targets if isinstance(part, ast.Name)}
    return set()


def _keeping(nodes: Sequence[ast.AST], name: str) -> Iterator[int]:
    """The lines that add a variable to another one, or pass it to a method for its effect, with its graph."""
    for node in nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            is_kept = ast.unparse(node.target) != name and _has_graph(node.value, name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            targets = {ast.unparse(target) for target in node.targets}
            read = {ast.unparse(part) for part in ast.walk(node.value) if isinstance(part, (ast.Name, ast.Attribute))}
            is_kept = name not in targets and bool(targets & read) and _has_graph(node.value, name)
        elif isinstance(node, ast.Assign):
            is_item = any(isinstance(target, ast.Subscript) for target in node.targets)
            is_kept = is_item and _has_graph(node.value, name)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            given = [*node.value.args, *(each.value for each in node.value.keywords)]
            is_method = isinstance(node.value.func, ast.Attribute) and node.value.func.attr not in _USES
            is_kept = is_method and any(_has_graph(each, name) for each in given)
        else:
            continue
        if is_kept and isinstance(node, ast.stmt):
            yield node.lineno


def _has_graph(expr: ast.expr, name: str) -> bool:
    """Whether the value of an expression contains a variable with its graph: `loss * n`, not `loss.item()`."""
    if isinstance(expr, ast.Name):
        return expr.id == name
    if isinstance(expr, ast.Call):
        is_method = isinstance(expr.func, ast.Attribute) and _has_graph(expr.func.value, name)
        return last_name(expr.func) in _WITH_GRAPH and (is_method or any(_has_graph(each, name) for each in expr.args))
    parts: list[ast.expr | None] = []
    if isinstance(expr, ast.BinOp):
        parts = [expr.left, expr.right]
    elif isinstance(expr, (ast.Tuple, ast.List)):
        parts = [*expr.elts]
    elif isinstance(expr, ast.Dict):
        parts = [*expr.values]
    elif isinstance(expr, ast.UnaryOp):
        parts = [expr.operand]
    return any(part is not None and _has_graph(part, name) for part in parts)
