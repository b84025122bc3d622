"""Which functions a script uses as values, besides calling them by name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import function_around

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import Function, Unit


class PassedAround:
    """The functions that may be called from anywhere with any arguments.

    A function used as a value may reach its callers in ways that are not all followed: by exceptions, `send`, copies,
    or libraries. A function that is only bound to another name, and called by it, is not included.

    Args:
        hierarchy: resolves names.
        script: the script, whose text is searched in addition to a function's own file.
    """

    def __init__(self, hierarchy: Hierarchy, script: Unit) -> None:
        self._hierarchy = hierarchy
        self._script = script
        self._made = {function.name for function in script.function_of.values()}
        self._found: dict[Function, bool] = {}
        self._uses: dict[str, list[ast.expr]] = {}
        for each in script.parents:
            if isinstance(each, (ast.Name, ast.Attribute)):
                self._uses.setdefault(each.id if isinstance(each, ast.Name) else each.attr, []).append(each)

    def __contains__(self, function: Function) -> bool:
        found = self._found.get(function)
        if found is None:
            found = self._found[function] = self._is_passed_around(function)
        return found

    def _is_passed_around(self, function: Function) -> bool:
        node = function.node
        if isinstance(node, ast.Lambda):
            kept = self._kept(function.unit, node)
            return kept is None or self._are_values(function.unit, kept)
        return any(self._are_values(unit, (node.name,)) for unit in (function.unit, self._script))

    def _are_values(self, unit: Unit, names: Iterable[str]) -> bool:
        """Whether a file passes the value of one of some names on, directly or by other names that get it."""
        values = unit.read_as_values
        asked = list(names)
        for name in asked:
            for node in values.get(name, ()):
                kept = self._kept(unit, node)
                if kept is None:
                    return True
                asked += [each for each in kept if each not in asked]
        return False

    def _kept(self, unit: Unit, node: ast.expr) -> tuple[str, ...] | None:
        """The names that a value is bound to; empty if it is called in place; None if it may go anywhere."""
        above = unit.parents[node]
        while isinstance(above, ast.Call) and above.func is not node:
            caller = self._hierarchy.resolve(unit, above.func) if node in above.args[:1] else None
            if caller in catalogue.MAPPING:
                return ()
            if caller != "functools.partial":
                return None
            node, above = above, unit.parents[above]
        if isinstance(above, ast.Call):
            return ()
        is_made_here = isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in self._made)
        if isinstance(above, ast.Return) and is_made_here:
            return self._decorated_by(unit, above)
        is_stored = isinstance(above, ast.Assign) and not isinstance(unit.parents[above], ast.ClassDef)
        targets = above.targets if isinstance(above, ast.Assign) and is_stored else []
        names = tuple(target.id for target in targets if isinstance(target, ast.Name))
        return names if names and len(names) == len(targets) else None

    def _decorated_by(self, unit: Unit, returned: ast.Return) -> tuple[str, ...] | None:
        """The functions that a decorator's result replaces, none if that decorates in turn; None for other uses."""
        maker = function_around(unit, returned)
        if unit is not self._script or not isinstance(maker, ast.FunctionDef):
            return None
        names: list[str] = []
        uses = self._uses.get(maker.name, ())
        for node in uses:
            above = unit.parents[node]
            outer = function_around(unit, above) if isinstance(above, ast.Return) else None
            is_called = isinstance(above, ast.Call) and above.func is node
            if isinstance(outer, ast.FunctionDef):  # each call of the function around it decorates: `@timed("a")`
                calls = [(unit.parents[each], each) for each in self._uses.get(outer.name, ())]
                found = [
                    _decorated(unit, call) if getattr(call, "func", None) is each else None for call, each in calls
                ]
            else:
                found = [_decorated(unit, above if is_called else node)]
            if None in found:
                return None
            names += [] if is_called else filter(None, found)
        return tuple(names) if uses else None


def _decorated(unit: Unit, decorator: ast.AST) -> str | None:
    """The function outside of classes whose outermost decorator a name or its call is; None if there is none."""
    above = unit.parents[decorator]
    if isinstance(decorator, ast.Attribute) or isinstance(getattr(decorator, "func", None), ast.Attribute):
        return None
    if not isinstance(above, ast.FunctionDef) or decorator not in above.decorator_list[:1]:
        return None
    return None if isinstance(unit.parents[above], ast.ClassDef) else above.name
