"""Where two runs part: the record of each, in words that need no trace any more."""

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
    """A record of one of the runs.

    Attributes:
        kind: the kind of the record: "call_module", "update", ...
        module: the module that is called, during whose call it happened, or that has the parameter or buffer.
        name: what is called, read or changed: a module, a function, an attribute, a parameter, a buffer.
        place: the line of the script; None if the trace does not tell.
        text: what it says, on one line.
        made_from: what the value came from, the nearest first: calls with their places, modules, names.
    """

    kind: str
    module: str
    name: str
    place: Place | None
    text: str
    made_from: list[str]


class Parting(msgspec.Struct):
    """A place at which two runs part.

    Attributes:
        kind: what is other: "configuration" (a setting of torch's); "call" (each run does something else); "order"
            (both do the same, in another order); "more" (one run does what the other does not); "shape"; "tensor"
            (another tensor went in or came out, or another number of them); "value"; or "circumstance", such as the
            mode of a module.
        rank: in which rank.
        step: how many optimizer steps had ended; -1 for what a model began with, before the first call.
        stage: as in the trace.
        module: the module, by its name in the first run if it has it; "" outside of modules.
        name: what is called, read or changed, likewise.
        what: which part of the record is other, such as "outputs", or the setting.
        values: what it is in each of the runs, in words.
        records: the record of each run. Of a parting of kind "more", the run that lacks the record has here what it
            does next; None if that is nothing.
        only_in: of a parting of kind "more", which run has the record: 0 for the first, 1 for the second.
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
    """What a record is about."""
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
    """Where a record happened: the return of a module where it was called, a definition where the model was proxied."""
    if isinstance(event, events.StateTensor):
        module = names.modules.get(event.module)
        return module.location if module is not None else 0
    return called_at or int(event.location)
