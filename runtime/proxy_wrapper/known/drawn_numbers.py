"""Finds modules that draw random numbers, by comparing the states of torch's generators around their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from proxy_wrapper.values.statistics import unobserved
from proxy_wrapper.values.torch_functions import is_equal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from proxy_wrapper.known.entries import ModuleEntry


class DrawnNumbers:
    """Finds modules called by a thread that draw random numbers themselves, not only through modules they call.

    Attributes:
        drawn: the entries of those that did, while they and all enclosing modules were in evaluation mode.
    """

    def __init__(self) -> None:
        self.drawn: list[ModuleEntry] = []
        self._open: list[ModuleEntry] = []
        self._states = _states_of_generators()

    def enter(self, entry: ModuleEntry) -> None:
        """A module is called."""
        self._look()
        self._open.append(entry)

    def leave(self, entry: ModuleEntry) -> None:
        """A module has returned, or raised."""
        self._look()
        while (
            self._open and self._open.pop() is not entry
        ):  # Calls that an exception has ended, which hooks do not report.
            pass

    def _look(self) -> None:
        now = _states_of_generators()
        has_drawn = now is not None and self._states is not None and not _are_same(now, self._states)
        self._states = now
        if not has_drawn:
            return
        around, modules = list(self._open), [each.module() for each in self._open]
        if len(modules) > 1 and _is_made_in_call(modules[-1], modules[-2]):
            del around[-1], modules[-1]
        if around and around[-1] not in self.drawn and not any(each is None or each.training for each in modules):
            self.drawn.append(around[-1])


def _is_made_in_call(module: nn.Module | None, caller: nn.Module | None) -> bool:
    """Whether a module is not part of the one that calls it, for instance because `forward` creates it."""
    return module is not None and caller is not None and all(each is not module for each in caller._modules.values())


def _states_of_generators() -> Sequence[torch.Tensor] | None:
    """The states of torch's random generators on the CPU and devices in use; None if they cannot be read now."""
    with unobserved() as readable:
        if not readable:
            return None
        generators = [torch.default_generator]
        if torch.cuda.is_initialized():
            generators += torch.cuda.default_generators
        return [each.get_state() for each in generators]


def _are_same(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    with unobserved():
        return len(some) == len(others) and all(map(is_equal, some, others))
