"""Summarises the trace of one process: its modules and their calls, its parameters and buffers and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from proxy_trace.process.acts_summary import ActsCollector, ActsSummary
from proxy_trace.process.training_summary import TrainingCollector, TrainingSummary
from proxy_trace.reading.names import MOST_DEFINITIONS, without_cycles
from proxy_trace.tensors.origins import Origins, new_numbers
from proxy_trace.tensors.same_values import are_same_values, has_bits
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from proxy_trace.reading.names import Names
    from proxy_trace.reading.selection import Period
    from proxy_trace.reading.trace import Reading, TraceFile

_ANY_STAGE: Final = ""
"""The stage of a change that may have happened in any stage."""

_PROBLEM_LIMIT: Final = 1000
_COMPILED_MODULES: Final = frozenset(
    {"OptimizedModule", "RecursiveScriptModule", "ScriptModule", "TopLevelTracedModule", "TracedModule"}
)
"""The types of modules created by `torch.compile` and TorchScript."""

_COMPILED_FUNCTION: Final = "torch.compile("
"""The prefix of targets in calls of compiled functions."""

_MOST_NAMES: Final = 1000
"""The most stages, optimizers and threads with open calls that are told apart."""

_OTHERS: Final = "others"
_MOST_NON_FINITE: Final = 1 << 14
_DEEPEST: Final = 256
"""The maximum nesting of calls. Beyond it, the outermost calls count as never ended."""

_OUTPUTS: Final = 64
_TRAIL: Final = 5
_TRAIL_OF_LOSS: Final = 12
"""The length of the trail behind a non-finite output and loss, in calls; no module names their parts."""


class ModuleSummary(msgspec.Struct):
    """A module and its calls. `total_us` sums over the calls that ended; `parent` is an id, 0 for a root.

    `training_calls` counts those in training mode, and `stages` those that no other module made, by stage. The `first`
    steps and then every `every`-th are recorded, and none after the trace reached its maximum size (`is_cut_short`).
    `is_compiled`: some of its calls ran compiled code, in which no calls are seen. `calls_seen`, `removed`, `settings`
    and `repeated` are as in `events.Module`. `place` is where it was proxied, as "file:line", and `made` where it was
    created, "" if unknown. `owner` is the class whose method proxied it, "" if none. `called_place` is where it was
    last called. `is_cut_off`: no gradient reached it from its outputs in some of its first calls in training mode.
    `taken` counts the modules directly below it that became modules of another one, by the id of that.
    """

    id: int
    name: str = ""
    type: str = ""
    parent: int = 0
    level: str = "INFO"
    parameters: int = 0
    calls: int = 0
    training_calls: int = 0
    ended: int = 0
    raised: int = 0
    total_us: int = 0
    first: int = 0
    every: int = 1
    stages: dict[str, int] = {}
    is_compiled: bool = False
    calls_seen: bool = True
    removed: bool = False
    is_cut_short: bool = False
    place: str = ""
    made: str = ""
    settings: dict[str, events.Setting] = {}
    owner: str = ""
    called_place: str = ""
    is_cut_off: bool = False
    repeated: int = 0
    taken: dict[int, int] = {}

    @property
    def origin(self) -> str:
        """Where it was created, or else where its model was proxied."""
        return self.made or self.place

    @property
    def mean_us(self) -> float:
        """Mean duration of the calls that ended."""
        return self.total_us / self.ended if self.ended else 0.0


class TensorSummary(msgspec.Struct):
    """A parameter or buffer and its history.

    Attributes:
        updates: the number of updates, by cause. An update that left the values as they were, to the bit, counts as
            "unchanged"; neither that nor "converted" is a change of values.
        first: the statistics at the start of training: when it was proxied; for a parameter, as last set before the
            first backward pass; or after a conversion, if its values had not changed by then.
        last: the latest readable statistics.
        filled_place: where it may have been filled with the one number that it began with, as "file:line".
        last_between: its statistics when it was last set outside of steps.
        has_changed: whether it had other values than the first in a stage that trains.
        changes: how often it was found to have other values than the first, by stage; "" if the stage is unknown.
        undecided: how many writes may or may not have changed its values.
        watched: whether its changes are recorded.
        removed: whether it has been removed from the model.
        freed: whether its model was freed before it was known whether its only gradient changed it.
        is_stepped: whether it was in an optimizer's step.
        gradients: the number of its gradients: at optimizer steps, or, without an optimizer, after backward passes.
        missing_gradients: how many steps found no gradient.
        cleared_gradients: how many steps found none, or only zeros, although a backward pass had left one.
        is_without_optimizer: whether it had a gradient that no optimizer could use.
        left_place: where the first backward pass began that left such a gradient, as "file:line".
        has_nonzero_gradient: whether some gradient had a nonzero element.
        largest_gradient: the largest finite magnitude of an element of its gradients.
        made_anew: how often another tensor with other values replaced it.
        frozen_steps: how many steps changed it although it was frozen and its gradient was zero.
        frozen_moves: for a buffer, the number of steps between which it changed since a parameter of its module last
            had a gradient or changed, if all of these are frozen.
        last_move: the last of these steps, as the number of steps that had ended; -1 if there is none.
        first_frozen_step: the first step in `frozen_steps`, likewise.
        unfrozen_step: the number of steps that had ended when it was unfrozen; -1 if it was not, or was trained since.
        last_gradient_step: the last step for which an optimizer had its gradient, likewise.
    """

    id: int
    name: str = ""
    type: str = ""
    module: int = 0
    is_buffer: bool = False
    requires_grad: bool = False
    aliases: Sequence[str] = ()
    device: str = ""
    updates: dict[str, int] = {}
    first: events.Statistics | None = None
    last: events.Statistics | None = None
    last_between: events.Statistics | None = None
    filled_place: str = ""
    has_changed: bool = False
    changes: dict[str, int] = {}
    undecided: int = 0
    watched: bool = True
    removed: bool = False
    freed: bool = False
    is_stepped: bool = False
    gradients: int = 0
    missing_gradients: int = 0
    cleared_gradients: int = 0
    is_without_optimizer: bool = False
    left_place: str = ""
    last_gradient: events.Statistics | None = None
    has_nonzero_gradient: bool = False
    largest_gradient: float = 0.0
    made_anew: int = 0
    frozen_steps: int = 0
    first_frozen_step: int = -1
    frozen_moves: int = 0
    last_move: int = -1
    unfrozen_step: int = -1
    last_gradient_step: int = -1

    def begin_anew(self) -> None:
        """Reset what belongs to the previous tensor of this name."""
        self.made_anew += 1
        self.updates, self.changes = {}, {}
        self.has_changed = self.is_stepped = self.is_without_optimizer = self.has_nonzero_gradient = False
        self.undecided = self.gradients = self.missing_gradients = self.cleared_gradients = 0
        self.last_gradient, self.largest_gradient = None, 0.0
        self.unfrozen_step = self.last_gradient_step = -1

    @property
    def update_count(self) -> int:
        """The number of changes of values; without fingerprints, the number of writes."""
        return sum(count for cause, count in self.updates.items() if cause not in ("unchanged", "converted"))

    @property
    def is_compared(self) -> bool:
        """Whether each update is known to have changed the values or not, and none can have been missed."""
        return has_bits(self.first) and not (self.undecided or self.freed)

    @property
    def is_empty(self) -> bool:
        """Whether it has no element, like a rank's part of a parameter smaller than the world size."""
        return self.last is not None and self.last.minimum is None and self.last.norm == 0.0


