"""Shows events, one per line, with names instead of ids: as text, or as JSON."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from proxy_trace.events.loss_text import loss_text
from proxy_trace.reading.selection import kind_of, module_of
from proxy_trace.tensors.given_back import how_given_back
from proxy_trace.terminal.units import format_count, format_duration, format_number
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy_trace.reading.names import Names
    from proxy_trace.reading.selection import Selection
    from proxy_trace.reading.trace import Trace, TraceFile
    from proxy_trace.terminal.colour import Palette
    from proxy_wrapper.events import AnyEvent

_WIDEST: Final = 48
"""The maximum column width; longer names are still shown in full."""

_STAGE_WIDTH: Final = 5
"""The width of "train"; longer names given by the program shift the columns after it."""

_RED: Final = (events.NonFinite, events.Problem)


class Sighting(NamedTuple):
    """An event of one process: `time_us` counts from the start of the first process of the run."""

    time_us: int
    event: AnyEvent
    file: TraceFile
    names: Names


def select_events(trace: Trace, names: Sequence[Names], selection: Selection) -> Iterator[Sighting]:
    """The selected events of all files, by time; memory does not grow with their number.

    Args:
        trace: the run.
        names: resolves the ids in each file.
        selection: the selection.

    Raises:
        TraceError: if the file system refuses.
    """
    first_us = min(file.started_us() for file in trace.files)
    streams = [
        _select(file, names_in_file, selection, file.started_us() - first_us)
        for file, names_in_file in zip(trace.files, names, strict=True)
    ]
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=lambda sighting: sighting.time_us)


def _select(file: TraceFile, names: Names, selection: Selection, offset_us: int) -> Iterator[Sighting]:
    has = selection.has
    latest_us = 0
    for event in file.read():
        # Definitions may have no time of their own, and threads may be a little out of order.
        latest_us = max(latest_us, getattr(event, "time_us", 0))
        if has(event, names):
            yield Sighting(latest_us + offset_us, event, file, names)


def resolve(sighting: Sighting) -> dict[str, Any]:
    """All fields of an event, and its `rank`, with names instead of ids.

    `module`, `root`, `parent` and `tensor` are names; `location` and `caller` have file, line and function; each is
    None if there is none. The `id` of a definition stays.
    """
    event, names = sighting.event, sighting.names
    resolved: dict[str, Any] = {"kind": kind_of(event), "rank": sighting.file.run.rank}
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if field in ("module", "root", "parent"):
            value = names.module_name(value) or None
        elif field == "tensor":
            value = names.tensor_name(value) or None
        elif field in ("location", "caller", "made"):
            value = _resolve_location(value, names)
        elif isinstance(value, events.Statistics):
            value = msgspec.structs.asdict(value)
        elif field in ("statistics", "changed_statistics") and value is not None:
            value = [None if each is None else msgspec.structs.asdict(each) for each in value]
        elif field == "parameter":
            value = names.tensor_name(value) or None
        resolved[field] = value
    return resolved


def _resolve_location(id_: int, names: Names) -> dict[str, Any] | None:
    location = names.locations.get(id_)
    if location is None:
        return None
    return {"file": location.file, "line": location.line, "function": location.function}


class EventLines:
    """Renders events as lines with aligned columns: time, step, stage, rank, kind, module, place, details."""

    def __init__(self, names: Sequence[Names], palette: Palette) -> None:
        """Lay out the columns.

        Args:
            names: those of all files to be shown; if there are several, there is a column for the rank.
            palette: for a terminal.
        """
        self._palette = palette
        self._with_rank = len(names) > 1
        modules = (module.name for of_file in names for module in of_file.modules.values())
        places = (of_file.place(id_) for of_file in names for id_ in of_file.locations)
        self._module_width = min(max(map(len, modules), default=0), _WIDEST)
        self._place_width = min(max(map(len, places), default=0), _WIDEST)

    def header(self) -> str:
        """The titles of the columns."""
        rank = "rank  " if self._with_rank else ""
        module, place = "module".ljust(self._module_width), "place".ljust(self._place_width)
        stage = f"{'stage':<{_STAGE_WIDTH}}  "
        line = f"{'time/s':>12}  {'step':>6}  {stage}{rank}{'kind':<18}  {module}  {place}  details"
        return self._palette.paint(line, "dim")

    def line(self, sighting: Sighting) -> str:
        """One event as one line, without a line end."""
        event, names = sighting.event, sighting.names
        step, stage = (str(event.step), event.stage) if isinstance(event, events.Happening) else ("", "")
        rank = f"{sighting.file.run.rank:>4}  " if self._with_rank else ""
        kind = self._palette.paint(f"{kind_of(event):<18}", "red" if isinstance(event, _RED) else "cyan")
        module = module_of(event, names).ljust(self._module_width)
        place = names.place(getattr(event, "location", 0)).ljust(self._place_width)
        details = details_of(event, names)
        time = f"{sighting.time_us / 1e6:>12.6f}"
        start = f"{time}  {step:>6}  {stage:<{_STAGE_WIDTH}}  {rank}"
        return f"{start}{kind}  {module}  {self._palette.paint(place, 'dim')}  {details}".rstrip()


def details_of(event: AnyEvent, names: Names) -> str:
    """What an event says besides step, stage, module and place, in one line."""
    describe = _DETAILS.get(type(event))
    return describe(event, names) if describe else ""


def _tensors(types: Sequence[str]) -> str:
    return ", ".join(types) or "()"


def _numbers(statistics: events.Statistics | None) -> str:
    if statistics is None:
        return "no values"
    words = (
        f"min {format_number(statistics.minimum)}  max {format_number(statistics.maximum)}  "
        f"norm {format_number(statistics.norm)}"
    )
    return f"{words}  non-finite {statistics.nonfinite:,}" if statistics.nonfinite else words


def _run(event: events.Run, _: Names) -> str:
    return f"{event.script} {' '.join(event.argv)}".rstrip() + f"  (pid {event.pid}, torch {event.torch})"


def _numbers_of_each(several: Sequence[events.Statistics | None] | None) -> str:
    """The numbers of several tensors, if there are any."""
    return "" if not several else f": {'; '.join(map(_numbers, several))}"


def _location(event: events.Location, names: Names) -> str:
    caller = f", called from {names.place(event.caller)}" if event.caller else ""
    return f"{event.file}:{event.line} in {event.function}{caller}"


def _module(event: events.Module, _: Names) -> str:
    return f"{event.type}, {format_count(event.parameters, 'parameter')}, level {event.level}"


def _state_tensor(event: events.StateTensor, _: Names) -> str:
    aliases = f" = {', '.join(event.aliases)}" if event.aliases else ""
    grad = ", requires grad" if event.requires_grad else ""
    return f"{event.name}{aliases}: {event.type} on {event.device}{grad}; {_numbers(event.statistics)}"


def _call_module(event: events.CallModule, _: Names) -> str:
    return _tensors(event.inputs) + ("" if event.training else "  (eval)")


def _return_module(event: events.ReturnModule, _: Names) -> str:
    duration = format_duration(event.duration_us)
    if event.raised:
        return f"raised an exception after {duration}"
    keywords = "".join(f"  {key}={type_}" for key, type_ in event.keywords.items())
    return f"-> {_tensors(event.outputs)}  in {duration}{keywords}{_numbers_of_each(event.statistics)}"


def _backward(event: events.Backward, _: Names) -> str:
    value = "" if event.loss_value is None else f" = {format_number(event.loss_value)}"
    return f"{event.function} of {_tensors(event.inputs)}{value}"


def _backward_end(event: events.BackwardEnd, _: Names) -> str:
    duration = format_duration(event.duration_us)
    return f"raised an exception after {duration}" if event.raised else f"in {duration}"


def _input(event: events.Input, _: Names) -> str:
    return f"{event.position}: {event.type}: {_numbers(event.statistics)}"


def _scheduler_step(event: events.SchedulerStep, _: Names) -> str:
    before = {"step": "after a step", "backward": "after a backward pass"}.get(event.follows, "before any step")
    return f"{event.scheduler} #{event.id}, {before}"


def _clip(event: events.Clip, _: Names) -> str:
    late = "; after the step" if event.is_late else ""
    limit = "" if event.limit is None else f" to {format_number(event.limit)}"
    again = f"; clipped again in {event.again:,} of {event.count:,} times" if event.again else ""
    others = f"; the step was of others in {event.others:,} of {event.count:,} times" if event.others else ""
    return f"{event.gradients:,} gradients of {format_count(event.parameters, 'parameter')}{limit}{late}{again}{others}"


def _scaler_step(event: events.ScalerStep, _: Names) -> str:
    words = [f"#{event.id}: {format_count(event.count, 'step')}, {event.skipped:,} skipped"]
    words += [f"{event.stuck:,} with no smaller scale"] if event.stuck else []
    words += [f"{event.clipped:,} with gradients clipped before"] if event.clipped else []
    words += [f"{event.undivided:,} without the scaler"] if event.undivided else []
    return ", ".join(words)


def _loading(event: events.Loading, _: Names) -> str:
    batches = f", {event.batches:,} batches" if event.batches else ""
    words = [f"#{event.id}: {event.sampler}{batches}, iteration {event.count:,}"]
    words += [f"{event.same_order:,} in the same order as before"] if event.same_order else []
    words += [f"{event.first_only:,} with only the first batch"] if event.first_only else []
    words += [f"{event.unweighted:,} samples without a weight"] if event.unweighted else []
    words += [f"{event.changed_samples:,} in which the data set changed"] if event.changed_samples else []
    words += [f"{event.shared:,} of {event.samples:,} samples are those of training"] if event.shared else []
    words += [f"no batch, as it drops all {event.dropped:,} samples"] if event.dropped else []
    words += [f"`{event.held_out}`"] if event.held_out else []
    words += [f"its {event.workers:,} workers copy `{event.generator}`"] if event.generator else []
    words += [f"{event.same_batch:,} of {event.given:,} batches equal to the one before"] if event.same_batch else []
    return ", ".join(words)


def _active_dropout(event: events.ActiveDropout, _: Names) -> str:
    return f"{event.function}, in evaluation mode"


def _rate_reduced(event: events.RateReduced, _: Names) -> str:
    never = "; no value was better than the first" if event.never_better else ""
    return f"#{event.id} lowers the rate, mode {event.mode}{never}"


def _rate_without_effect(event: events.RateWithoutEffect, names: Names) -> str:
    what = f'group["{event.name}"]' if event.is_key else f"optimizer.{event.name}"
    at = f" at {names.place(event.made)}" if event.made else ""
    return f"`{what}` is set{at}, and optimizer {event.optimizer_id} does not read it"


def _schedule_restart(event: events.ScheduleRestart, names: Names) -> str:
    at = f" at {names.place(event.made)}" if event.made else ""
    rates = f"from {format_number(event.loaded_rate)} to {format_number(event.rate)}"
    return f"{event.scheduler}, created{at}, has set the rate {rates}; the loop goes on from {event.start}"


def _loaded_rate(event: events.LoadedRate, _: Names) -> str:
    rates = f"{format_number(event.given_rate)}, and begins with {format_number(event.rate)}"
    return f"optimizer {event.optimizer_id} was created with the rate {rates}, which was loaded"


def _discarded_result(event: events.DiscardedResult, names: Names) -> str:
    return f"`{event.function}` at {names.place(event.made)}: its result is not used"


def _source_pattern(event: events.SourcePattern, names: Names) -> str:
    return f"{event.what}: {'; '.join(event.names)} at {names.place(event.made)}"


def _freeze_without_effect(event: events.FreezeWithoutEffect, names: Names) -> str:
    count = format_count(event.count, "parameter")
    return f"{event.attribute} = {event.unfreezes}, {names.tensor_name(event.tensor)}, {count}"


def _graph_pattern(event: events.GraphPattern, names: Names) -> str:
    if event.what == "softmax":
        return f"softmax over dimension {event.dim} of {list(event.shape)}"
    if event.shape:
        numbers = f", {', '.join(map(format_number, event.values))}" if event.values else ""
        return f"{event.what}: of {list(event.shape)}{numbers}"
    return f"{event.what}: {', '.join(map(names.tensor_name, event.weights))}"


def _state_pattern(event: events.StatePattern, names: Names) -> str:
    tensor = names.tensor_name(event.tensor)
    if event.what == "average":
        lowest, highest, steps = event.values
        factors = f"factors {format_number(lowest)} to {format_number(highest)}"
        moved = format_count(int(steps), "step")
        return f"{tensor} is an average of {names.tensor_name(event.other)}: {factors}, in {moved}"
    if event.what == "gradient-carried":
        return f"the gradient of {tensor} was not cleared after a step by hand"
    if event.what == "gradient-left":
        return f"the step of {tensor} has gradients that the pass at {names.place(event.made)} left"
    return f'{event.what}: "{event.name}" of {tensor}'


def _load(event: events.Load, _: Names) -> str:
    words = [format_count(event.loaded, "key")]
    words += [f"missing {', '.join(event.missing)}"] if event.missing else []
    words += [f"unexpected {', '.join(event.unexpected)}"] if event.unexpected else []
    return "; ".join([*words, "its own tensors"] if event.is_own else words)


def _loss(event: events.Loss, _: Names) -> str:
    return f"#{event.id}: {loss_text(event.nodes)}"


def _optimizer(event: events.Optimizer, _: Names) -> str:
    words = []
    for index, group in zip(event.indices, event.groups, strict=False):
        settings = ", ".join(f"{name} = {value}" for name, value in group.settings.items())
        count = len(group.tensors) + group.others
        words.append(f"group {index}: {settings}{f' ({count:,} tensors)' if count else ''}")
    if event.rates:
        words.append(f"created with the rates {', '.join(map(format_number, event.rates))}")
    return f"{event.optimizer} #{event.id}: {'; '.join(words)}"


def _optimizer_step(event: events.OptimizerStep, _: Names) -> str:
    return f"{event.optimizer}, {format_count(event.tensors, 'tensor')}{_carried(event)}"


def _optimizer_step_end(event: events.OptimizerStepEnd, _: Names) -> str:
    return f"{event.optimizer}, in {format_duration(event.duration_us)}{_carried(event)}"


def _carried(event: events.OptimizerStep | events.OptimizerStepEnd) -> str:
    return "; the last step's gradients were not cleared" if event.carried else ""


def _gradient(event: events.Gradient, names: Names) -> str:
    numbers = "none" if event.statistics is None else _numbers(event.statistics)
    notes = [word for word, is_so in (("cleared", event.cleared), ("no optimizer", not event.has_optimizer)) if is_so]
    noted = f" ({', '.join(notes)})" if notes else ""
    return f"{names.tensor_name(event.tensor)}{noted}: {numbers}"


def _update(event: events.Update, names: Names) -> str:
    type_ = f" now {event.type}" if event.type else ""
    return f"{names.tensor_name(event.tensor)} ({event.cause}){type_}: {_numbers(event.statistics)}"


def _non_finite(event: events.NonFinite, names: Names) -> str:
    name = f" {names.tensor_name(event.tensor)}" if event.tensor else ""
    size = f" of {event.type}" if event.type else ""
    cause = f", of {event.operation}" if event.operation else ""
    return f"{event.where}{name}: {format_count(event.count, 'NaN or infinite element')}{size}{cause}"


def _call_function(event: events.CallFunction, _: Names) -> str:
    if event.raised:
        return f"{event.target}({', '.join(event.inputs)}) raised an exception"
    how = how_given_back(event)
    noted = f"  ({how})" if how else ""
    changed = [event.inputs[position] for position in event.changed if position < len(event.inputs)]
    changes = f"; changed {_tensors(changed)}{_numbers_of_each(event.changed_statistics)}" if changed else ""
    given_back = f"{_tensors(event.outputs)}{noted}{_numbers_of_each(event.statistics)}"
    return f"{event.target}({', '.join(event.inputs)}) -> {given_back}{changes}"


def _read_value(event: events.ReadValue, _: Names) -> str:
    value = "" if event.value is None else f" = {event.value}"
    return f"{event.target}({', '.join(event.inputs)}){value}"


def _flow_step(event: events.FlowStep, _: Names) -> str:
    came_out = str(event.value) if event.iterations is None else format_count(event.iterations, "iteration")
    return f"{event.construct} {' '.join(event.text.split())}: {came_out}"


def _get_attr(event: events.GetAttr, _: Names) -> str:
    numbers = "" if event.statistics is None else f": {_numbers(event.statistics)}"
    return f"{event.owner}.{event.target} -> {event.value}{numbers}"


def _set_attr(event: events.SetAttr, _: Names) -> str:
    return f"{event.owner}.{event.target} = {event.value}"


def _del_attr(event: events.DelAttr, _: Names) -> str:
    return f"{event.owner}.{event.target}"


def _configuration(event: events.Configuration, _: Names) -> str:
    return ", ".join(f"{name} = {value}" for name, value in event.settings.items())


def _problem(event: events.Problem, _: Names) -> str:
    return " ".join(event.message.split())


def _limit(event: events.Limit, _: Names) -> str:
    return f"{event.max_size:,} bytes: from here on, only state changes are recorded"


def _run_end(event: events.RunEnd, _: Names) -> str:
    return f"{event.reason} {event.error}".rstrip()


_DETAILS: Final[dict[type, Callable[[Any, Names], str]]] = {
    events.Run: _run,
    events.Location: _location,
    events.Module: _module,
    events.Parameter: _state_tensor,
    events.Buffer: _state_tensor,
    events.OptimizerState: _state_tensor,
    events.CallModule: _call_module,
    events.ReturnModule: _return_module,
    events.Input: _input,
    events.Loss: _loss,
    events.Backward: _backward,
    events.BackwardEnd: _backward_end,
    events.Optimizer: _optimizer,
    events.OptimizerStep: _optimizer_step,
    events.OptimizerStepEnd: _optimizer_step_end,
    events.SchedulerStep: _scheduler_step,
    events.Clip: _clip,
    events.ScalerStep: _scaler_step,
    events.Loading: _loading,
    events.Load: _load,
    events.ActiveDropout: _active_dropout,
    events.DiscardedResult: _discarded_result,
    events.SourcePattern: _source_pattern,
    events.FreezeWithoutEffect: _freeze_without_effect,
    events.RateReduced: _rate_reduced,
    events.RateWithoutEffect: _rate_without_effect,
    events.ScheduleRestart: _schedule_restart,
    events.LoadedRate: _loaded_rate,
    events.GraphPattern: _graph_pattern,
    events.StatePattern: _state_pattern,
    events.Gradient: _gradient,
    events.Update: _update,
    events.NonFinite: _non_finite,
    events.CallFunction: _call_function,
    events.CallMethod: _call_function,
    events.ReadValue: _read_value,
    events.FlowStep: _flow_step,
    events.GetAttr: _get_attr,
    events.SetAttr: _set_attr,
    events.DelAttr: _del_attr,
    events.Configuration: _configuration,
    events.Problem: _problem,
    events.Limit: _limit,
    events.RunEnd: _run_end,
}
