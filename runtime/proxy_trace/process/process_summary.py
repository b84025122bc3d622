"""The summary of a process: its modules and their calls, its parameters and buffers and their changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.tensors.same_values import has_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.process.acts_summary import ActsSummary
    from proxy_trace.process.training_summary import TrainingSummary
    from proxy_trace.reading.names import Names
    from proxy_wrapper import events

_SIZES: Final = re.compile(r"\[(\d+(?:, \d+)*)\]$")
"""The shape at the end of the description of a tensor."""


class ModuleSummary(msgspec.Struct):
    """A module and its calls. `total_us` sums over the calls that ended; `parent` is an id, 0 for a root.

    `training_calls` counts those in training mode, and `stages` those that no other module made, by stage. The `first`
    steps and then every `every`-th are recorded, and none after the trace reached its maximum size (`is_cut_short`).
    `is_compiled`: some of its calls ran compiled code, in which no calls are seen. `calls_seen`, `removed`, `settings`
    and `repeated` are as in `events.Module`. `place` is where it was proxied, as "file:line", and `made` where it was
    created, "" if unknown. `owner` is the class whose method proxied it, "" if none. `called_place` is where most
    of its calls were made. `is_cut_off`: no gradient reached it from its outputs in the first call that was made there
    in training mode. `taken` counts the modules directly below it that became modules of another one, by the id of
    that.
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
        last_stepped: its statistics after the last step that changed it.
        moved_steps: how many steps found other values than the step before had left.
        has_changed: whether it had other values than the first in a stage that trains.
        changes: how often it was found to have other values than the first, by stage; "" if the stage is unknown.
        undecided: how many writes may or may not have changed its values.
        watched: whether its changes are recorded.
        removed: whether it has been removed from the model.
        freed: whether its model was freed before it was known whether its only gradient changed it.
        derived: whether the program computed it and put it in the place of a parameter.
        is_snapshot: whether it began with values, to the bit, to which training had changed those of another model.
        is_stepped: whether it was in an optimizer's step.
        gradients: the number of its gradients: at optimizer steps, or, without an optimizer, after backward passes.
        missing_gradients: how many steps found no gradient.
        cleared_gradients: how many steps found none, or only zeros, although a backward pass had left one.
        is_without_optimizer: whether it had a gradient that no optimizer could use.
        left_place: where the first backward pass began that left such a gradient, as "file:line".
        has_nonzero_gradient: whether some gradient had a nonzero element.
        largest_gradient: the largest finite magnitude of an element of its gradients.
        largest_gradient_norm: the largest L2 norm of its gradients; infinite if one overflowed.
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
    last_stepped: events.Statistics | None = None
    moved_steps: int = 0
    filled_place: str = ""
    has_changed: bool = False
    changes: dict[str, int] = {}
    undecided: int = 0
    watched: bool = True
    removed: bool = False
    freed: bool = False
    derived: bool = False
    is_snapshot: bool = False
    is_stepped: bool = False
    gradients: int = 0
    missing_gradients: int = 0
    cleared_gradients: int = 0
    is_without_optimizer: bool = False
    left_place: str = ""
    last_gradient: events.Statistics | None = None
    has_nonzero_gradient: bool = False
    largest_gradient: float = 0.0
    largest_gradient_norm: float = 0.0
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
        self.last_gradient, self.largest_gradient, self.largest_gradient_norm = None, 0.0, 0.0
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
    def sizes(self) -> tuple[int, ...]:
        """Its shape; () if it is unknown, or for a single number."""
        found = _SIZES.search(self.type)
        return tuple(map(int, found[1].split(", "))) if found is not None else ()

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
