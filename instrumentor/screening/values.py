"""The expressions from which the value of an expression may come."""

from __future__ import annotations

import ast


def arguments_of(node: ast.Call) -> list[ast.expr]:
    """The arguments of a call."""
    return [*node.args, *(each.value for each in node.keywords)]


def choices_of(value: ast.AST) -> list[ast.expr]:
    """The alternatives of which an expression's value is one."""
    if isinstance(value, ast.IfExp):
        return [value.body, value.orelse]
    if isinstance(value, ast.BoolOp):
        return value.values
    return [value.value] if isinstance(value, (ast.NamedExpr, ast.Starred, ast.Await)) else []


def elements_of(display: ast.AST) -> list[ast.expr]:
    """The elements of a container display or comprehension."""
    if isinstance(display, ast.Dict):
        return display.values
    if isinstance(display, ast.DictComp):
        return [display.value]
    if isinstance(display, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return [display.elt]
    return display.elts if isinstance(display, (ast.List, ast.Tuple, ast.Set)) else []
