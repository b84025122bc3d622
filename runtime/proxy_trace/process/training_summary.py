"""Summarises how one process trained: optimizers and their settings, how losses were computed, and the modes.

Memory is bounded, whatever the trace contains.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_wrapper import events  # noqa: TC001  msgspec looks the types of fields up.

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from proxy_trace.reading.names import Names

_MOST: Final = 1000
"""The most optimizers, groups of one, ways to compute a loss, loads and places that are told apart."""

_FEW: Final = 20
"""The number of first, and of last, values of a loss that are kept."""

_MOST_OF_CURVE: Final = 64

_FIRST_STEPS: Final = 3
"""The number of first steps that show the initial size of gradients."""

_DECAYED: Final = 100
"""A learning rate below its maximum times this is practically none."""

_FEWEST_COUNTED: Final = 8
"""From this number on, a scheduler's advances are recorded at powers of two."""

_PENALTY: Final = re.compile(r"penalty|(^|_)(gp|r1|r1_reg|lipschitz)($|_)", re.IGNORECASE)
"""Parts of names of functions that compute a penalty on gradients."""

_NORMALISATION: Final = re.compile(r"(Sync)?BatchNorm|LayerNorm|GroupNorm|InstanceNorm|RMSNorm")
_LAYER: Final = re.compile(r"(Linear|Conv\dd|RNN|LSTM|GRU|RNNCell|LSTMCell|GRUCell)$")


class GroupSummary(msgspec.Struct):
    """A group of an optimizer's parameters.

    Attributes:
        settings: the latest settings.
        tensors: the ids of its parameters in traced modules, as of the last record.
        others: the number of its other tensors.
        rates: the number of learning rates that it had in turn.
        first_rate: the first rate.
        last_rate: the last rate.
        largest_rate: the largest rate.
    """

    settings: dict[str, events.Setting] = {}
    tensors: list[int] = []
    others: int = 0
    rates: int = 0
    first_rate: float | None = None
    last_rate: float | None = None
    largest_rate: float = 0.0


class OptimizerSummary(msgspec.Struct):
    """An optimizer and its steps.

    Attributes:
        name: its class.
        place: where it steps, as "file:line"; where it was created, if it never stepped.
        made: where it was created, likewise; "" if unknown.
        maker: the name of the function that created it; "" if unknown.
        clears: the only line that calls `zero_grad` where it is trained; "" if unknown.
        groups: its parameter groups.
        steps: the number of its recorded steps.
        starved: how many of these found no gradient, or only zeros.
        cleared: how many of the starved ones, although a backward pass had left some.
        idle: how many of the starved ones began without a backward pass since any optimizer's step.
        all_zero: how many of the starved ones found gradients that were all zero.
        first_starved: the first starved step, as the number of steps that had ended; -1 if there is none.
        first_gradient: the largest finite element of the gradients at the first few steps.
        largest_gradient: the largest finite element at any step.
        passes: the number of steps by the number of backward passes before each, all at one place with one loss.
        loss: the id of that loss, as of the last such step.
        decayed: at how many steps every rate was below a hundredth of its maximum.
        carried: at how many steps the gradients of the previous one had not been cleared.
        first_carried: the first of these, as the number of steps that had ended; -1 if there is none.
        steps_at_zero: at how many steps every learning rate was 0.
        dropped: before how many steps gradients of a backward pass at the same place were cleared.
        dropped_once: before how many steps this happened exactly once.
        last_fed: the number of its steps when it last found a gradient, even a zero one.
        passes_since: the number of backward passes since then.
        first_at: its first step, as the number of steps of all optimizers that had ended; -1 if there is none.
        last_at: its last step, likewise.
        misplaced: the unread learning rates: the assignment's target, and its place.
        given_rates: the learning rates with which its groups were created, if these differ and were all the same at
            the first record; [] otherwise.
        overwritten: where a learning rate was assigned until then; "" if unknown.
        steps_apart: at how many steps the learning rates of its groups differed.
        repeated: how many steps found the gradients of its previous step, to the bit, without a backward pass between.
    """

    name: str = ""
    place: str = ""
    made: str = ""
    maker: str = ""
    clears: str = ""
    groups: list[GroupSummary] = []
    steps: int = 0
    starved: int = 0
    cleared: int = 0
    idle: int = 0
    all_zero: int = 0
    first_starved: int = -1
    decayed: int = 0
    first_gradient: float = 0.0
    largest_gradient: float = 0.0
    passes: dict[int, int] = {}
    loss: int = 0
    carried: int = 0
    first_carried: int = -1
    steps_at_zero: int = 0
    dropped: int = 0
    dropped_once: int = 0
    last_fed: int = 0
    passes_since: int = 0
    first_at: int = -1
    last_at: int = -1
    misplaced: list[tuple[str, str]] = []
    given_rates: list[float] = []
    overwritten: str = ""
    steps_apart: int = 0
    repeated: int = 0

    @property
    def origin(self) -> str:
        """Where it was created, or else where it steps."""
        return self.made or self.place

    def note_carried(self, step: int) -> None:
        """Note that a step found the gradients of the previous one."""
        self.carried += 1
        if self.first_carried < 0:
            self.first_carried = step

    @property
    def tensors(self) -> set[int]:
        """The ids of its parameters in traced modules."""
        return {number for group in self.groups for number in group.tensors}


