"""Sums up how one process trained: its optimizers with their settings, how its losses were computed, and in which mode.

What is kept is bounded, whatever the trace says: so many optimizers, groups and ways to compute a loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_wrapper import events  # noqa: TC001  msgspec looks the types of fields up.

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy_trace.names import Names

_MOST: Final = 1000
"""How many optimizers, groups of one, and ways to compute a loss are told apart."""


class GroupSummary(msgspec.Struct):
    """A group of an optimizer's parameters.

    Attributes:
        settings: the latest.
        tensors: the ids of its parameters that traced modules have, as of the last record.
        others: how many it has besides.
        rates: how many different learning rates it has had one after the other.
        first_rate: the first of them.
        last_rate: the last.
    """

    settings: dict[str, events.Setting] = {}
    tensors: list[int] = []
    others: int = 0
    rates: int = 0
    first_rate: float | None = None
    last_rate: float | None = None


class OptimizerSummary(msgspec.Struct):
    """An optimizer and its steps.

    Attributes:
        name: its class.
        place: where it steps, as "file:line".
        groups: its groups of parameters.
        steps: how many it made that were recorded.
        carried: in how many of them the gradients of the step before had not been cleared.
        first_carried: the first of those, as the number of steps that had ended; -1 if there is none.
        steps_at_zero: in how many of them every learning rate was 0.
    """

    name: str = ""
    place: str = ""
    groups: list[GroupSummary] = []
    steps: int = 0
    carried: int = 0
    first_carried: int = -1
    steps_at_zero: int = 0


class LossSummary(msgspec.Struct):
    """A way in which a loss was computed.

    Attributes:
        nodes: the nodes of the autograd graph, as in `events.Loss`.
        place: where backward passes began with it, as "file:line".
        passes: how many of them.
        first_step: the steps that had ended at the first.
    """

    nodes: list[events.LossNode] = []
    place: str = ""
    passes: int = 0
    first_step: int = 0


class ModeSummary(msgspec.Struct):
    """In which mode a root module was when it was called last before each step of its optimizer.

    Attributes:
        training: how many steps found it in training mode.
        evaluation: how many in evaluation mode.
        first_evaluation: the first of those, as the number of steps that had ended; -1 if there is none.
        last_training: the last of the others, likewise.
        place: where the first in evaluation mode was made, as "file:line".
    """

    training: int = 0
    evaluation: int = 0
    first_evaluation: int = -1
    last_training: int = -1
    place: str = ""


class TrainingSummary(NamedTuple):
    """How a process trained.

    Attributes:
        optimizers: by id.
        losses: by id.
        modes: by the id of a root module.
    """

    optimizers: Mapping[int, OptimizerSummary]
    losses: Mapping[int, LossSummary]
    modes: Mapping[int, ModeSummary]


class TrainingCollector:
    """Takes the events that tell how a process trains, and keeps the sums."""

    def __init__(self, names: Names) -> None:
        """Begin. `names` are what the ids in the events stand for."""
        self._names = names
        self._optimizers: dict[int, OptimizerSummary] = {}
        self._losses: dict[int, LossSummary] = {}
        self._modes: dict[int, ModeSummary] = {}
        self._called: dict[int, bool] = {}

    def summary(self) -> TrainingSummary:
        """What there is to say once all has been read."""
        return TrainingSummary(self._optimizers, self._losses, self._modes)

    def call_root(self, event: events.CallModule) -> None:
        """A root module is called, which no other one calls."""
        if len(self._called) < _MOST:
            self._called[event.module] = event.training

    def loss(self, event: events.Loss) -> None:
        """A way to compute a loss is defined; the same number again is another one, of a tracer that began anew."""
        if event.id in self._losses or len(self._losses) < _MOST:
            self._losses[event.id] = LossSummary(list(event.nodes), self._place(event))

    def backward(self, event: events.Backward) -> None:
        """A backward pass begins."""
        loss = self._losses.get(event.loss)
        if loss is not None:
            if not loss.passes:
                loss.first_step = event.step
            loss.passes += 1

    def optimizer(self, event: events.Optimizer) -> None:
        """An optimizer is new, or has changed."""
        known = self._optimizers.get(event.id)
        if known is None:
            if len(self._optimizers) >= _MOST:
                return
            known = self._optimizers[event.id] = OptimizerSummary(event.optimizer, self._place(event), [])
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

    def step(self, event: events.OptimizerStep) -> None:
        """An optimizer steps."""
        optimizer = self._optimizers.get(event.optimizer_id)
        if optimizer is None:
            return
        optimizer.steps += 1
        if event.carried:
            optimizer.carried += 1
            if optimizer.first_carried < 0:
                optimizer.first_carried = event.step
        groups = optimizer.groups
        optimizer.steps_at_zero += bool(groups) and all(group.last_rate == 0 for group in groups)
        for root in self._roots_of(optimizer):
            is_training = self._called.get(root)
            if is_training is None:
                continue
            mode = self._modes.setdefault(root, ModeSummary())
            if is_training:
                mode.training += 1
                mode.last_training = event.step
                continue
            mode.evaluation += 1
            if mode.first_evaluation < 0:
                mode.first_evaluation, mode.place = event.step, self._place(event)

    def _roots_of(self, optimizer: OptimizerSummary) -> set[int]:
        """The root modules that have parameters in an optimizer."""
        found = set()
        for group in optimizer.groups:
            tensor = self._names.tensors.get(group.tensors[0]) if group.tensors else None
            module = self._names.modules.get(tensor.module) if tensor is not None else None
            if module is not None:
                found.add(module.root)
        return found

    def _place(self, event: events.Happening) -> str:
        return self._names.place(event.location) if event.location else ""
