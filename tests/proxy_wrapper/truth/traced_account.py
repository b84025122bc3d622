"""The account that a trace gives of a run."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy_trace import open_trace
from proxy_wrapper.events import (
    Backward,
    CallModule,
    Gradient,
    NonFinite,
    OptimizerStepEnd,
    ReturnModule,
    Statistics,
    Update,
)
from tests.proxy_wrapper.truth.account import Account, GradientSeen

if TYPE_CHECKING:
    from proxy_trace.reading.names import Names
    from proxy_trace.summary.run_summary import Summary
    from proxy_wrapper.events import AnyEvent, StateTensor


@dataclass
class Traced:
    """What a trace says of one process.

    Attributes:
        account: calls, steps, gradients and updates by name.
        other_updates: for each parameter and buffer, how many updates were outside of steps, by cause.
        unsure_updates: for each parameter, the steps at whose end its values were other than when they were last looked
            at, without a mark of when they changed: in the step, or before it.
        update_statistics: for each, the statistics of all its updates, in order.
        nonfinite_state: the parameters that were said to be non-finite, and those whose gradients were.
        nonfinite_outputs: the modules whose output was non-finite first, in order.
        state: the definition of each parameter and buffer, by name.
        summary: what `proxy-trace summary` says.
    """

    account: Account[Statistics]
    summary: Summary
    other_updates: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    unsure_updates: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    update_statistics: dict[str, list[Statistics]] = field(default_factory=lambda: defaultdict(list))
    nonfinite_state: set[tuple[str, str]] = field(default_factory=set)
    nonfinite_outputs: list[str] = field(default_factory=list)
    state: dict[str, StateTensor] = field(default_factory=dict)

    def take(self, event: AnyEvent, names: Names) -> None:
        """Add what one event says."""
        account = self.account
        if isinstance(event, CallModule):
            account.calls[names.module_name(event.module)] += 1
        elif isinstance(event, ReturnModule):
            account.raised[names.module_name(event.module)] += event.raised
        elif isinstance(event, Backward):
            account.backward_passes += 1
        elif isinstance(event, OptimizerStepEnd):
            account.optimizer_steps[event.optimizer] += 1
        elif isinstance(event, Gradient):
            self._take_gradient(event, names.tensor_name(event.tensor))
        elif isinstance(event, Update):
            self._take_update(event, names.tensor_name(event.tensor))
        elif isinstance(event, NonFinite) and event.where == "output":
            self.nonfinite_outputs.append(names.module_name(event.module))
        elif isinstance(event, NonFinite) and event.where == "loss":
            account.nonfinite_loss = event.step
        elif isinstance(event, NonFinite) and event.where in ("parameter", "gradient"):
            self.nonfinite_state.add((event.where, names.tensor_name(event.tensor)))

    def _take_gradient(self, event: Gradient, name: str) -> None:
        if event.has_optimizer:
            self.account.gradients[name].append(GradientSeen(event.step, event.statistics, event.cleared))
        elif event.statistics is not None:
            self.account.left_gradients[name].append(event.statistics)

    def _take_update(self, event: Update, name: str) -> None:
        if event.statistics is not None:
            self.account.final[name] = event.statistics
            self.update_statistics[name].append(event.statistics)
        if event.cause == "step":
            self.account.step_updates[name].append(event.step)
        elif event.cause == "data" and event.location:  # Only what is found at the end of a step has a place.
            self.unsure_updates[name].append(event.step)
        elif event.cause not in ("unchanged", "converted"):
            self.other_updates[name][event.cause] += 1


def read_trace(logdir: str) -> Traced:
    """What the newest run in `logdir` says of this process."""
    trace = open_trace(logdir)
    summary = trace.summary()
    found = Traced(Account(), summary)
    for file in trace.files:
        if file.run.pid != os.getpid():
            continue
        names = file.names()
        found.state = {tensor.name: tensor for tensor in names.tensors.values()}
        found.account.final = {
            name: tensor.statistics for name, tensor in found.state.items() if tensor.statistics is not None
        }
        for event in file.read():
            found.take(event, names)
    found.account.steps = sum(process.steps_made for process in summary.processes if process.pid == os.getpid())
    return found
