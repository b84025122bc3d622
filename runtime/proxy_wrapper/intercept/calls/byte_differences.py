"""Detects differences of bytes that wrap around, in the code of modules and in the code that calls a model.

In the first calls, the operands are the arguments of a module, or the variables of the code that calls one, and parts
of these. None of the program's code is run.
"""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING, Any

import torch

from proxy_wrapper.events import SourcePattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import MOST_BYTES, AssignedLine
from proxy_wrapper.program_code.called_functions import body_of
from proxy_wrapper.program_code.known_expressions import KnownExpressions, bound_arguments, is_array
from proxy_wrapper.program_code.syntax import Scope, certain_nodes
from proxy_wrapper.source_patterns.unsigned_differences import UNSIGNED, wrapping_differences
from proxy_wrapper.values.statistics import has_values, is_hosted, unobserved

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Mapping
    from types import CodeType

    from proxy_wrapper.intercept.calls.callers import Caller
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer


class ByteDifferences:
    """Creates `SourcePattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._reported: set[tuple[CodeType, int]] = set()

    def look(self, entry: ModuleEntry, args: Any, kwargs: Mapping[str, Any], thread: ThreadState) -> None:
        """Examine the code of a module after a call with these arguments."""
        module = entry.module()
        if module is None or not _has_bytes((*args, *kwargs.values())):
            return
        body = body_of(getattr(type(module), "forward", None))
        tracer = self._tracer
        is_read = body is not None and tracer.locator.is_user_code(body.code)
        syntax = tracer.functions.find(body.code) if body is not None and is_read else None
        if body is not None and syntax is not None:
            scope = Scope(syntax)
            known = KnownExpressions(scope, bound_arguments(scope, (module, *args), kwargs))
            self._compare(body.code, certain_nodes(scope), known, thread)

    def look_at_caller(self, caller: Caller, thread: ThreadState) -> None:
        """Examine the code that is about to call a model."""
        values = caller.body.values
        if _has_bytes(values.values()):
            scope = Scope(caller.function)
            known = KnownExpressions(scope, {}, caller.body.names, values)
            self._compare(caller.body.code, certain_nodes(scope, caller.line), known, thread)

    def _compare(self, code: CodeType, nodes: Iterable[ast.AST], known: KnownExpressions, thread: ThreadState) -> None:
        tracer = self._tracer
        with unobserved() as readable:
            found = list(wrapping_differences(nodes, [known])) if readable else []
        for each in found:
            if (code, each.line) in self._reported:
                continue
            self._reported.add((code, each.line))
            made = tracer.locator.line(AssignedLine(code, each.line))
            event = SourcePattern(
                tracer.now_us(), tracer.step, 0, 0, thread.number, thread.stage, UNSIGNED, each.names, made
            )
            tracer.broadcast(event, 0, level=INFO, also=(made,))


def may_subtract(code: CodeType) -> bool:
    """Whether a function subtracts something."""
    if len(code.co_code) > MOST_BYTES:
        return False
    return not {"sub", "subtract"}.isdisjoint(code.co_names) or any(
        each.opname == "BINARY_SUBTRACT" or (each.opname == "BINARY_OP" and each.argrepr == "-")
        for each in dis.get_instructions(code)
    )


def _has_bytes(values: Iterable[Any]) -> bool:
    """Whether there is a tensor or an array of bytes in memory among some values."""
    return any(
        is_array(each)
        and str(each.dtype) in ("torch.uint8", "uint8")
        and (type(each) is not torch.Tensor or (has_values(each) and is_hosted(each)))
        for each in values
    )
