"""Collects what a run did, apart from values, in one pass over a trace file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_trace.comparison.against import facts
from proxy_trace.comparison.against.facts import AFTER, Facts, SubjectTable
from proxy_trace.reading.names import MOST_DEFINITIONS
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.comparison.against.facts import Subject, SubjectKey
    from proxy_trace.comparison.records.correspondence import Numbers
    from proxy_trace.reading.names import Names
    from proxy_trace.reading.report import Report
    from proxy_trace.reading.trace import TraceFile

_REPORT_INTERVAL: Final = 1 << 14
_SHOWN_KEYS: Final = 3
_LONGEST_CHAIN: Final = 8
_INSIDE: Final = 5
"""The number of functions inside the model that are shown. Its last ones, such as a softmax, belong to the loss."""

_MOST_LOSSES: Final = 1 << 10
_OF_THE_MACHINE: Final = frozenset({"seed", "cuda_seed", "threads", "interop_threads"})
"""Settings that are not the script's: values, and the number of processors."""

_BACKWARD: Final = "Backward"


def collect_facts(
    file: TraceFile,
    names: Names,
    modules: Numbers,
    tensors: Numbers,
    is_wanted: Callable[[Any], bool] | None,
    report: Report,
) -> Facts:
    """Read a file once. Memory grows with the model and the script, not with the length of the run.

    Args:
        file: the trace.
        names: all its definitions.
        modules: by module id, a number that is the same for corresponding modules of both runs.
        tensors: the same for parameters and buffers.
        is_wanted: which records to use; None for all.
        report: called now and then with the number of bytes read since the last time.

    Raises:
        UnreadableFileError: if the file cannot be read.
    """
    collector = _Collector(names, modules, tensors, is_wanted)
    reading = file.read()
    reported = 0
    for count, event in enumerate(reading, 1):
        collector.take(event)
        if not count % _REPORT_INTERVAL:
            report(reading.bytes_read - reported)
            reported = reading.bytes_read
    report(reading.bytes_read - reported)
    return collector.finish(file.run)


