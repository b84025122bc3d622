"""Methods that run without a visible call: those of operators, and those that a base class calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import decorator_names, is_property
from instrumentor.analysis.environment import ANY_ELEMENT
from instrumentor.analysis.values import FOREIGN, Instance
from instrumentor.resolve.unit import ACCESSORS
from instrumentor.source.nodes import walk

if TYPE_CHECKING:
    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import Class, Function

# Special methods whose calls are visible.
_FOLLOWED = frozenset({"__call__", "__init__"})


def is_called_unseen(hierarchy: Hierarchy, function: Function) -> bool:
    """Whether Python calls a method itself, for an operator or the like, or an unseen base class may call it."""
    name = function.node.name if isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
    if function.owner is None or name == "__init__":
        return False
    bases = hierarchy.library_bases(function.owner)
    if any(base is None or not base.startswith("builtins.") or base == "builtins.type" for base in bases):
        return True
    return is_special(name) or is_property(function) or not ACCESSORS.isdisjoint(decorator_names(function))


def is_special(name: str) -> bool:
    """Whether Python calls functions of this name itself; `__call__` and `__init__` are followed like others."""
    return name.startswith("__") and name.endswith("__") and name not in _FOLLOWED


def note_instance(facts: Facts, hierarchy: Hierarchy, cls: Class) -> None:
    """Record an instance of another file's class, and the effects of methods that run without a visible call.

    The methods are visited once something calls them. Before that, attributes may already hold what they store.
    """
    if cls.unit.name in facts.whole_units or cls.key in facts.constructed:
        return
    facts.constructed.add(cls.key)
    for method, steps in _changed_unseen(hierarchy, cls).items():
        facts.touched.note(method, {("", step) for step in steps})
        facts.touched.note_running_unseen(method)
        for step in steps - {ANY_ELEMENT}:
            facts.grow(facts.attributes, (Instance(cls.key), step.removeprefix(".")), FOREIGN)


def _changed_unseen(hierarchy: Hierarchy, cls: Class) -> dict[str, set[str]]:
    """The path steps that each method called without a visible call changes, by the method's key.

    Only those in its own text, not in that of its callees.
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
