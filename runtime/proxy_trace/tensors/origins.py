"""The origins of the tensors in a trace: what created each, and from what."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

_Call: TypeAlias = "tuple[str, Sequence[int]]"
"""The name of a call, and the numbers of its inputs."""

_UNSEEN: Final[_Call] = ("", ())

_REMEMBERED: Final = 1 << 15
"""The most tensors that are remembered; the oldest are forgotten first."""

_INPUTS: Final = 64
"""The most inputs of a call that are remembered."""

_FEW: Final = 16
_SEARCHED: Final = 1024
"""The most tensors that are examined for a trail."""


class Origins:
    """Remembers for each tensor, by number, the call that created it and the innermost module that returned it."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._modules: dict[int, str] = {}

    def note_call(self, name: str, inputs: Sequence[int], made: Sequence[int]) -> None:
        """Note that a call, or the read of an attribute, created tensors that were not among its inputs."""
        calls = self._calls
        call = (name, inputs[:_INPUTS])
        for number in made:
            calls[number] = call
        if len(calls) > _REMEMBERED:
            _forget_oldest(calls)

    def note_module(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Note that a module returned tensors."""
        made = new_numbers(inputs, outputs)
        if not made:
            return
        call = (name, inputs[:_INPUTS])
        for number in made:
            self._modules.setdefault(number, name)
            self._calls.setdefault(number, call)
        for known in (self._modules, self._calls):
            if len(known) > _REMEMBERED:
                _forget_oldest(known)

    def name(self, number: int) -> str:
        """The module that returned a tensor, or the call that created it; "" if unknown."""
        return self._modules.get(number) or self._calls.get(number, _UNSEEN)[0]

    def trail(self, number: int, limit: int) -> list[str]:
        """What a tensor was created by, from what, and so on back to outputs of modules: at most `limit` names."""
        names: list[str] = []
        pending = [number]
        seen = set(pending)
        while pending and len(names) < limit and len(seen) < _SEARCHED:
            current = pending.pop(0)
            module = self._modules.get(current) if current != number else None
            name, inputs = (module, ()) if module is not None else self._calls.get(current, _UNSEEN)
            if name:
                names.append(name)
            pending += [each for each in dict.fromkeys(inputs) if each and each not in seen]
            seen.update(pending)
        return names


def new_numbers(inputs: Sequence[int], outputs: Sequence[int]) -> list[int]:
    """The numbers of the tensors that a call returned and that were not among its inputs."""
    if not outputs:
        return []
    given = inputs if len(inputs) < _FEW else frozenset(inputs)
    return [number for number in outputs if number and number not in given]


def _forget_oldest(known: dict[int, str] | dict[int, _Call]) -> None:
    for number in list(islice(known, len(known) - _REMEMBERED // 2)):
        del known[number]
