"""Detects that a program compares the output of a model with 0.5. The code of each call of a model is read once."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from proxy_wrapper.code_lines.named_lines import probability_lines
from proxy_wrapper.code_lines.thresholds import HALF, threshold_of_call
from proxy_wrapper.events import GraphPattern
from proxy_wrapper.intercept.loss.losses import forward_of
from proxy_wrapper.known.module_tree import named_modules
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import Body, body_of, reachable
from proxy_wrapper.program_code.frame_variables import values_of
from proxy_wrapper.program_code.outermost_calls import value_of_name

if TYPE_CHECKING:
    import ast
    from types import CodeType

    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

_MOST_PLACES: Final = 1000
_LOSS_LAYER: Final = nn.BCEWithLogitsLoss
_LOSS_FUNCTION: Final = torch.nn.functional.binary_cross_entropy_with_logits
_EXPONENTIALS: Final = frozenset({"exp", "expit", "logsigmoid"})
"""Functions that may be part of a handwritten sigmoid."""
_PROBABILITY_LAYERS: Final = (nn.Sigmoid, nn.Softmax, nn.LogSoftmax, nn.LogSigmoid, nn.Hardsigmoid)


class Thresholds:
    """Creates `GraphPattern` events from the code that calls outermost modules."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._places: set[int] = set()

    def look(self, entry: ModuleEntry, location: int, thread: ThreadState) -> None:
        """Read the code that calls an outermost module, at the first call at each location."""
        if location in self._places or len(self._places) >= _MOST_PLACES:
            return
        self._places.add(location)
        tracer = self._tracer
        frame = tracer.locator.user_frame(is_ending=True)
        if frame is None or not _may_compare(frame.f_code, frame.f_globals):
            return
        function = tracer.functions.find_any(frame.f_code)
        module = entry.module()
        if function is None or module is None:
            return
        body = Body(frame.f_code, frame.f_globals, values_of(frame))
        codes: dict[int, CodeType] = {}

        def evaluate(expression: ast.expr) -> Any:
            return value_of_name(expression, body)

        def followed(expression: ast.expr) -> ast.FunctionDef | None:
            called = body_of(evaluate(expression))
            if called is None or not tracer.locator.is_user_code(called.code):
                return None
            syntax = tracer.functions.find(called.code)
            if syntax is not None:
                codes.update(dict.fromkeys(range(syntax.lineno, (syntax.end_lineno or 0) + 1), called.code))
            return syntax

        found = threshold_of_call(
            function,
            frame.f_lineno,
            lambda each: evaluate(each) is module,
            lambda each: _is_loss(evaluate(each)),
            followed,
        )
        if found is None or not (found.has_loss or self._returns_scores(entry, module)):
            return
        made = tracer.locator.line(AssignedLine(codes.get(found.line, frame.f_code), found.line))
        values = (float(found.has_loss),)
        event = GraphPattern(
            tracer.now_us(),
            tracer.step,
            entry.id,
            location,
            thread.number,
            thread.stage,
            "half-threshold",
            values=values,
            made=made,
        )
        tracer.broadcast(event, location, level=INFO, also=(made,))

    def _returns_scores(self, entry: ModuleEntry, module: nn.Module) -> bool:
        """Whether neither the code nor the layers of a model turn scores into probabilities."""
        is_user_code = self._tracer.locator.is_user_code
        for below in named_modules(module, ""):
            if isinstance(below.module, _PROBABILITY_LAYERS):
                return False
            function: Any = getattr(type(below.module), "forward", None)
            if type(function) is FunctionType and is_user_code(function.__code__):
                bodies = [each.body for each in reachable(Body(function.__code__, function.__globals__), is_user_code)]
                has_exponential = any(not _EXPONENTIALS.isdisjoint(body.code.co_names) for body in bodies)
                if has_exponential or any(True for _ in probability_lines(bodies)):
                    return False
        return forward_of(entry) is not None


def _may_compare(code: CodeType, names: dict[str, Any]) -> bool:
    """Whether a function, or one that it can call by a global name, contains the constant 0.5."""
    if HALF in code.co_consts:
        return True
    called = (names.get(name) for name in code.co_names)
    return any(type(each) is FunctionType and HALF in each.__code__.co_consts for each in called)


def _is_loss(value: Any) -> bool:
    """Whether a value is PyTorch's binary cross entropy with logits, as a layer or as a function."""
    return type(value) is _LOSS_LAYER or value is _LOSS_FUNCTION
