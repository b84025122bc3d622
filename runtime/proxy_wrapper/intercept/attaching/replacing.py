"""Base of interceptors that replace functions of torch because PyTorch has no hook for their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy_wrapper.tracer import Tracer


class Target(NamedTuple):
    """A function of torch to be replaced.

    Attributes:
        home: the module or class where torch looks it up.
        name: its name there.
        make: creates the replacement from the original, which it calls.
    """

    home: Any
    name: str
    make: Callable[[Callable[..., Any]], Callable[..., Any]]


class _Replaced(NamedTuple):
    """A replaced function of torch."""

    home: Any
    name: str
    original: Any
    replacement: Any


class ReplacingInterceptor:
    """Replaces functions where torch looks them up, and restores them."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._replaced: list[_Replaced] = []

    def _targets(self) -> Iterable[Target]:
        """The functions to be replaced."""
        raise NotImplementedError

    def install(self) -> None:
        """Replace the functions; those that this version of torch lacks are left out."""
        if self._replaced:
            return
        for home, name, make in self._targets():
            original = getattr(home, name, None)
            if original is not None:
                replacement = make(original)
                setattr(home, name, replacement)
                self._replaced.append(_Replaced(home, name, original, replacement))

    def remove(self) -> None:
        """Restore the functions. If other code has replaced ours since, ours only pass calls on."""
        for home, name, original, replacement in self._replaced:
            if getattr(home, name, None) is replacement:
                setattr(home, name, original)
        self._replaced.clear()

    def _note(self, take: Callable[..., None], *args: Any) -> None:
        """Call `take(*args)` unless this thread is unobserved. Errors end the tracing, not the program."""
        tracer = self._tracer
        try:
            if not (self._replaced and tracer.active) or tracer.thread.inside is not None:
                return
            with tracer.lock, torch._C.DisableTorchFunction():
                take(*args)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            tracer.fail(error)