class _Collector:
    """Collects from the records of one file."""

    def __init__(
        self, names: Names, modules: Numbers, tensors: Numbers, is_wanted: Callable[[Any], bool] | None
    ) -> None:
        self._names = names
        self._is_wanted = is_wanted
        self._modules = modules
        self._tensors = tensors
        self._table = SubjectTable()
        self._last_step = -1
        self._latest_step = -1
        self._end = ""
        self._optimizers: dict[int, str] = {}
        self._losses: dict[int, tuple[events.Loss, str, str]] = {}
        self._passes = 0
        self._bits: dict[int, str | None] = {}
        self._input_bits: dict[tuple[int, int], str | None] = {}
        self._before = ""
        self._functions = {id_: location.function for id_, location in names.locations.items()}
        self._takers: dict[type, Callable[[Any], None]] = {
            events.Parameter: self._define,
            events.Buffer: self._define,
            events.CallModule: self._call,
            events.ReturnModule: self._return,
            events.Input: self._input,
            events.Loss: self._loss,
            events.Backward: self._backward,
            events.Optimizer: self._optimizer,
            events.OptimizerStep: self._step,
            events.OptimizerStepEnd: self._step_end,
            events.SchedulerStep: self._scheduler,
            events.Clip: self._clip,
            events.Load: self._load,
            events.Gradient: self._gradient,
            events.Update: self._update,
            events.NonFinite: self._non_finite,
            events.CallFunction: self._torch_call,
            events.CallMethod: self._torch_call,
            events.ReadValue: self._read,
            events.SetAttr: self._set,
            events.FlowStep: self._flow,
            events.Configuration: self._configure,
            events.RunEnd: self._run_end,
        }

    def take(self, event: events.AnyEvent) -> None:
        """Process the next record."""
        self._table.order += 1
        taker = self._takers.get(type(event))
        if taker is None or (self._is_wanted is not None and not self._is_wanted(event)):
            return
        if isinstance(event, events.Happening):
            self._latest_step = event.step
        taker(event)

    def finish(self, run: events.Run) -> Facts:
        """The facts of the run."""
        steps, order = self._latest_step + 1, self._table.order
        for subject in self._table.subjects.values():
            subject.end(steps, order)
        self._add_modules()
        self._tell_all(self._table.at((facts.RUN, ""), -1, 0), _settings_of_run(run, self._end), -1, 0)
        places = {id_: self._names.place(id_) for id_ in self._names.locations}
        return Facts(
            self._table.subjects,
            {key: self._name(key) for key in self._table.subjects},
            places,
            self._functions,
            self._last_step,
            self._end,
            self._table.is_whole,
        )

    # Recording aspects

    def _tell(self, subject: Subject, aspect: str, value: str, event: events.Happening) -> None:
        subject.tell(aspect, value, event.step, self._table.order, event.location or subject.location)

    def _tell_all(self, subject: Subject, values: dict[str, str], step: int, location: int) -> None:
        for aspect, value in values.items():
            subject.tell(aspect, value, step, self._table.order, location)

    def _happens(self, kind: str, what: object, event: events.Happening) -> Subject:
        return self._table.happens((kind, what), event, self._functions.get(event.location, ""))

    def _follow(self, subject: Subject, event: events.Happening, label: str) -> None:
        """Record what comes before it as an aspect. For the few kinds of events that make up a training loop."""
        if self._before:
            self._tell(subject, AFTER, self._before, event)
        self._before = label

    # Definitions

    def _define(self, event: events.StateTensor) -> None:
        kind = facts.BUFFER if isinstance(event, events.Buffer) else facts.PARAMETER
        module = self._names.modules.get(event.module)
        location = (module.made or module.location) if module is not None else 0
        subject = self._table.at((kind, self._tensors[event.id]), self._latest_step, location)
        values = {"type": event.type}
        if kind == facts.PARAMETER:
            values["requires_grad"] = str(event.requires_grad)
        if event.id not in self._bits:
            values["at the start"] = _start_words(event.statistics)
            if len(self._bits) < MOST_DEFINITIONS:
                self._bits[event.id] = event.statistics.bits if event.statistics is not None else None
        self._tell_all(subject, values, self._latest_step, location)

    def _add_modules(self) -> None:
        """Add what is known at the end, and is so from the start: modules and tied tensors."""
        self._table.order = 0
        for id_, module in self._names.modules.items():
            location = module.made or module.location
            subject = self._table.at((facts.MODULE, self._modules[id_]), -1, location)
            settings = {name: _plain(value) for name, value in module.settings.items()}
            self._tell_all(subject, {"class": module.type, **settings}, -1, location)
        for id_, tensor in self._names.tensors.items():
            kind = facts.BUFFER if isinstance(tensor, events.Buffer) else facts.PARAMETER
            known = self._table.subjects.get((kind, self._tensors[id_]))
            if known is not None and kind == facts.PARAMETER:
                words = ", ".join(tensor.aliases[:_SHOWN_KEYS]) or "none"
                known.tell("tied to", words, -1, known.first.order, known.location)

    # Calls

    def _call(self, event: events.CallModule) -> None:
        subject = self._happens(facts.CALL, self._modules[event.module], event)
        subject.count_in_step(event.step, self._table.order)
        mode = "training" if event.training else "evaluation"
        self._tell(subject, "mode", mode, event)
        self._tell(subject, "inputs", _shapes(event.inputs), event)
        module = self._names.modules.get(event.module)
        if module is not None and not module.parent:
            self._tell(subject, "autograd", "off" if event.no_grad else "on", event)
            self._follow(subject, event, f"a call of {module.name} in {mode} mode")

    def _return(self, event: events.ReturnModule) -> None:
        subject = self._table.subjects.get((facts.CALL, self._modules[event.module]))
        if subject is None:
            return
        self._tell(subject, "outputs", "an exception" if event.raised else _shapes(event.outputs), event)
        for name, words in event.keywords.items():
            self._tell(subject, f"argument {name}", words, event)

    def _input(self, event: events.Input) -> None:
        if event.evaluation:
            return
        key = self._modules[event.module], event.position
        subject = self._happens(facts.INPUT, key, event)
        self._tell(subject, "values", _start_words(event.statistics), event)
        bits = event.statistics.bits if event.statistics is not None else None
        if bits is not None and self._input_bits.get(key) is not None:
            is_same = bits == self._input_bits[key]
            self._tell(subject, "from call to call", "the same" if is_same else "others", event)
        self._input_bits[key] = bits

    def _torch_call(self, event: events.CallFunction) -> None:
        subject = self._happens(facts.TORCH_CALL, (event.target, self._modules[event.module]), event)
        subject.count_in_step(event.step, self._table.order)
        self._tell(subject, "inputs", _shapes(event.inputs), event)
        self._tell(subject, "outputs", "an exception" if event.raised else _shapes(event.outputs), event)

    def _read(self, event: events.ReadValue) -> None:
        subject = self._happens(facts.READ, (event.target, self._modules[event.module]), event)
        subject.count_in_step(event.step, self._table.order)

    def _set(self, event: events.SetAttr) -> None:
        subject = self._happens(facts.ATTRIBUTE, (event.owner, event.target), event)
        self._tell(subject, "value", event.value, event)

    def _flow(self, event: events.FlowStep) -> None:
        function = self._functions.get(event.location, "")
        subject = self._happens(facts.FLOW, (event.construct, event.text, function), event)
        value = f"{event.iterations:,} times" if event.iterations is not None else str(event.value)
        self._tell(subject, "comes out as", value, event)

    # Training

    def _loss(self, event: events.Loss) -> None:
        if len(self._losses) < _MOST_LOSSES:
            self._losses[event.id] = (event, *_loss_words(event))

    def _backward(self, event: events.Backward) -> None:
        self._passes += 1
        subject = self._happens(facts.BACKWARD, event.function, event)
        subject.count_in_step(event.step, self._table.order)
        self._tell(subject, "starts at", _shapes(event.inputs), event)
        self._follow(subject, event, "a backward pass")
        loss = self._losses.get(event.loss)
        if loss is not None:
            made, nodes, shapes = loss
            place = made.made or event.location
            subject.tell("loss computed by", nodes, event.step, self._table.order, place)
            subject.tell("shapes in the loss", shapes, event.step, self._table.order, place)

    def _optimizer(self, event: events.Optimizer) -> None:
        location = event.made or event.location
        is_new = event.id not in self._optimizers
        if is_new:
            if len(self._optimizers) >= MOST_DEFINITIONS:
                return
            self._optimizers[event.id] = self._name_of_optimizer(event)
        name = self._optimizers[event.id]
        subject = self._table.at((facts.OPTIMIZER, name), event.step, location) if is_new else None
        if subject is not None:
            subject.count_in_step(event.step, self._table.order)
            subject.tell("class", event.optimizer, event.step, self._table.order, location)
        for group in event.groups:
            for setting, value in group.settings.items():
                if subject is not None:
                    subject.tell(setting, _plain(value), event.step, self._table.order, location)
                else:
                    changed = self._happens(facts.CHANGED_SETTING, (setting, name), event)
                    changed.count_in_step(event.step, self._table.order)
            if subject is not None or group.tensors or group.others:
                self._group(event, group, name, location)

    def _group(self, event: events.Optimizer, group: events.ParameterGroup, name: str, location: int) -> None:
        """Record the parameters of a group."""
        owner = self._table.subjects[(facts.OPTIMIZER, name)]
        order = self._table.order
        owner.tell("tensors of no traced model", f"{group.others:,}", event.step, order, location)
        for tensor in group.tensors:
            known = self._table.subjects.get((facts.PARAMETER, self._tensors[tensor]))
            if known is not None:
                known.tell("optimizer", event.optimizer, event.step, order, location)

    def _name_of_optimizer(self, event: events.Optimizer) -> str:
        """The root module of its first parameter. An optimizer has no name itself."""
        for group in event.groups:
            for id_ in group.tensors:
                tensor = self._names.tensors.get(id_)
                module = self._names.modules.get(tensor.module) if tensor is not None else None
                root = self._names.modules.get(module.root) if module is not None else None
                if root is not None:
                    return f"of {root.name}"
        return "of no traced model"

    def _step(self, event: events.OptimizerStep) -> None:
        subject = self._happens(facts.STEP, self._optimizers.get(event.optimizer_id, ""), event)
        carried = "still there" if event.carried else "cleared"
        self._tell(subject, "gradients of the step before", carried, event)
        self._tell(subject, "tensors", f"{event.tensors:,}", event)
        self._tell(subject, "backward passes before it", f"{self._passes:,}", event)
        self._passes = 0
        self._follow(subject, event, "a step")

    def _step_end(self, event: events.OptimizerStepEnd) -> None:
        self._last_step = max(self._last_step, event.step)

    def _scheduler(self, event: events.SchedulerStep) -> None:
        subject = self._happens(facts.SCHEDULER, event.scheduler, event)
        self._tell(subject, "first thing before it", event.follows, event)

    def _clip(self, event: events.Clip) -> None:
        subject = self._happens(facts.CLIP, "", event)
        self._tell(subject, "parameters", f"{event.parameters:,}", event)
        self._tell(subject, "parameters with a gradient", f"{event.gradients:,}", event)
        self._tell(subject, "largest norm", _plain(event.limit), event)
        self._tell(subject, "when", "after the step" if event.is_late else "before the step", event)
        self._follow(subject, event, "clipping")

    def _load(self, event: events.Load) -> None:
        subject = self._happens(facts.LOAD, self._modules[event.module], event)
        for aspect, keys, count in (
            ("missing keys", event.missing, event.missing_count),
            ("unexpected keys", event.unexpected, event.unexpected_count),
        ):
            more = f" and {count - _SHOWN_KEYS:,} more" if count > _SHOWN_KEYS else ""
            self._tell(subject, aspect, (", ".join(keys[:_SHOWN_KEYS]) or "none") + more, event)
        self._tell(subject, "keys taken", f"{event.loaded:,}", event)
        self._tell(subject, "strict", str(event.strict), event)
        self._tell(subject, "weights", "its own" if event.is_own else "others", event)

    def _gradient(self, event: events.Gradient) -> None:
        subject = self._table.subjects.get((facts.PARAMETER, self._tensors[event.tensor]))
        if subject is None:
            return
        self._tell(subject, "gradient", _gradient_words(event), event)
        if not event.has_optimizer:
            self._tell(subject, "gradient without an optimizer", "yes", event)

    def _update(self, event: events.Update) -> None:
        number = self._tensors[event.tensor]
        subject = self._table.subjects.get((facts.PARAMETER, number)) or self._table.subjects.get(
            (facts.BUFFER, number)
        )
        if subject is None:
            return
        bits = event.statistics.bits if event.statistics is not None else None
        is_same = bits is not None and bits == self._bits.get(event.tensor)
        self._bits[event.tensor] = bits
        self._tell(subject, "change", "unchanged" if is_same else event.cause, event)

    def _non_finite(self, event: events.NonFinite) -> None:
        number = self._tensors[event.tensor] if event.tensor else self._modules[event.module]
        self._happens(facts.NON_FINITE, (event.where, bool(event.tensor), number), event)

    # The run

    def _configure(self, event: events.Configuration) -> None:
        for name, value in event.settings.items():
            if name not in _OF_THE_MACHINE:
                subject = self._happens(facts.CONFIGURATION, name, event)
                self._tell(subject, "value", "off" if value is None else str(value), event)

    def _run_end(self, event: events.RunEnd) -> None:
        self._end = f"{event.reason} {event.error}".rstrip()

    def _name(self, key: SubjectKey) -> str:
        """The name of a subject, for people."""
        kind, what = key
        modules, tensors = self._names_by_number()
        if kind in (facts.CALL, facts.MODULE, facts.LOAD):
            return modules.get(what, "")
        if kind in (facts.PARAMETER, facts.BUFFER):
            return tensors.get(what, "")
        if isinstance(what, str):
            return what
        assert isinstance(what, tuple)
        if kind == facts.INPUT:
            return f"{modules.get(what[0], '')}, input {what[1]}"
        if kind == facts.NON_FINITE:
            return f"{what[0]} of {(tensors if what[1] else modules).get(what[2], '')}"
        if kind in (facts.TORCH_CALL, facts.READ):
            within = modules.get(what[1], "")
            return f"{what[0]} in {within}" if within else str(what[0])
        if kind == facts.ATTRIBUTE:
            return f"{what[0]}.{what[1]}"
        return " ".join(map(str, what[:2]))

    def _names_by_number(self) -> tuple[dict[object, str], dict[object, str]]:
        if not hasattr(self, "_by_number"):
            self._by_number: tuple[dict[object, str], dict[object, str]] = (
                {self._modules[id_]: module.name for id_, module in self._names.modules.items()},
                {self._tensors[id_]: tensor.name for id_, tensor in self._names.tensors.items()},
            )
        return self._by_number


