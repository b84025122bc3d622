"""Which functions a script has as values, besides calling them by their names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.resolve.units import Function, Unit


class PassedAround:
    """The functions that may be called by another name than their own, with anything, wherever that is.

    A function that is a value gets to its callers by many ways: exceptions, generators that are sent it, copies, what
    libraries keep. Not all of them are followed.

    Args:
        script: the script, whose text is asked besides a function's own file.
    """

    def __init__(self, script: Unit) -> None:
        self._script = script
        self._names: dict[str, frozenset[str]] = {}

    def __contains__(self, function: Function) -> bool:
        node = function.node
        if isinstance(node, ast.Lambda):
            return True
        return any(node.name in self._read_in(unit) for unit in (function.unit, self._script))

    def _read_in(self, unit: Unit) -> frozenset[str]:
        found = self._names.get(unit.name)
        if found is None:
            found = self._names[unit.name] = frozenset(_names_of_values(unit))
        return found


def _names_of_values(unit: Unit) -> Iterator[str]:
    """The names that a file reads otherwise than to call what has them, or to have something decorated by it."""
    for node, above in unit.parents.items():
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        is_called = (isinstance(above, ast.Call) and above.func is node) or isinstance(above, ast.Attribute)
        if not is_called and node not in getattr(above, "decorator_list", ()):
            yield node.id if isinstance(node, ast.Name) else node.attr
