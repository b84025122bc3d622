"""Stores by name: `globals()["model"] = ...`, `vars(trainer).update(...)`, `trainer.__dict__["model"] = ...`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.spelling import text_of
from instrumentor.analysis.values import NOTHING, Named, Value, join, value

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.members import Members
    from instrumentor.analysis.object_stores import ObjectStores
    from instrumentor.analysis.scope import Scope

    # Evaluates an expression.
    Evaluate = Callable[[ast.expr], Value]

_OF_FILES = value(Named("builtins.globals"), Named("builtins.locals"), Named("builtins.vars"))
_VARS = value(Named("builtins.vars"))
# Methods that change a namespace.
_STORING_METHODS = frozenset({"update", "setdefault", "__setitem__"})


class Namespaces:
    """Stores into the names of a file or the attributes of objects by way of their dicts.

    Args:
        scope: the visited scope.
        stores: performs the stores.
        members: gives the contents of dicts that are merged.
    """

    def __init__(self, scope: Scope, stores: ObjectStores, members: Members) -> None:
        self._scope = scope
        self._stores = stores
        self._members = members

    def store(self, target: ast.Subscript, held: Value, evaluate: Evaluate) -> bool:
        """Store a value into a namespace; False if the target is no element of one."""
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        name = key if isinstance(key, str) else None
        if _is_of_file(target.value, evaluate):
            self._stores.set_global(name, held)
            return True
        holder = _holder(target.value, evaluate)
        if holder is not None:
            things = self._scope.kinds.things(evaluate(holder))
            self._stores.set_attribute(things, name, held, target, text_of(holder))
        return holder is not None

    def call(self, node: ast.Call, method: ast.Attribute, arguments: Arguments, evaluate: Evaluate) -> None:
        """Evaluate a method call that changes a namespace. Other calls are ignored."""
        if method.attr not in _STORING_METHODS:
            return
        given = join([arguments.all(), self._members.elements(arguments.all())])
        if _is_of_file(method.value, evaluate):
            self._stores.set_global(None, given)
        elif (holder := _holder(method.value, evaluate)) is not None:
            things = self._scope.kinds.things(evaluate(holder))
            self._stores.set_attribute(things, None, given, node, text_of(holder))


def _is_of_file(node: ast.expr, evaluate: Evaluate) -> bool:
    """Whether an expression is `globals()`, or another call that returns the names of the file."""
    makers = _makers(node, evaluate) if isinstance(node, ast.Call) and not node.args else NOTHING
    return bool(makers) and makers <= _OF_FILES


def _holder(node: ast.expr, evaluate: Evaluate) -> ast.expr | None:
    """The object whose attribute dict an expression returns: `model.__dict__`, `vars(model)`; None otherwise."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return node.value
    is_vars = isinstance(node, ast.Call) and len(node.args) == 1 and _makers(node, evaluate) == _VARS
    return node.args[0] if is_vars else None  # type: ignore[attr-defined]


def _makers(node: ast.Call, evaluate: Evaluate) -> Value:
    return evaluate(node.func) if isinstance(node.func, ast.Name) else NOTHING
