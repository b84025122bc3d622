"""Resolves the ids in a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from proxy_wrapper.events import Location, Module, StateTensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from proxy_wrapper.events import Event, Happening

T = TypeVar("T")

MOST_DEFINITIONS: Final = 1 << 19
"""The most modules, tensors and locations that are kept: several times what the largest models have."""

_MOST_CALLERS: Final = 32

MOST_BYTES: Final = 1 << 28
"""The maximum total length of the definitions' lines, including redefinitions."""


class Names:
    """The definitions of one trace file; the last one of an id counts.

    Undefined ids get a name too ("#7"), because a trace may have lost the definition. So do ids whose definitions
    exceed the limits.
    """

    def __init__(self) -> None:
        self.modules: dict[int, Module] = {}
        self.tensors: dict[int, StateTensor] = {}
        self.locations: dict[int, Location] = {}
        self._bytes_left = MOST_BYTES

    def learn(self, event: Event, size_bytes: int = 0) -> bool:
        """Note `event` if it is a definition.

        Args:
            event: any event.
            size_bytes: the length of its line in the trace.

        Returns:
            Whether it was noted: False for other events, and for definitions beyond the limits.
        """
        table = self._table_of(event)
        if table is None or self._bytes_left < size_bytes:
            return False
        id_: int = event.id  # type: ignore[attr-defined]
        if len(table) >= MOST_DEFINITIONS and id_ not in table:
            return False
        self._bytes_left -= size_bytes
        table[id_] = event
        return True

    def about(self, happenings: Iterable[Happening]) -> Names:
        """The names needed to describe these events."""
        names = Names()
        for each in happenings:
            _copy(self.modules, names.modules, each.module)
            _copy(self.locations, names.locations, each.location)
            _copy(self.locations, names.locations, getattr(each, "computed", 0))
            _copy(self.tensors, names.tensors, getattr(each, "tensor", 0))
        return names

    def _table_of(self, event: Event) -> dict[int, Any] | None:
        if isinstance(event, Location):
            return self.locations
        if isinstance(event, Module):
            return self.modules
        return self.tensors if isinstance(event, StateTensor) else None

    def module_name(self, id_: int) -> str:
        """The full name of a module, such as "model.conv1"; "" for 0."""
        module = self.modules.get(id_)
        return module.name if module else _unnamed(id_)

    def tensor_name(self, id_: int) -> str:
        """The full name of a parameter or buffer, such as "model.conv1.weight"; "" for 0."""
        tensor = self.tensors.get(id_)
        return tensor.name if tensor else _unnamed(id_)

    def place(self, id_: int) -> str:
        """A location as "file:line"; "" for 0."""
        location = self.locations.get(id_)
        return f"{location.file}:{location.line}" if location else _unnamed(id_)

    def function(self, id_: int) -> str:
        """The qualified name of the function of a location; "" for 0."""
        location = self.locations.get(id_)
        return "" if location is None else location.function

    def owner(self, id_: int) -> str:
        """The class of the method of a location, by name; "" for a function, and for 0."""
        owner = self.function(id_).rpartition(".")[0].rpartition(".")[2]
        return "" if owner == "<locals>" else owner

    def place_outside_modules(self, id_: int) -> str:
        """The innermost place on the way to a location that is not in a method of a module's class, as "file:line"."""
        location = self.locations.get(id_)
        for _ in range(_MOST_CALLERS):
            caller = None if location is None else self.locations.get(location.caller)
            if location is None or caller is None or not self._is_of_module(location.function):
                break
            location = caller
        return self.place(id_) if location is None else f"{location.file}:{location.line}"

    def _is_of_module(self, function: str) -> bool:
        """Whether a function is a method of the class of a module in the trace, by its qualified name."""
        owner = function.rpartition(".")[0].rpartition(".")[2]
        return owner != "" and any(module.type == owner for module in self.modules.values())


def _copy(known: Mapping[int, T], names: dict[int, T], id_: int) -> None:
    if id_ in known:
        names[id_] = known[id_]


def _unnamed(id_: int) -> str:
    return f"#{id_}" if id_ else ""


def without_cycles(parents: Mapping[int, int]) -> dict[int, int]:
    """For each id its parent, 0 for none, without cycles.

    A trace may say of two modules that each contains the other. One module of such a cycle then has no parent.
    """
    found: dict[int, int] = {}
    for start in parents:
        way: dict[int, None] = {}
        id_ = start
        while id_ in parents and id_ not in found and id_ not in way:
            way[id_] = None
            id_ = parents[id_]
        found.update((each, parents[each]) for each in way)
        if id_ in way:
            found[id_] = 0
    return found