class ProblemSummary(msgspec.Struct):
    """A problem of tracing, at its first occurrence."""

    message: str
    event: events.Problem
    count: int = 1


class StageSummary(msgspec.Struct):
    """The contents of a stage: optimizer steps, and outermost module calls."""

    steps: int = 0
    outermost_calls: int = 0


class ProcessSummary(msgspec.Struct):
    """The contents of a process's file. Times are in microseconds since the process's start."""

    file: str
    rank: int
    pid: int
    parent_pid: int
    started: str
    size_bytes: int
    events: int = 0
    duration_us: int = 0
    steps: int = 0
    """The number of recorded optimizer steps."""
    steps_made: int = 0
    """The number of optimizer steps made, as far as known: more, if only every n-th is recorded."""
    stages: dict[str, StageSummary] = {}
    optimizers: dict[str, int] = {}
    backward_passes: int = 0
    backward_us: int = 0
    was_looked_at: bool = False
    """Whether parameters were examined again after some backward pass: at a step, or at a model's call."""

    module_calls: int = 0
    calls_compiled_functions: bool = False
    """Whether compiled functions ran, in which no module calls are seen."""
    modules: list[ModuleSummary] = []
    tensors: list[TensorSummary] = []
    malformed: int = 0
    first_malformed_line: int = 0
    unknown: dict[str, int] = {}
    surplus: int = 0
    """The number of definitions and non-finite values that exceeded the limits."""

    is_cut: bool = False
    ends_inside: str = ""
    """What was unfinished when the trace broke off: "a call of model.fc", "a backward pass". "" if nothing was, or the
    trace did not break off. Things ended by an exception count as finished."""

    end: str = ""
    """How the process ended: "exit", "exception ValueError" or another `RunEnd.reason`; "" if unknown."""

    end_step: int = 0
    """The number of optimizer steps by then."""

    limited_at_step: int | None = None
    """The number of optimizer steps when the trace reached its maximum size; None if it never did."""

    is_empty: bool = False
    """Whether a period was selected in which nothing happened."""

    last_step_outside: int = 0
    """The last step with events outside of the period."""

    stages_outside: list[str] = []
    """The stages with events outside of the period."""


