"""Sums up what one process did around its steps: loading data, scaling gradients, and what calls and graphs have shown.

What is kept is bounded, whatever the trace says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_wrapper import events  # noqa: TC001  msgspec looks the types of fields up.

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy_trace.reading.names import Names

_MOST: Final = 1000
"""How many loaders, scalers, places and modules are told apart."""

_FEWEST_DIMENSIONS: Final = 2
_SEQUENCE: Final = re.compile(r"(RNN|LSTM|GRU|MultiheadAttention)$")
_SHAPE: Final = re.compile(r"\[([\d, ]*)\]")


class PlacedPattern(NamedTuple):
    """A pattern of a graph, where the backward pass began, as "file:line", and the line that made it, if known."""

    event: events.GraphPattern
    place: str
    made: str = ""


class PlacedState(NamedTuple):
    """A pattern of state, the names of the two tensors, the line that made it, if known, and where the step began."""

    event: events.StatePattern
    tensor: str
    other: str
    made: str
    place: str


class PlacedDropout(NamedTuple):
    """An active dropout, and where it was called."""

    event: events.ActiveDropout
    place: str


class PlacedFreezing(NamedTuple):
    """A freezing without effect, and where it was assigned, or else where the optimizer stepped."""

    event: events.FreezeWithoutEffect
    place: str


class PlacedDiscard(NamedTuple):
    """A result that nothing uses, and the statement that computes it."""

    event: events.DiscardedResult
    place: str


class ScalerSummary(msgspec.Struct):
    """What a gradient scaler did to an optimizer.

    Attributes:
        scaler: the number of the scaler.
        optimizer: the id of the optimizer.
        made: where the scaler was made, as "file:line"; "" if that is not known.
        place: where it stepped; "" if nothing is known of that.
        clip_place: where gradients were clipped that it had not divided yet.
        last: the last record of it.
    """

    scaler: int
    optimizer: int
    made: str
    last: events.ScalerStep
    place: str = ""
    clip_place: str = ""


class LoaderSummary(msgspec.Struct):
    """A data loader.

    Attributes:
        place: where the iterations begin, as "file:line".
        last: the last record of it.
        changed_place: where the function begins that gives a sample and changes the data set, likewise.
        calls: after how many records a root module was called.
        trained: how many of these calls were in training mode, with autograd on.
    """

    place: str
    last: events.Loading
    changed_place: str = ""
    calls: int = 0
    trained: int = 0


class MixSummary(msgspec.Struct):
    """How often something worked along a dimension of what a root module was given.

    Attributes:
        mixed: in how many calls that was the dimension of the samples.
        kept: in how many calls it was not.
        shape: that of the first in which it was.
        place: where the root module was called, or the backward pass began.
    """

    mixed: int = 0
    kept: int = 0
    shape: tuple[int, ...] = ()
    place: str = ""


class ActsSummary(NamedTuple):
    """What a process did around its steps.

    Attributes:
        patterns: of graphs, in order.
        states: patterns of state, in order.
        dropouts: that were active in evaluation mode.
        freezings: that had no effect.
        discards: results that nothing uses.
        scalers: by their number and the id of the optimizer.
        loaders: by their number.
        sequences: modules that take the first dimension for that of the sequence, by id.
        softmaxes: over the first dimension, by the place of the backward pass.
        views: that give a tensor's second dimension as the first, by the place of the backward pass.
        inner_roots: the root modules that were called by other ones, by id, with the ids of those.
        around: how many backward passes followed calls of a module around its wrapper, by the id of the module.
    """

    patterns: Sequence[PlacedPattern]
    states: Sequence[PlacedState]
    dropouts: Sequence[PlacedDropout]
    freezings: Sequence[PlacedFreezing]
    discards: Sequence[PlacedDiscard]
    scalers: Mapping[tuple[int, int], ScalerSummary]
    loaders: Mapping[int, LoaderSummary]
    sequences: Mapping[int, MixSummary]
    softmaxes: Mapping[str, MixSummary]
    views: Mapping[str, MixSummary]
    inner_roots: Mapping[int, int]
    around: Mapping[int, int]


class ActsCollector:
    """Takes the events that tell what a process does around its steps, and keeps the sums."""

    def __init__(self, names: Names) -> None:
        """Begin. `names` are what the ids in the events stand for."""
        self._names = names
        self._patterns: list[PlacedPattern] = []
        self._states: list[PlacedState] = []
        self._dropouts: list[PlacedDropout] = []
        self._freezings: list[PlacedFreezing] = []
        self._discards: list[PlacedDiscard] = []
        self._scalers: dict[tuple[int, int], ScalerSummary] = {}
        self._loaders: dict[int, LoaderSummary] = {}
        self._sequences: dict[int, MixSummary] = {}
        self._softmaxes: dict[str, MixSummary] = {}
        self._views: dict[str, MixSummary] = {}
        self._inner_roots: dict[int, int] = {}
        self._around: dict[int, int] = {}
        # The loaders of which a record came since a root module was called.
        self._begun: list[LoaderSummary] = []
        # The last call of a root module for training: what it was given, what it gave, and what it gave its layers.
        self._root: events.CallModule | None = None
        self._given: tuple[int, ...] = ()
        self._gave: tuple[int, ...] = ()
        self._inside: list[tuple[int, tuple[int, ...]]] = []
        # The modules called around a wrapper since the last backward pass, and whether a wrapper was called.
        self._called_around: set[int] = set()
        self._is_wrapper_called = False

    def summary(self) -> ActsSummary:
        """What there is to say once all has been read."""
        return ActsSummary(
            self._patterns,
            self._states,
            self._dropouts,
            self._freezings,
            self._discards,
            self._scalers,
            self._loaders,
            self._sequences,
            self._softmaxes,
            self._views,
            self._inner_roots,
            self._around,
        )

    def call_root(self, event: events.CallModule) -> None:
        """A root module is called, which no other one calls."""
        is_trained = event.training and not event.no_grad
        for loader in self._begun:
            loader.calls += 1
            loader.trained += is_trained
        self._begun.clear()
        self._root = event if is_trained else None
        self._given = _shape(event.inputs)
        self._gave = ()
        self._inside.clear()
        if event.around:
            self._called_around.add(event.module)
        module = self._names.modules.get(event.module)
        self._is_wrapper_called |= is_trained and module is not None and module.type == "DistributedDataParallel"

    def call_below(self, event: events.CallModule) -> None:
        """A module is called by another one."""
        module = self._names.modules.get(event.module)
        if module is None or self._root is None:
            return
        if not module.parent and event.module != self._root.module and len(self._inner_roots) < _MOST:
            self._inner_roots.setdefault(event.module, self._root.module)
        if module.settings.get("batch_first") is False and _SEQUENCE.match(module.type):
            self._inside.append((event.module, _shape(event.inputs)))

    def return_root(self, event: events.ReturnModule) -> None:
        """A call of a root module ends."""
        if self._root is None or self._root.module != event.module:
            return
        self._gave = _shape(event.outputs)
        for module, shape in self._inside:
            if len(shape) > _FEWEST_DIMENSIONS and (module in self._sequences or len(self._sequences) < _MOST):
                self._count(self._sequences.setdefault(module, MixSummary()), shape, self._root)
        self._inside.clear()

    def pattern(self, event: events.GraphPattern) -> None:
        """A graph has a pattern."""
        place = self._place(event)
        if len(self._patterns) < _MOST:
            self._patterns.append(PlacedPattern(event, place, self._names.place(event.made) if event.made else ""))
        is_over_first = event.what == "softmax" and event.dim == 0 and len(event.shape) >= _FEWEST_DIMENSIONS
        if is_over_first and self._root is not None and (place in self._softmaxes or len(self._softmaxes) < _MOST):
            self._count(self._softmaxes.setdefault(place, MixSummary()), tuple(event.shape), event)
        is_view = event.what == "view" and len(event.shape) > _FEWEST_DIMENSIONS
        if is_view and self._root is not None and (place in self._views or len(self._views) < _MOST):
            self._count(self._views.setdefault(place, MixSummary()), (event.shape[1], event.shape[0]), event)

    def state_pattern(self, event: events.StatePattern) -> None:
        """State has a pattern."""
        if len(self._states) < _MOST:
            tensor, other = map(self._names.tensor_name, (event.tensor, event.other))
            made = self._names.place(event.made) if event.made else ""
            self._states.append(PlacedState(event, tensor, other, made, self._place(event)))

    def _count(self, mix: MixSummary, shape: tuple[int, ...], event: events.Happening) -> None:
        """Judge by sizes whether the first dimension is that of the samples; not where they are alike."""
        first, second = shape[0], shape[1]
        if first == second or min(first, second) < 2 or not (self._given and self._gave):
            return
        if self._given[0] == self._gave[0] == first and second not in self._gave[:_FEWEST_DIMENSIONS]:
            if not mix.mixed:
                mix.shape, mix.place = shape, self._place(event)
            mix.mixed += 1
        else:
            mix.kept += 1

    def backward(self) -> None:
        """A backward pass begins."""
        if not self._is_wrapper_called:
            for module in self._called_around:
                self._around[module] = self._around.get(module, 0) + 1
        self._called_around.clear()
        self._is_wrapper_called = False

    def dropout(self, event: events.ActiveDropout) -> None:
        """A dropout is active in evaluation mode."""
        if len(self._dropouts) < _MOST:
            self._dropouts.append(PlacedDropout(event, self._place(event)))

    def freezing(self, event: events.FreezeWithoutEffect) -> None:
        """Parameters are to be frozen, and are not."""
        if len(self._freezings) < _MOST:
            place = self._names.place(event.made) if event.made else self._place(event)
            self._freezings.append(PlacedFreezing(event, place))

    def discarded(self, event: events.DiscardedResult) -> None:
        """A statement computes something that nothing uses."""
        if len(self._discards) < _MOST:
            self._discards.append(PlacedDiscard(event, self._names.place(event.made)))

    def scaler_step(self, event: events.ScalerStep) -> None:
        """A gradient scaler tells of a step that it skipped, or of gradients that were clipped too early."""
        key = (event.id, event.optimizer_id)
        known = self._scalers.get(key)
        if known is None:
            if len(self._scalers) >= _MOST:
                return
            made = self._names.place(event.made) if event.made else ""
            known = self._scalers[key] = ScalerSummary(event.id, event.optimizer_id, made, event)
        if event.clipped > known.last.clipped or (event.clipped and not known.clip_place):
            known.clip_place = self._place(event)
        else:
            known.place = self._place(event)
        known.last = event

    def loading(self, event: events.Loading) -> None:
        """An iteration over a loader begins."""
        known = self._loaders.get(event.id)
        if known is None:
            if len(self._loaders) >= _MOST:
                return
            known = self._loaders[event.id] = LoaderSummary(self._place(event), event)
        known.last = event
        if event.changed_by:
            known.changed_place = self._names.place(event.changed_by)
        self._begun.append(known)

    def _place(self, event: events.Happening) -> str:
        return self._names.place(event.location) if event.location else ""


def _shape(described: Sequence[str]) -> tuple[int, ...]:
    """The shape of the first tensor of several; () if there is none."""
    found = _SHAPE.search(described[0]) if described else None
    return () if found is None else tuple(int(size) for size in found[1].split(",") if size.strip())