def _settings_of_run(run: events.Run, end: str) -> dict[str, str]:
    return {
        "arguments": " ".join(run.argv) or "none",
        "Python": run.python,
        "torch": run.torch,
        "ranks": f"{run.world_size:,}",
        "end": end or "none is recorded",
    }


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _shapes(descriptions: Sequence[str]) -> str:
    return ", ".join(descriptions) or "no tensor"


def _start_words(statistics: events.Statistics | None) -> str:
    """Whether all values are the same, in words."""
    if statistics is None or statistics.minimum is None:
        return "not known"
    if statistics.nonfinite:
        return "not finite"
    if statistics.minimum == statistics.maximum:
        return "all 0" if statistics.minimum == 0 else "all equal"
    return "various"


def _gradient_words(event: events.Gradient) -> str:
    if event.cleared:
        return "cleared before the step"
    if event.statistics is None:
        return "none"
    if event.statistics.nonfinite:
        return "not finite"
    return "zero" if event.statistics.norm == 0 else "there"


def _loss_words(event: events.Loss) -> tuple[str, str]:
    """The functions that computed a loss from a model's output, if any, and the shapes of their results."""
    names = [_function_of(node) for node in event.nodes if not node.inside]
    shapes = [str(list(node.shape)) for node in event.nodes if not node.inside]
    inside = [node for node in event.nodes if node.inside][:_INSIDE]
    of_model = [f"{_function_of(node)} in the model" for node in inside] or ["no model"]
    return f"{_chain(names)} of {_chain(of_model)}".removeprefix(" of "), _chain(
        shapes + [str(list(node.shape)) for node in inside[:1]]
    )


def _function_of(node: events.LossNode) -> str:
    return node.name.partition(_BACKWARD)[0]


def _chain(words: Sequence[str]) -> str:
    """Words in order. Repetitions are shortened to two, and long chains are cut."""
    told: list[str] = []
    for word in words:
        if told[-2:] != [word, word]:
            told.append(word)
    return " of ".join(told if len(told) <= _LONGEST_CHAIN else [*told[:_LONGEST_CHAIN], "more"])
