"""Finds ineffective attempts to freeze parameters: a misspelt `requires_grad`, or one set on a module."""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Final

from proxy_wrapper.events import FreezeWithoutEffect
from proxy_wrapper.levels import INFO
from proxy_wrapper.places.assigned_lines import attribute_assigned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import torch

    from proxy_wrapper.known.state_tensors import StateTensors
    from proxy_wrapper.tracer import Tracer

_RIGHT: Final = "requires_grad"
_ALIKE: Final = re.compile(r"requ?i?re?[sd]?_?grad(s|ients?)?")
_FIRST: Final = 2
_EVERY: Final = 32
"""Parameters are examined at an optimizer's first steps and then at every 32nd: a program may freeze later."""


class Freezing:
    """Creates `FreezeWithoutEffect` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._steps: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()
        self._told: set[str] = set()

    def look(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int) -> None:
        """Examine an optimizer's parameters and their modules, at the first steps and then every `_EVERY` steps."""
        step = self._steps.get(optimizer, 0)
        self._steps[optimizer] = step + 1
        if step >= _FIRST and step % _EVERY:
            return
        found: dict[str, list[int]] = {}
        for state, tensor in states:
            if not tensor.requires_grad:
                continue
            holder = state.holder.module()
            name = _misspelt(tensor.__dict__) or ("" if holder is None else _of_module(holder.__dict__))
            if name:
                found.setdefault(name, []).append(state.id)
        for name, ids in found.items():
            if name not in self._told:
                self._told.add(name)
                self._emit(name, ids, location)

    def _emit(self, name: str, ids: list[int], location: int) -> None:
        tracer = self._tracer
        frame = tracer.locator.user_frame(2)
        assigned = None if frame is None else attribute_assigned(frame, name)
        made = 0 if assigned is None else tracer.locator.line(assigned)
        thread = tracer.thread
        event = FreezeWithoutEffect(
            tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage, name, ids[0], len(ids), made
        )
        tracer.broadcast(event, location, level=INFO, also=(made,))


def _misspelt(attributes: Mapping[str, Any]) -> str:
    """The name of an attribute that is False and resembles `requires_grad`; "" if there is none."""
    return next((name for name, value in attributes.items() if value is False and _is_alike(name)), "")


def _of_module(attributes: Mapping[str, Any]) -> str:
    """The name of a module attribute that looks like an attempt to freeze; "" if there is none."""
    return _RIGHT if attributes.get(_RIGHT) is False else _misspelt(attributes)


def _is_alike(name: str) -> bool:
    return name != _RIGHT and _ALIKE.fullmatch(name) is not None
