"""Where the tensors of a trace come from: what made each, and from what."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

_Call: TypeAlias = "tuple[str, Sequence[int]]"
"""The name of a call, and the numbers of what it was given."""

_UNSEEN: Final[_Call] = ("", ())

_REMEMBERED: Final = 1 << 15
"""How many tensors are remembered; the oldest are forgotten first."""

_INPUTS: Final = 64
"""How many of a call's inputs are remembered."""

_FEW: Final = 16
_SEARCHED: Final = 1024
"""How many tensors are looked at for a trail."""


class Origins:
    """Remembers, for each tensor by its number, the call that made it and the innermost module that put it out."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._modules: dict[int, str] = {}

    def note_call(self, name: str, inputs: Sequence[int], made: Sequence[int]) -> None:
        """A call of a function or method, or the read of an attribute, made tensors that it was not given."""
        calls = self._calls
        call = (name, inputs[:_INPUTS])
        for number in made:
            calls[number] = call
        if len(calls) > _REMEMBERED:
            _forget_oldest(calls)

    def note_module(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """A module put tensors out."""
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
        """The module that put a tensor out, or the call that made it; "" if that was not seen."""
        return self._modules.get(number) or self._calls.get(number, _UNSEEN)[0]

    def trail(self, number: int, limit: int) -> list[str]:
        """What a tensor was made by, from what, and so on back to what modules put out: at most `limit` names."""
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
    """The numbers of the tensors that a call put out without having been given them."""
    if not outputs:
        return []
    given = inputs if len(inputs) < _FEW else frozenset(inputs)
    return [number for number in outputs if number and number not in given]


def _forget_oldest(known: dict[int, str] | dict[int, _Call]) -> None:
    for number in list(islice(known, len(known) - _REMEMBERED // 2)):
        del known[number]
