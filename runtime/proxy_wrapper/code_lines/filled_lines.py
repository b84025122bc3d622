"""Finds the line in a class's `__init__`, or in a function it calls, that fills weights with one number."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.assigned_lines import AssignedLine, named_instructions
from proxy_wrapper.program_code.called_functions import body_of_function, reachable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

_FILLS: Final = frozenset({"constant_", "fill_", "ones_", "full", "full_like", "ones", "ones_like"})


class FilledLines:
    """Finds the line where a class's code fills tensors; the code of each class is read once."""

    def __init__(self, is_followed: Callable[[CodeType], bool]) -> None:
        """Follow functions whose code `is_followed` accepts as the program's."""
        self._is_followed = is_followed
        self._known: dict[CodeType, AssignedLine | None] = {}

    def find(self, owner: type) -> AssignedLine | None:
        """The only line that fills a tensor with one number when an object is created; None if not exactly one.

        `zeros_` does not count, because biases are often filled with zeros.
        """
        function = owner.__init__  # type: ignore[misc]
        if type(function) is not FunctionType or not self._is_followed(function.__code__):
            return None
        if function.__code__ not in self._known:
            self._known[function.__code__] = self._read(function)
        return self._known[function.__code__]

    def _read(self, function: FunctionType) -> AssignedLine | None:
        found = {
            (called.body.code, each.line)
            for called in reachable(body_of_function(function), self._is_followed)
            for each in named_instructions(called.body.code)
            if not each.is_store and each.name.removeprefix(".") in _FILLS
        }
        return AssignedLine(*found.pop()) if len(found) == 1 else None
