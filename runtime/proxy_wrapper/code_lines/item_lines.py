"""Finds the line of a layer in a container that is written over several lines, as those of an `nn.Sequential` are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.syntax import last_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

    from proxy_wrapper.program_code.parsed_functions import ParsedFunctions

_CONTAINERS: Final = frozenset({"ModuleList", "Sequential"})


class ItemLines:
    """Finds lines of items; each assignment is read once."""

    def __init__(self, functions: ParsedFunctions) -> None:
        self._functions = functions
        # By code and line: what is assigned there. The code is kept so that its id stays unique.
        self._values: dict[tuple[CodeType, int], ast.expr | None] = {}

    def find(self, assigned: AssignedLine, path: Sequence[str]) -> AssignedLine | None:
        """The line of an item of a container.

        Args:
            assigned: the line that assigns the container.
            path: the keys of the item, and of containers in between, from the outside.

        Returns:
            The line of the innermost item on the path that is written there; None if the container is not.
        """
        if not path or not path[0].isdigit():
            return None
        place = (assigned.code, assigned.line)
        if place not in self._values:
            self._values[place] = self._value_at(assigned)
        item = self._values[place]
        line = 0
        for key in path:
            items = _items_of(item)
            if not key.isdigit() or int(key) >= len(items):
                break
            item = items[int(key)]
            line = item.lineno
        return AssignedLine(assigned.code, line) if line else None

    def _value_at(self, assigned: AssignedLine) -> ast.expr | None:
        """What a line assigns; None if it does not assign exactly once."""
        syntax = self._functions.find(assigned.code)
        values = [
            node.value
            for node in (() if syntax is None else ast.walk(syntax))
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.lineno == assigned.line
        ]
        return values[0] if len(values) == 1 else None


def _items_of(value: ast.expr | None) -> Sequence[ast.expr]:
    """The items that are written in a call that makes a container; () if they cannot be told by their place."""
    if not isinstance(value, ast.Call) or value.keywords:
        return ()
    name = last_name(value.func)
    items: Sequence[ast.expr] = value.args if name in _CONTAINERS else ()
    if name == "ModuleList" and len(items) == 1:
        items = items[0].elts if isinstance(items[0], (ast.List, ast.Tuple)) else ()
    return () if any(isinstance(each, ast.Starred) for each in items) else items
