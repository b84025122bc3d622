"""Finds ineffective attempts to freeze or unfreeze parameters: a misspelt `requires_grad`, or one set on a module."""

from __future__ import annotations

import re
import weakref
from types import FunctionType
from typing import TYPE_CHECKING, Final

from proxy_wrapper.events import FreezeWithoutEffect
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import attribute_assigned, constant_assigned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import torch
    from torch import nn

    from proxy_wrapper.known.entries import ModuleEntry
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
        self._told: set[tuple[str, bool]] = set()
        # The ids of the modules that had the attribute at the first step: as a setting of their own, perhaps. And of
        # those that had been examined before, and did not have it.
        self._had: set[int] = set()
        self._had_not: set[int] = set()

    def look(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int) -> None:
        """Examine an optimizer's parameters and their modules, at the first steps and then every `_EVERY` steps."""
        step = self._steps.get(optimizer, 0)
        self._steps[optimizer] = step + 1
        if step >= _FIRST and step % _EVERY:
            return
        found: dict[tuple[str, bool], list[int]] = {}
        of_modules: dict[tuple[ModuleEntry, bool], str] = {}
        for state, tensor in states:
            unfreezes = not tensor.requires_grad
            name = "" if unfreezes else _misspelt(tensor.__dict__)
            key = (state.holder, unfreezes)
            if not name and key not in of_modules:
                of_modules[key] = self._of_modules_around(state.holder, unfreezes=unfreezes, is_first=step == 0)
            name = name or of_modules[key]
            if name:
                found.setdefault((name, unfreezes), []).append(state.id)
        for (name, unfreezes), ids in found.items():
            if (name, unfreezes) not in self._told:
                self._told.add((name, unfreezes))
                self._emit(name, ids, location, unfreezes=unfreezes)

    def _of_modules_around(self, holder: ModuleEntry, *, unfreezes: bool, is_first: bool) -> str:
        """The attribute of a module, or of one around it, that looks like an attempt to freeze or unfreeze it."""
        at: ModuleEntry | None = holder
        while at is not None:
            module = at.module()
            if module is not None:
                name = _of_module(module, unfreezes=unfreezes, is_around=at is not holder)
                if _RIGHT not in module.__dict__:
                    self._had_not.add(at.id)
                if name and unfreezes and is_first and at.id not in self._had_not:
                    self._had.add(at.id)
                elif name and not (unfreezes and at.id in self._had):
                    return name
            at = at.parent
        return ""

    def _emit(self, name: str, ids: list[int], location: int, *, unfreezes: bool) -> None:
        tracer = self._tracer
        frame = tracer.locator.user_frame(2)
        assigned = None if frame is None else constant_assigned(frame, name, unfreezes)
        if frame is not None and assigned is None and not unfreezes:
            assigned = attribute_assigned(frame, name)
        made = 0 if assigned is None else tracer.locator.line(assigned)
        thread = tracer.thread
        event = FreezeWithoutEffect(
            tracer.now_us(),
            tracer.step,
            0,
            location,
            thread.number,
            thread.stage,
            name,
            ids[0],
            len(ids),
            made,
            unfreezes,
        )
        tracer.broadcast(event, location, level=INFO, also=(made,))


def _misspelt(attributes: Mapping[str, Any]) -> str:
    """The name of an attribute that is False and resembles `requires_grad`; "" if there is none."""
    return next((name for name, value in attributes.items() if value is False and _is_alike(name)), "")


def _of_module(module: nn.Module, *, unfreezes: bool, is_around: bool) -> str:
    """The name of a module attribute that looks like an attempt to freeze or unfreeze; "" if there is none.

    Args:
        module: the module.
        unfreezes: whether to look for an attempt to unfreeze.
        is_around: whether it contains the holder of the parameters. It may then be of a class of the program, whose
            `__init__` makes use of such a name for its own purposes.
    """
    attributes = module.__dict__
    if unfreezes:
        return _RIGHT if attributes.get(_RIGHT) is True and not _uses_itself(type(module)) else ""
    if attributes.get(_RIGHT) is False and not (is_around and _uses_itself(type(module))):
        return _RIGHT
    return _misspelt(attributes)


def _uses_itself(kind: type) -> bool:
    """Whether the `__init__` of a class, or of one that it inherits from, mentions `requires_grad`."""
    functions = (vars(each).get("__init__") for each in kind.__mro__)
    return any(type(each) is FunctionType and _RIGHT in each.__code__.co_names for each in functions)


def _is_alike(name: str) -> bool:
    return name != _RIGHT and _ALIKE.fullmatch(name) is not None
