"""Summarises the inputs of outermost modules in the first few calls in training, and in evaluation after these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.events import Input
from proxy_wrapper.values.describe import find_tensors
from proxy_wrapper.values.statistics import has_values, summarize, unobserved
from proxy_wrapper.values.torch_functions import is_floating_point, numel

if TYPE_CHECKING:
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

_MOST: Final = 8
"""The most tensors of one call that are summarised."""

_LARGEST: Final = 1 << 24
"""The most elements of such a tensor."""


class Inputs:
    """Creates `Input` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def look(
        self, entry: ModuleEntry, args: Any, location: int, thread: ThreadState, *, is_evaluation: bool = False
    ) -> None:
        """Record the statistics of the floating-point tensors passed to an outermost module."""
        if is_evaluation:
            entry.evaluation_looks -= 1
        else:
            entry.input_looks -= 1
        tracer = self._tracer
        with unobserved() as readable:
            if not readable:
                return
            chosen = [
                (position, tensor)
                for position, tensor in enumerate(find_tensors(args)[:_MOST])
                if has_values(tensor) and is_floating_point(tensor) and numel(tensor) <= _LARGEST
            ]
            found = summarize([tensor for _, tensor in chosen])
        for (position, tensor), statistics in zip(chosen, found, strict=True):
            type_, number = tracer.describer.describe(tensor), tracer.registry.meet(tensor)
            event = Input(
                tracer.now_us(),
                tracer.step,
                entry.id,
                location,
                thread.number,
                thread.stage,
                position,
                type_,
                number,
                statistics,  # type: ignore[arg-type]
                is_evaluation,
            )
            entry.channel.emit(event, location)
