"""Looks, before each backward pass, for an operation near the loss that has no finite derivative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper.code_lines.operation_lines import operation_line
from proxy_wrapper.intercept.loss.losses import forward_of
from proxy_wrapper.known.thread_state import Singularity
from proxy_wrapper.loss_graph.operations import delicate_nodes, without_derivative
from proxy_wrapper.program_code.called_functions import body_at
from proxy_wrapper.program_code.computed_lines import computed_at
from proxy_wrapper.values.statistics import unobserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.tracer import Tracer


class Singularities:
    """Notes for its thread what will make the gradients of a backward pass non-finite, if anything near the loss does.

    A graph can only be read before the pass frees it, and whether gradients are finite shows afterwards.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        # The losses whose graphs have no operation of this kind.
        self._harmless: set[int] = set()
        self._lines: dict[tuple[int, str], int] = {}

    def look(self, roots: Sequence[torch.Tensor], loss: int) -> None:
        """Examine the graph of a backward pass, right before it begins. `loss` is the id of how it was computed."""
        thread = self._tracer.thread
        thread.singularity = None
        if not loss or loss in self._harmless or roots[0].grad_fn is None:
            return
        nodes = delicate_nodes(roots[0].grad_fn)
        if not nodes:
            self._harmless.add(loss)
            return
        with unobserved() as readable:
            operation = without_derivative(nodes) if readable else ""
        if operation:
            if (loss, operation) not in self._lines:
                self._lines[loss, operation] = self._line(operation)
            thread.singularity = Singularity(self._tracer.step, operation, self._lines[loss, operation])

    def _line(self, operation: str) -> int:
        """The location of the only line that calls an operation where the loss is computed, or else anywhere near."""
        locator = self._tracer.locator
        frame = locator.user_frame(2)
        if frame is None:
            return 0
        own = body_at(frame)
        forwards = [found for entry in list(self._tracer.registry) if (found := forward_of(entry))]
        for starts in ([computed_at(frame, locator.is_user_code).body], [own], [own, *forwards]):
            line = operation_line(starts, operation, locator.is_user_code)
            if line is not None:
                return locator.line(line)
        return 0
