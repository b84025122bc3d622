"""Sees backward passes: `torch.autograd.backward`, which `Tensor.backward` calls, and `torch.autograd.grad`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from proxy_wrapper.describe import find_tensors
from proxy_wrapper.events import Backward, BackwardEnd
from proxy_wrapper.intercept.call_sites import hide_frames
from proxy_wrapper.levels import INFO

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.tracer import Tracer


class BackwardCalls:
    """Makes `Backward` and `BackwardEnd` events.

    PyTorch has no hook there that leaves the graph as it is, so the two functions are replaced in their module,
    where torch itself looks them up at each call.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._originals: dict[str, Callable[..., Any]] = {}
        self._replacements: dict[str, Callable[..., Any]] = {}

    def install(self) -> None:
        """Replace the two functions."""
        if self._originals:
            return
        for name in ("backward", "grad"):
            original = getattr(torch.autograd, name)
            self._originals[name] = original
            self._replacements[name] = self._replacement(name, original)
            setattr(torch.autograd, name, self._replacements[name])

    def remove(self) -> None:
        """Put the originals back, unless somebody else has replaced ours since."""
        for name, original in self._originals.items():
            if getattr(torch.autograd, name) is self._replacements[name]:
                setattr(torch.autograd, name, original)
        self._originals.clear()

    def _replacement(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            began, location = self._begin(name, args, kwargs)
            raised = True
            try:
                result = original(*args, **kwargs)
                raised = False
            except BaseException as error:
                hide_frames(error)
                raise
            finally:
                self._end(name, began, location, raised)
            return result

        return replacement

    def _begin(self, name: str, args: Any, kwargs: dict[str, Any]) -> tuple[int, int]:
        """When the pass began, and where it was called."""
        tracer = self._tracer
        if not tracer.active:
            return 0, 0
        try:
            now = tracer.now_us()
            location = tracer.locator.locate(2)
            roots = args[:1] or tuple(kwargs[key] for key in ("tensors", "outputs") if key in kwargs)
            with torch._C.DisableTorchFunction():
                tensors = find_tensors(roots)
                inputs = tuple(map(tracer.describer.describe, tensors))
                numbers = tuple(map(tracer.registry.meet, tensors))
            thread = tracer.thread
            event = Backward(now, tracer.step, 0, location, thread.number, thread.stage, name, inputs, numbers)
            tracer.broadcast(event, location, level=INFO)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            tracer.fail(error)
            return 0, 0
        return now, location

    def _end(self, name: str, began: int, location: int, raised: bool) -> None:
        tracer = self._tracer
        if not tracer.active:
            return
        try:
            now = tracer.now_us()
            thread = tracer.thread
            event = BackwardEnd(now, tracer.step, 0, location, thread.number, thread.stage, now - began, raised)
            tracer.broadcast(event, location, level=INFO)
            if name == "backward" and tracer.after_backward is not None and not raised:
                with torch._C.DisableTorchFunction():
                    tracer.after_backward(location)
        except Exception as error:  # noqa: BLE001
            tracer.fail(error)
