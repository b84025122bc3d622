"""Observes how the loss of each backward pass was computed, and its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.code_lines.loss_calls import loss_calls
from proxy_wrapper.code_lines.named_lines import cut_line, leaf_line, probability_lines
from proxy_wrapper.events import Loss, LossCall
from proxy_wrapper.levels import INFO
from proxy_wrapper.loss_graph.loss_nodes import loss_nodes
from proxy_wrapper.program_code.called_functions import Body, body_at, body_of, reachable
from proxy_wrapper.program_code.computed_lines import computed_at, loss_variable
from proxy_wrapper.values.statistics import has_values, read_value, unobserved
from proxy_wrapper.values.torch_functions import is_complex, numel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    import torch

    from proxy_wrapper.events import LossNode, Number
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.values.pending import PendingValue

_PROBABILITIES: Final = frozenset({"SoftmaxBackward0", "LogSoftmaxBackward0", "SigmoidBackward0"})
_MOST: Final = 1000
"""The most ways to compute a loss that are told apart; batches of several sizes make several."""


class Losses:
    """Creates `Loss` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        # Keyed by how a loss was computed and where the backward pass begins: each has its own lines.
        self._ids: dict[tuple[int, tuple[LossNode, ...]], int] = {}
        # The line that makes probabilities, by the place of the backward pass. It does not depend on the batch size.
        self._activations: dict[int, int] = {}
        self._channels: tuple[str, ...] = ()
        self._made = 0

    def define(self, roots: Sequence[torch.Tensor], location: int, now_us: int) -> int:
        """The id of how the only root was computed, recorded if new; 0 if there are several roots, or it is unknown."""
        if len(roots) != 1:
            return 0
        tracer = self._tracer
        nodes = loss_nodes(roots[0], tracer.thread.last_node_of_model)
        if not nodes:
            return 0
        with tracer.lock:  # Other threads number losses too.
            return self._number_of(nodes, location, now_us)

    def _number_of(self, nodes: tuple[LossNode, ...], location: int, now_us: int) -> int:
        tracer = self._tracer
        channels = tuple(tracer.channels)
        if channels != self._channels:  # A new channel has no definitions.
            self._channels = channels
            self._ids.clear()
            self._activations.clear()
        number = self._ids.get((location, nodes), 0)
        if not number and len(self._ids) < _MOST:
            self._made += 1
            number = self._ids[location, nodes] = self._made
            thread = tracer.thread
            frame = tracer.locator.user_frame(2)
            made = 0 if frame is None else tracer.locator.line(loss_variable(frame))
            model = forward_of(thread.last_model) if nodes[0].inside else None
            line = None if frame is None else computed_at(frame, tracer.locator.is_user_code, model)
            computed = 0 if line is None else tracer.locator.line(line.at)
            within = thread.stack[-1].entry.id if thread.stack else 0
            activated = 0
            if any(node.inside and node.name in _PROBABILITIES for node in nodes):
                if location not in self._activations:
                    self._activations[location] = self._activated()
                activated = self._activations[location]
            cut = 0 if frame is None else self._cut(frame, is_of_model=any(node.inside for node in nodes))
            calls = tuple(LossCall(each.name, tracer.locator.line(each)) for each in (loss_calls(line) if line else ()))
            event = Loss(
                now_us,
                tracer.step,
                within,
                location,
                thread.number,
                thread.stage,
                number,
                nodes,
                made,
                computed,
                activated,
                cut,
                calls,
            )
            places = (made, computed, activated, cut, *(each.location for each in calls))
            also = tuple(place for place in places if place)
            tracer.broadcast(event, location, level=INFO, also=also)
        return number

    def _cut(self, frame: FrameType, *, is_of_model: bool) -> int:
        """The location of the only line that cuts the graph; for a loss of no model, where another graph begins."""
        locator = self._tracer.locator
        called = () if is_of_model else reachable(body_at(frame), locator.is_user_code)
        return locator.line(leaf_line(each.body for each in called) or cut_line(frame))

    def _activated(self) -> int:
        """The location of the only line in proxied modules' code that makes probabilities; 0 if not exactly one."""
        tracer = self._tracer
        is_user_code = tracer.locator.is_user_code
        bodies: dict[int, Body] = {}
        for entry in list(tracer.registry):
            body = forward_of(entry)
            if body is not None and is_user_code(body.code) and body.code.co_argcount:
                bodies[id(body.code)] = body._replace(values={**body.values, body.code.co_varnames[0]: entry.module()})
                for called in reachable(body, is_user_code):
                    bodies.setdefault(id(called.body.code), called.body)
        found = list(probability_lines(bodies.values()))
        return tracer.locator.line(found[0]) if len(found) == 1 else 0


def forward_of(entry: ModuleEntry | None) -> Body | None:
    """The `forward` of a module's class; None if the module is gone or that is no Python function."""
    module = None if entry is None else entry.module()
    function: Any = getattr(type(module), "forward", None)
    return body_of(function)


def value_of(roots: Sequence[torch.Tensor]) -> Number | PendingValue | None:
    """The value of the only root, if it is one readable real element."""
    if len(roots) != 1:
        return None
    (root,) = roots
    if not has_values(root) or numel(root) != 1 or is_complex(root):
        return None
    with unobserved() as readable:
        return read_value(root) if readable else None
