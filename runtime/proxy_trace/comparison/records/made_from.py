"""Finds what a recorded value was computed from, using the records just before."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from proxy_trace.tensors.origins import Origins, new_numbers
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_trace.comparison.records.side import Side
    from proxy_trace.reading.names import Names

_TRAIL: Final = 6
_INPUTS: Final = 6


def made_from(event: Any, side: Side) -> list[str]:
    """What the value in a record was computed from, nearest first; empty if it holds none, or if unknown.

    For a call, its inputs; for the output of a module, the call that computed it; for a gradient, the backward pass;
    for an update, the optimizer's step, and the gradient it used.
    """
    if isinstance(event, events.StateTensor):
        return []
    before = list(takewhile(lambda each: each is not event, side.recent))
    if isinstance(event, (events.Gradient, events.Update)):
        return _of_state(event, before, side.names)
    origins = _origins(before, side.names)
    if isinstance(event, events.ReturnModule):
        trail = [name for number in event.output_ids[:_INPUTS] for name in origins.trail(number, _TRAIL)]
        return list(dict.fromkeys(trail))[:_TRAIL] or _inputs_of_call(event, before, origins)
    if isinstance(event, events.GetAttr):
        return [name for name in (origins.name(event.owner_id),) if name]
    return _inputs(getattr(event, "inputs", ()), getattr(event, "input_ids", ()), origins)


def _of_state(event: events.Gradient | events.Update, before: Sequence[object], names: Names) -> list[str]:
    """What computed a gradient, or changed a parameter or buffer."""
    wanted: type[events.Backward | events.OptimizerStep] = events.Backward
    if isinstance(event, events.Update):
        if event.cause != "step":
            return []
        wanted = events.OptimizerStep
    found = []
    cause = next((each for each in reversed(before) if isinstance(each, wanted)), None)
    if isinstance(cause, events.OptimizerStep):
        found.append(f"a step of {cause.optimizer} at {names.place(cause.location)}")
        for each in reversed(before):
            if each is cause:
                break
            if isinstance(each, events.Gradient) and each.tensor == event.tensor:
                norm = each.statistics.norm if each.statistics is not None else None
                found.append("no gradient" if each.statistics is None else f"a gradient of norm {norm}")
                break
    elif isinstance(cause, events.Backward):
        found.append(f"{cause.function} at {names.place(cause.location)}")
        found += _inputs(cause.inputs, cause.input_ids, _origins(before, names))
    return found


def _inputs_of_call(event: events.ReturnModule, before: Sequence[object], origins: Origins) -> list[str]:
    calls = (each for each in reversed(before) if isinstance(each, events.CallModule) and each.module == event.module)
    call = next(calls, None)
    return _inputs(call.inputs, call.input_ids, origins) if call is not None else []


def _inputs(descriptions: Sequence[str], numbers: Sequence[int], origins: Origins) -> list[str]:
    """The origin of each input; its description if the origin was not seen."""
    padded = [*numbers, *[0] * (len(descriptions) - len(numbers))]
    pairs = zip(descriptions[:_INPUTS], padded, strict=False)
    return [
        f"{description} of {origins.name(number)}" if origins.name(number) else description
        for description, number in pairs
    ]


def _origins(before: Iterable[object], names: Names) -> Origins:
    """The origins of the tensors in these records."""
    origins = Origins()
    for event in before:
        if isinstance(event, events.CallFunction):
            made = new_numbers(event.input_ids, event.output_ids)
            target = event.target.rpartition(".")[2]
            origins.note_call(f"{target} at {names.place(event.location)}", event.input_ids, made)
        elif isinstance(event, events.ReturnModule):
            origins.note_module(names.module_name(event.module), (), event.output_ids)
        elif isinstance(event, events.GetAttr) and event.value_id and not origins.name(event.value_id):
            owner = origins.name(event.owner_id) or event.owner
            origins.note_call(f"{owner}.{event.target}", [event.owner_id], [event.value_id])
    return origins
