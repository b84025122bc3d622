"""Finds the layers that receive the inputs of root modules, in calls with recorded input values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.process.training_summary import InputSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.reading.names import Names
    from proxy_wrapper import events

_MOST: Final = 1000
"""The most inputs that are kept."""

_NORMALISATION: Final = re.compile(r"(Sync)?BatchNorm|LayerNorm|GroupNorm|InstanceNorm|RMSNorm")

_RESHAPING: Final = frozenset({"Flatten", "Unflatten", "Identity"})
"""Layers that put out the values that they get, perhaps in another shape."""
_LAYER: Final = re.compile(r"(Linear|Conv\dd|RNN|LSTM|GRU|RNNCell|LSTMCell|GRUCell)$")


class InputCollector:
    """Finds the layer that receives the input of a root module, in calls with recorded input values."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.found: list[InputSummary] = []
        self._root: events.CallModule | None = None
        self._told: dict[int, events.Input] = {}
        self._reshaped: dict[int, events.Input] = {}
        self._open: list[InputSummary] = []
        self._put_out: dict[int, InputSummary] = {}

    def call_root(self, event: events.CallModule) -> None:
        """Note the start of a root module's call."""
        self._root = event
        self._told, self._reshaped = {}, {}
        self._open, self._put_out = [], {}

    def input(self, event: events.Input) -> None:
        """Note the values of its input."""
        if self._root is not None and self._root.module == event.module and event.statistics is not None:
            self._told[event.input_id] = event
            self._take(event.module, [event.input_id])

    def call_below(self, event: events.CallModule) -> None:
        """Note a call of a module in it."""
        if not self._told:
            return
        type_ = self._type(event.module)
        if _NORMALISATION.match(type_):
            for number in event.input_ids:
                if number in self._put_out:
                    is_fixed = self._put_out[number].is_evaluation and "BatchNorm" in type_
                    self._put_out[number].has_norm |= not is_fixed
        if type_ in _RESHAPING and len(event.input_ids) == 1 and event.input_ids[0] in self._told:
            self._reshaped[event.module] = self._told[event.input_ids[0]]
        self._take(event.module, event.input_ids)

    def _take(self, module: int, numbers: Sequence[int]) -> None:
        if not _LAYER.match(self._type(module)) or len(self.found) >= _MOST or self._root is None:
            return
        for number in numbers:
            told = self._told.get(number)
            if told is not None and told.statistics is not None:
                place = self._names.place(told.location)
                found = InputSummary(
                    told.module, module, told.type, told.statistics, place, is_evaluation=told.evaluation
                )
                self.found.append(found)
                self._open.append(found)

    def return_below(self, event: events.ReturnModule) -> None:
        """Note the end of such a call."""
        if not self._told:
            return
        reshaped = self._reshaped.pop(event.module, None)
        if reshaped is not None:
            self._told.update((number, reshaped) for number in event.output_ids)
        for found in self._open:
            if found.layer == event.module:
                self._put_out.update((number, found) for number in event.output_ids)
        self._open = [found for found in self._open if found.layer != event.module]

    def _type(self, module: int) -> str:
        found = self._names.modules.get(module)
        return "" if found is None else found.type
