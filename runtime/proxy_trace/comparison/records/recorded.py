"""Finds what both runs recorded. A record can only be missing in a run that would have recorded it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from proxy_trace.comparison.records.side import AT_DEBUG
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.comparison.records.correspondence import Correspondence, Numbers
    from proxy_trace.reading.names import Names

_RANKS: Final = {"WARNING": 0, "INFO": 1, "DEBUG": 2}
_ALWAYS: Final = (events.Configuration, events.NonFinite, events.Parameter, events.Buffer)

_Sampling: TypeAlias = tuple[int, int]


class Recorded:
    """What both files of a pair record, given the level, sampling and choice of tensors of each."""

    def __init__(self, names: Sequence[Names], correspondence: Correspondence) -> None:
        """Find out what one file records and the other does not.

        Args:
            names: the definitions of the two files.
            correspondence: how they match.
        """
        levels = [_levels(of_file, numbers) for of_file, numbers in zip(names, correspondence.modules, strict=True)]
        highest = [max(of_file.values(), default=2) for of_file in levels]
        self._outside = min(highest)
        self._level_of = {
            number: min(levels[0].get(number, highest[0]), levels[1].get(number, highest[1]))
            for number in {*levels[0], *levels[1]}
        }
        self._modules = correspondence.modules
        self._tensors = correspondence.tensors
        samplings = [_samplings(of_file) for of_file in names]
        self._samplings = sorted(sampling for sampling in samplings[0] | samplings[1] if sampling[1] > 1)
        self._samplings_differ = samplings[0] != samplings[1]
        unwatched = [
            {numbers[id_] for id_, tensor in of_file.tensors.items() if not tensor.watched}
            for of_file, numbers in zip(names, correspondence.tensors, strict=True)
        ]
        self._unwatched = unwatched[0] ^ unwatched[1]
        self._levels_differ = any(
            level != levels[1].get(number, level) for number, level in levels[0].items()
        ) or self._outside != max(highest)
        self._states = [_optimizer_states(of_file) for of_file in names]
        followed = [_are_followed(of_file) for of_file in names]
        # At INFO they are first seen after a step, at DEBUG during it.
        self._follow_differs = followed[0] != followed[1] or (self._levels_differ and any(followed))

    def filter_of(self, number: int) -> Callable[[Any], bool] | None:
        """A test of whether both runs record events like one of file `number` (0 or 1); None if they always do."""
        modules, tensors, states = self._modules[number], self._tensors[number], self._states[number]
        if not (self._levels_differ or self._samplings_differ or self._unwatched or self._follow_differs):
            return None

        def is_in_both(event: Any) -> bool:
            kind = type(event)
            if kind in _ALWAYS:
                return True
            if self._levels_differ and self._level(modules, event) < (2 if kind in AT_DEBUG else 1):
                return False
            if self._samplings_differ and kind is not events.OptimizerState and not self._has_step(event.step):
                return False
            if self._follow_differs:
                if kind is events.Update and event.tensor in states:
                    return False
                if kind is events.OptimizerState and self._outside < _RANKS["DEBUG"]:
                    return False
            return kind not in (events.Gradient, events.Update) or tensors[event.tensor] not in self._unwatched

        return is_in_both

    @property
    def is_partial(self) -> bool:
        """Whether one file records calls that the other does not."""
        return self._levels_differ or self._samplings_differ

    @property
    def has_gaps(self) -> bool:
        """Whether one run records steps that the other does not. A missing record then means nothing."""
        return self._samplings_differ

    def limits(self) -> list[str]:
        """What is therefore not compared, in words."""
        said = []
        if self._levels_differ:
            said.append(
                "what only one run recorded, at its higher level"
                + ("" if self._outside > 1 else ": calls of torch functions, attributes, values read")
            )
        if self._follow_differs:
            said.append("tensors of optimizers, which the runs did not follow alike (statistics=, log_level=)")
        if self._samplings_differ:
            said.append("steps that only one run recorded (first=, every=)")
        if self._unwatched:
            said.append("parameters and buffers that one run did not watch (include=, exclude=)")
        return said

    def _has_step(self, step: int) -> bool:
        """Whether both record a step, assuming one step per iteration."""
        return all(step < first or (step - first) % every == 0 for first, every in self._samplings)

    def _level(self, modules: Numbers, event: Any) -> int:
        number = modules[event.module]
        return self._level_of.get(number, self._outside) if number else self._outside


def _levels(names: Names, numbers: Numbers) -> dict[int, int]:
    return {numbers[id_]: _RANKS.get(module.level, 1) for id_, module in names.modules.items()}


def _optimizer_states(names: Names) -> frozenset[int]:
    return frozenset(id_ for id_, tensor in names.tensors.items() if isinstance(tensor, events.OptimizerState))


def _are_followed(names: Names) -> bool:
    """Whether a file has the values of tensors of optimizers."""
    return any(
        tensor.statistics is not None for tensor in names.tensors.values() if isinstance(tensor, events.OptimizerState)
    )


def _samplings(names: Names) -> set[_Sampling]:
    return {(module.first, module.every) for module in names.modules.values()}
