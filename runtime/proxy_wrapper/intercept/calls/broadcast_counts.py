"""Detects that a program counts how often the outputs of a model equal labels, where the shapes do not fit.

`[n, 1] == [n]` compares each output with every label, and the index of the largest of a single score is always 0. The
code of each call of a model is read once, and the shapes are those of the labels at that call and of its output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from proxy_wrapper.code_lines.compared_outputs import compared_output
from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.imported_modules import modules_among
from proxy_wrapper.values.torch_functions import dimensions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType

    from proxy_wrapper.intercept.calls.callers import Caller
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

BROADCAST: Final = "count-broadcasts"
OF_ONE: Final = "index-of-one-score"

_COUNTS: Final = frozenset({"sum", "mean", "count_nonzero"})


class _Labels(NamedTuple):
    """Labels with which an output will be compared: their shape, where, and whether its indices will."""

    shape: tuple[int, ...]
    code: CodeType
    line: int
    is_index: bool


class BroadcastCounts:
    """Creates `GraphPattern` events from the code that calls outermost modules.

    Attributes:
        pending: the labels of calls that have not returned yet, by the module's number and the location of the call.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.pending: dict[tuple[int, int], _Labels] = {}

    def begin(self, caller: Caller, entry: ModuleEntry, location: int) -> None:
        """Read the code that calls an outermost module, before the call."""
        compared = compared_output(caller.function, caller.line, caller.is_module, modules_among(caller.body.names))
        labels = None if compared is None else caller.body.values.get(compared.variable)
        if compared is not None and type(labels) is torch.Tensor and _selects(caller.body.values, compared.mask):
            shape = tuple(labels.shape)
            self.pending[entry.id, location] = _Labels(shape, caller.body.code, compared.line, compared.is_index)

    def end(self, entry: ModuleEntry, location: int, outputs: Sequence[torch.Tensor], thread: ThreadState) -> None:
        """Compare the shapes when such a call returns."""
        labels = self.pending.pop((entry.id, location), None)
        if labels is None or len(outputs) != 1 or type(outputs[0]) is not torch.Tensor:
            return
        shape = tuple(outputs[0].shape)
        is_of_one = labels.is_index and len(shape) == len(("samples", "classes")) and shape[0] > 1 == shape[1]
        is_broadcast = _are_all_compared(_without_classes(shape) if labels.is_index else shape, labels.shape)
        if not (is_of_one or is_broadcast):
            return
        tracer = self._tracer
        made = tracer.locator.line(AssignedLine(labels.code, labels.line))
        event = GraphPattern(
            tracer.now_us(),
            tracer.step,
            entry.id,
            location,
            thread.number,
            thread.stage,
            OF_ONE if is_of_one else BROADCAST,
            shape=shape,
            values=[float(size) for size in labels.shape],
            made=made,
        )
        tracer.broadcast(event, location, level=INFO, also=(made,))


def _selects(values: Mapping[str, object], mask: str) -> bool:
    """Whether a variable selects rows; "" selects them all."""
    selecting = values.get(mask)
    return not mask or (type(selecting) is torch.Tensor and dimensions(selecting) == 1)


def may_count(code: CodeType) -> bool:
    """Whether a function mentions what counts or averages."""
    return not _COUNTS.isdisjoint(code.co_names)


def _without_classes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the indices of the largest score of each row."""
    return shape[:1] if len(shape) == 2 else ()


def _are_all_compared(output: tuple[int, ...], labels: tuple[int, ...]) -> bool:
    """Whether each of several outputs is compared with each label: one shape is [n], the other [n, 1]."""
    short, longer = sorted((output, labels), key=len)
    return len(short) == 1 and short[0] > 1 and longer == (short[0], 1)
