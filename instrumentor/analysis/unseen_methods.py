"""Methods that run where no call of them stands: those behind operators, and those that a base class calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import PROPERTIES, decorator_names
from instrumentor.analysis.environment import ANY_ELEMENT
from instrumentor.resolve.units import ACCESSORS
from instrumentor.source.nodes import walk

if TYPE_CHECKING:
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.units import Class, Function

# The special methods whose calls show.
_FOLLOWED = frozenset({"__call__", "__init__"})


def is_called_unseen(hierarchy: Hierarchy, function: Function) -> bool:
    """Whether Python itself calls a method, for an operator or the like, or a base class outside the project may."""
    name = function.node.name if isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
    if function.owner is None or name == "__init__":
        return False
    bases = hierarchy.library_bases(function.owner)
    if any(base is None or not base.startswith("builtins.") or base == "builtins.type" for base in bases):
        return True
    return is_special(name) or not (PROPERTIES | ACCESSORS).isdisjoint(decorator_names(function))


def is_special(name: str) -> bool:
    """Whether Python calls functions of a name by itself; calls of `__call__` are followed like others."""
    return name.startswith("__") and name.endswith("__") and name not in _FOLLOWED


def changed_unseen(hierarchy: Hierarchy, cls: Class) -> dict[str, set[str]]:
    """The steps through objects that each method of a class changes which is called unseen, by the method's key.

    As its text says: not what the functions change that it calls.
    """
    methods = [method for above in hierarchy.ancestors(cls) for method in above.methods.values()]
    found = {method.key: _stored_steps(method) for method in methods if is_called_unseen(hierarchy, method)}
    return {key: steps for key, steps in found.items() if steps}


def _stored_steps(method: Function) -> set[str]:
    stored = [
        node
        for node in walk(method.node)
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
    ]
    return {f".{node.attr}" if isinstance(node, ast.Attribute) else ANY_ELEMENT for node in stored}