class ProcessEvidence(NamedTuple):
    """The evidence of one process for the checks; its size does not depend on the length of the trace.

    Attributes:
        process: the summary.
        started_us: when the process started, in microseconds of Unix time.
        has_trained: whether there were optimizer steps, or training steps by hand.
        has_bits: whether any values have a fingerprint, as all do in traces of this version.
        trained_stages: the stages that have optimizer steps.
        stages_with_gradients: the stages in which a parameter had a gradient.
        non_finite: the non-finite values, in order.
        trails: for each of those, what the output or loss was computed from, and so on, back to other modules' outputs.
        overflows: the first record with an infinite norm of finite elements, for each parameter, buffer and gradient,
            in order.
        problems: the distinct problems, in order, up to a limit.
        names: resolves the ids in these events.
        training: its optimizers, its losses, and the modes in which it trained.
        acts: what it did around its steps.
    """

    process: ProcessSummary
    started_us: int
    has_trained: bool
    has_bits: bool
    trained_stages: set[str]
    stages_with_gradients: set[str]
    non_finite: list[events.NonFinite]
    trails: list[list[str]]
    overflows: list[events.Gradient | events.Update]
    problems: list[ProblemSummary]
    names: Names
    training: TrainingSummary
    acts: ActsSummary


class ProcessCollector:
    """Collects the summary from the events of one file."""

    def __init__(self, file: TraceFile, reading: Reading, period: Period | None = None) -> None:
        """Begin.

        Args:
            file: the file of the events.
            reading: the pass over them; each event must be passed to `take`.
            period: the selected period; of the rest, only the initial state is kept.
        """
        run = file.run
        self._process = ProcessSummary(
            file=str(file.path),
            rank=run.rank,
            pid=run.pid,
            parent_pid=run.parent_pid,
            started=run.started,
            size_bytes=file.size_bytes(),
            is_empty=period is not None,
        )
        self._started_us = file.started_us()
        self._stages_with_gradients: set[str] = set()
        self._non_finite_values: list[events.NonFinite] = []
        self._trails: list[list[str]] = []
        self._begun: events.Backward | None = None
        self._overflows: dict[tuple[type, int], events.Gradient | events.Update] = {}
        self._problems: dict[str, ProblemSummary] = {}
        self._names = reading.names
        self._training = TrainingCollector(reading.names)
        self._acts = ActsCollector(reading.names)
        self._reading = reading
        self._period = period
        self._events = 0
        self._latest_us = 0
        self._latest_step = 0
        self._modules: dict[int, ModuleSummary] = {}
        self._tensors: dict[int, TensorSummary] = {}
        self._calls_by_thread: dict[int, list[events.CallModule]] = {}
        self._returned: dict[int, events.ReturnModule] = {}
        self._origins = Origins()
        self._called_at: dict[int, int] = {}
        self._call_names: dict[tuple[str, int], str] = {}
        self._unfinished = ""
        self._surplus = 0
        self._open_backward_passes = 0
        self._has_other_steps = False
        self._has_begun = False
        self._current: dict[int, events.Statistics | None] = {}
        self._stages_outside: dict[str, None] = {}
        self._of_modules: dict[int, list[TensorSummary]] = {}
        self._takers: dict[type[events.Event], Callable[[Any], None]] = {
            events.Module: self._module,
            events.Parameter: self._tensor,
            events.Buffer: self._tensor,
            events.CallModule: self._call_module,
            events.ReturnModule: self._return_module,
            events.Input: self._training.input,
            events.Loss: self._training.loss,
            events.GraphPattern: self._acts.pattern,
            events.StatePattern: self._acts.state_pattern,
            events.SchedulerStep: self._training.scheduler_step,
            events.RateReduced: self._training.rate_reduced,
            events.Clip: self._training.clip,
            events.ScalerStep: self._acts.scaler_step,
            events.Loading: self._acts.loading,
            events.ActiveDropout: self._acts.dropout,
            events.DiscardedResult: self._acts.discarded,
            events.SourcePattern: self._acts.source_pattern,
            events.FreezeWithoutEffect: self._acts.freezing,
            events.RateWithoutEffect: self._training.misplaced_rate,
            events.Load: self._training.load,
            events.Backward: self._backward,
            events.BackwardEnd: self._backward_end,
            events.Optimizer: self._training.optimizer,
            events.OptimizerStep: self._step,
            events.OptimizerStepEnd: self._step_end,
            events.Gradient: self._gradient,
            events.Update: self._update,
            events.NonFinite: self._non_finite,
            events.CallFunction: self._call_function,
            events.CallMethod: self._call_function,
            events.Problem: self._problem,
            events.Limit: self._limit,
            events.RunEnd: self._run_end,
        }

    def take(self, event: events.AnyEvent) -> None:
        """Take the next event."""
        if self._period is not None and not self._is_in_period(event, self._period):
            return
        self._events += 1
        taker = self._takers.get(type(event))
        if taker is not None:
            taker(event)
        if isinstance(event, events.Happening):
            if event.time_us > self._latest_us:
                self._latest_us = event.time_us
            if event.step > self._latest_step:
                self._latest_step = event.step

    def finish(self) -> ProcessEvidence:
        """The evidence from everything read so far. More events may follow, and this may be called again."""
        process, reading = self._process, self._reading
        process.events = self._events
        process.duration_us = self._latest_us
        process.steps_made = max(self._latest_step, process.steps_made)
        process.stages_outside = list(self._stages_outside)
        process.malformed = reading.malformed
        process.first_malformed_line = reading.first_malformed_line
        process.unknown = reading.unknown
        process.is_cut = reading.is_cut
        process.surplus = reading.surplus + self._surplus
        self._cut_circles()
        process.modules = list(self._modules.values())
        for module in process.modules:
            module.is_cut_short = process.limited_at_step is not None
            module.called_place = self._names.place(self._called_at.get(module.id, 0))
        process.tensors = list(self._tensors.values())
        self._judge_changes()
        process.module_calls = sum(module.calls for module in process.modules)
        open_calls = [stack[-1] for stack in self._calls_by_thread.values() if stack]
        if process.end:
            process.ends_inside = ""
        elif open_calls:
            process.ends_inside = f"a call of {self._names.module_name(open_calls[0].module)}"
        else:
            process.ends_inside = self._unfinished
        problems = list(self._problems.values())
        overflows = list(self._overflows.values())
        told_of = [*self._non_finite_values, *overflows, *(problem.event for problem in problems)]
        return ProcessEvidence(
            process,
            self._started_us,
            self._has_trained,
            self._has_bits,
            self._trained_stages,
            self._stages_with_gradients,
            self._non_finite_values,
            self._trails,
            overflows,
            problems,
            self._names.about(told_of),
            self._training.summary(),
            self._acts.summary(),
        )

    def _cut_circles(self) -> None:
        """Break cycles, so that walks from module to module terminate."""
        parents = without_cycles({module.id: module.parent for module in self._modules.values()})
        for module in self._modules.values():
            module.parent = parents[module.id]

    def _is_in_period(self, event: events.AnyEvent, period: Period) -> bool:
        if not period.has(event):
            self._pass_over(event)
            return False
        if isinstance(event, events.Happening) and not isinstance(event, events.RunEnd):
            self._process.is_empty = False
        return True

    def _pass_over(self, event: events.AnyEvent) -> None:
        """Keep the initial state of the period, and where else events are, from an event outside of it."""
        if isinstance(event, events.Happening):
            self._process.last_step_outside = max(self._process.last_step_outside, event.step)
            self._stages_outside[_known_name(event.stage, self._stages_outside)] = None
        if isinstance(event, events.OptimizerStepEnd):
            self._has_other_steps = self._has_begun = True
        elif isinstance(event, events.Backward):
            self._has_begun = True
        elif isinstance(event, events.Update) and not self._is_of_optimizer(event):
            tensor = self._tensor_of(event.tensor)
            self._exchange(event.tensor, event.statistics)
            tensor.last = event.statistics or tensor.last
            if not tensor.updates:
                tensor.first = event.statistics

    @property
    def _has_trained(self) -> bool:
        return bool(self._process.steps or (self._process.steps_made and not self._has_other_steps))

    @property
    def _has_bits(self) -> bool:
        tensors = self._tensors.values()
        return any(has_bits(each) for tensor in tensors for each in (tensor.last, tensor.last_gradient))

    @property
    def _trained_stages(self) -> set[str]:
        return {stage for stage, summary in self._process.stages.items() if summary.steps}

    def _judge_changes(self) -> None:
        """Count changes as training in stages with optimizer steps; without any, outside of evaluation.

        Changes at an unknown time count too.
        """
        trained = self._trained_stages | {_ANY_STAGE}
        for tensor in self._process.tensors:
            tensor.has_changed = any(
                stage in trained if len(trained) > 1 else stage != events.EVAL for stage in tensor.changes
            )

    def _stage(self, event: events.Happening) -> StageSummary:
        stages = self._process.stages
        stage = stages.get(event.stage)
        if stage is None:
            stage = stages.setdefault(_known_name(event.stage, stages), StageSummary())
        return stage

    def _module(self, event: events.Module) -> None:
        module = self._module_of(event.id)
        if module.parent not in (0, event.parent):
            taken = self._module_of(module.parent).taken
            taken[event.parent] = taken.get(event.parent, 0) + 1
        module.name, module.type, module.level = event.name, event.type, event.level
        module.parent, module.parameters = event.parent, event.parameters
        module.first, module.every, module.calls_seen = event.first, event.every, event.calls_seen
        module.removed = event.removed
        module.place = self._names.place(event.location) if event.location else module.place
        module.owner = self._names.owner(event.location) or module.owner
        module.made = self._names.place(event.made) if event.made else module.made
        module.settings, module.repeated = event.settings, event.repeated

    def _tensor(self, event: events.StateTensor) -> None:
        tensor = self._tensor_of(event.id)
        tensor.name, tensor.type, tensor.module = event.name, event.type, event.module
        if event.id in self._current and event.requires_grad and not tensor.requires_grad:
            tensor.unfrozen_step = self._process.steps
        tensor.requires_grad, tensor.aliases, tensor.watched = event.requires_grad, event.aliases, event.watched
        tensor.is_buffer, tensor.removed = isinstance(event, events.Buffer), event.removed
        tensor.freed, tensor.device = event.freed, event.device
        tensor.filled_place = self._names.place(event.filled)
        self._keep_by_module(tensor)
        is_known = event.id in self._current  # Then only its name or freezing changes.
        if is_known and are_same_values(self._current[event.id], event.statistics) is False:
            tensor.begin_anew()  # Or a layer was replaced.
            is_known = False
        if not is_known:
            tensor.first = tensor.last = event.statistics
            self._exchange(event.id, event.statistics)

    def _module_of(self, id_: int) -> ModuleSummary:
        module = self._modules.get(id_)
        if module is None:
            if not id_ or len(self._modules) >= MOST_DEFINITIONS:  # None, or too many that were never defined.
                return ModuleSummary(id_, f"#{id_}")
            module = self._modules[id_] = ModuleSummary(id_, f"#{id_}")
        return module

    def _tensor_of(self, id_: int) -> TensorSummary:
        tensor = self._tensors.get(id_)
        if tensor is None:
            if not id_ or len(self._tensors) >= MOST_DEFINITIONS:
                return TensorSummary(id_, f"#{id_}")
            tensor = self._tensors[id_] = TensorSummary(id_, f"#{id_}")
        return tensor

    def _keep_by_module(self, tensor: TensorSummary) -> None:
        """Index a parameter or buffer by its module."""
        of_module = self._of_modules.setdefault(tensor.module, [])
        if not any(each is tensor for each in of_module):
            of_module.append(tensor)

    def _call_module(self, event: events.CallModule) -> None:
        module = self._module_of(event.module)
        module.calls += 1
        module.training_calls += event.training
        self._called_at[module.id] = event.location
        module.is_compiled |= event.compiled or module.type in _COMPILED_MODULES
        self._unfinished = ""  # Anything open was ended by an exception, or recomputes activations.
        stack = self._calls_by_thread.get(event.thread)
        if stack is None:
            stack = []
            if len(self._calls_by_thread) < _MOST_NAMES:
                self._calls_by_thread[event.thread] = stack
        if len(stack) >= _DEEPEST:
            del stack[: _DEEPEST // 2]  # The outermost calls never ended.
        if not module.parent:
            # A root called while it is open: a KeyboardInterrupt had ended the earlier call.
            again = next((depth for depth, call in enumerate(stack) if call.module == event.module), len(stack))
            del stack[again:]
        is_root = False
        if not stack:
            stage = _known_name(event.stage, module.stages)
            module.stages[stage] = module.stages.get(stage, 0) + 1
            if not self._open_backward_passes:  # In one, activations are recomputed.
                self._training.call_root(event)
                self._acts.call_root(event)
                is_root = True
                self._stage(event).outermost_calls += 1
                self._process.was_looked_at |= self._process.backward_passes > 0
        if not is_root:
            self._training.call_below(event)
            self._acts.call_below(event)
        stack.append(event)

    def _return_module(self, event: events.ReturnModule) -> None:
        module = self._module_of(event.module)
        module.ended += 1
        module.total_us += event.duration_us
        module.is_cut_off |= event.cut_off
        if event.raised:
            module.raised += 1
        stack = self._calls_by_thread.get(event.thread)
        call = _ended_call(stack, event.module) if stack else None
        if call is not None:
            if not stack:
                del self._calls_by_thread[event.thread]
                self._training.return_root(event)
                self._acts.return_root(event)
            else:
                self._training.return_below(event)
            self._origins.note_module(module.name, call.input_ids, event.output_ids)
        self._returned[event.thread] = event
        if len(self._returned) > _MOST_NAMES:
            del self._returned[next(iter(self._returned))]

    def _call_function(self, event: events.CallFunction) -> None:
        if event.target.startswith(_COMPILED_FUNCTION):
            self._process.calls_compiled_functions = True
        inputs = event.input_ids
        made = new_numbers(inputs, event.output_ids)
        if made:
            key = (event.target, event.location)
            name = self._call_names.get(key)
            if name is None:
                if len(self._call_names) >= MOST_DEFINITIONS:
                    self._call_names.clear()
                name = self._call_names[key] = f"{_last(event.target)} at {self._names.place(event.location)}"
            self._origins.note_call(name, inputs, made)

    def _non_finite(self, event: events.NonFinite) -> None:
        if len(self._non_finite_values) >= _MOST_NON_FINITE:
            self._surplus += 1
            return
        self._non_finite_values.append(event)
        returned = self._returned.get(event.thread)
        begun = self._begun
        trail: list[str] = []
        if event.where == "loss" and begun is not None and begun.thread == event.thread:
            for number in begun.input_ids[:1]:
                self._trails.append(self._origins.trail(number, _TRAIL_OF_LOSS))
                return
        if event.where == "output" and returned is not None and returned.module == event.module:
            for number in returned.output_ids[:_OUTPUTS]:
                trail += [name for name in self._origins.trail(number, _TRAIL) if name not in trail]
        self._trails.append(trail[:_TRAIL])

    def _backward(self, event: events.Backward) -> None:
        self._begun = event
        self._training.backward(event)
        self._acts.backward()
        self._has_begun = True
        self._process.backward_passes += 1
        self._open_backward_passes += 1
        self._unfinished = "a backward pass"

    def _backward_end(self, event: events.BackwardEnd) -> None:
        self._process.backward_us += event.duration_us
        self._open_backward_passes = max(0, self._open_backward_passes - 1)
        self._unfinished = ""

    def _step(self, event: events.OptimizerStep) -> None:
        self._training.step(event)
        self._has_begun = True
        self._open_backward_passes = 0  # A pass ended by a KeyboardInterrupt has no end record.
        self._unfinished = f"a step of {event.optimizer}"

    def _step_end(self, event: events.OptimizerStepEnd) -> None:
        self._unfinished = ""
        self._training.step_end(event)
        self._process.steps += 1
        self._process.was_looked_at |= self._process.backward_passes > 0
        self._process.steps_made = max(self._process.steps_made, event.step + 1)
        self._stage(event).steps += 1
        optimizers = self._process.optimizers
        optimizer = _known_name(event.optimizer, optimizers)
        optimizers[optimizer] = optimizers.get(optimizer, 0) + 1

    def _gradient(self, event: events.Gradient) -> None:
        tensor = self._tensor_of(event.tensor)
        statistics = event.statistics
        self._training.gradient(event)
        tensor.cleared_gradients += event.cleared
        if event.has_optimizer:
            tensor.unfrozen_step = -1
        else:
            tensor.is_without_optimizer = True
            if not tensor.left_place and event.location:
                tensor.left_place = self._names.place(event.location)
        if statistics is None:
            tensor.missing_gradients += 1
            return
        tensor.gradients += 1
        if event.has_optimizer:
            tensor.last_gradient_step = event.step
        self._stages_with_gradients.add(_known_name(event.stage, self._stages_with_gradients))
        tensor.last_gradient = statistics
        # Not the norm, which is 0 if all squares are.
        lowest, highest = statistics.minimum, statistics.maximum
        if isinstance(lowest, float) and isinstance(highest, float):
            tensor.largest_gradient = max(tensor.largest_gradient, -lowest, highest)
            tensor.has_nonzero_gradient |= lowest != 0.0 or highest != 0.0
        elif lowest is not None:
            tensor.has_nonzero_gradient = True
        if statistics.norm == "inf":
            self._check_norm(event, tensor)

    def _is_of_optimizer(self, event: events.Update) -> bool:
        """Whether an optimizer's own tensor has changed, which is not trained."""
        return isinstance(self._names.tensors.get(event.tensor), events.OptimizerState)

    def _update(self, event: events.Update) -> None:
        if self._is_of_optimizer(event):
            return
        tensor = self._tensor_of(event.tensor)
        statistics, cause = event.statistics, _known_name(event.cause, tensor.updates)
        before = self._exchange(event.tensor, statistics)
        tensor.last = statistics or tensor.last
        if event.type:
            tensor.type = event.type
        if cause == "converted":
            tensor.updates[cause] = tensor.updates.get(cause, 0) + 1
            tensor.first = statistics if are_same_values(tensor.first, before) else None
            return
        if cause in ("step", "unchanged"):
            tensor.is_stepped = True
        else:
            tensor.last_between = statistics
        is_same = are_same_values(before, statistics)
        if cause == "step" and is_same is False and _is_frozen(tensor):
            tensor.frozen_steps += 1
            tensor.first_frozen_step = event.step if tensor.first_frozen_step < 0 else tensor.first_frozen_step
        if is_same:
            cause = "unchanged"
        tensor.updates[cause] = tensor.updates.get(cause, 0) + 1
        if is_same is False:
            tensor.unfrozen_step = -1
            self._note_move(tensor, event)
        if statistics is not None and statistics.norm == "inf":
            self._check_norm(event, tensor)
        if cause == "unchanged":
            tensor.undecided += not is_same
            if event.cause in ("step", "unchanged") and are_same_values(tensor.first, statistics) is False:
                # A step that did not change it found it changed, so values set for evaluation have stayed.
                self._compare_with_first(tensor, statistics, event.stage)
        elif not (self._has_begun or event.step or cause == "step" or tensor.is_buffer):
            # Set by hand after it was proxied (loaded, initialised): training starts from there.
            tensor.first, tensor.undecided = statistics, 0
        else:
            # Changes visible only in the values are found late: the program may be in another stage by then.
            self._compare_with_first(tensor, statistics, _ANY_STAGE if cause == "data" else event.stage)

    def _note_move(self, tensor: TensorSummary, event: events.Update) -> None:
        """Count a change of a buffer whose module's parameters are all frozen; start over if one of these changes."""
        of_module = self._of_modules.get(tensor.module, [])
        if not tensor.is_buffer:
            for each in of_module:
                each.frozen_moves = 0
            return
        parameters = [each for each in of_module if not (each.is_buffer or each.removed)]
        if self._process.steps and parameters and not any(each.requires_grad for each in parameters):
            tensor.frozen_moves += event.step > tensor.last_move
            tensor.last_move = event.step

    @staticmethod
    def _compare_with_first(tensor: TensorSummary, statistics: events.Statistics | None, stage: str) -> None:
        """Compare with the first values, not the last: restoring trained values after trying others is no training."""
        is_first = are_same_values(tensor.first, statistics)
        if is_first is None:
            tensor.undecided += 1
        elif not is_first:
            stage = _known_name(stage, tensor.changes)
            tensor.changes[stage] = tensor.changes.get(stage, 0) + 1

    def _exchange(self, id_: int, statistics: events.Statistics | None) -> events.Statistics | None:
        """Store a tensor's new statistics; returns the old ones, None if they were unreadable."""
        before = self._current.get(id_)
        if id_ in self._tensors:
            self._current[id_] = statistics
        return before

    def _check_norm(self, event: events.Gradient | events.Update, tensor: TensorSummary) -> None:
        """Note the first infinite norm of a tensor, except for buffers created with such values, like masks."""
        numbers, first = event.statistics, tensor.first
        if numbers is None or numbers.norm != "inf" or numbers.nonfinite or event.tensor not in self._tensors:
            return
        if not (tensor.is_buffer and first is not None and first.norm == "inf"):
            self._overflows.setdefault((type(event), event.tensor), event)

    def _run_end(self, event: events.RunEnd) -> None:
        self._process.end = f"{event.reason} {event.error}".rstrip()
        self._process.end_step = event.step

    def _limit(self, event: events.Limit) -> None:
        self._process.limited_at_step = event.step

    def _problem(self, event: events.Problem) -> None:
        known = self._problems.get(event.message)
        if known is not None:
            known.count += 1
        elif len(self._problems) < _PROBLEM_LIMIT:
            self._problems[event.message] = ProblemSummary(event.message, event)


def _is_frozen(tensor: TensorSummary) -> bool:
    """Whether a parameter is frozen and its gradient at this step is zero."""
    gradient = tensor.last_gradient
    return not (tensor.requires_grad or tensor.is_buffer) and (
        gradient is not None and gradient.minimum == 0.0 == gradient.maximum
    )


def _known_name(name: str, known: Collection[str]) -> str:
    """`name`, or the common name of all others if there are too many."""
    return name if name in known or len(known) < _MOST_NAMES else _OTHERS


def _last(target: str) -> str:
    """The last part of a dotted name."""
    return target.rpartition(".")[2]


def _ended_call(stack: list[events.CallModule], module: int) -> events.CallModule | None:
    """Pop the innermost call of a module, and those in it, which an exception ended; None if there is none."""
    if stack[-1].module != module and all(call.module != module for call in stack):
        return None
    while True:
        call = stack.pop()
        if call.module == module:
            return call
