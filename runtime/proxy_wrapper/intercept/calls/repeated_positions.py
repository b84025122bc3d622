"""Detects positions that a module counts in half precision, where neighbours are equal.

In the first calls of each module in training mode, the code of its `forward` is evaluated with its arguments, as far as
that needs no call: `torch.arange(x.size(1), dtype=x.dtype)`. The tables that the module keeps are read, too.
"""

from __future__ import annotations

import ast
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.code_lines.half_ranges import POSITIONS, half_ranges, range_lines
from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import body_of, body_of_function, reachable
from proxy_wrapper.program_code.known_expressions import KnownExpressions, bound_arguments
from proxy_wrapper.program_code.outermost_calls import value_of_name
from proxy_wrapper.program_code.syntax import Scope, certain_nodes
from proxy_wrapper.values.describe import PLAIN, find_tensors
from proxy_wrapper.values.repeated_rows import repeated_rows
from proxy_wrapper.values.statistics import has_values, unobserved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType

    import torch
    from torch import nn

    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.program_code.called_functions import Body
    from proxy_wrapper.tracer import Tracer

REPEATED: Final = "positions-repeat"

_DEEPEST: Final = 2


class _Found(NamedTuple):
    """Positions that repeat: the line that counts them, how many there are, and up to where neighbours differ."""

    made: int
    total: int
    exact: int


class RepeatedPositions:
    """Creates `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._scopes: dict[CodeType, Scope | None] = {}
        self._reported: set[type] = set()

    def look(
        self, entry: ModuleEntry, args: Any, kwargs: Mapping[str, Any], location: int, thread: ThreadState
    ) -> None:
        """Examine a module after a call with these arguments."""
        module = entry.module()
        body = None if module is None else body_of(getattr(type(module), "forward", None))
        if module is None or body is None or type(module) in self._reported:
            return
        tracer = self._tracer
        if not tracer.locator.is_user_code(body.code):
            return
        with unobserved() as readable:
            found = next(self._counted(body, (module, *args), kwargs, 0), None) if readable else None
            given = filter(has_values, find_tensors((*args, *kwargs.values())))  # Others may have no shape.
            longest = max((size for each in given for size in each.shape), default=0)
            found = found or (self._kept(module, body, longest) if readable else None)
        if found is None:
            return
        self._reported.add(type(module))
        event = GraphPattern(
            *(tracer.now_us(), tracer.step, entry.id, location, thread.number, thread.stage, REPEATED),
            dim=found.exact,
            shape=(found.total,),
            made=found.made,
        )
        tracer.broadcast(event, location, level=INFO, also=(found.made,))

    def _counted(self, body: Body, args: tuple[Any, ...], kwargs: Mapping[str, Any], depth: int) -> Iterator[_Found]:
        """The positions that a function surely counts when it is called so, or that those count that it calls."""
        scope = self._scope_of(body)
        if scope is None:
            return
        known = KnownExpressions(scope, bound_arguments(scope, args, kwargs), body.names)
        for each in half_ranges(scope, known):
            yield _Found(self._tracer.locator.line(AssignedLine(body.code, each.line)), each.total, each.exact)
        for call in certain_nodes(scope) if depth < _DEEPEST else ():
            if not isinstance(call, ast.Call) or any(isinstance(each, ast.Starred) for each in call.args):
                continue
            called = _called(call, body, args)
            if called is not None:
                bound = args[:1] if isinstance(call.func, ast.Attribute) else ()
                given = tuple(known.value_of(each) for each in call.args)
                words = {each.arg: known.value_of(each.value) for each in call.keywords if each.arg is not None}
                yield from self._counted(called, (*bound, *given), words, depth + 1)

    def _kept(self, module: nn.Module, forward: Body, longest: int) -> _Found | None:
        """Rows that repeat in a table that a module keeps, if a sequence as long as `longest` reads some of them."""
        for name, table in (*module._buffers.items(), *vars(module).items()):
            if type(table) not in PLAIN or not has_values(table):
                continue
            rows = repeated_rows(table) if POSITIONS.search(name) or _is_table(table) else None
            if rows is not None and longest > rows.exact + 1:
                return _Found(self._line_of_range(type(module), forward), *rows)
        return None

    def _line_of_range(self, owner: type, forward: Body) -> int:
        """The location of the only line in the code of a class that counts in another type; 0 if there are several."""
        tracer = self._tracer
        bodies = [forward, *(body for each in vars(owner).values() if (body := body_of(each)) is not None)]
        found: dict[tuple[str, int], AssignedLine] = {}
        for body in bodies:
            for called in reachable(body, tracer.locator.is_user_code):
                scope = self._scope_of(called.body)
                for line in () if scope is None else range_lines(scope):
                    code = called.body.code
                    found.setdefault((code.co_filename, line), AssignedLine(code, line))
        return tracer.locator.line(next(iter(found.values()))) if len(found) == 1 else 0

    def _scope_of(self, body: Body) -> Scope | None:
        """The syntax of a function of the program that may count; None for others."""
        if body.code not in self._scopes:
            is_read = self._tracer.locator.is_user_code(body.code)
            syntax = self._tracer.functions.find(body.code) if is_read else None
            self._scopes[body.code] = None if syntax is None else Scope(syntax)
        return self._scopes[body.code]


def _called(call: ast.Call, body: Body, args: tuple[Any, ...]) -> Body | None:
    """The function of the program that a call runs: a global one, or a method of the module that is the first argument.

    Other functions, and modules, are left out.
    """
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and args:
        is_own = call.func.value.id == body.code.co_varnames[0]
        method = inspect.getattr_static(type(args[0]), call.func.attr, None) if is_own else None
        return body_of_function(method) if type(method) is FunctionType else None
    value = value_of_name(call.func, body) if isinstance(call.func, ast.Name) else None
    return body_of_function(value) if type(value) is FunctionType else None


def _is_table(tensor: torch.Tensor) -> bool:
    """Whether a tensor has more than one dimension."""
    return sum(size > 1 for size in tensor.shape) > 1
