"""Collects from the events of one process how it trained.

Memory is bounded, whatever the trace contains.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.process.input_collector import InputCollector
from proxy_trace.process.training_summary import (
    ClipSummary,
    GroupSummary,
    LoadSummary,
    LossSummary,
    LossValues,
    ModeSummary,
    OptimizerSummary,
    PenaltySummary,
    PlateauSummary,
    RestartSummary,
    RootSummary,
    SchedulerSummary,
    TrainingSummary,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.reading.names import Names
    from proxy_wrapper import events

_MOST: Final = 1000
"""The most optimizers, groups of one, ways to compute a loss, loads and places that are told apart."""

_FEW: Final = 20
"""The most ways to compute a loss between steps, numbers of passes and misplaced rates that are told apart."""

_FIRST_STEPS: Final = 3
"""The number of first steps that show the initial size of gradients."""

_DECAYED: Final = 100
"""A learning rate below its maximum times this is practically none."""

_PENALTY: Final = re.compile(
    r"penalty|residual|physics|(^|_)(gp|r1|r1_reg|lipschitz|pde|ode|pinn|net_f)($|_)", re.IGNORECASE
)
_NO_PENALTY: Final = re.compile(r"eval|test|valid|plot|show|sample|resample|adapt|refine", re.IGNORECASE)
"""Names of functions that compute the same outside the loss, to show it or to choose points by it."""
"""Parts of names of functions that compute a penalty on gradients."""


class TrainingCollector:
    """Collects the summary from a process's events."""

    def __init__(self, names: Names) -> None:
        """Begin. `names` resolves the ids in the events."""
        self._names = names
        self._optimizers: dict[int, OptimizerSummary] = {}
        self._losses: dict[int, LossSummary] = {}
        self._modes: dict[int, ModeSummary] = {}
        self._called: dict[int, events.CallModule] = {}
        self._roots: dict[int, RootSummary] = {}
        self._called_at: dict[int, int] = {}  # In training mode with autograd on.
        self._schedulers: dict[int, SchedulerSummary] = {}
        self._loads: list[LoadSummary] = []
        self._clips: dict[int, ClipSummary] = {}
        self._inputs = InputCollector(names)
        self._values: dict[str, LossValues] = {}
        self._penalties: dict[int, PenaltySummary] = {}
        self._plateaus: dict[int, PlateauSummary] = {}
        self._restarts: list[RestartSummary] = []
        self._passes = 0
        self._passes_at_step = 0
        self._differentiable_passes = 0
        # For each optimizer: the number of backward passes at its last step, and its gradients then.
        self._gradients_of: dict[int, tuple[int, int] | None] = {}
        self._since: dict[tuple[int, int], int] = {}
        self._before = self._since
        self._stepping: OptimizerSummary | None = None
        self._found = _FoundGradients()
        # The last outputs of each root module, and the roots called since the last backward pass.
        self._put_out: dict[int, Sequence[int]] = {}
        self._awaiting: set[int] = set()

    def summary(self) -> TrainingSummary:
        """The summary of everything read so far."""
        for module, location in self._called_at.items():
            self._roots[module].outer_place = self._names.place_outside_modules(location)
        return TrainingSummary(
            self._optimizers,
            self._losses,
            self._modes,
            self._roots,
            self._schedulers,
            self._loads,
            self._clips,
            self._inputs.found,
            self._values,
            self._penalties,
            self._plateaus,
            self._restarts,
            self._differentiable_passes,
        )

    def call_root(self, event: events.CallModule) -> None:
        """Note a call of a root module outside of all others."""
        root = self._roots.get(event.module)
        if root is None:
            if len(self._roots) >= _MOST:
                return
            root = self._roots[event.module] = RootSummary()
        self._called[event.module] = event
        root.evaluated_at = "" if event.training else root.evaluated_at or self._place(event)
        if not event.training:
            root.evaluated_calls += 1
        elif event.discarded:
            root.dropped_calls += 1
        elif event.no_grad:
            root.blind_calls += 1
            root.first_blind = event.step if root.first_blind < 0 else root.first_blind
            root.last_blind = event.step
            root.blind_place = self._place(event)
        else:
            root.trained_calls += 1
            root.place = self._place(event)
            self._called_at[event.module] = event.location
            self._awaiting.add(event.module)
        given = set(event.input_ids)
        for other, numbers in self._put_out.items():
            if other != event.module and not given.isdisjoint(numbers):
                self._roots[other].is_passed_on = True
        self._inputs.call_root(event)

    def return_root(self, event: events.ReturnModule) -> None:
        """Note the end of a root module's call."""
        if event.module in self._roots:
            self._put_out[event.module] = [number for number in event.output_ids if number]

    def call_below(self, event: events.CallModule) -> None:
        """Note a call of a module by another one."""
        self._inputs.call_below(event)

    def return_below(self, event: events.ReturnModule) -> None:
        """Note the end of a module's call by another one."""
        self._inputs.return_below(event)

    def input(self, event: events.Input) -> None:
        """Note the values of a root module's input."""
        self._inputs.input(event)

    def loss(self, event: events.Loss) -> None:
        """Note a way to compute a loss. A reused number is another one, from a restarted tracer."""
        if event.id in self._losses or len(self._losses) < _MOST:
            place = self._place(event)
            made = self._names.place(event.made) if event.made else place
            computed = self._names.place(event.computed) if event.computed else made
            activated, cut = (self._names.place(each) if each else "" for each in (event.activated, event.cut))
            calls = [(each.function, self._names.place(each.location)) for each in event.calls if each.location]
            self._losses[event.id] = LossSummary(
                list(event.nodes), place, made, computed, activated, cut, calls, is_within=event.module != 0
            )

    def backward(self, event: events.Backward) -> None:
        """Note the start of a backward pass."""
        self._passes += 1
        self._differentiable_passes += event.create_graph
        place = self._place(event)
        self._note_penalty(event, place)
        key = (event.location, event.loss)
        if key in self._since or len(self._since) < _FEW:
            self._since[key] = self._since.get(key, 0) + 1
        for root in self._awaiting:
            self._roots[root].backward_place = self._roots[root].backward_place or place
        self._awaiting.clear()
        if isinstance(event.loss_value, float) and (place in self._values or len(self._values) < _MOST):
            self._values.setdefault(place, LossValues(0, [], [], curve=[])).add(event.loss_value)
        loss = self._losses.get(event.loss)
        if loss is not None:
            if not loss.passes:
                loss.first_step = event.step
            loss.passes += 1

    def _note_penalty(self, event: events.Backward, place: str) -> None:
        """Count a pass that computes gradients in a function named like a penalty or a residual."""
        if event.function != "grad" or (event.location not in self._penalties and len(self._penalties) >= _MOST):
            return
        function = self._names.function(event.location)
        name = function.rpartition(".")[2]
        if _PENALTY.search(name) and not _NO_PENALTY.search(name):
            known = self._penalties.setdefault(event.location, PenaltySummary(place, function))
            known.differentiable += event.create_graph
            known.plain += not event.create_graph

    def optimizer(self, event: events.Optimizer) -> None:
        """Note a new or changed optimizer."""
        known = self._optimizers.get(event.id)
        if known is None:
            if len(self._optimizers) >= _MOST:
                return
            known = self._optimizers[event.id] = OptimizerSummary(event.optimizer, self._place(event), groups=[])
        if event.made:
            known.made = self._names.place(event.made)
            known.maker = self._names.function(event.made).rpartition(".")[2]
        known.loop = event.loop or known.loop
        if event.clears:
            known.clears = self._names.place(event.clears)
        if event.rates:
            known.given_rates = list(event.rates)
        if event.overwrites:
            known.overwritten = self._names.place(event.overwrites)
        for index, changed in zip(event.indices, event.groups, strict=False):
            if index >= _MOST:
                continue
            while len(known.groups) <= index:
                known.groups.append(GroupSummary({}, []))
            group = known.groups[index]
            if changed.tensors or changed.others:
                group.tensors, group.others = list(changed.tensors), changed.others
            group.settings.update(changed.settings)
            rate = changed.settings.get("lr")
            if isinstance(rate, (int, float)) and not isinstance(rate, bool):
                group.note_rate(event.step, float(rate))

    def step(self, event: events.OptimizerStep) -> None:
        """Note the start of an optimizer step."""
        optimizer = self._optimizers.get(event.optimizer_id)
        if optimizer is None:
            return
        if not optimizer.steps:
            optimizer.place, optimizer.first_at = self._place(event), event.step
        optimizer.steps += 1
        optimizer.last_at = event.step
        self._stepping, self._found, self._before = optimizer, _FoundGradients(), self._since
        self._since = {}
        optimizer.unfed += not self._before
        passes = sum(self._before.values())
        is_of_one = len({location for location, _ in self._before}) == 1
        if is_of_one and (passes in optimizer.windows or len(optimizer.windows) < _FEW):
            optimizer.windows[passes] = optimizer.windows.get(passes, 0) + 1
        optimizer.fed_at |= {location for location, _ in self._before}
        if max(len(optimizer.fed_at), len(self._before)) >= _FEW:
            optimizer.fed_at = {0}
        alone = self._losses.get(next(iter(self._before))[1]) if len(self._before) == 1 else None
        if alone is not None:
            alone.steps += 1
        if event.carried:
            optimizer.note_carried(event.step)
        optimizer.dropped += event.dropped > 0
        optimizer.dropped_once += event.dropped == 1
        groups = optimizer.groups
        optimizer.steps_at_zero += bool(groups) and all(group.last_rate == 0 for group in groups)
        optimizer.steps_apart += len({group.last_rate for group in groups}) > 1
        optimizer.decayed += bool(groups) and all(
            group.last_rate is not None and group.last_rate * _DECAYED < group.largest_rate for group in groups
        )
        for root in self._roots_of(optimizer):
            self._note_mode(root, event)

    def _note_mode(self, root: int, event: events.OptimizerStep) -> None:
        """Note the mode of a root module before a step of an optimizer with parameters of it."""
        called, of_root = self._called.get(root), self._roots.get(root)
        if called is None or of_root is None:
            return
        of_root.last_step = event.step
        of_root.first_step = event.step if of_root.first_step < 0 else of_root.first_step
        mode = self._modes.setdefault(root, ModeSummary())
        if called.training:
            mode.training += 1
            mode.last_training = event.step
            return
        mode.evaluation += 1
        if mode.first_evaluation < 0:
            mode.first_evaluation, mode.place = event.step, self._place(called)
            mode.evaluated_at = of_root.evaluated_at

    def gradient(self, event: events.Gradient) -> None:
        """Note a gradient."""
        if self._stepping is not None and event.has_optimizer:
            self._found.add(event)

    def step_end(self, event: events.OptimizerStepEnd) -> None:
        """Note the end of an optimizer step."""
        optimizer, found = self._stepping, self._found
        if optimizer is not None and event.carried:
            optimizer.note_carried(event.step)
        self._stepping = None
        since, self._since = self._before, {}  # Excludes passes of a closure within the step.
        if optimizer is not None:
            optimizer.largest_gradient = max(optimizer.largest_gradient, found.largest)
            if optimizer.steps <= _FIRST_STEPS:
                optimizer.first_gradient = optimizer.largest_gradient
            if len(since) == 1:
                ((_, loss), passes) = next(iter(since.items()))
                if passes in optimizer.passes or len(optimizer.passes) < _FEW:
                    optimizer.passes[passes] = optimizer.passes.get(passes, 0) + 1
                    optimizer.loss = loss
        if optimizer is not None:
            optimizer.passes_since += sum(since.values())
            if found.has_values:
                optimizer.last_fed, optimizer.passes_since = optimizer.steps, 0
        if optimizer is not None:
            marks = (self._passes, found.bits) if found.is_any and found.bits else None
            optimizer.repeated += marks is not None and marks == self._gradients_of.get(id(optimizer))
            self._gradients_of[id(optimizer)] = marks
        if optimizer is not None and found.count and not found.is_any:
            optimizer.starved += 1
            optimizer.cleared += found.is_cleared
            optimizer.all_zero += found.is_zero
            optimizer.idle += self._passes == self._passes_at_step
            optimizer.first_starved = max(0, optimizer.steps - 1) if optimizer.starved == 1 else optimizer.first_starved
        self._passes_at_step = self._passes

    def scheduler_step(self, event: events.SchedulerStep) -> None:
        """Note an advance of a scheduler that is the first, or differs from the last."""
        known = self._schedulers.get(event.id)
        if known is None:
            if len(self._schedulers) >= _MOST:
                return
            made = self._names.place(event.made) if event.made else ""
            optimizer = self._optimizers.get(event.optimizer_id)
            known = self._schedulers[event.id] = SchedulerSummary(
                event.scheduler,
                event.optimizer_id,
                [],
                bool(self._passes),
                optimizer is not None and optimizer.steps > 0,
                made,
                event.settings,
                [*event.words],
            )
        known.count, known.last_step = event.count + 1, event.step
        place = self._place(event)
        is_same = bool(known.advances) and known.advances[-1][1:] == (event.follows, place)
        if not is_same and len(known.advances) < _MOST:
            known.advances.append((event.count, event.follows, place))

    def rate_reduced(self, event: events.RateReduced) -> None:
        """Note that a scheduler lowers the rate on a plateau."""
        if event.id in self._plateaus or len(self._plateaus) < _MOST:
            made = self._names.place(event.made) if event.made else ""
            self._plateaus[event.id] = PlateauSummary(self._place(event), made, event)

    def misplaced_rate(self, event: events.RateWithoutEffect) -> None:
        """Note a learning rate set where the optimizer does not read it."""
        optimizer = self._optimizers.get(event.optimizer_id)
        if optimizer is not None and len(optimizer.misplaced) < _FEW:
            what = f'group["{event.name}"]' if event.is_key else f"optimizer.{event.name}"
            optimizer.misplaced.append((what, self._names.place(event.made) if event.made else optimizer.origin))

    def schedule_restart(self, event: events.ScheduleRestart) -> None:
        """Note a schedule that begins anew when training resumes."""
        if len(self._restarts) < _MOST:
            made = self._names.place(event.made) if event.made else self._place(event)
            self._restarts.append(RestartSummary(made, event))

    def loaded_rate(self, event: events.LoadedRate) -> None:
        """Note that an optimizer begins with a loaded rate."""
        optimizer = self._optimizers.get(event.optimizer_id)
        if optimizer is not None:
            optimizer.loaded_rate = event

    def load(self, event: events.Load) -> None:
        """Note weights loaded into a module."""
        if len(self._loads) < _MOST:
            made = self._names.place(event.made) if event.made else ""
            self._loads.append(LoadSummary(event.module, self._place(event), event.step, event, made))

    def clip(self, event: events.Clip) -> None:
        """Note a clipping that is the first, or differs from the last."""
        known = self._clips.get(event.location)
        if known is None:
            if len(self._clips) >= _MOST:
                return
            known = self._clips[event.location] = ClipSummary(self._place(event), without=event.tensor, step=event.step)
        known.late += event.is_late
        known.empty += not event.parameters
        known.without = 0 if event.gradients else known.without
        known.in_time += bool(event.gradients) and not event.is_late
        known.again, known.others, known.count = event.again, event.others, max(known.count, event.count)

    def _roots_of(self, optimizer: OptimizerSummary) -> set[int]:
        """The root modules with parameters in an optimizer."""
        found = set()
        for group in optimizer.groups:
            tensor = self._names.tensors.get(group.tensors[0]) if group.tensors else None
            module = self._names.modules.get(tensor.module) if tensor is not None else None
            if module is not None:
                found.add(module.root)
        return found

    def _place(self, event: events.Happening) -> str:
        return self._names.place(event.location) if event.location else ""


class _FoundGradients:
    """The gradients at an optimizer step."""

    def __init__(self) -> None:
        self.count = 0
        self.is_any = False
        self.has_values = False
        self.is_cleared = False
        self.is_zero = True
        self.largest = 0.0
        self.bits = 1
        """A number that depends on the values of all gradients; 0 if some of them are unknown."""

    def add(self, event: events.Gradient) -> None:
        """Add the gradient of one parameter."""
        statistics = event.statistics
        self.count += 1
        self.is_cleared |= event.cleared
        self.is_zero &= statistics is not None
        self.has_values |= statistics is not None
        # Not the norm, which is 0 if all squares are.
        if statistics is not None and not statistics.nonfinite:
            ends = (statistics.minimum, statistics.maximum)
            self.largest = max(self.largest, *(abs(each) for each in ends if isinstance(each, float)), 0.0)
        self.is_any |= statistics is not None and not (statistics.minimum == 0 == statistics.maximum)
        if statistics is not None:
            self.bits = hash((self.bits, event.tensor, statistics.bits)) if statistics.bits and self.bits else 0
