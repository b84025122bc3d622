"""Sees forks: a forked child goes on in a trace file of its own, or, as a worker that loads data, in silence."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

    from proxy_wrapper.tracer import Tracer

_DATA_LOADER: Final = str(Path("torch", "utils", "data", "dataloader.py"))


class Forks:
    """Keeps the tracer whole across `os.fork`."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer: Tracer | None = tracer
        self._is_registered = False

    def install(self) -> None:
        """Ask to be told of forks. Python offers no way to take that back, so it is asked for once."""
        if not self._is_registered and hasattr(os, "register_at_fork"):
            self._is_registered = True
            os.register_at_fork(
                before=self._before, after_in_parent=self._after_in_parent, after_in_child=self._after_in_child
            )

    def remove(self) -> None:
        """Do nothing: a tracer that sees nothing has no writer to hold."""

    def _before(self) -> None:
        if self._tracer is not None:
            self._tracer.before_fork()

    def _after_in_parent(self) -> None:
        if self._tracer is not None:
            self._tracer.after_fork_in_parent()

    def _after_in_child(self) -> None:
        if self._tracer is not None:
            self._tracer.after_fork_in_child(silent=_is_forked_by_data_loader())


def _is_forked_by_data_loader() -> bool:
    """Whether the fork was made to start a worker of a `DataLoader`: it is among the callers then."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.endswith(_DATA_LOADER):
            return True
        frame = frame.f_back
    return False
