"""Where the tensors of a trace come from: what made each, and from what."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_REMEMBERED: Final = 1 << 15
"""How many tensors are remembered; the oldest are forgotten first."""


class _Call(NamedTuple):
    name: str
    inputs: Sequence[int]


class Origins:
    """Remembers, for each tensor by its number, the call that made it and the innermost module that put it out."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._modules: dict[int, str] = {}

    def note_call(self, name: str, inputs: Sequence[int], made: Sequence[int]) -> None:
        """A call of a function or method, or the read of an attribute, made tensors that it was not given."""
        call = _Call(name, inputs)
        for number in made:
            self._calls[number] = call
        _forget_oldest(self._calls)

    def note_module(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """A module put tensors out."""
        for number in outputs:
            if number and number not in inputs:
                self._modules.setdefault(number, name)
                self._calls.setdefault(number, _Call(name, inputs))
        _forget_oldest(self._modules)

    def name(self, number: int) -> str:
        """The module that put a tensor out, or the call that made it; "" if that was not seen."""
        call = self._calls.get(number)
        return self._modules.get(number) or (call.name if call is not None else "")

    def trail(self, number: int, limit: int) -> list[str]:
        """What a tensor was made by, from what, and so on back to what modules put out: at most `limit` names."""
        names: list[str] = []
        pending = [number]
        seen = set(pending)
        while pending and len(names) < limit:
            current = pending.pop(0)
            module = self._modules.get(current) if current != number else None
            call = self._calls.get(current)
            if module is None and call is None:
                continue
            names.append(module or (call.name if call is not None else ""))
            if module is None and call is not None:
                pending += [each for each in dict.fromkeys(call.inputs) if each and each not in seen]
                seen.update(pending)
        return names


def _forget_oldest(known: dict[int, Any]) -> None:
    if len(known) > _REMEMBERED:
        for number in list(islice(known, _REMEMBERED // 2)):
            del known[number]
