"""What the ids in a trace stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper.events import Location, Module, StateTensor

if TYPE_CHECKING:
    from proxy_wrapper.events import Event


class Names:
    """The definitions of one trace file: of the same id, the last one learned counts.

    Ids that were never defined are given a name too ("#7"), for a trace may have lost the line that did.
    """

    def __init__(self) -> None:
        self.modules: dict[int, Module] = {}
        self.tensors: dict[int, StateTensor] = {}
        self.locations: dict[int, Location] = {}

    def learn(self, event: Event) -> None:
        """Take note of `event` if it defines something."""
        if isinstance(event, Location):
            self.locations[event.id] = event
        elif isinstance(event, Module):
            self.modules[event.id] = event
        elif isinstance(event, StateTensor):
            self.tensors[event.id] = event

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


def _unnamed(id_: int) -> str:
    return f"#{id_}" if id_ else ""
