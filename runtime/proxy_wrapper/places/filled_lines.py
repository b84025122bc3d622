"""Finds the line by which a class fills weights with one number, in its `__init__` and what that leads to."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Final

from proxy_wrapper.places.assigned_lines import AssignedLine, named_instructions
from proxy_wrapper.places.called_functions import Body, reachable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

_FILLS: Final = frozenset({"constant_", "fill_", "ones_", "full", "full_like", "ones", "ones_like"})


class FilledLines:
    """Finds the line at which the code of a class fills tensors, and reads the code of each class once."""

    def __init__(self, is_followed: Callable[[CodeType], bool]) -> None:
        """Follow the functions whose code `is_followed` says is the program's."""
        self._is_followed = is_followed
        self._known: dict[CodeType, AssignedLine | None] = {}

    def find(self, owner: type) -> AssignedLine | None:
        """The only line that fills a tensor with one number when an object of a class is made; None if none or several.

        Biases may be filled with zeros besides: `zeros_` is no such line.
        """
        function = owner.__init__  # type: ignore[misc]
        if type(function) is not FunctionType or not self._is_followed(function.__code__):
            return None
        if function.__code__ not in self._known:
            self._known[function.__code__] = self._read(Body(function.__code__, function.__globals__))
        return self._known[function.__code__]

    def _read(self, body: Body) -> AssignedLine | None:
        found = {
            (called.body.code, each.line)
            for called in reachable(body, self._is_followed)
            for each in named_instructions(called.body.code)
            if not each.is_store and each.name.removeprefix(".") in _FILLS
        }
        return AssignedLine(*found.pop()) if len(found) == 1 else None