class LossSummary(msgspec.Struct):
    """A way in which a loss was computed.

    Attributes:
        nodes: the nodes of the autograd graph, as in `events.Loss`.
        place: where backward passes began with it, as "file:line".
        made: where the variable was assigned on which `backward` was called, or else `place`.
        computed: where its value was computed, in a function called there, or else `made`.
        activated: the only line of the model's code that makes probabilities; "" if unknown.
        cut: the only line that cut a tensor behind it off the graph, likewise.
        calls: the calls of loss functions in the function of `computed`: their names and places.
        passes: the number of backward passes.
        first_step: the number of steps that had ended at the first pass.
        steps: before how many optimizer steps it was the only loss.
        is_within: whether a module that is being called makes the backward pass, so that the model's end is unknown.
    """

    nodes: list[events.LossNode] = []
    place: str = ""
    made: str = ""
    computed: str = ""
    activated: str = ""
    cut: str = ""
    calls: list[tuple[str, str]] = []
    passes: int = 0
    first_step: int = 0
    steps: int = 0
    is_within: bool = False

    def place_of_call(self, functions: Collection[str]) -> str:
        """The only place where one of some loss functions is called; "" if there is none, or several."""
        places = {place for function, place in self.calls if function in functions}
        return places.pop() if len(places) == 1 else ""


class ModeSummary(msgspec.Struct):
    """The mode of a root module at its last call before each step of its optimizer.

    Attributes:
        training: how many steps found it in training mode.
        evaluation: how many in evaluation mode.
        first_evaluation: the first of those, as the number of steps that had ended; -1 if there is none.
        last_training: the last of the others, likewise.
        place: where the module was called before the first step in evaluation mode, as "file:line".
    """

    training: int = 0
    evaluation: int = 0
    first_evaluation: int = -1
    last_training: int = -1
    place: str = ""


class RootSummary(msgspec.Struct):
    """How a root module was called.

    Attributes:
        trained_calls: how often in training mode, with autograd on.
        blind_calls: how often in training mode, with autograd off, for a result.
        dropped_calls: how often likewise, but the result was dropped: such calls only update running statistics.
        evaluated_calls: how often in evaluation mode.
        first_blind: the number of steps at the first of the blind calls; -1 if there is none.
        last_blind: the last of them, likewise.
        blind_place: where the first blind call was made, as "file:line".
        place: where it was last called in training mode with autograd on.
        outer_place: if a method of a module called it, where that method's caller in the program is.
        backward_place: where the first backward pass began after such a call.
        last_step: the last step of an optimizer with parameters of it, as the number of steps that had ended; -1 if
            there is none.
        first_step: the first, likewise.
        is_passed_on: whether its output went into another root module.
    """

    trained_calls: int = 0
    blind_calls: int = 0
    dropped_calls: int = 0
    evaluated_calls: int = 0
    first_blind: int = -1
    last_blind: int = -1
    blind_place: str = ""
    place: str = ""
    outer_place: str = ""
    backward_place: str = ""
    last_step: int = -1
    first_step: int = -1
    is_passed_on: bool = False


