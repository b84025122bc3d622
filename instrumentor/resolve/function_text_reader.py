"""Reads the effects of a function from its text, without following its calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.bindings import bound_by, spelling, stores
from instrumentor.resolve.function_outline import is_evidence
from instrumentor.resolve.function_text import FunctionText
from instrumentor.source.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.resolve.units import Function, Unit

# Functions that read or change variables with computed names.
_REFLECTING = frozenset({"eval", "exec", "globals", "locals", "vars"})
# Names that set attributes with computed names.
_SETTING = frozenset({"delattr", "setattr", "__delattr__", "__setattr__", "__dict__"})
# Methods that change the container on which they are called.
_CHANGING = frozenset(
    ["__setitem__", "add", "append", "appendleft", "extend", "extendleft", "insert", "setdefault", "update"]
)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)
_NEW = (ast.BinOp, ast.Constant, ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_OPEN = FunctionText(is_open=True)


def text_of(function: Function) -> FunctionText:
    """The text of a function, read once for all scripts that reach it."""
    texts = function.unit.texts
    found = texts.get(function.key)
    if found is None:
        found = texts[function.key] = _read(function)
    return found


def _read(function: Function) -> FunctionText:
    nodes = walk(function.node)
    if any(_is_open(node, function.unit) for node in nodes):
        return _OPEN
    own = _bound_in(nodes)
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    names = [node.id for node in nodes if isinstance(node, ast.Name) and node.id not in own]
    imports = function.unit.imports
    given = [imports[name].rpartition(".")[2] for name in names if name in imports]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    made = own - _names_of_others(nodes) - {each.arg for each in function.node.args.args[:1]}
    return FunctionText(
        is_open=False,
        stored=_each(node.attr for node in attributes if not isinstance(node.ctx, ast.Load)),
        sets_any=not _SETTING.isdisjoint([*names, *(node.attr for node in attributes)]),
        changes_elements=any(
            not isinstance(changed, ast.Name) or changed.id not in made for node in nodes for changed in _changed(node)
        ),
        read=_each([*names, *given, *(node.attr for node in attributes)]),
        references=tuple(_references(nodes, own, function.unit)),
        called=frozenset(called),
        methods=_each(node.attr for node in called if isinstance(node, ast.Attribute)),
    )


def _each(names: Iterable[str]) -> tuple[str, ...]:
    """The names in order, without duplicates."""
    return tuple(dict.fromkeys(names))


def _is_open(node: ast.AST, unit: Unit) -> bool:
    if isinstance(node, (ast.Global, ast.Nonlocal, ast.ClassDef)) or is_evidence(node, unit):
        return True
    return isinstance(node, ast.Name) and node.id in _REFLECTING


def _changed(node: ast.AST) -> list[ast.expr]:
    """The containers that a node changes."""
    if isinstance(node, ast.Subscript):
        return [] if isinstance(node.ctx, ast.Load) else [node.value]
    is_change = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING
    return [node.func.value] if is_change else []  # type: ignore[attr-defined]


def _bound_in(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that a function or a nested function binds."""
    return {name for node in nodes for name in bound_by(node)}


def _names_of_others(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that may alias something else, because more than new objects is stored to them."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, (ast.MatchAs, ast.MatchStar)):
            found.update(bound_by(node))
        for target, value in stores(node):
            is_new = isinstance(node, _ASSIGNMENTS) and isinstance(value, _NEW) and isinstance(target, ast.Name)
            found |= set() if is_new else _bound_in(walk(target))
    return found


def _references(nodes: list[ast.AST], own: set[str], unit: Unit) -> list[ast.expr]:
    """The full dotted names that start with no local name, where they are not only used as a type."""
    asked = {inner for node in nodes for each in _classes_asked_for(node) for inner in walk(each)}
    return [
        node
        for node in nodes
        if isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Load)
        and node not in asked
        and not isinstance(unit.parents[node], ast.Attribute)
        and spelling(node).partition(".")[0] not in {"", *own}
    ]


def _classes_asked_for(node: ast.AST) -> list[ast.expr]:
    """The expressions of a node that are only used as types, and so make no instances."""
    if isinstance(node, (ast.arg, ast.AnnAssign)):
        return [node.annotation] if node.annotation is not None else []
    if isinstance(node, _FUNCTIONS):
        return [node.returns] if node.returns is not None else []
    if isinstance(node, ast.ExceptHandler):
        return [node.type] if node.type is not None else []
    is_test = isinstance(node, ast.Call) and spelling(node.func) in ("isinstance", "issubclass")
    return node.args[1:] if is_test else []  # type: ignore[attr-defined]
