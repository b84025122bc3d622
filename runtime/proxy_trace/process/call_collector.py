"""Collects the modules of a process, their calls, and the non-finite values in these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_trace.process.process_summary import ModuleSummary
from proxy_trace.process.progress import MOST_NAMES, known_name
from proxy_trace.reading.names import MOST_DEFINITIONS, without_cycles
from proxy_trace.tensors.origins import Origins, new_numbers
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy_trace.process.acts_collector import ActsCollector
    from proxy_trace.process.progress import Progress
    from proxy_trace.process.training_collector import TrainingCollector
    from proxy_trace.reading.names import Names

_COMPILED_MODULES: Final = frozenset(
    {"OptimizedModule", "RecursiveScriptModule", "ScriptModule", "TopLevelTracedModule", "TracedModule"}
)
"""The types of modules created by `torch.compile` and TorchScript."""

_COMPILED_FUNCTION: Final = "torch.compile("
"""The prefix of targets in calls of compiled functions."""

_MOST_NON_FINITE: Final = 1 << 14
_DEEPEST: Final = 256
"""The maximum nesting of calls. Beyond it, the outermost calls count as never ended."""

_OUTPUTS: Final = 64
_TRAIL: Final = 5
_TRAIL_OF_LOSS: Final = 12
"""The length of the trail behind a non-finite output and loss, in calls; no module names their parts."""


class CallCollector:
    """Collects modules, calls and non-finite values.

    Attributes:
        non_finite: the non-finite values, in order.
        trails: for each of those, what the output or loss was computed from, and so on, back to other modules' outputs.
        surplus: how many non-finite values exceeded the limit.
    """

    def __init__(self, names: Names, progress: Progress, training: TrainingCollector, acts: ActsCollector) -> None:
        self.non_finite: list[events.NonFinite] = []
        self.trails: list[list[str]] = []
        self.surplus = 0
        self._names = names
        self._process = progress.process
        self._progress = progress
        self._training = training
        self._acts = acts
        self._modules: dict[int, ModuleSummary] = {}
        self._calls_by_thread: dict[int, list[events.CallModule]] = {}
        self._returned: dict[int, events.ReturnModule] = {}
        self._origins = Origins()
        self._calls_at: dict[tuple[int, int], int] = {}  # Counts of a module's calls at a location.
        self._cut_off_at: dict[tuple[int, int], bool] = {}  # Whether the first call there in training was cut off.
        self._call_names: dict[tuple[str, int], str] = {}

    def takers(self) -> dict[type[events.Event], Callable[[Any], None]]:
        """What takes the events of each type."""
        return {
            events.Module: self._module,
            events.CallModule: self._call_module,
            events.ReturnModule: self._return_module,
            events.CallFunction: self._call_function,
            events.CallMethod: self._call_function,
            events.NonFinite: self._non_finite,
        }

    def finish(self) -> None:
        """Complete the summary with the modules."""
        process = self._process
        parents = without_cycles({module.id: module.parent for module in self._modules.values()})
        process.modules = list(self._modules.values())
        for module in process.modules:
            module.parent = parents[module.id]  # So that walks from module to module terminate.
            module.is_cut_short = process.limited_at_step is not None
        for module, location in self._usual_calls():
            module.called_place = self._names.place(location)
            module.is_cut_off = self._cut_off_at.get((module.id, location), False)
        process.module_calls = sum(module.calls for module in process.modules)

    def _usual_calls(self) -> Iterator[tuple[ModuleSummary, int]]:
        """The modules that were called, each with the location of most of its calls."""
        most: dict[int, tuple[int, int]] = {}
        for (module, location), calls in self._calls_at.items():
            if calls > most.get(module, (0, 0))[0]:
                most[module] = calls, location
        yield from ((self._module_of(module), location) for module, (_, location) in most.items())

    def open_call(self) -> str:
        """The name of a module that was called, if the call has not ended; "" if there is none."""
        calls = (stack[-1] for stack in self._calls_by_thread.values() if stack)
        call = next(calls, None)
        return "" if call is None else self._names.module_name(call.module)

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

    def _module_of(self, id_: int) -> ModuleSummary:
        module = self._modules.get(id_)
        if module is None:
            if not id_ or len(self._modules) >= MOST_DEFINITIONS:  # None, or too many that were never defined.
                return ModuleSummary(id_, f"#{id_}")
            module = self._modules[id_] = ModuleSummary(id_, f"#{id_}")
        return module

    def _call_module(self, event: events.CallModule) -> None:
        module = self._module_of(event.module)
        module.calls += 1
        module.training_calls += event.training
        at = module.id, event.location
        if at in self._calls_at or len(self._calls_at) < MOST_NAMES:
            self._calls_at[at] = self._calls_at.get(at, 0) + 1
        module.is_compiled |= event.compiled or module.type in _COMPILED_MODULES
        self._progress.unfinished = ""  # Anything open was ended by an exception, or recomputes activations.
        stack = self._calls_by_thread.get(event.thread)
        if stack is None:
            stack = []
            if len(self._calls_by_thread) < MOST_NAMES:
                self._calls_by_thread[event.thread] = stack
        if len(stack) >= _DEEPEST:
            del stack[: _DEEPEST // 2]  # The outermost calls never ended.
        if not module.parent:
            # A root called while it is open: a KeyboardInterrupt had ended the earlier call.
            again = next((depth for depth, call in enumerate(stack) if call.module == event.module), len(stack))
            del stack[again:]
        is_root = False
        if not stack:
            stage = known_name(event.stage, module.stages)
            module.stages[stage] = module.stages.get(stage, 0) + 1
            if not self._progress.open_backward_passes:  # In one, activations are recomputed.
                self._training.call_root(event)
                self._acts.call_root(event)
                is_root = True
                self._progress.stage(event).outermost_calls += 1
                self._process.was_looked_at |= self._process.backward_passes > 0
        if not is_root:
            self._training.call_below(event)
            self._acts.call_below(event)
        stack.append(event)

    def _return_module(self, event: events.ReturnModule) -> None:
        module = self._module_of(event.module)
        module.ended += 1
        module.total_us += event.duration_us
        if event.raised:
            module.raised += 1
        stack = self._calls_by_thread.get(event.thread)
        call = _ended_call(stack, event.module) if stack else None
        if call is not None:
            if call.training and len(self._cut_off_at) < MOST_NAMES:
                self._cut_off_at.setdefault((event.module, call.location), event.cut_off)
            if not stack:
                del self._calls_by_thread[event.thread]
                self._training.return_root(event)
                self._acts.return_root(event)
            else:
                self._training.return_below(event)
            self._origins.note_module(module.name, call.input_ids, event.output_ids)
        self._returned[event.thread] = event
        if len(self._returned) > MOST_NAMES:
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
        if len(self.non_finite) >= _MOST_NON_FINITE:
            self.surplus += 1
            return
        self.non_finite.append(event)
        returned = self._returned.get(event.thread)
        begun = self._progress.last_pass
        trail: list[str] = []
        if event.where == "loss" and begun is not None and begun.thread == event.thread:
            for number in begun.input_ids[:1]:
                self.trails.append(self._origins.trail(number, _TRAIL_OF_LOSS))
                return
        if event.where == "output" and returned is not None and returned.module == event.module:
            for number in returned.output_ids[:_OUTPUTS]:
                trail += [name for name in self._origins.trail(number, _TRAIL) if name not in trail]
        self.trails.append(trail[:_TRAIL])


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
