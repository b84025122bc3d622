"""Lets torch calls be seen that Python code makes inside a backward pass.

Such code are checkpoints that are recomputed, hooks on tensors, the `backward` of a `torch.autograd.Function`.
`Tensor.backward` is itself a torch call, and while one runs torch has set the function mode aside. Right before the
engine takes over, it is put back. The engine hands the state of the calling thread to its own threads, modes included.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.intercept.call_sites import hide_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from proxy_wrapper.intercept.torch_calls import TorchCalls

_ENTRY: Final = "_engine_run_backward"


class BackwardEngine:
    """Keeps the mode on the stack of a thread that runs autograd's engine.

    The engine's one entry in Python is private to torch; where a version of it has none, nothing is replaced, and what
    runs inside the engine stays unseen.
    """

    def __init__(self, torch_calls: TorchCalls) -> None:
        self._torch_calls = torch_calls
        self._replaced: list[tuple[ModuleType, Any, Any]] = []

    def install(self) -> None:
        """Replace the entry where torch looks it up, and where it is defined: torch restores the one from the other."""
        if self._replaced:
            return
        for module in (torch.autograd, torch.autograd.graph):
            original = getattr(module, _ENTRY, None)
            if original is not None:
                replacement = self._replacement(original)
                setattr(module, _ENTRY, replacement)
                self._replaced.append((module, original, replacement))

    def remove(self) -> None:
        """Put the entry back, unless somebody else has replaced ours since."""
        for module, original, replacement in self._replaced:
            if getattr(module, _ENTRY) is replacement:
                setattr(module, _ENTRY, original)
        self._replaced.clear()

    def _replacement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        torch_calls = self._torch_calls

        @functools.wraps(original)
        def run_with_mode(*args: Any, **kwargs: Any) -> Any:
            found = torch_calls.enter_engine()
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            finally:
                torch_calls.leave_engine(found)

        return run_with_mode