class SchedulerSummary(msgspec.Struct):
    """A learning rate scheduler.

    Attributes:
        name: its class.
        optimizer: the id of its optimizer.
        advances: its records with something new: the number of earlier advances, the optimizer's last event, and the
            place.
        followed_passes: whether a backward pass preceded its first advance.
        made: where it was created, as "file:line"; "" if unknown.
        settings: its initial settings.
        count: a lower bound on the number of advances; the number is less than twice that, or at most eight.
        last_step: the number of optimizer steps at its last record.
    """

    name: str = ""
    optimizer: int = 0
    advances: list[tuple[int, str, str]] = []
    followed_passes: bool = False
    made: str = ""
    settings: dict[str, events.Setting] = {}
    count: int = 0
    last_step: int = 0

    @property
    def most(self) -> int:
        """The most advances that are possible: with the next power of two there would be another record."""
        return max(_FEWEST_COUNTED, 1 << self.count.bit_length())


class PlateauSummary(msgspec.Struct):
    """A `ReduceLROnPlateau` that lowered the rate: its last record, and the place."""

    place: str
    made: str
    last: events.RateReduced


class LoadSummary(msgspec.Struct):
    """Weights loaded into a module; the fields are those of `events.Load`, places are "file:line"."""

    module: int
    place: str
    step: int
    load: events.Load
    kept: str = ""


class ClipSummary(msgspec.Struct):
    """A place where gradients are clipped.

    Attributes:
        place: as "file:line".
        late: the number of records that say that an optimizer had already stepped with them.
        in_time: the number of other records.
        empty: the number of records without parameters.
        without: the id of a parameter, if none of the parameters had a gradient; 0 if any ever had.
        step: the number of steps that had ended at the first record.
        again: how often gradients clipped here were added to and clipped again before a step.
        others: how often only optimizers with other parameters stepped afterwards.
        count: a lower bound on the number of clippings.
    """

    place: str = ""
    late: int = 0
    in_time: int = 0
    empty: int = 0
    without: int = 0
    step: int = 0
    again: int = 0
    others: int = 0
    count: int = 0


class InputSummary(msgspec.Struct):
    """The input of the first layer of a root module.

    Attributes:
        root: the id of the root module.
        layer: the id of the layer that received it unchanged.
        type: the description of the tensor.
        statistics: the statistics of its values.
        place: where the root module was called, as "file:line".
        has_norm: whether a normalisation received the layer's output. In evaluation, a batch norm does not count: it
            normalises by the values of training.
        is_evaluation: whether this was a call in evaluation mode.
    """

    root: int
    layer: int
    type: str
    statistics: events.Statistics
    place: str
    has_norm: bool = False
    is_evaluation: bool = False


class LossValues(msgspec.Struct):
    """The values of losses at backward passes at one place.

    Attributes:
        count: the number of values.
        first: the first few.
        last: the last few.
        smallest: the smallest of all.
        curve: an evenly spread selection: the first, and then every `stride`-th.
        stride: the distance between them.
    """

    count: int = 0
    first: list[float] = []
    last: list[float] = []
    smallest: float = float("inf")
    curve: list[float] = []
    stride: int = 1

    def add(self, value: float) -> None:
        """Add a value."""
        if self.count % self.stride == 0:
            self.curve.append(value)
            if len(self.curve) >= _MOST_OF_CURVE:
                del self.curve[1::2]
                self.stride *= 2
        self.count += 1
        self.smallest = min(self.smallest, value)
        if len(self.first) < _FEW:
            self.first.append(value)
        self.last.append(value)
        del self.last[:-_FEW]


class PenaltySummary(msgspec.Struct):
    """A place where a function named like a gradient penalty computes gradients.

    Attributes:
        place: as "file:line".
        function: its qualified name.
        plain: how often the result could not be differentiated.
        differentiable: how often it could.
    """

    place: str = ""
    function: str = ""
    plain: int = 0
    differentiable: int = 0


