"""The memory saved for the backward pass, call by call."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from proxy_views.profile.calls import Call
    from proxy_views.profile.storages import Data

Address: TypeAlias = "tuple[int, int]"


class Memory:
    """Which data is saved, and by which call first.

    Attributes:
        saved: for each call, the bytes that it saved and that were not saved before.
        accumulated: for each call, the bytes saved after it, including outputs of it that are saved later.
        total: the bytes saved in all, without those of recomputed calls of checkpoints.
    """

    def __init__(self, calls: Iterable[Call], state: Collection[int]) -> None:
        """Process all calls in order; `state` are the storages to ignore."""
        calls = tuple(calls)
        self._state = state
        self._ever: dict[Address, int] = {}
        for call in calls:
            for address, size in self.sizes(call.saved).items():
                self._ever[address] = max(size, self._ever.get(address, 0))
        self.saved: list[int] = []
        self.accumulated: list[int] = []
        self.total = 0
        kept: set[Address] = set()
        accumulated = 0
        for call in calls:
            new = self.sizes(call.saved).keys() - kept
            saved = sum(self._ever[address] for address in new)
            kept |= new
            accumulated += saved
            own = sum(self._ever[address] for address in self.sizes(call.outputs) if self.is_new(address, kept))
            self.saved.append(saved)
            self.accumulated.append(accumulated + own)
            if not call.is_recomputed:
                self.total += saved

    def is_new(self, address: Address, kept: set[Address]) -> bool:
        """Whether data will be saved, but is not yet."""
        return address in self._ever and address not in kept

    def sizes(self, data: Iterable[Data]) -> dict[Address, int]:
        """The bytes at each address, without the model's state."""
        found: dict[Address, int] = {}
        for each in data:
            if each.storage not in self._state:
                found[each.address] = max(each.size, found.get(each.address, 0))
        return found

    def outputs(self, data: Iterable[Data]) -> tuple[int, int]:
        """The bytes of outputs that are saved at any time, and of those that never are."""
        sizes = self.sizes(data)
        kept = sum(size for address, size in sizes.items() if address in self._ever)
        return kept, sum(sizes.values()) - kept


def size_in(data: Iterable[Data], storages: Collection[int]) -> int:
    """The bytes of data in these storages."""
    return sum({each.address: each.size for each in data if each.storage in storages}.values())


def is_alias(inputs: Iterable[Data], outputs: Collection[Data]) -> bool:
    """Whether there are outputs, and all lie in memory of inputs."""
    given = {each.storage for each in inputs}
    return bool(outputs) and all(each.storage in given for each in outputs)
