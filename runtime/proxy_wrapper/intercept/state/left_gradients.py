"""Detects steps of adversarial networks with gradients that the loss of the opponent has left.

g_loss.backward()           # leaves gradients in the discriminator, too
optimizer_g.step()
d_loss.backward()           # adds to them
optimizer_d.step()

Two passes at different places leave gradients for one step, and another optimizer steps between them. That may be meant
for parts that two losses share. It is not where the two losses are opposed: one trains a generator through the
discriminator, and the other trains the discriminator with the same samples, detached, or with another label.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.events import StatePattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.loss_graph.scored_samples import layer_inputs, raised_inputs, scored_samples
from proxy_wrapper.values.statistics import unobserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.intercept.state.carried_gradients import CarriedGradients
    from proxy_wrapper.known.state_tensors import StateTensors
    from proxy_wrapper.loss_graph.scored_samples import LayerInput, Scored
    from proxy_wrapper.tracer import Tracer

LEFT: Final = "gradient-left"

_FEWEST: Final = 4
_MOST_STEPS: Final = 256
_MOST_PASSES: Final = 8
_MOST_PLACES: Final = 20


class _Samples(NamedTuple):
    """What networks are given in a pass.

    `inputs` are the elements that enter each layer, by the id of its weight, with whether gradients flow to them, and
    `scored` those whose scores have one label, likewise. `raised` are the weights of the layers with a gradient at
    their input, behind scores of which the loss is the mean.
    """

    inputs: frozenset[tuple[int, tuple[float, ...], bool]]
    scored: Sequence[tuple[Scored, bool]]
    raised: frozenset[int]

    def weights(self, *, has_gradient: bool) -> set[int]:
        """The weights of the layers to whose inputs gradients flow, or do not flow."""
        return {weight for weight, _, flows in self.inputs if flows is has_gradient}


class _Followed:
    """An optimizer, and the backward passes since its last step.

    Attributes:
        last: the location of the last of them.
        is_between: whether another optimizer has stepped since.
        mixed: the location of one after which another optimizer has stepped, and those of all later ones, if the
            gradients that it left were still there; else empty.
        steps: how many steps there were.
        opposed: how many of these mixed opposed losses.
    """

    __slots__ = ("is_between", "last", "mixed", "opposed", "steps")

    def __init__(self) -> None:
        self.last = self.steps = self.opposed = 0
        self.is_between = False
        self.mixed: list[int] = []


class LeftGradients:
    """Creates `StatePattern` events."""

    def __init__(self, tracer: Tracer, carried: CarriedGradients) -> None:
        self._tracer = tracer
        self._carried = carried
        self._followed: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Followed] = weakref.WeakKeyDictionary()
        # The last samples at the places of passes that some step mixes.
        self._samples: dict[int, _Samples | None] = {}
        # The locations of two passes, and a weight: the first gives its layer samples with a gradient, the second the
        # same without one.
        self._detached: set[tuple[int, int, int]] = set()

    def before_backward(self, roots: Sequence[torch.Tensor], location: int) -> None:
        """Look at a backward pass that leaves gradients, right before it begins."""
        for optimizer, followed in list(self._followed.items()):
            is_other = followed.is_between and followed.last not in (0, location) and not followed.mixed
            if is_other and self._carried.has_gradient(optimizer):
                followed.mixed.append(followed.last)
            if 0 < len(followed.mixed) < _MOST_PASSES:
                followed.mixed.append(location)
            followed.last, followed.is_between = location, False
        if location in self._samples:
            self._samples[location] = self._given(roots)
            self._compare(location)

    def before_step(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int) -> None:
        """Look at a step of an optimizer, right before it begins."""
        followed = self._followed.setdefault(optimizer, _Followed())
        for other in self._followed.values():
            other.is_between |= other is not followed
        passes, followed.mixed, followed.last, followed.is_between = followed.mixed, [], 0, False
        followed.steps += 1
        if followed.opposed >= _FEWEST or followed.steps > _MOST_STEPS:  # Its passes need not be read any more.
            for each in passes:
                self._samples.pop(each, None)
            return
        is_full = len(self._samples) >= _MOST_PLACES
        if not (passes and states) or is_full or self._carried.are_carried(optimizer):
            return
        for each in passes:
            self._samples.setdefault(each, None)
        own = {state.id for state in states.entries}
        followed.opposed += any(self._are_opposed(passes[0], later, own) for later in passes[1:])
        if followed.opposed == _FEWEST:
            self._emit(states, passes[0], location)

    def _given(self, roots: Sequence[torch.Tensor]) -> _Samples | None:
        with unobserved() as readable:
            root = roots[0].grad_fn if readable and len(roots) == 1 else None
            if root is None:
                return None
            inputs = frozenset((self._id_of(each), each.values, each.has_gradient) for each in layer_inputs(root))
            raised = frozenset(self._id_of(each) for each in raised_inputs(root) if each.has_gradient)
            return _Samples(inputs, list(scored_samples(root, self._tracer.registry.state_entry)), raised)

    def _id_of(self, layer: LayerInput) -> int:
        """The id of the weight of a layer; 0 if it is not a known one."""
        state = self._tracer.registry.state_entry(layer.weight)
        return 0 if state is None else state.id

    def _compare(self, location: int) -> None:
        """Note the layers to which a pass gives samples that another pass gives them without a gradient."""
        for place, samples in self._samples.items():
            for first, second in ((place, location), (location, place)):
                one, other = self._samples.get(first), self._samples.get(second)
                if samples is None or one is None or other is None or place == location:
                    continue
                for weight, values, has_gradient in one.inputs:
                    if has_gradient and (weight, values, False) in other.inputs:
                        self._detached.add((first, second, weight))

    def _are_opposed(self, before: int, later: int, own: set[int]) -> bool:
        """Whether the losses of two passes are those of a generator and of a discriminator.

        If `own` are the parameters of the discriminator, the second pass trains it with samples that have no gradient;
        if they are those of the generator, both passes send gradients through the discriminator. An actor and a critic
        are like these.
        """
        first, second = self._samples.get(before), self._samples.get(later)
        if first is None or second is None:
            return False
        if own & first.raised & second.weights(has_gradient=False) - second.weights(has_gradient=True):
            return True
        return any((before, later, weight) in self._detached for weight in own) or any(
            one.weight == other.weight and one.label != other.label and reaches is (one.weight not in own)
            for one, has_gradient in first.scored
            for other, reaches in second.scored
            if has_gradient
        )

    def _emit(self, states: StateTensors, made: int, location: int) -> None:
        tracer, thread = self._tracer, self._tracer.thread
        event = StatePattern(
            *(tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage, LEFT),
            tensor=states.entries[0].id,
            values=(float(_FEWEST),),
            made=made,
        )
        tracer.broadcast(event, location, level=INFO, also=(made,))
