"""Keeps the writer threads from waiting for the device while a CUDA graph is captured."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.intercept.attaching.call_sites import hide_frames, uncounted

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.writing.observers.trace_writer import TraceWriter

_BEGIN: Final = "capture_begin"
_END: Final = "capture_end"


class GraphCaptures:
    """Creates no events.

    During a capture in the mode of `torch.cuda.graph` ("global"), CUDA forbids all threads to wait for events; doing so
    makes the capture fail. PyTorch has no hook there, so two methods of its graph class are replaced, through which
    all captures go.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._originals: dict[str, Any] = {}
        self._replacements: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._captures = 0
        self._held: list[TraceWriter] = []

    def install(self) -> None:
        """Replace the methods."""
        if self._originals:
            return
        graph = torch.cuda.CUDAGraph
        for name, replace in ((_BEGIN, self._beginning), (_END, self._ending)):
            self._originals[name] = original = getattr(graph, name)
            self._replacements[name] = replacement = replace(original)
            setattr(graph, name, replacement)

    def remove(self) -> None:
        """Restore the originals. If other code has replaced ours since, ours only pass calls on."""
        graph = torch.cuda.CUDAGraph
        for name, original in self._originals.items():
            if getattr(graph, name) is self._replacements[name]:
                setattr(graph, name, original)
        self._originals.clear()
        self._replacements.clear()
        with self._lock:
            self._captures = 0
            self._let_go()

    def _beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def capture_begin(*args: Any, **kwargs: Any) -> Any:
            self._hold()
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                self._release()
                hide_frames(error)
                raise

        return capture_begin

    def _ending(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def capture_end(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            finally:
                self._release()

        return capture_end

    def _hold(self) -> None:
        with self._lock:
            self._captures += 1
            if self._captures == 1:
                self._held = [writer for writer in self._tracer.writers if writer.hold()]

    def _release(self) -> None:
        with self._lock:
            self._captures = max(0, self._captures - 1)  # It may have begun before installation.
            if not self._captures:
                self._let_go()

    def _let_go(self) -> None:
        while self._held:
            self._held.pop().let_go()