class TrainingSummary(NamedTuple):
    """How a process trained.

    Attributes:
        optimizers: the optimizers, by id.
        losses: the ways to compute a loss, by id.
        modes: the modes at steps, by the id of a root module.
        roots: the calls of root modules, by id.
        schedulers: the learning rate schedulers, by id.
        loads: the loaded weights, in order.
        clips: the places of clipping, by location.
        inputs: the inputs of the first few calls.
        values: the values of losses, by the location of the backward pass.
        penalties: the gradient penalties, by location.
        plateaus: the schedulers that lowered a rate on a plateau, by id.
    """

    optimizers: Mapping[int, OptimizerSummary]
    losses: Mapping[int, LossSummary]
    modes: Mapping[int, ModeSummary]
    roots: Mapping[int, RootSummary]
    schedulers: Mapping[int, SchedulerSummary]
    loads: Sequence[LoadSummary]
    clips: Mapping[int, ClipSummary]
    inputs: Sequence[InputSummary]
    values: Mapping[str, LossValues]
    penalties: Mapping[int, PenaltySummary]
    plateaus: Mapping[int, PlateauSummary]

    def computed_at(self, backward_place: str) -> str:
        """Where the loss of the backward passes at a place is computed; that place if unknown."""
        losses = self.losses.values()
        return next((loss.computed for loss in losses if loss.place == backward_place), backward_place)

    def schedulers_of(self, optimizer: int) -> list[SchedulerSummary]:
        """The schedulers of an optimizer that were advanced."""
        return [each for each in self.schedulers.values() if each.optimizer == optimizer and each.advances]


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
        self._inputs = _InputCollector(names)
        self._values: dict[str, LossValues] = {}
        self._penalties: dict[int, PenaltySummary] = {}
        self._plateaus: dict[int, PlateauSummary] = {}
        self._passes = 0
        self._passes_at_step = 0
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
        )

    def call_root(self, event: events.CallModule) -> None:
        """Note a call of a root module outside of all others."""
        root = self._roots.get(event.module)
        if root is None:
            if len(self._roots) >= _MOST:
                return
            root = self._roots[event.module] = RootSummary()
        self._called[event.module] = event
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
        """Count a pass that computes gradients in a function named like a gradient penalty."""
        if event.function != "grad" or (event.location not in self._penalties and len(self._penalties) >= _MOST):
            return
        function = self._names.function(event.location)
        if _PENALTY.search(function.rpartition(".")[2]):
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
        if event.clears:
            known.clears = self._names.place(event.clears)
        if event.rates:
            known.given_rates = list(event.rates)
            known.overwritten = self._names.place(event.overwrites) if event.overwrites else ""
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
                group.rates += 1
                group.first_rate = float(rate) if group.first_rate is None else group.first_rate
                group.last_rate = float(rate)
                group.largest_rate = max(group.largest_rate, float(rate))

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
            known = self._schedulers[event.id] = SchedulerSummary(
                event.scheduler, event.optimizer_id, [], bool(self._passes), made, event.settings
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

    def load(self, event: events.Load) -> None:
        """Note weights loaded into a module."""
        if len(self._loads) < _MOST:
            self._loads.append(
                LoadSummary(event.module, self._place(event), event.step, event, self._names.place(event.kept))
            )

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


class _InputCollector:
    """Finds the layer that receives the input of a root module, in calls with recorded input values."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.found: list[InputSummary] = []
        self._root: events.CallModule | None = None
        self._told: dict[int, events.Input] = {}
        self._open: list[InputSummary] = []
        self._put_out: dict[int, InputSummary] = {}

    def call_root(self, event: events.CallModule) -> None:
        """Note the start of a root module's call."""
        self._root = event
        self._told = {}
        self._open, self._put_out = [], {}

    def input(self, event: events.Input) -> None:
        """Note the values of its input."""
        if self._root is not None and self._root.module == event.module and event.statistics is not None:
            self._told[event.input_id] = event
            self._take(event.module, [event.input_id])

    def call_below(self, event: events.CallModule) -> None:
        """Note a call of a module in it."""
        if not self._told:
            return
        type_ = self._type(event.module)
        if _NORMALISATION.match(type_):
            for number in event.input_ids:
                if number in self._put_out:
                    is_fixed = self._put_out[number].is_evaluation and "BatchNorm" in type_
                    self._put_out[number].has_norm |= not is_fixed
        self._take(event.module, event.input_ids)

    def _take(self, module: int, numbers: Sequence[int]) -> None:
        if not _LAYER.match(self._type(module)) or len(self.found) >= _MOST or self._root is None:
            return
        for number in numbers:
            told = self._told.get(number)
            if told is not None and told.statistics is not None:
                place = self._names.place(told.location)
                found = InputSummary(
                    told.module, module, told.type, told.statistics, place, is_evaluation=told.evaluation
                )
                self.found.append(found)
                self._open.append(found)

    def return_below(self, event: events.ReturnModule) -> None:
        """Note the end of such a call."""
        if not self._told:
            return
        for found in self._open:
            if found.layer == event.module:
                self._put_out.update((number, found) for number in event.output_ids)
        self._open = [found for found in self._open if found.layer != event.module]

    def _type(self, module: int) -> str:
        found = self._names.modules.get(module)
        return "" if found is None else found.type
