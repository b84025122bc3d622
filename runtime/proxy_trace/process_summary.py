"""Sums up the trace of one process: its modules and their calls, its parameters and buffers and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_trace.origins import Origins
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.names import Names
    from proxy_trace.selection import Period
    from proxy_trace.trace import Reading, TraceFile

PROGRESS_INTERVAL: Final = 1 << 15
"""How many events lie between two reports of progress."""

_PROBLEM_LIMIT: Final = 1000
_COMPILED_MODULES: Final = frozenset(
    {"OptimizedModule", "RecursiveScriptModule", "ScriptModule", "TopLevelTracedModule", "TracedModule"}
)
"""The types of what `torch.compile` and TorchScript make of a module."""

_COMPILED_FUNCTION: Final = "torch.compile("
"""How the targets of calls of compiled functions begin."""

_TRAIL: Final = 5
"""How many calls back the making of a non-finite output is told."""


class ModuleSummary(msgspec.Struct):
    """A module and its calls. `total_us` sums over the calls that ended; `parent` is an id, 0 for a root.

    `stages` counts by stage the calls that no other module made. Of the steps, the `first` ones and then each
    `every`-th are recorded. `is_compiled` if some of its calls ran compiled code, in which no calls are seen;
    `calls_seen` and `removed` as in `events.Module`.
    """

    id: int
    name: str = ""
    type: str = ""
    parent: int = 0
    level: str = "INFO"
    parameters: int = 0
    calls: int = 0
    ended: int = 0
    raised: int = 0
    total_us: int = 0
    first: int = 0
    every: int = 1
    stages: dict[str, int] = {}
    is_compiled: bool = False
    calls_seen: bool = True
    removed: bool = False

    @property
    def mean_us(self) -> float:
        """Mean duration of the calls that ended."""
        return self.total_us / self.ended if self.ended else 0.0


class TensorSummary(msgspec.Struct):
    """A parameter or buffer and its history.

    `updates` counts the updates by cause. `first` are the statistics when it was proxied, those of a parameter
    just before the first optimizer step; `last` the latest. `has_changed` says that in a stage with optimizer steps
    some later statistics differ from `first`, or that there are none to tell; `changes` counts such by stage.
    `watched` says whether its changes are recorded at all, `removed` that the model has it no more. `gradients` counts
    the steps that found a gradient, `missing_gradients` those that found none.
    """

    id: int
    name: str = ""
    type: str = ""
    module: int = 0
    is_buffer: bool = False
    requires_grad: bool = False
    aliases: Sequence[str] = ()
    updates: dict[str, int] = {}
    first: events.Statistics | None = None
    last: events.Statistics | None = None
    has_changed: bool = False
    changes: dict[str, int] = {}
    watched: bool = True
    removed: bool = False
    gradients: int = 0
    missing_gradients: int = 0
    last_gradient: events.Statistics | None = None
    has_nonzero_gradient: bool = False

    @property
    def update_count(self) -> int:
        """How often the tensor was written to; steps that left it unchanged are not counted."""
        return sum(count for cause, count in self.updates.items() if cause != "unchanged")

    @property
    def is_empty(self) -> bool:
        """Whether it has no element, as the part has that a rank holds of a parameter smaller than the world."""
        return self.last is not None and self.last.minimum is None and self.last.norm == 0.0


class ProblemSummary(msgspec.Struct):
    """A problem of tracing, at its first occurrence."""

    message: str
    event: events.Problem
    count: int = 1


class StageSummary(msgspec.Struct):
    """What was recorded in a stage: optimizer steps, and calls of modules that lie in no other call."""

    steps: int = 0
    outermost_calls: int = 0


class ProcessSummary(msgspec.Struct):
    """What the file of one process says. Times are in microseconds since the process's run started."""

    file: str
    rank: int
    pid: int
    parent_pid: int
    started: str
    size_bytes: int
    events: int = 0
    duration_us: int = 0
    steps: int = 0
    """Optimizer steps that were recorded."""
    steps_made: int = 0
    """Those that were made, as far as the trace tells: more, where only each n-th is recorded."""
    stages: dict[str, StageSummary] = {}
    optimizers: dict[str, int] = {}
    backward_passes: int = 0
    backward_us: int = 0
    module_calls: int = 0
    calls_compiled_functions: bool = False
    """Whether compiled functions ran, in which no calls of modules are seen."""
    modules: list[ModuleSummary] = []
    tensors: list[TensorSummary] = []
    malformed: int = 0
    first_malformed_line: int = 0
    unknown: dict[str, int] = {}
    is_cut: bool = False
    ends_inside: str = ""
    """What had not ended when the trace broke off: "a call of model.fc", "a backward pass"; "" if it did not break off,
    or all had ended. An exception may have left something as well, which does not make the trace incomplete."""

    end: str = ""
    """How the process ended: "exit", "exception ValueError" or another `RunEnd.reason`; "" if the trace does not."""

    end_step: int = 0
    """The optimizer steps that had ended then."""

    is_empty: bool = False
    """Whether only a period was asked for, and nothing happened in it."""

    last_step_outside: int = 0
    """The last step in which something happened outside of the period."""

    stages_outside: list[str] = []
    """The stages in which something did."""


