"""What interceptors have in common that see calls of functions for which PyTorch has no hook: they replace these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy_wrapper.tracer import Tracer


class Target(NamedTuple):
    """A function of torch's that is to be replaced.

    Attributes:
        home: the module or class where torch looks it up.
        name: its name there.
        make: gives what stands for it, which calls it.
    """

    home: Any
    name: str
    make: Callable[[Callable[..., Any]], Callable[..., Any]]


class _Replaced(NamedTuple):
    """A function of torch's that another one stands for."""

    home: Any
    name: str
    original: Any
    replacement: Any


class ReplacingInterceptor:
    """Replaces functions of torch's where torch looks them up, and puts them back."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._replaced: list[_Replaced] = []

    def _targets(self) -> Iterable[Target]:
        """What is to be replaced."""
        raise NotImplementedError

    def install(self) -> None:
        """Replace the functions; one that this version of torch does not have is left out."""
        if self._replaced:
            return
        for home, name, make in self._targets():
            original = getattr(home, name, None)
            if original is not None:
                replacement = make(original)
                setattr(home, name, replacement)
                self._replaced.append(_Replaced(home, name, original, replacement))

    def remove(self) -> None:
        """Put the functions back, but where somebody else has replaced ours since: those only pass calls on."""
        for home, name, original, replacement in self._replaced:
            if getattr(home, name, None) is replacement:
                setattr(home, name, original)
        self._replaced.clear()

    def _note(self, take: Callable[..., None], *args: Any) -> None:
        """Have something noted, if this thread is seen."""
        tracer = self._tracer
        try:
            if not (self._replaced and tracer.active) or tracer.thread.inside is not None:
                return
            with tracer.lock, torch._C.DisableTorchFunction():
                take(*args)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            tracer.fail(error)
