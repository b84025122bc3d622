"""Finds graphs that stay in memory after their backward passes, as `total += loss` keeps those of all losses.

The node that computed a loss has a dictionary, which ends with the node. A mark in there shows whether the program
still has a tensor with that graph. Marks of passes that keep their graph, or make a graph of their own, are not set:
such a graph may yet be used.
"""

from __future__ import annotations

import gc
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.code_lines.kept_lines import kept_line
from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.tracer import Tracer

_KEPT: Final = 24
"""How many graphs of passes in a row must be in memory at once."""
_FEWEST_STEPS: Final = 8
"""The fewest optimizer steps in that time. Without, they may be the losses of one step."""
_MOST_PLACES: Final = 100
_KEY: Final = "proxy_wrapper"


class _Mark:
    """Is in memory as long as the graph of a backward pass."""

    __slots__ = ("__weakref__",)


class _Pass(NamedTuple):
    mark: weakref.ref[_Mark]
    step: int


class KeptGraphs:
    """Creates `GraphPattern` events of graphs that the program keeps."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        # The last passes by their place; None if it was reported, or is not to be.
        self._passes: dict[int, deque[_Pass] | None] = {}

    def look(self, roots: Sequence[torch.Tensor], location: int) -> None:
        """Mark the graph of a backward pass that will free it, right before it begins."""
        node = roots[0].grad_fn if len(roots) == 1 else None
        passes = self._passes.get(location)
        if passes is None:
            if node is None or location in self._passes or len(self._passes) >= _MOST_PLACES:
                return
            passes = self._passes[location] = deque()
        while passes and passes[0].mark() is None:
            passes.popleft()
        if node is None:
            return
        mark = _Mark()
        metadata: Any = node.metadata  # A dictionary, which torch's types call a method.
        metadata[_KEY] = mark
        passes.append(_Pass(weakref.ref(mark), self._tracer.step))
        if len(passes) > _KEPT:
            self._judge(passes, location)

    def _judge(self, passes: deque[_Pass], location: int) -> None:
        """Report the graphs of a place if all are in memory, else forget those until the last that is not."""
        if self._are_kept(passes) and gc.isenabled():
            gc.collect(1)  # Until then, the garbage collector may have them.
        if not self._are_kept(passes):
            last = max(index for index, each in enumerate(passes) if each.mark() is None)
            for _ in range(last + 1):
                passes.popleft()
        elif passes[-1].step - passes[0].step < _FEWEST_STEPS:
            passes.popleft()
        else:
            self._passes[location] = None
            if gc.isenabled():
                self._emit(len(passes) - 1, location)

    @staticmethod
    def _are_kept(passes: deque[_Pass]) -> bool:
        return all(each.mark() is not None for each in passes)

    def _emit(self, count: int, location: int) -> None:
        tracer = self._tracer
        thread = tracer.thread
        frame = tracer.locator.user_frame(2)
        made = 0 if frame is None else tracer.locator.line(kept_line(frame, tracer.functions.find_any))
        event = GraphPattern(
            *(tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage),
            what="graph-kept",
            values=(count,),
            made=made,
        )
        tracer.broadcast(event, location, level=INFO, also=(made,) if made else ())
