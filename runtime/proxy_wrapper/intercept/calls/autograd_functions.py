"""Observes calls of `torch.autograd.Function.apply` and of activation checkpoints, for live observers.

Torch tells a function mode of neither, only of the calls inside. So while there is a live observer, the two
functions behind all such calls are replaced where torch looks them up.
"""

from __future__ import annotations

import functools
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils import checkpoint

from proxy_wrapper.intercept.attaching.call_sites import hide_frames, uncounted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

_APPLY: Final = "apply"
_GENERATOR: Final = "_checkpoint_without_reentrant_generator"


class AutogradFunctions:
    """Creates no events; tells the live observer of a thread before and after each of these calls."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._originals: list[tuple[Any, str, Any, Any]] = []
        self._replacements: dict[Any, Any] = {}

    @property
    def is_installed(self) -> bool:
        """Whether the functions are replaced now."""
        return bool(self._originals)

    def install(self) -> None:
        """Replace both functions."""
        if self._originals:
            return
        self._replace(torch.autograd.Function, _APPLY, lambda original: self._applying(original.__func__))
        if hasattr(checkpoint, _GENERATOR):  # It is private to torch.
            self._replace(checkpoint, _GENERATOR, self._checkpointing)

    def remove(self) -> None:
        """Restore the originals. If other code has replaced ours since, ours only pass calls on."""
        for owner, name, original, replacement in self._originals:
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)
        self._originals.clear()

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = vars(owner)[name]
        if original not in self._replacements:  # Installed once per `trace` block; one wrapper is enough.
            self._replacements[original] = make(original)
        replacement = self._replacements[original]
        self._originals.append((owner, name, original, replacement))
        setattr(owner, name, replacement)

    def _watching(self) -> ThreadState | None:
        """The state of this thread if it has a live observer and is not in compiled code."""
        thread = self._tracer.threads.state
        return thread if thread.live is not None and thread.inside is None else None

    def _applying(self, original: Any) -> Any:
        @functools.wraps(original)
        @uncounted
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            thread = self._watching()
            live = None if thread is None else thread.live
            if live is None:
                return original(cls, *args, **kwargs)
            change = None if thread is None else thread.change
            if cls is checkpoint.CheckpointFunction:
                if change is not None:
                    args = (change.checkpointed(args[0], is_reentrant=True), *args[1:])
                held = live.before_call(checkpoint.checkpoint, (args[0], *args[2:]), {"use_reentrant": True})
            else:
                if change is not None:
                    args, kwargs = change.arguments(MethodType(original, cls), args, kwargs)  # type: ignore[assignment]
                held = live.before_call(MethodType(original, cls), args, kwargs)
            try:
                result = original(cls, *args, **kwargs)
            except BaseException as error:
                live.after_raising(held)
                hide_frames(error)
                raise
            return live.after_call(held, result)

        return classmethod(apply)

    def _checkpointing(self, original: Any) -> Any:
        @functools.wraps(original)
        @uncounted
        def generator(function: Any, preserve: Any, *rest: Any, **kwargs: Any) -> Generator[None, None, Any]:
            thread = self._watching()
            live = None if thread is None else thread.live
            if live is None:
                return (yield from original(function, preserve, *rest, **kwargs))
            change = None if thread is None else thread.change
            again = function if change is None else change.checkpointed(function, is_reentrant=False)
            inner = original(again, preserve, *rest, **kwargs)
            next(inner)
            held = live.before_call(checkpoint.checkpoint, (function,), {"use_reentrant": False})
            try:
                yield
            except BaseException as error:
                live.after_raising(held)
                inner.throw(error)
                raise
            live.after_call(held, None)  # The calls inside have recorded its result.
            try:
                next(inner)
            except StopIteration as end:
                return end.value
            return None

        return generator
