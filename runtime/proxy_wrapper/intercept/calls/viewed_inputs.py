"""Reports inputs of outermost modules that are views with the sizes of the data in another order."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from proxy_wrapper.code_lines.view_lines import view_lines
from proxy_wrapper.events import SourcePattern
from proxy_wrapper.intercept.loss.losses import forward_of
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import bodies_around
from proxy_wrapper.source_patterns.permuted_sizes import PERMUTED
from proxy_wrapper.source_patterns.reshaped_inputs import is_permuted_view, reshaped_inputs
from proxy_wrapper.values.statistics import has_values, unobserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer


class ViewedInputs:
    """Creates `SourcePattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def look(self, entry: ModuleEntry, args: Sequence[Any], location: int, thread: ThreadState) -> None:
        """Compare the sizes of the first call's arguments with those of what they are views of, or are viewed as."""
        tracer = self._tracer
        with unobserved() as readable:
            given = [each if readable and type(each) is torch.Tensor and has_values(each) else None for each in args]
            viewed = [
                (tuple(base.shape), tuple(each.shape))
                for each in given
                if each is not None and (base := each._base) is not None and is_permuted_view(each, base)
            ]
            shapes = [() if each is None else tuple(each.shape) for each in given]
        if viewed:
            before, after = viewed[0]
            self._emit(before[1:], after[1:], self._view_line(len(after)) or location, thread)
            return
        forward = forward_of(entry)
        syntax = None
        if forward is not None and tracer.locator.is_user_code(forward.code):
            syntax = tracer.functions.find(forward.code)
        if forward is None or syntax is None:
            return
        names = forward.code.co_varnames[1 : forward.code.co_argcount]
        by_name = dict(zip(names, shapes, strict=False))
        for each in reshaped_inputs(syntax, by_name):
            self._emit(each.before, each.after, tracer.locator.line(AssignedLine(forward.code, each.line)), thread)

    def _view_line(self, dimensions: int) -> int:
        """The location of the only line around the call that views a tensor to so many dimensions; else 0."""
        locator, functions = self._tracer.locator, self._tracer.functions
        found: dict[tuple[str, int], AssignedLine] = {}
        for body in bodies_around(sys._getframe(), locator.is_user_code):
            syntax = functions.find_any(body.code)
            for line in () if syntax is None else view_lines(syntax, dimensions):
                found.setdefault((body.code.co_filename, line), AssignedLine(body.code, line))
        return locator.line(next(iter(found.values()))) if len(found) == 1 else 0

    def _emit(self, before: Sequence[int], after: Sequence[int], made: int, thread: ThreadState) -> None:
        tracer = self._tracer
        names = [", ".join(map(str, sizes)) for sizes in (before, after)]
        event = SourcePattern(tracer.now_us(), tracer.step, 0, 0, thread.number, thread.stage, PERMUTED, names, made)
        tracer.broadcast(event, 0, level=INFO, also=(made,))
