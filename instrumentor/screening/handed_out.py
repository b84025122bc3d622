"""Models that functions make for their callers. The callers, in other files, wrap them, so nothing is wrapped here."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.only_returned import function_returning, is_public
from instrumentor.resolve.units import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.resolve.units import Unit
    from instrumentor.screening.names import Names


class HandedOut:
    """Decides whether everything that some calls make only leaves the file as the result of their functions.

    Args:
        unit: the script.
        names: the meanings of the script's names.
        calls: all calls outside module classes.
        wraps_factories: whether public functions may put their result under a proxy.
    """

    def __init__(self, unit: Unit, names: Names, calls: Iterable[ast.Call], *, wraps_factories: bool) -> None:
        self._wraps_factories = wraps_factories
        self._unit = unit
        self._names = names
        self._calls = list(calls)

    def covers(self, makers: Iterable[ast.Call]) -> bool:
        """Whether each of these calls only gives its function's result, for callers in this file as well."""
        pending, seen = list(makers), set()
        while pending:
            node = pending.pop()
            function = function_returning(self._unit, node, self._names.meaning)
            if function is None or (self._wraps_factories and is_public(self._unit, function)):
                return False
            if function not in seen:
                seen.add(function)
                if self._is_read_otherwise(function):
                    return False
                pending.extend(each for each in self._calls if self._called(each) is function)
        return True

    def _called(self, node: ast.Call) -> ast.AST | None:
        meaning = self._names.meaning(node.func)
        return meaning.node if isinstance(meaning, Function) else None

    def _is_read_otherwise(self, function: ast.FunctionDef) -> bool:
        """Whether a function's name is used for anything but calls of it."""
        return any(
            isinstance(node, ast.Name)
            and node.id == function.name
            and not (isinstance(above := self._unit.parents[node], ast.Call) and above.func is node)
            for node in self._unit.parents
        )
