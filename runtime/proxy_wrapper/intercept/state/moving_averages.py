"""Measures how fast moving averages of models follow the models.

A parameter that changes although no optimizer steps it may be the moving average of another parameter of the same
shape: `average = factor * average + (1 - factor) * other`. A few elements of the old average, the new average and the
other parameter show the factor, and whether it is the same for all elements. They are read only on the CPU, and for a
limited number of parameters and updates.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.code_lines.named_lines import average_line
from proxy_wrapper.events import StatePattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.called_functions import bodies_around
from proxy_wrapper.values.statistics import has_values, is_hosted, unobserved
from proxy_wrapper.values.torch_functions import (
    is_contiguous,
    is_floating_point,
    narrow,
    numel,
    tolist,
    view,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch

    from proxy_wrapper.known.entries import StateEntry
    from proxy_wrapper.tracer import Tracer

_ELEMENTS: Final = 8
_MOVES: Final = 16
_MOST_LOOKS: Final = 256
"""The most updates of a parameter that are examined, including those that show no factor."""

_MOST_PARAMETERS: Final = 4
_MOST_OTHERS: Final = 8
_ROUNDING: Final = 5e-7
"""The accepted relative error of a new value: a few units in the last place of float32."""

_CLEAREST: Final = 0.02
"""The largest error of a factor by rounding."""


class _Move(NamedTuple):
    """The factor of an update, and the id of the parameter that the average moved towards."""

    factor: float
    other: int


class _Average:
    """What is known about a parameter that changes although no optimizer steps it."""

    __slots__ = ("first_step", "looks", "moves", "values")

    def __init__(self) -> None:
        self.values: Sequence[float] = ()
        self.looks = 0
        self.first_step = 0
        self.moves: list[_Move] = []


class MovingAverages:
    """Creates `StatePattern` events of moving averages."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        # By the id of the parameter; None if it is no average, or was already reported.
        self._known: dict[int, _Average | None] = {}

    def look(self, changed: Iterable[StateEntry]) -> None:
        """Examine parameters that have changed since the last call, but not by a step."""
        for state in changed:
            if state.is_buffer or state.has_optimizer or self._known.get(state.id, state) is None:
                continue
            if state.id in self._known or len(self._known) < _MOST_PARAMETERS:
                self._known[state.id] = self._follow(state, self._known.get(state.id) or _Average())

    def _follow(self, state: StateEntry, average: _Average) -> _Average | None:
        """Record an update; None if the parameter is no average, or was reported."""
        tensor = state.tensor()
        now = () if tensor is None else _values(tensor)
        before, average.values = average.values, now
        average.looks += 1
        if tensor is None or not now or average.looks > _MOST_LOOKS:
            return None
        if not before or now == before:
            return average
        others = self._others(state, tensor, average)
        moves = [move for number, values in others if (move := _move(before, now, values, number)) is not None]
        if not moves:
            return average if _is_hidden(before, now, [values for _, values in others]) else None
        average.first_step = average.first_step if average.moves else self._tracer.step
        average.moves.append(moves[0])
        if len(average.moves) < _MOVES:
            return average
        self._emit(state, average)
        return None

    def _others(self, state: StateEntry, tensor: torch.Tensor, average: _Average) -> list[tuple[int, Sequence[float]]]:
        """The parameters that one may be the average of, with their values: stepped, and with the same key."""
        known = {move.other for move in average.moves}
        found: list[tuple[int, Sequence[float]]] = []
        for other in list(self._tracer.registry.state.values()):
            if (
                other.key != state.key
                or other.is_buffer
                or not other.has_optimizer
                or (known and other.id not in known)
            ):
                continue
            of_other = other.tensor()
            if of_other is not None and of_other.shape == tensor.shape and (values := _values(of_other)):
                found.append((other.id, values))
                if len(found) == _MOST_OTHERS:
                    break
        return found

    def _emit(self, state: StateEntry, average: _Average) -> None:
        tracer = self._tracer
        # The model may be called by another function than the one that updates the average.
        bodies = bodies_around(sys._getframe(), tracer.locator.is_user_code)
        made = tracer.locator.line(average_line(bodies))
        factors = [move.factor for move in average.moves]
        values = (min(factors), max(factors), float(tracer.step - average.first_step))
        thread = tracer.thread
        event = StatePattern(
            tracer.now_us(),
            tracer.step,
            0,
            0,
            thread.number,
            thread.stage,
            "average",
            state.id,
            average.moves[0].other,
            values=values,
            made=made,
        )
        tracer.broadcast(event, 0, level=INFO, also=(made,) if made else ())


def _values(tensor: torch.Tensor) -> Sequence[float]:
    """The first few elements of a tensor; () if it has fewer, or they must not be read."""
    with unobserved() as readable:
        if not (readable and has_values(tensor) and is_hosted(tensor) and numel(tensor) >= _ELEMENTS):
            return ()
        if not (is_floating_point(tensor) and is_contiguous(tensor)):
            return ()
        return tuple(tolist(narrow(view(tensor, (-1,)), 0, 0, _ELEMENTS)))


def _move(before: Sequence[float], now: Sequence[float], others: Sequence[float], other: int) -> _Move | None:
    """The factor by which all elements moved towards others; None if it differs, or rounding hides it."""
    away = [first - last for first, last in zip(before, others, strict=True)]
    weight = sum(each * each for each in away)
    if not weight:
        return None
    factor = sum(gone * (last - end) for gone, last, end in zip(away, now, others, strict=True)) / weight
    clear = 0
    for first, last, end, gone in zip(before, now, others, away, strict=True):
        rounding = _ROUNDING * max(abs(first), abs(last), abs(end))
        if abs(end + factor * gone - last) > rounding:
            return None
        clear += rounding <= _CLEAREST * abs(gone)
    return _Move(factor, other) if clear * 2 >= _ELEMENTS else None


def _is_hidden(before: Sequence[float], now: Sequence[float], others: Sequence[Sequence[float]]) -> bool:
    """Whether an update is so small that rounding hides its factor."""
    return any(
        all(
            abs(first - end) * _CLEAREST < _ROUNDING * max(abs(first), abs(end)) or last == first
            for first, last, end in zip(before, now, values, strict=True)
        )
        for values in others
    )