class ProcessCollector:
    """Takes the events of one file and keeps the sums.

    Attributes:
        process: the sums.
        non_finite: the non-finite values, in order.
        trails: for each of those, what made the output, from what and so on, back to what other modules put out.
        started_us: when the process started, in microseconds of Unix time.
        stages_with_gradients: the stages in which a parameter had a gradient.
        problems: the distinct problems, in order; there is a limit to how many are kept.
        names: what the ids stand for, complete at the end.
    """

    def __init__(self, file: TraceFile) -> None:
        run = file.run
        self.process = ProcessSummary(
            file=str(file.path),
            rank=run.rank,
            pid=run.pid,
            parent_pid=run.parent_pid,
            started=run.started,
            size_bytes=file.size_bytes(),
        )
        self.started_us = file.started_us()
        self.stages_with_gradients: set[str] = set()
        self.non_finite: list[events.NonFinite] = []
        self.trails: list[list[str]] = []
        self.problems: dict[str, ProblemSummary] = {}
        self.names: Names
        self._modules: dict[int, ModuleSummary] = {}
        self._tensors: dict[int, TensorSummary] = {}
        self._calls_by_thread: dict[int, list[events.CallModule]] = {}
        self._returned: dict[int, events.ReturnModule] = {}
        self._origins = Origins()
        self._call_names: dict[tuple[str, int], str] = {}
        self._unfinished = ""
        self._open_backward_passes = 0
        self._has_other_steps = False
        self._stages_outside: dict[str, None] = {}
        self._take: dict[type[events.Event], Callable[[Any], None]] = {
            events.Module: self._module,
            events.Parameter: self._tensor,
            events.Buffer: self._tensor,
            events.CallModule: self._call_module,
            events.ReturnModule: self._return_module,
            events.Backward: self._backward,
            events.BackwardEnd: self._backward_end,
            events.OptimizerStep: self._step,
            events.OptimizerStepEnd: self._step_end,
            events.Gradient: self._gradient,
            events.Update: self._update,
            events.NonFinite: self._non_finite,
            events.CallFunction: self._call_function,
            events.CallMethod: self._call_function,
            events.Problem: self._problem,
            events.RunEnd: self._run_end,
        }

    def collect(
        self,
        reading: Reading,
        on_progress: Callable[[int], None] | None,
        bytes_done: int,
        period: Period | None = None,
    ) -> None:
        """Take the events of `reading`, or those in `period`; `bytes_done` is added to what `on_progress` is told."""
        take = self._take
        ignore = _ignore
        process = self.process
        self.names = reading.names
        count = latest_us = latest_step = 0
        is_empty = period is not None
        for event in reading:
            if period is not None:
                if not period.has(event):
                    self._pass_over(event)
                    continue
                is_empty = is_empty and (not isinstance(event, events.Happening) or isinstance(event, events.RunEnd))
            count += 1
            take.get(type(event), ignore)(event)
            if isinstance(event, events.Happening):
                latest_us = max(latest_us, event.time_us)
                latest_step = max(latest_step, event.step)
            if not count % PROGRESS_INTERVAL and on_progress is not None:
                on_progress(bytes_done + reading.bytes_read)
        process.events = count
        process.duration_us = latest_us
        process.steps_made = max(latest_step, process.steps_made)
        process.is_empty = is_empty
        self._finish(reading)

    def _finish(self, reading: Reading) -> None:
        """Note what is known only when all has been read."""
        process = self.process
        process.stages_outside = list(self._stages_outside)
        process.malformed = reading.malformed
        process.first_malformed_line = reading.first_malformed_line
        process.unknown = reading.unknown
        process.is_cut = reading.is_cut
        process.modules = list(self._modules.values())
        process.tensors = list(self._tensors.values())
        self._judge_changes()
        process.module_calls = sum(module.calls for module in process.modules)
        open_calls = [stack[-1] for stack in self._calls_by_thread.values() if stack]
        if process.end:
            process.ends_inside = ""
        elif open_calls:
            process.ends_inside = f"a call of {self.names.module_name(open_calls[0].module)}"
        else:
            process.ends_inside = self._unfinished

    def _pass_over(self, event: events.AnyEvent) -> None:
        """Keep of what is not in the period what the period starts from, and where else there is anything."""
        if isinstance(event, events.Happening):
            self.process.last_step_outside = max(self.process.last_step_outside, event.step)
            self._stages_outside[event.stage] = None
        if isinstance(event, events.OptimizerStepEnd):
            self._has_other_steps = True
        elif isinstance(event, events.Update):
            tensor = self._tensor_of(event.tensor)
            tensor.last = event.statistics or tensor.last
            if not tensor.updates:
                tensor.first = tensor.last

    @property
    def has_trained(self) -> bool:
        """Whether there were optimizer steps, or steps of training that the program made by hand."""
        return bool(self.process.steps or (self.process.steps_made and not self._has_other_steps))

    @property
    def trained_stages(self) -> set[str]:
        """The stages that have optimizer steps."""
        return {stage for stage, summary in self.process.stages.items() if summary.steps}

    def _judge_changes(self) -> None:
        """Changes count as training in the stages that have optimizer steps; without any, outside of evaluation."""
        trained = self.trained_stages
        for tensor in self.process.tensors:
            tensor.has_changed = any(stage in trained if trained else stage != events.EVAL for stage in tensor.changes)

    def _stage(self, event: events.Happening) -> StageSummary:
        stages = self.process.stages
        stage = stages.get(event.stage)
        if stage is None:
            stage = stages[event.stage] = StageSummary()
        return stage

    def _module(self, event: events.Module) -> None:
        module = self._module_of(event.id)
        module.name, module.type, module.level = event.name, event.type, event.level
        module.parent, module.parameters = event.parent, event.parameters
        module.first, module.every, module.calls_seen = event.first, event.every, event.calls_seen
        module.removed = event.removed

    def _tensor(self, event: events.StateTensor) -> None:
        tensor = self._tensor_of(event.id)
        tensor.name, tensor.type, tensor.module = event.name, event.type, event.module
        tensor.requires_grad, tensor.aliases, tensor.watched = event.requires_grad, event.aliases, event.watched
        tensor.is_buffer, tensor.removed = isinstance(event, events.Buffer), event.removed
        if tensor.first is None:
            tensor.first = tensor.last = event.statistics

    def _module_of(self, id_: int) -> ModuleSummary:
        module = self._modules.get(id_)
        if module is None:
            module = self._modules[id_] = ModuleSummary(id_, f"#{id_}")
        return module

    def _tensor_of(self, id_: int) -> TensorSummary:
        tensor = self._tensors.get(id_)
        if tensor is None:
            tensor = self._tensors[id_] = TensorSummary(id_, f"#{id_}")
        return tensor

    def _call_module(self, event: events.CallModule) -> None:
        module = self._module_of(event.module)
        module.calls += 1
        module.is_compiled |= event.compiled or module.type in _COMPILED_MODULES
        self._unfinished = ""  # Whatever began before was left by an exception, or recomputes activations.
        stack = self._calls_by_thread.setdefault(event.thread, [])
        if not module.parent:
            # A root that is being called is called again: what was left by a KeyboardInterrupt never ends.
            again = next((depth for depth, call in enumerate(stack) if call.module == event.module), len(stack))
            del stack[again:]
        if not stack:
            module.stages[event.stage] = module.stages.get(event.stage, 0) + 1
            if not self._open_backward_passes:  # in which activations are computed once more
                self._stage(event).outermost_calls += 1
        stack.append(event)

    def _return_module(self, event: events.ReturnModule) -> None:
        module = self._module_of(event.module)
        module.ended += 1
        module.total_us += event.duration_us
        if event.raised:
            module.raised += 1
        stack = self._calls_by_thread.get(event.thread)
        if stack and any(call.module == event.module for call in stack):
            while (call := stack.pop()).module != event.module:
                pass
            self._origins.note_module(self._module_of(event.module).name, call.input_ids, event.output_ids)
        self._returned[event.thread] = event

    def _call_function(self, event: events.CallFunction) -> None:
        if event.target.startswith(_COMPILED_FUNCTION):
            self.process.calls_compiled_functions = True
        inputs = event.input_ids
        made = [number for number in event.output_ids if number and number not in inputs]
        if made:
            key = (event.target, event.location)
            name = self._call_names.get(key)
            if name is None:
                name = self._call_names[key] = f"{_last(event.target)} at {self.names.place(event.location)}"
            self._origins.note_call(name, inputs, made)

    def _non_finite(self, event: events.NonFinite) -> None:
        self.non_finite.append(event)
        returned = self._returned.get(event.thread)
        trail: list[str] = []
        if event.where == "output" and returned is not None and returned.module == event.module:
            for number in returned.output_ids:
                trail += [name for name in self._origins.trail(number, _TRAIL) if name not in trail]
        self.trails.append(trail[:_TRAIL])

    def _backward(self, _: events.Backward) -> None:
        self.process.backward_passes += 1
        self._open_backward_passes += 1
        self._unfinished = "a backward pass"

    def _backward_end(self, event: events.BackwardEnd) -> None:
        self.process.backward_us += event.duration_us
        self._open_backward_passes = max(0, self._open_backward_passes - 1)
        self._unfinished = ""

    def _step(self, event: events.OptimizerStep) -> None:
        self._open_backward_passes = 0  # One that a KeyboardInterrupt broke off never ends.
        self._unfinished = f"a step of {event.optimizer}"

    def _step_end(self, event: events.OptimizerStepEnd) -> None:
        self._unfinished = ""
        self.process.steps += 1
        self.process.steps_made = max(self.process.steps_made, event.step + 1)
        self._stage(event).steps += 1
        optimizers = self.process.optimizers
        optimizers[event.optimizer] = optimizers.get(event.optimizer, 0) + 1

    def _gradient(self, event: events.Gradient) -> None:
        tensor = self._tensor_of(event.tensor)
        statistics = event.statistics
        if statistics is None:
            tensor.missing_gradients += 1
            return
        tensor.gradients += 1
        self.stages_with_gradients.add(event.stage)
        tensor.last_gradient = statistics
        if statistics.norm != 0.0:
            tensor.has_nonzero_gradient = True

    def _update(self, event: events.Update) -> None:
        tensor = self._tensor_of(event.tensor)
        cause = event.cause
        tensor.updates[cause] = tensor.updates.get(cause, 0) + 1
        if event.type:
            tensor.type = event.type
        statistics = event.statistics
        tensor.last = statistics or tensor.last
        if cause == "unchanged":
            return
        if not self.process.steps and not event.step and cause != "step" and not tensor.is_buffer:
            # Set up by hand after it was proxied (loaded, initialised): that is where training starts from.
            tensor.first = statistics or tensor.first
        elif statistics is None or statistics != tensor.first:
            tensor.changes[event.stage] = tensor.changes.get(event.stage, 0) + 1

    def _run_end(self, event: events.RunEnd) -> None:
        self.process.end = f"{event.reason} {event.error}".rstrip()
        self.process.end_step = event.step

    def _problem(self, event: events.Problem) -> None:
        known = self.problems.get(event.message)
        if known is not None:
            known.count += 1
        elif len(self.problems) < _PROBLEM_LIMIT:
            self.problems[event.message] = ProblemSummary(event.message, event)


def _last(target: str) -> str:
    """The part of a dotted name behind the last dot."""
    return target.rpartition(".")[2]


def _ignore(_: events.Event) -> None:
    """An event that is only counted."""
