"""Reads the code that calls outermost modules, once for each place of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.program_code.called_functions import Body
from proxy_wrapper.program_code.frame_variables import values_of
from proxy_wrapper.program_code.outermost_calls import value_of_name

if TYPE_CHECKING:
    import ast
    from types import FrameType

    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.tracer import Tracer

_MOST_PLACES: Final = 1000


class Caller(NamedTuple):
    """The code that is calling a module.

    Attributes:
        function: its syntax.
        line: the line of the call.
        body: its code and variables.
        module: the module.
    """

    function: ast.AST
    line: int
    body: Body
    module: Any

    def value_of(self, expression: ast.expr) -> Any:
        """The value of a name or of an attribute of one; `UNKNOWN` for other expressions, and if it is not known."""
        return value_of_name(expression, self.body)

    def is_module(self, expression: ast.expr) -> bool:
        """Whether an expression is the module."""
        return self.value_of(expression) is self.module


class Callers:
    """Tells new places of calls from known ones."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._places: set[int] = set()

    def frame_at(self, location: int) -> FrameType | None:
        """The frame that calls an outermost module, at the first call at each location; else None."""
        if location in self._places or len(self._places) >= _MOST_PLACES:
            return None
        self._places.add(location)
        return self._tracer.locator.user_frame(is_ending=True)

    def caller(self, frame: FrameType, entry: ModuleEntry) -> Caller | None:
        """The code of a frame that calls a module; None if its source is not known."""
        function = self._tracer.functions.find_any(frame.f_code)
        module = entry.module()
        if function is None or module is None:
            return None
        body = Body(frame.f_code, frame.f_globals, values_of(frame))
        return Caller(function, frame.f_lineno, body, module)
