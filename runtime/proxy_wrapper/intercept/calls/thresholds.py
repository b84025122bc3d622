"""Detects that a program compares the output of a model with 0.5. The code of each call of a model is read once."""

from __future__ import annotations

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
from proxy_wrapper.program_code.called_functions import body_at, body_of, called_by, reachable

if TYPE_CHECKING:
    import ast
    from types import CodeType, FrameType

    from proxy_wrapper.intercept.calls.callers import Caller
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

_LOSS_LAYER: Final = nn.BCEWithLogitsLoss
_LOSS_FUNCTION: Final = torch.nn.functional.binary_cross_entropy_with_logits
_EXPONENTIALS: Final = frozenset({"exp", "expit", "logsigmoid"})
"""Functions that may be part of a handwritten sigmoid."""
_PROBABILITY_LAYERS: Final = (nn.Sigmoid, nn.Softmax, nn.LogSoftmax, nn.LogSigmoid, nn.Hardsigmoid)


class Thresholds:
    """Creates `GraphPattern` events from the code that calls outermost modules."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def look(self, caller: Caller, entry: ModuleEntry, location: int, thread: ThreadState) -> None:
        """Read the code that calls an outermost module."""
        tracer = self._tracer
        codes: dict[int, CodeType] = {}

        def followed(expression: ast.expr) -> ast.FunctionDef | None:
            called = body_of(caller.value_of(expression))
            if called is None or not tracer.locator.is_user_code(called.code):
                return None
            syntax = tracer.functions.find(called.code)
            if syntax is not None:
                codes.update(dict.fromkeys(range(syntax.lineno, (syntax.end_lineno or 0) + 1), called.code))
            return syntax

        found = threshold_of_call(
            caller.function,
            caller.line,
            caller.is_module,
            lambda each: _is_loss(caller.value_of(each)),
            followed,
        )
        if found is None or not (found.has_loss or self._returns_scores(entry, caller.module)):
            return
        made = tracer.locator.line(AssignedLine(codes.get(found.line, caller.body.code), found.line))
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
            body = body_of(function)
            if body is not None and is_user_code(body.code):
                bodies = [each.body for each in reachable(body, is_user_code)]
                has_exponential = any(not _EXPONENTIALS.isdisjoint(body.code.co_names) for body in bodies)
                if has_exponential or any(True for _ in probability_lines(bodies)):
                    return False
        return forward_of(entry) is not None


def may_compare(frame: FrameType) -> bool:
    """Whether the function that a frame runs, or one that it can call by name, contains the constant 0.5."""
    body = body_at(frame)
    return any(HALF in each.co_consts for each in (body.code, *(called.body.code for called in called_by(body))))


def _is_loss(value: Any) -> bool:
    """Whether a value is PyTorch's binary cross entropy with logits, as a layer or as a function."""
    return type(value) is _LOSS_LAYER or value is _LOSS_FUNCTION
