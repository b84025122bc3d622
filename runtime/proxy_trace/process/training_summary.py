"""The summary of how one process trained: optimizers and their settings, how losses were computed, and the modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_wrapper import events  # noqa: TC001  msgspec looks the types of fields up.

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_FEW: Final = 20
"""The number of first, and of last, values of a loss that are kept."""

_MOST_OF_CURVE: Final = 64

_FEWEST_COUNTED: Final = 8
"""From this number on, a scheduler's advances are recorded at powers of two."""


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
        early_rates: the first rates, each with the number of steps, of any optimizer, that had ended.
    """

    settings: dict[str, events.Setting] = {}
    tensors: list[int] = []
    others: int = 0
    rates: int = 0
    first_rate: float | None = None
    last_rate: float | None = None
    largest_rate: float = 0.0
    early_rates: list[tuple[int, float]] = []

    def note_rate(self, step: int, rate: float) -> None:
        """Note the rate from a step on."""
        self.rates += 1
        self.first_rate = rate if self.first_rate is None else self.first_rate
        self.last_rate = rate
        self.largest_rate = max(self.largest_rate, rate)
        if len(self.early_rates) < _MOST_OF_CURVE:
            self.early_rates.append((step, rate))

    def rate_at(self, step: int) -> float | None:
        """The rate at a step; None if it is not known."""
        if self.rates > len(self.early_rates) and self.early_rates[-1][0] <= step:
            return None
        return next((rate for since, rate in reversed(self.early_rates) if since <= step), None)


class OptimizerSummary(msgspec.Struct):
    """An optimizer and its steps.

    Attributes:
        name: its class.
        place: where it steps, as "file:line"; where it was created, if it never stepped.
        made: where it was created, likewise; "" if unknown.
        maker: the name of the function that created it; "" if unknown.
        loop: the target of the innermost loop in which it was created; "" if there is none.
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
        overwritten: where a learning rate was assigned until then, or when that of the first group changed alone; ""
            if unknown.
        steps_apart: at how many steps the learning rates of its groups differed.
        fed_at: the locations of the backward passes between its steps and the steps before, of any optimizer; 0 stands
            for more of them.
        windows: the number of steps by the number of backward passes before each, all at one place.
        unfed: how many of its steps had no backward pass between them and the step before, of any optimizer.
        loaded_rate: the record of the rate that was loaded with its state before its first step; None if there is none.
        repeated: how many steps found the gradients of its previous step, to the bit, without a backward pass between.
    """

    name: str = ""
    place: str = ""
    made: str = ""
    maker: str = ""
    loop: str = ""
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
    fed_at: set[int] = set()
    windows: dict[int, int] = {}
    unfed: int = 0
    loaded_rate: events.LoadedRate | None = None

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
        evaluated_at: where it was first called in evaluation mode before that step, and after its last call in
            training mode.
    """

    training: int = 0
    evaluation: int = 0
    first_evaluation: int = -1
    last_training: int = -1
    place: str = ""
    evaluated_at: str = ""


class RootSummary(msgspec.Struct):
    """How a root module was called.

    Attributes:
        trained_calls: how often in training mode, with autograd on.
        blind_calls: how often in training mode, with autograd off, for a result.
        dropped_calls: how often likewise, but the result was dropped: such calls only update running statistics.
        evaluated_calls: how often in evaluation mode.
        evaluated_at: where it was first called so since its last call in training mode, as "file:line".
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
    evaluated_at: str = ""
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
        followed_steps: whether its optimizer had stepped before its first advance.
        made: where it was created, as "file:line"; "" if unknown.
        settings: its initial settings.
        words: the names and strings that its functions read.
        count: a lower bound on the number of advances; the number is less than twice that, or at most eight.
        last_step: the number of optimizer steps at its last record.
    """

    name: str = ""
    optimizer: int = 0
    advances: list[tuple[int, str, str]] = []
    followed_passes: bool = False
    followed_steps: bool = False
    made: str = ""
    settings: dict[str, events.Setting] = {}
    words: list[str] = []
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


class RestartSummary(msgspec.Struct):
    """A schedule that begins anew when training resumes: where its scheduler was created, and the record."""

    place: str
    event: events.ScheduleRestart


class LoadSummary(msgspec.Struct):
    """Weights loaded into a module; the fields are those of `events.Load`, `place` and `made` are "file:line" or ""."""

    module: int
    place: str
    step: int
    load: events.Load
    made: str = ""


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
    """A place where a function named like a gradient penalty, or a residual of an equation, computes gradients.

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
        restarts: the schedules that begin anew when training resumes.
        differentiable_passes: how many backward passes had results that can be differentiated again.
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
    restarts: Sequence[RestartSummary]
    differentiable_passes: int = 0

    def computed_at(self, backward_place: str) -> str:
        """Where the loss of the backward passes at a place is computed; that place if unknown."""
        losses = self.losses.values()
        return next((loss.computed for loss in losses if loss.place == backward_place), backward_place)

    def schedulers_of(self, optimizer: int) -> list[SchedulerSummary]:
        """The schedulers of an optimizer that were advanced."""
        return [each for each in self.schedulers.values() if each.optimizer == optimizer and each.advances]
