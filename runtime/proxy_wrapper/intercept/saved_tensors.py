"""Reads the tensors that the nodes of an autograd graph have saved for the backward pass.

Hooks may stand between: what a checkpoint has saved is computed anew when it is asked for, and what was moved to the
host is moved back. Once a program has set such hooks, nothing is read any more.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.intercept.call_sites import uncounted
from proxy_wrapper.intercept.replacing import ReplacingInterceptor, Target
from proxy_wrapper.values.statistics import has_values, is_hosted
from proxy_wrapper.values.torch_functions import numel

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST: Final = 1 << 22
"""How many elements a tensor may have."""


class SavedTensors(ReplacingInterceptor):
    """Gives what nodes have saved, as long as no hooks are known to have been set."""

    has_hooks = False

    def _targets(self) -> tuple[Target, ...]:
        return (Target(torch._C._autograd, "_push_saved_tensors_default_hooks", self._pusher),)

    def _pusher(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def push(*args: Any, **kwargs: Any) -> Any:
            self.has_hooks = True
            return original(*args, **kwargs)

        return push

    def read(self, node: Any, name: str) -> torch.Tensor | None:
        """What a node has saved under a name; None if it has none, or it is large, or not at hand on the CPU.

        To be called where no mode sees it.
        """
        if self.has_hooks or not self._replaced:
            return None
        try:
            found = getattr(node, f"_saved_{name}", None)
        except RuntimeError:  # Freed, or changed in place since.
            return None
        if not isinstance(found, torch.Tensor) or not has_values(found):
            return None
        return found if is_hosted(found) and numel(found) <= _LARGEST else None

    def number(self, node: Any, name: str) -> int | None:
        """A whole number or a truth value that a node has saved; None if it has none."""
        found: Any = getattr(node, f"_saved_{name}", None)
        return int(found) if type(found) in (int, bool) else None
