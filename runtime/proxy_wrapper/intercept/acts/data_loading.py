"""Observes iterations over data loaders: their order, how far they go, and whether batches repeat.

The order of a random sampler depends on the generator's state when an iteration begins. The iteration then also
draws a 64-bit seed for its workers: if that equals the previous one, so does the order. A sampler with `set_epoch`
draws the order from its seed and the epoch.

Torch's count of in-place changes, before and after each batch that this process fetches, shows whether a data set
changes its own tensors.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter

from proxy_wrapper.code_lines.copied_generators import copied_generator
from proxy_wrapper.code_lines.named_lines import call_line
from proxy_wrapper.events import Loading, SourcePattern
from proxy_wrapper.intercept.attaching.call_sites import hide_frames, uncounted
from proxy_wrapper.intercept.attaching.replacing import ReplacingInterceptor, Target
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import bodies_around
from proxy_wrapper.program_code.frame_variables import values_of
from proxy_wrapper.source_patterns.data_roles import role_of
from proxy_wrapper.source_patterns.pattern import Pattern
from proxy_wrapper.source_patterns.reshaped_samples import reshaped_samples
from proxy_wrapper.source_patterns.separate_augmentations import separate_augmentations
from proxy_wrapper.source_patterns.unsigned_differences import UNSIGNED, unsigned_differences
from proxy_wrapper.values.describe import find_tensors
from proxy_wrapper.values.statistics import bits_of, has_values, is_hosted, unobserved
from proxy_wrapper.values.torch_functions import tolist
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from proxy_wrapper.code_lines.copied_generators import CopiedGenerator
    from proxy_wrapper.tracer import Tracer

_DRAWN: Final = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_MOST_LOADERS: Final = 1000
_FEWEST_DIMENSIONS: Final = 2
_MOST_CHOSEN: Final = 1 << 18
"""The most samples of a part of a data set that are compared with those of another."""
_SEVERAL: Final = 2
"""The fewest workers that can draw the same numbers."""
_EARLY: Final = 3
"""The iteration at which a repeated order is reported, although it is between the second and the fourth."""


class _Chosen(NamedTuple):
    """The samples of a data set that a loader draws from: a part of them, by their indices, or all (None)."""

    dataset: weakref.ref[Any]
    indices: frozenset[int] | None

    def shared_with(self, other: _Chosen) -> int:
        """How many of these samples are also among those of another; 0 for another data set, or if all of those are."""
        dataset = self.dataset()
        if dataset is None or dataset is not other.dataset() or self.indices is None:
            return 0
        if other.indices is None:
            return len(self.indices)
        return 0 if other.indices <= self.indices else len(self.indices & other.indices)

    @property
    def size(self) -> int:
        """The number of samples of a part; 0 for all."""
        return 0 if self.indices is None else len(self.indices)


class _Loader:
    """Counts for one loader.

    Attributes:
        id: its number in the trace.
        count: how many iterations have begun.
        same_order: how many had the order of the previous one although it is drawn at random.
        first_only: how many used only the first of several batches in a fixed order, with a step after it.
        given: how many batches it has returned in all.
        same_batch: how many of them equal the previous one.
        trains: whether an optimizer has stepped between two batches of one iteration.
        iteration: the current iteration.
        order: what its order was drawn from; None if unknown or not drawn.
        taken: how many batches it has returned.
        step: how many steps had ended at its last batch.
        batch: a digest of the last batch.
        unweighted: how many samples have no weight in the sampler.
        kept: the tensors that hold all samples of the data set.
        version: their version counts, summed, when the current batch was requested.
        changed: in how many iterations they changed while a batch was fetched.
        is_changed: whether the current iteration is one of those.
        chosen: the samples that it draws from; None if they are unknown.
        shared: how many of these samples are also among those of the loader that last trained; -1 if there was none.
    """

    def __init__(self, number: int) -> None:
        self.id = number
        self.count = self.same_order = self.first_only = self.given = self.same_batch = 0
        self.trains = False
        self.iteration: weakref.ref[Any] | None = None
        self.order: int | None = None
        self.taken = 0
        self.step = 0
        self.batch: tuple[str, ...] | None = None
        self.unweighted = self.version = self.changed = 0
        self.kept: tuple[weakref.ref[torch.Tensor], ...] = ()
        self.is_changed = False
        self.chosen: _Chosen | None = None
        self.shared = -1

    def versions(self) -> int:
        """The summed version counts of the tensors that hold the samples."""
        tensors = (kept() for kept in self.kept)
        return sum(version_of(tensor) for tensor in tensors if tensor is not None)


class DataLoading(ReplacingInterceptor):
    """Creates `Loading` events."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer)
        self._loaders: weakref.WeakKeyDictionary[Any, _Loader] = weakref.WeakKeyDictionary()
        self._made = 0
        # The samples of the loader that trained last.
        self._trained: _Chosen | None = None
        # The functions that return samples, and are read already; kept so that their ids stay unique.
        self._read: dict[int, CodeType] = {}

    def _targets(self) -> tuple[Target, ...]:
        return (Target(_BaseDataLoaderIter, "__next__", self._giver),)

    def _giver(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def give_next(iteration: Any) -> Any:
            self._note(self._asks, iteration)
            try:
                batch = original(iteration)
            except BaseException as error:
                hide_frames(error)
                raise
            self._note(self._gives, iteration, batch)
            return batch

        return give_next

    def _asks(self, iteration: Any) -> None:
        """Note that an iteration begins, and whether a step came between two batches."""
        index_sampler = getattr(iteration, "_index_sampler", None)
        loader = self._loaders.get(index_sampler)
        step = self._tracer.step
        if loader is not None and iteration._num_yielded:
            loader.trains |= loader.taken > 0 and step > loader.step
            if loader.trains and loader.chosen is not None:
                self._trained = loader.chosen
            loader.step, loader.version = step, loader.versions()
            return
        if loader is None:
            if self._made >= _MOST_LOADERS or index_sampler is None:
                return
            self._made += 1
            loader = self._loaders[index_sampler] = _Loader(self._made)
            self._read_getitem(getattr(iteration, "_dataset", None))
            loader.chosen = _chosen_by(iteration, index_sampler)
        sampler = getattr(index_sampler, "sampler", index_sampler)
        batches = _count_batches(index_sampler)
        order = _order_of(iteration, sampler)
        if loader.count:
            is_new = loader.iteration is None or loader.iteration() is not iteration or _has_epochs(sampler)
            loader.same_order += order is not None and order == loader.order and is_new
            is_fixed = type(sampler) is SequentialSampler
            loader.first_only += is_fixed and loader.taken == 1 and batches > 1 and step > loader.step
        chosen, trained = loader.chosen, self._trained
        # The folds of a cross validation have other models: what one trained with, another may be evaluated with.
        if chosen is not trained and chosen is not None and trained is not None and loader.shared in (-1, chosen.size):
            loader.shared = chosen.shared_with(trained)
        loader.count += 1
        loader.unweighted = _count_unweighted(iteration, sampler)
        loader.kept = _sample_tensors(iteration)
        loader.version, loader.is_changed = loader.versions(), False
        loader.iteration, loader.order, loader.taken, loader.step = weakref.ref(iteration), order, 0, step
        is_told_early = loader.count == _EARLY and loader.same_order == _EARLY - 1
        if loader.count & (loader.count - 1) == 0 or is_told_early:
            self._emit(loader, type(sampler).__name__, batches, iteration)

    def _gives(self, iteration: Any, batch: Any) -> None:
        """Count a batch."""
        loader = self._loaders.get(getattr(iteration, "_index_sampler", None))
        if loader is None:
            return
        loader.given += 1
        loader.taken += 1
        if not loader.is_changed and loader.versions() != loader.version:
            loader.is_changed = True
            loader.changed += 1
        if getattr(iteration, "_num_workers", 0) < _SEVERAL:
            return
        before, loader.batch = loader.batch, _digest(batch)
        loader.same_batch += before is not None and before == loader.batch

    def _read_getitem(self, dataset: Any) -> None:
        """Report what the function that returns a sample does wrong to samples, by their values. It is read once."""
        while type(dataset) is Subset:
            dataset = dataset.dataset
        line = _getitem_line(dataset)
        tracer = self._tracer
        if line is None or id(line.code) in self._read or not tracer.locator.is_user_code(line.code):
            return
        self._read[id(line.code)] = line.code
        syntax, thread = tracer.functions.find(line.code), tracer.thread
        if syntax is None:
            return
        with unobserved() as readable:
            found = [
                Pattern(UNSIGNED, each.line, each.names)
                for each in (unsigned_differences(syntax, dataset, lambda: _length_of(dataset)) if readable else ())
            ]
            found += [*reshaped_samples(syntax, dataset), *separate_augmentations(syntax, dataset)] if readable else ()
        for each in found:
            made = tracer.locator.line(AssignedLine(line.code, each.line))
            event = SourcePattern(
                tracer.now_us(), tracer.step, 0, 0, thread.number, thread.stage, each.what, each.names, made
            )
            tracer.broadcast(event, 0, level=INFO, also=(made,))

    def _emit(self, loader: _Loader, sampler: str, batches: int, iteration: Any) -> None:
        tracer = self._tracer
        thread = tracer.thread
        location = tracer.locator.locate(4)
        changed_by = tracer.locator.line(_getitem_line(getattr(iteration, "_dataset", None))) if loader.changed else 0
        copied = self._copied_generator(iteration)
        drawn_at = 0 if copied is None else tracer.locator.line(copied.line)
        sampler_made = 0
        if loader.unweighted:
            bodies = bodies_around(sys._getframe(), tracer.locator.is_user_code)
            sampler_made = tracer.locator.line(call_line(bodies, sampler))
        event = Loading(
            tracer.now_us(),
            tracer.step,
            0,
            location,
            thread.number,
            thread.stage,
            loader.id,
            sampler,
            batches,
            getattr(iteration, "_num_workers", 0),
            loader.count,
            loader.same_order,
            loader.first_only,
            loader.given,
            loader.same_batch,
            loader.trains,
            loader.unweighted,
            loader.changed,
            changed_by,
            sampler_made,
            "" if copied is None else copied.name,
            drawn_at,
            max(0, loader.shared),
            0 if loader.chosen is None else loader.chosen.size,
            _count_dropped(getattr(iteration, "_index_sampler", None)),
            self._held_out_name(loader),
            _size_of_batches(getattr(iteration, "_index_sampler", None)),
        )
        tracer.broadcast(event, location, level=INFO, also=(changed_by, sampler_made, drawn_at))

    def _held_out_name(self, loader: _Loader) -> str:
        """A variable with a loader whose samples are all those of training, if it is called held-out data; else ""."""
        if loader.chosen is None or not 0 < loader.shared == loader.chosen.size:
            return ""
        frame: FrameType | None = sys._getframe()
        names: set[str] = set()
        while frame is not None:
            if self._tracer.locator.is_user_code(frame.f_code):
                values = {**frame.f_globals, **values_of(frame)}
                owners = [values, _attributes(values.get("self"))]
                names.update(name for owner in owners for name, value in owner.items() if self._is_of(value, loader))
            frame = frame.f_back
        roles = {name: role_of(name) for name in sorted(names)}
        if any(role.is_training for role in roles.values()):
            return ""
        return next((name for name, role in roles.items() if role.is_held_out), "")

    def _is_of(self, value: Any, loader: _Loader) -> bool:
        """Whether a value is the program's data loader of which a loader here has the counts."""
        return type(value) is DataLoader and self._loaders.get(value._index_sampler) is loader

    def _copied_generator(self, iteration: Any) -> CopiedGenerator | None:
        """A generator that several workers copy from their data set, unless something may seed the copies."""
        dataset: Any = getattr(iteration, "_dataset", None)
        if getattr(iteration, "_num_workers", 0) < _SEVERAL or getattr(iteration, "_worker_init_fn", None) is not None:
            return None
        while type(dataset) is Subset:
            dataset = dataset.dataset
        return copied_generator(dataset, self._tracer.locator.is_user_code)


def _attributes(owner: Any) -> dict[str, Any]:
    """The attributes of an object, unless its class has code that looks them up."""
    look_up: Any = type(owner).__getattribute__
    return getattr(owner, "__dict__", {}) if look_up is object.__getattribute__ else {}


def _chosen_by(iteration: Any, index_sampler: Any) -> _Chosen | None:
    """The part of a data set that a loader draws from, by a `Subset` or a `SubsetRandomSampler`, or all of it.

    None if this is unknown.
    """
    dataset: Any = getattr(iteration, "_dataset", None)
    sampler = getattr(index_sampler, "sampler", None)
    indices: Any = ()
    if type(dataset) is Subset:
        dataset, indices = dataset.dataset, dataset.indices
    elif type(sampler) is SubsetRandomSampler:
        indices = sampler.indices
    elif type(sampler) in (RandomSampler, SequentialSampler):
        indices = None
    if type(indices) is torch.Tensor:
        with unobserved() as readable:
            indices = tolist(indices) if readable and has_values(indices) and is_hosted(indices) else ()
    if indices is not None and (type(indices) not in (list, tuple, range) or not 0 < len(indices) <= _MOST_CHOSEN):
        return None
    try:
        return _Chosen(weakref.ref(dataset), None if indices is None else frozenset(map(int, indices)))
    except (TypeError, ValueError):  # A data set without weak references, or indices of another kind.
        return None


def _count_unweighted(iteration: Any, sampler: Any) -> int:
    """How many samples have no weight in the sampler; 0 if it has no weights, or this is unknown."""
    dataset: Any = getattr(iteration, "_dataset", None)
    if type(sampler) is not WeightedRandomSampler or not isinstance(sampler.weights, torch.Tensor):
        return 0
    return max(0, _length_of(dataset) - sampler.weights.shape[0])


def _length_of(dataset: Any) -> int:
    """The number of samples of a data set; 0 if it is unknown."""
    try:
        return len(dataset)
    except Exception:  # noqa: BLE001  The program's code; it may have no length.
        return 0


def _sample_tensors(iteration: Any) -> tuple[weakref.ref[torch.Tensor], ...]:
    """The tensors of at least two dimensions in which a data set stores one row per sample.

    Empty if another process fetches samples, if they come from a stream, or if their number is unknown.
    """
    dataset: Any = getattr(iteration, "_dataset", None)
    sampler = getattr(getattr(iteration, "_index_sampler", None), "sampler", None)
    samples: Any = getattr(sampler, "data_source", None)
    if getattr(iteration, "_num_workers", 0) or samples is not dataset or not hasattr(type(dataset), "__getitem__"):
        return ()
    count = _length_of(dataset)
    kept = [each for each in getattr(dataset, "__dict__", {}).values() if type(each) is torch.Tensor]
    return tuple(
        weakref.ref(each)
        for each in kept
        if each.dim() >= _FEWEST_DIMENSIONS and each.shape[0] == count > 1 and each.is_floating_point()
    )


def _getitem_line(dataset: Any) -> AssignedLine | None:
    """The first line of a data set's `__getitem__`; None if that is not written in Python."""
    function: Any = getattr(type(dataset), "__getitem__", None)
    code = getattr(function, "__code__", None)
    return None if code is None else AssignedLine(code, code.co_firstlineno)


def _has_epochs(sampler: Any) -> bool:
    """Whether a sampler shuffles by an epoch number that the program sets."""
    return getattr(sampler, "shuffle", False) is True and hasattr(sampler, "set_epoch")


def _order_of(iteration: Any, sampler: Any) -> int | None:
    """What the order of an iteration was drawn from; None if unknown or not drawn."""
    if _has_epochs(sampler):
        epoch = getattr(sampler, "epoch", None)
        return epoch if type(epoch) is int else None
    if type(sampler) not in _DRAWN:
        return None
    generator = sampler.generator
    if type(generator) is torch.Generator and generator.device.type != "cpu":
        return None
    if type(generator) is torch.Generator:  # What it will draw depends on its state alone.
        with unobserved():
            return hash(bytes(tolist(generator.get_state())))
    seed = getattr(iteration, "_base_seed", None)
    return seed if type(seed) is int else None


def _is_countable(index_sampler: Any) -> bool:
    """Whether PyTorch's samplers alone tell how many batches a loader has."""
    return type(index_sampler) is BatchSampler and type(index_sampler.sampler) in (SequentialSampler, *_DRAWN)


def _count_batches(index_sampler: Any) -> int:
    """How many batches a loader has; 0 if only the program's code knows."""
    return len(index_sampler) if _is_countable(index_sampler) else 0


def _size_of_batches(index_sampler: Any) -> int:
    """How many samples a batch has; 0 if unknown."""
    size = index_sampler.batch_size if type(index_sampler) is BatchSampler else 0
    return size if type(size) is int else 0


def _count_dropped(index_sampler: Any) -> int:
    """How many samples a loader has that are too few for a batch, so that it has none; else 0."""
    if not _is_countable(index_sampler) or not index_sampler.drop_last or len(index_sampler):
        return 0
    return len(index_sampler.sampler)


def _digest(batch: Any) -> tuple[str, ...] | None:
    """A digest that is equal for batches of equal values; None if unreadable or on an accelerator."""
    tensors = [] if batch is None else find_tensors((batch,))
    with unobserved() as readable:
        if not readable or not tensors or not all(map(has_values, tensors)):
            return None
        found = bits_of(tensors)
    bits = tuple(each for each in found if each is not None)
    return bits if len(bits) == len(found) else None
