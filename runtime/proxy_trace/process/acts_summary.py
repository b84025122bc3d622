"""The summary of what a process did around its steps: data loading, gradient scaling, patterns in calls and graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from proxy_wrapper import events  # noqa: TC001  msgspec looks the types of fields up.

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class PlacedPattern(NamedTuple):
    """A pattern of a graph, where the backward pass began ("file:line"), and the line that caused it, if known."""

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
    """An ineffective freezing, and where it was assigned, or else where the optimizer stepped."""

    event: events.FreezeWithoutEffect
    place: str


class PlacedDiscard(NamedTuple):
    """A discarded result, and the statement that computes it."""

    event: events.DiscardedResult
    place: str


class PlacedSource(NamedTuple):
    """A mistake in the source, the line at fault, and another line that belongs to it ("" if there is none)."""

    event: events.SourcePattern
    place: str
    other: str


class ScalerSummary(msgspec.Struct):
    """What a gradient scaler did to an optimizer.

    Attributes:
        scaler: the number of the scaler.
        optimizer: the id of the optimizer.
        made: where the scaler was created, as "file:line"; "" if unknown.
        place: where it stepped; "" if unknown.
        clip_place: where gradients were clipped before it had divided them.
        last: its last record.
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
        last: its last record.
        changed_place: where the function that returns a sample, and changes the data set, begins; likewise.
        sampler_place: where a sampler with too few weights is created; "" if unknown.
        draw_place: where the data set draws from a generator that its workers copy; "" if it does not.
        calls: how many of its records were followed by a call of a root module.
        trained: how many of these calls were in training mode with autograd on.
    """

    place: str
    last: events.Loading
    changed_place: str = ""
    sampler_place: str = ""
    draw_place: str = ""
    calls: int = 0
    trained: int = 0


class MixSummary(msgspec.Struct):
    """How often something worked along one dimension of a root module's input.

    Attributes:
        mixed: in how many calls this was the batch dimension.
        kept: in how many calls it was not.
        shape: the shape in the first call of the former kind.
        place: where the root module was called, or the backward pass began.
        made: the only line that may do it; "" if unknown.
    """

    mixed: int = 0
    kept: int = 0
    shape: tuple[int, ...] = ()
    place: str = ""
    made: str = ""


class ActsSummary(NamedTuple):
    """What a process did around its steps.

    Attributes:
        patterns: patterns of graphs, in order.
        states: patterns of state, in order.
        dropouts: dropout that was active in evaluation mode.
        freezings: attempts to freeze without effect.
        discards: discarded results.
        sources: mistakes that the source shows.
        scalers: gradient scalers, by number and optimizer id.
        loaders: data loaders, by number.
        sequences: modules that take the first dimension as the sequence, by id.
        softmaxes: softmaxes over the first dimension, by the place of the backward pass.
        views: views that turn a tensor's second dimension into the first, by the place of the backward pass.
        positions: modules that add positions along a dimension, by id, and how often that was the batch.
        inner_roots: root modules called by other root modules, by id, with the callers' ids.
        around: the number of backward passes after calls of a module that bypassed its wrapper, by the module's id.
        matrices: softmaxes over the first dimension of outputs with a row for each sample, with the output's shape.
    """

    patterns: Sequence[PlacedPattern]
    states: Sequence[PlacedState]
    dropouts: Sequence[PlacedDropout]
    freezings: Sequence[PlacedFreezing]
    discards: Sequence[PlacedDiscard]
    sources: Sequence[PlacedSource]
    scalers: Mapping[tuple[int, int], ScalerSummary]
    loaders: Mapping[int, LoaderSummary]
    sequences: Mapping[int, MixSummary]
    softmaxes: Mapping[str, MixSummary]
    views: Mapping[str, MixSummary]
    positions: Mapping[int, MixSummary]
    inner_roots: Mapping[int, int]
    around: Mapping[int, int]
    matrices: Sequence[tuple[PlacedPattern, tuple[int, ...]]]
