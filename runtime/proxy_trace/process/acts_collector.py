"""Collects from the events of one process what it did around its steps.

Memory is bounded, whatever the trace contains.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.process.acts_summary import (
    ActsSummary,
    LoaderSummary,
    MixSummary,
    PlacedDiscard,
    PlacedDropout,
    PlacedFreezing,
    PlacedPattern,
    PlacedSource,
    PlacedState,
    ScalerSummary,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.reading.names import Names
    from proxy_wrapper import events

_MOST: Final = 1000
"""The most loaders, scalers, places and modules that are told apart."""

_FEWEST_DIMENSIONS: Final = 2

_SEQUENCE: Final = re.compile(r"(RNN|LSTM|GRU|MultiheadAttention)$")

_SHAPE: Final = re.compile(r"\[([\d, ]*)\]")


class ActsCollector:
    """Collects the summary from a process's events."""

    def __init__(self, names: Names) -> None:
        """Begin. `names` resolves the ids in the events."""
        self._names = names
        self._patterns: list[PlacedPattern] = []
        self._states: list[PlacedState] = []
        self._dropouts: list[PlacedDropout] = []
        self._freezings: list[PlacedFreezing] = []
        self._discards: list[PlacedDiscard] = []
        self._sources: list[PlacedSource] = []
        self._scalers: dict[tuple[int, int], ScalerSummary] = {}
        self._loaders: dict[int, LoaderSummary] = {}
        self._sequences: dict[int, MixSummary] = {}
        self._softmaxes: dict[str, MixSummary] = {}
        self._views: dict[str, MixSummary] = {}
        self._positions: dict[int, MixSummary] = {}
        # Along which dimension a module adds positions, by its id.
        self._position_dims: dict[int, int] = {}
        # Softmaxes over the first dimension of outputs, before and after the end of the call.
        self._waiting: list[PlacedPattern] = []
        self._matrices: list[tuple[PlacedPattern, tuple[int, ...]]] = []
        self._inner_roots: dict[int, int] = {}
        self._around: dict[int, int] = {}
        # The loaders with a record since the last call of a root module.
        self._begun: list[LoaderSummary] = []
        # The last training call of a root module: its inputs, its outputs, and the inputs of its layers.
        self._root: events.CallModule | None = None
        self._given: tuple[int, ...] = ()
        self._gave: tuple[int, ...] = ()
        self._inside: list[tuple[int, tuple[int, ...]]] = []
        # Likewise, what it gave to layers of a sequence, with whether they take the batch first, and to those that add
        # positions.
        self._read: list[tuple[bool, tuple[int, ...]]] = []
        self._positioned: list[tuple[int, tuple[int, ...]]] = []
        # The modules called without their wrapper since the last backward pass, and whether a wrapper was called.
        self._called_around: set[int] = set()
        self._is_wrapper_called = False

    def summary(self) -> ActsSummary:
        """The summary of everything read so far."""
        return ActsSummary(
            self._patterns,
            self._states,
            self._dropouts,
            self._freezings,
            self._discards,
            self._sources,
            self._scalers,
            self._loaders,
            self._sequences,
            self._softmaxes,
            self._views,
            self._positions,
            self._inner_roots,
            self._around,
            self._matrices,
        )

    def call_root(self, event: events.CallModule) -> None:
        """Note a call of a root module outside of all others."""
        is_trained = event.training and not event.no_grad
        for loader in self._begun:
            loader.calls += 1
            loader.trained += is_trained
        self._begun.clear()
        self._root = event if is_trained else None
        self._given = _shape(event.inputs)
        self._gave = ()
        self._inside.clear()
        self._read.clear()
        self._positioned.clear()
        if self._root is not None:
            self._call_positioned(event)
        if event.around:
            self._called_around.add(event.module)
        module = self._names.modules.get(event.module)
        self._is_wrapper_called |= is_trained and module is not None and module.type == "DistributedDataParallel"

    def _settle_outputs(self, event: events.ReturnModule) -> None:
        """Keep what is waiting for the output of a call, if that is a matrix with a row for each sample."""
        waiting = [each for each in self._waiting if each.event.module == event.module]
        self._waiting = [each for each in self._waiting if each.event.module != event.module]
        shape = _shape(event.outputs) if waiting else ()
        if len(shape) == _FEWEST_DIMENSIONS and min(shape) > 1 and self._given[:1] == shape[:1]:
            self._matrices += [(each, shape) for each in waiting[: _MOST - len(self._matrices)]]

    def call_below(self, event: events.CallModule) -> None:
        """Note a call of a module by another one."""
        module = self._names.modules.get(event.module)
        if module is None or self._root is None:
            return
        if not module.parent and event.module != self._root.module and len(self._inner_roots) < _MOST:
            self._inner_roots.setdefault(event.module, self._root.module)
        self._call_positioned(event)
        batch_first = module.settings.get("batch_first")
        if type(batch_first) is bool and _SEQUENCE.match(module.type):
            shape = _shape(event.inputs)
            if not batch_first:
                self._inside.append((event.module, shape))
            if self._position_dims:
                self._read.append((batch_first, shape))

    def _call_positioned(self, event: events.CallModule) -> None:
        """A module is called, which may be one that adds positions."""
        if event.module in self._position_dims:
            self._positioned.append((event.module, _shape(event.inputs)))

    def return_root(self, event: events.ReturnModule) -> None:
        """Note the end of a root module's call."""
        self._settle_outputs(event)
        if self._root is None or self._root.module != event.module:
            return
        self._gave = _shape(event.outputs)
        for module, shape in self._inside:
            if len(shape) > _FEWEST_DIMENSIONS and (module in self._sequences or len(self._sequences) < _MOST):
                self._count(self._sequences.setdefault(module, MixSummary()), shape, self._root)
        self._inside.clear()
        for module, shape in self._positioned:
            if len(shape) >= _FEWEST_DIMENSIONS:
                self._count_positions(module, shape, self._root)
        self._read.clear()
        self._positioned.clear()

    def _count_positions(self, module: int, shape: tuple[int, ...], event: events.CallModule) -> None:
        """Judge whether a module added positions along the batch; equal sizes are not judged.

        It did if all layers of a sequence that read tensors of this size take this dimension as the batch. Layers that
        read it with both dimensions swapped attend along each in turn. The root module must have been given tokens,
        or have put out no dimension of the sequence.
        """
        dim, mix = self._position_dims[module], self._positions.setdefault(module, MixSummary())
        sizes = shape[:_FEWEST_DIMENSIONS]
        if sizes[0] == sizes[1] or min(sizes) < _FEWEST_DIMENSIONS:
            return
        readers = {batch_first for batch_first, read in self._read if read[:_FEWEST_DIMENSIONS] == sizes}
        is_swapped = any(read[:_FEWEST_DIMENSIONS] == sizes[::-1] for _, read in self._read)
        given, gave = (each[:_FEWEST_DIMENSIONS] for each in (self._given, self._gave))
        is_known = given in (sizes, sizes[::-1]) and (len(self._given) == len(given) or sizes[1 - dim] not in gave)
        if not readers and dim == 0 and not is_swapped:
            self._count(mix, shape, event)
        elif readers == {dim == 0} and is_known and not is_swapped:
            mix.shape = mix.shape if mix.mixed else shape
            mix.mixed += 1
        else:
            mix.kept += 1

    def pattern(self, event: events.GraphPattern) -> None:
        """Note a pattern of a graph."""
        place, made = self._place(event), self._names.place(event.made) if event.made else ""
        if event.what == "softmax-of-output":
            self._waiting.append(PlacedPattern(event, place, made))
        elif len(self._patterns) < _MOST:
            self._patterns.append(PlacedPattern(event, place, made))
        is_over_first = event.what == "softmax" and event.dim == 0 and len(event.shape) >= _FEWEST_DIMENSIONS
        if is_over_first and self._root is not None and (place in self._softmaxes or len(self._softmaxes) < _MOST):
            softmax = self._softmaxes.setdefault(place, MixSummary())
            self._count(softmax, tuple(event.shape), event)
            softmax.made = made
        if event.what == "position-slice" and len(self._position_dims) < _MOST:
            self._position_dims[event.module] = event.dim
        is_view = event.what == "view" and len(event.shape) > _FEWEST_DIMENSIONS
        if is_view and self._root is not None and (place in self._views or len(self._views) < _MOST):
            view = self._views.setdefault(place, MixSummary())
            self._count(view, (event.shape[1], event.shape[0]), event)
            view.made = made

    def state_pattern(self, event: events.StatePattern) -> None:
        """State has a pattern."""
        if len(self._states) < _MOST:
            tensor, other = map(self._names.tensor_name, (event.tensor, event.other))
            made = self._names.place(event.made) if event.made else ""
            self._states.append(PlacedState(event, tensor, other, made, self._place(event)))

    def _count(self, mix: MixSummary, shape: tuple[int, ...], event: events.Happening) -> None:
        """Decide by sizes whether the first dimension is the batch; undecided if sizes are equal."""
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
        """Note the start of a backward pass."""
        if not self._is_wrapper_called:
            for module in self._called_around:
                self._around[module] = self._around.get(module, 0) + 1
        self._called_around.clear()
        self._is_wrapper_called = False

    def dropout(self, event: events.ActiveDropout) -> None:
        """Note dropout in evaluation mode."""
        if len(self._dropouts) < _MOST:
            self._dropouts.append(PlacedDropout(event, self._place(event)))

    def freezing(self, event: events.FreezeWithoutEffect) -> None:
        """Note an ineffective attempt to freeze parameters."""
        if len(self._freezings) < _MOST:
            place = self._names.place(event.made) if event.made else self._place(event)
            self._freezings.append(PlacedFreezing(event, place))

    def discarded(self, event: events.DiscardedResult) -> None:
        """Note a statement whose result is discarded."""
        if len(self._discards) < _MOST:
            self._discards.append(PlacedDiscard(event, self._names.place(event.made)))

    def source_pattern(self, event: events.SourcePattern) -> None:
        """Note a mistake that the source shows."""
        if len(self._sources) < _MOST:
            other = self._names.place(event.other) if event.other else ""
            self._sources.append(PlacedSource(event, self._names.place(event.made) if event.made else "", other))

    def scaler_step(self, event: events.ScalerStep) -> None:
        """Note a scaler's report of a skipped step, or of gradients clipped too early."""
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
        """Note that an iteration over a loader begins."""
        known = self._loaders.get(event.id)
        if known is None:
            if len(self._loaders) >= _MOST:
                return
            known = self._loaders[event.id] = LoaderSummary(self._place(event), event)
        known.last = event
        if event.changed_by:
            known.changed_place = self._names.place(event.changed_by)
        if event.sampler_made:
            known.sampler_place = self._names.place(event.sampler_made)
        if event.drawn_at:
            known.draw_place = self._names.place(event.drawn_at)
        self._begun.append(known)

    def _place(self, event: events.Happening) -> str:
        return self._names.place(event.location) if event.location else ""


def _shape(described: Sequence[str]) -> tuple[int, ...]:
    """The shape of the first tensor; () if there is none."""
    found = _SHAPE.search(described[0]) if described else None
    return () if found is None else tuple(int(size) for size in found[1].split(",") if size.strip())
