"""Reads what a sum over the batches of a loop is divided by."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from proxy_wrapper.program_code.syntax import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope


class Division(NamedTuple):
    """A division of sums: its line, the sums among what is divided, and the divisor."""

    line: int
    sums: tuple[str, ...]
    divisor: ast.expr


def divisions_after(sums: list[str], loop: ast.For | ast.AsyncFor, scope: Scope) -> Iterator[Division]:
    """The divisions after a loop of sums that it has made, unless the result is divided or multiplied once more.

    The divisor is the value of a variable, if that is assigned once.
    """
    end = loop.end_lineno or loop.lineno
    rescaled = _rescaled(scope)
    for node in scope.nodes:
        if not isinstance(node, (ast.BinOp, ast.AugAssign)) or not isinstance(node.op, ast.Div) or node.lineno <= end:
            continue
        if isinstance(node, ast.BinOp):
            divided, divisor = node.left, node.right
            read = names_in(divided)
        else:
            divided, divisor = node.target, node.value
            read = {divided.id} if isinstance(divided, ast.Name) else set()
        names = tuple(name for name in sums if name in read)
        is_same = not any(scope.is_stored_between(name, end, node.lineno) for name in names)
        if names and is_same and id(node) not in rescaled:
            yield Division(node.lineno, names, _value_of(divisor, scope))


def _rescaled(scope: Scope) -> set[int]:
    """The operands, by `id`, that are divided or multiplied by something else than a constant."""
    found: set[int] = set()
    for node in scope.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            if not isinstance(node.right, ast.Constant):
                found.add(id(node.left))
            if not isinstance(node.left, ast.Constant):
                found.add(id(node.right))
    return found


def _value_of(divisor: ast.expr, scope: Scope) -> ast.expr:
    """What a variable is assigned, if it is assigned once; `float(...)` is taken off."""
    if isinstance(divisor, ast.Name):
        values = [each.value for each in scope.assignments if ast.unparse(each.target) == divisor.id]
        if len(values) == 1 and len(scope.stores(divisor.id)) == 1:
            divisor = values[0]
    is_float = isinstance(divisor, ast.Call) and isinstance(divisor.func, ast.Name) and divisor.func.id == "float"
    return divisor.args[0] if is_float and isinstance(divisor, ast.Call) and divisor.args else divisor
