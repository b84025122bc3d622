"""Parameters and buffers, with their entries in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import torch

    from proxy_wrapper.known.entries import StateEntry


class StateTensors:
    """Entries and their tensors, in parallel lists. It keeps tensors alive, so it must be short-lived.

    There are two lists instead of one of pairs, because Python's garbage collector counts new containers. With a large
    model, the pairs of each step would be enough to start a full collection.
    """

    __slots__ = ("entries", "tensors")

    def __init__(self, pairs: Iterable[tuple[StateEntry, torch.Tensor]] = ()) -> None:
        self.entries: list[StateEntry] = []
        self.tensors: list[torch.Tensor] = []
        for entry, tensor in pairs:
            self.add(entry, tensor)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[tuple[StateEntry, torch.Tensor]]:
        return zip(self.entries, self.tensors, strict=True)

    def add(self, entry: StateEntry, tensor: torch.Tensor) -> None:
        """Put one more at the end."""
        self.entries.append(entry)
        self.tensors.append(tensor)

    def where(self, is_wanted: Callable[[StateEntry], bool]) -> StateTensors:
        """Those whose entry satisfies `is_wanted`; this very object if all do."""
        if all(map(is_wanted, self.entries)):
            return self
        return StateTensors(pair for pair in self if is_wanted(pair[0]))


class Changes:
    """Tensors that have, or may have, changed, and in a parallel list the causes (see `events.Update`)."""

    __slots__ = ("causes", "of")

    def __init__(self, of: StateTensors | None = None, cause: str = "") -> None:
        self.of = StateTensors() if of is None else of
        self.causes = [cause] * len(self.of)

    def __len__(self) -> int:
        return len(self.causes)

    def add(self, entry: StateEntry, tensor: torch.Tensor, cause: str) -> None:
        """Put one more at the end."""
        self.of.add(entry, tensor)
        self.causes.append(cause)
