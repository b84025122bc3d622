"""Looks for the first non-finite value among what modules put out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper.events import NonFinite
from proxy_wrapper.statistics import count_nonfinite, has_values, unobserved
from proxy_wrapper.torch_functions import is_complex, is_floating_point

if TYPE_CHECKING:
    import torch

    from proxy_wrapper.pending import PendingCount
    from proxy_wrapper.registry import ModuleEntry
    from proxy_wrapper.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer


class Outputs:
    """Makes `NonFinite` events for outputs of modules."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def check(self, entry: ModuleEntry, output: torch.Tensor, thread: ThreadState) -> None:
        """Look at one tensor that the module of `entry` has put out, and report it if it is the first of this module.

        To be called where no function mode sees it, and for what is not certainly finite.
        """
        with unobserved() as readable:
            if not readable or not has_values(output) or not (is_floating_point(output) or is_complex(output)):
                return
            count = count_nonfinite(output)
            if count:
                entry.has_been_nonfinite = isinstance(count, int)
                self._report(entry, output, count, thread)

    def _report(self, entry: ModuleEntry, output: torch.Tensor, count: int | PendingCount, thread: ThreadState) -> None:
        tracer = self._tracer
        location = tracer.locator.locate(4)
        entry.channel.emit(
            NonFinite(
                tracer.now_us(),
                tracer.step,
                entry.id,
                location,
                thread.number,
                thread.stage,
                "output",
                0,
                count,  # type: ignore[arg-type]
                tracer.describer.describe(output),
            ),
            location,
        )
