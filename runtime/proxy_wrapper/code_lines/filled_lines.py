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
_ZEROS: Final = frozenset({"zeros_", "zero_", "zeros", "zeros_like", "new_zeros", "constant_", "fill_"})


class FilledLines:
    """Finds the line where a class's code fills tensors; the code of each class is read once."""

    def __init__(self, is_followed: Callable[[CodeType], bool]) -> None:
        """Follow functions whose code `is_followed` accepts as the program's."""
        self._is_followed = is_followed
        self._known: dict[tuple[CodeType, str], AssignedLine | None] = {}

    def find(self, owner: type) -> AssignedLine | None:
        """The only line that fills a tensor with one number when an object is created; None if not exactly one.

        `zeros_` does not count, because biases are often filled with zeros.
        """
        return self._found(owner, "")

    def find_zeros(self, owner: type, attribute: str) -> AssignedLine | None:
        """The last line that names an attribute and fills a tensor with zeros when an object is created, or None."""
        return self._found(owner, attribute)

    def _found(self, owner: type, attribute: str) -> AssignedLine | None:
        function = owner.__init__  # type: ignore[misc]
        if type(function) is not FunctionType or not self._is_followed(function.__code__):
            return None
        key = (function.__code__, attribute)
        if key not in self._known:
            self._known[key] = self._read(function, attribute)
        return self._known[key]

    def _read(self, function: FunctionType, attribute: str) -> AssignedLine | None:
        filling = _ZEROS if attribute else _FILLS
        found: dict[AssignedLine, None] = {}
        for called in reachable(body_of_function(function), self._is_followed):
            names = named_instructions(called.body.code)
            naming = {each.line for each in names if not attribute or each.name == f".{attribute}"}
            for each in names:
                is_filled = each.name.removeprefix(".") in filling and not each.is_store
                if is_filled and each.line in naming:
                    found[AssignedLine(called.body.code, each.line)] = None
        return list(found)[-1] if (attribute and found) or len(found) == 1 else None
