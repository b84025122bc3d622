"""The places where two runs part, with the record of each run in words, independent of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_trace.comparison.records.made_from import made_from
from proxy_trace.events.show import details_of
from proxy_trace.reading.places import Place, find_place
from proxy_trace.reading.selection import kind_of
from proxy_wrapper import events

if TYPE_CHECKING:
    from proxy_trace.comparison.records.side import Record, Side
    from proxy_trace.reading.names import Names

CONFIGURATION: Final = "configuration"
CALL: Final = "call"
ORDER: Final = "order"
MORE: Final = "more"
"""Kinds of partings besides those of `pair_difference`."""


class SeenRecord(msgspec.Struct):
    """A record of one run, in words.

    Attributes:
        kind: the kind of the record: "call_module", "update", ...
        module: the module that is called, that was running, or that has the parameter or buffer.
        name: what is called, read or changed: a module, a function, an attribute, a parameter, a buffer.
        place: the line of the script; None if unknown.
        text: the record, on one line.
        made_from: what the value was computed from, nearest first: calls with their places, modules, names.
    """

    kind: str
    module: str
    name: str
    place: Place | None
    text: str
    made_from: list[str]


class Parting(msgspec.Struct):
    """A place where two runs part.

    Attributes:
        kind: what differs: "configuration" (a torch setting); "call" (each run does something else); "order" (both do
            the same in another order); "more" (one run does what the other does not); "shape"; "tensor" (other tensors,
            or another number of them); "value"; or "circumstance", such as the mode of a module.
        rank: the rank.
        step: the number of completed optimizer steps; -1 for the initial state, before the first call.
        stage: as in the trace.
        module: the module, by its name in the first run if possible; "" outside modules.
        name: what is called, read or changed, likewise.
        what: the differing part of the record, such as "outputs", or the setting.
        values: its value in each run, in words.
        records: the record of each run. If `kind` is "more", the run that lacks the record has its next record here;
            None if there is none.
        only_in: if `kind` is "more", the run that has the record: 0 for the first, 1 for the second.
    """

    kind: str
    rank: int
    step: int
    stage: str
    module: str
    name: str
    what: str
    values: list[str]
    records: list[SeenRecord | None]
    only_in: int | None = None


def see(record: Record, side: Side) -> SeenRecord:
    """A record in words."""
    _, event, called_at = record
    names = side.names
    return SeenRecord(
        kind=kind_of(event),
        module=names.module_name(getattr(event, "module", 0)),
        name=name_of(event, names),
        place=find_place(_location_of(event, called_at, names), names),
        text=details_of(event, names),
        made_from=made_from(event, side),
    )


def name_of(event: Any, names: Names) -> str:
    """The name of what a record is about."""
    if isinstance(event, (events.CallModule, events.ReturnModule)):
        return names.module_name(event.module)
    if isinstance(event, (events.Gradient, events.Update)):
        return names.tensor_name(event.tensor)
    if isinstance(event, events.NonFinite):
        return names.tensor_name(event.tensor) if event.tensor else names.module_name(event.module)
    if isinstance(event, (events.GetAttr, events.SetAttr, events.DelAttr)):
        return f"{event.owner}.{event.target}"
    for field in ("name", "target", "optimizer", "function"):
        name = getattr(event, field, "")
        if name:
            return str(name)
    return kind_of(event)


def _location_of(event: Any, called_at: int, names: Names) -> int:
    """The location of a record: that of the call for the return of a module, of the proxying for a definition."""
    if isinstance(event, events.StateTensor):
        module = names.modules.get(event.module)
        return module.location if module is not None else 0
    return called_at or int(event.location)
