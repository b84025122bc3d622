"""Finds the differences between two matching records."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_trace.states.differences import is_same
from proxy_trace.states.differences_text import words_apart
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SHAPE: Final = "shape"
TENSOR: Final = "tensor"
VALUE: Final = "value"
CIRCUMSTANCE: Final = "circumstance"

_TENSOR: Final = re.compile(r"\w+\[[^\]]*\]")

_COMPARED: Final[dict[type, tuple[str, ...]]] = {
    events.Parameter: ("type", "statistics", "device", "requires_grad", "placements"),
    events.Buffer: ("type", "statistics", "device", "placements"),
    events.OptimizerState: ("type", "statistics", "device", "placements"),
    events.CallModule: ("inputs", "training", "no_grad"),
    events.Input: ("type", "statistics"),
    events.ReturnModule: ("keywords", "outputs", "statistics", "raised"),
    events.Backward: ("inputs", "function"),
    events.BackwardEnd: ("raised",),
    events.Optimizer: ("groups",),
    events.OptimizerStep: ("tensors", "carried"),
    events.OptimizerStepEnd: ("optimizer",),
    events.SchedulerStep: ("scheduler", "follows"),
    events.RateReduced: ("mode", "never_better"),
    events.Clip: ("gradients", "limit", "is_late"),
    events.ScalerStep: ("skipped", "stuck", "clipped"),
    events.Loading: ("sampler", "batches", "same_order", "first_only"),
    events.ActiveDropout: ("function",),
    events.DiscardedResult: ("function",),
    events.SourcePattern: ("what", "names"),
    events.FreezeWithoutEffect: ("attribute", "count"),
    events.RateWithoutEffect: ("name", "is_key"),
    events.ScheduleRestart: ("scheduler", "start"),
    events.LoadedRate: ("given_rate", "rate"),
    events.GraphPattern: ("what", "dim", "shape"),
    events.StatePattern: ("what", "name"),
    events.Load: ("loaded", "missing", "unexpected", "strict"),
    events.Gradient: ("statistics", "cleared", "has_optimizer"),
    events.Update: ("type", "statistics", "cause"),
    events.NonFinite: ("type", "count"),
    events.CallFunction: ("inputs", "outputs", "statistics", "changed", "changed_statistics", "raised", "in_place"),
    events.CallMethod: ("inputs", "outputs", "statistics", "changed", "changed_statistics", "raised", "in_place"),
    events.ReadValue: ("inputs", "value"),
    events.GetAttr: ("owner", "value", "statistics"),
    events.SetAttr: ("owner", "value"),
    events.DelAttr: ("owner", "target"),
}
"""The fields that say what happened, in the order in which differences are reported."""

_DESCRIPTIONS: Final = frozenset({"inputs", "outputs", "keywords", "owner"})
"""Fields with names or types of tensors."""

_STATISTICS: Final = frozenset({"statistics", "changed_statistics"})

_ADDRESSES: Final = frozenset({"data_ptr", "const_data_ptr", "mutable_data_ptr", "__hash__", "_cdata"})
"""Methods that return an address in memory, which differs in each process."""

_GETTERS: Final[dict[type, Callable[[Any], Any]]] = {
    **{kind: attrgetter(*fields) for kind, fields in _COMPARED.items()},
    events.Configuration: id,  # Never equal: the settings are compared elsewhere.
}


class PairDifference(NamedTuple):
    """A difference between two records.

    Attributes:
        kind: `SHAPE`, `TENSOR` (other tensors, or another number of them), `VALUE` or `CIRCUMSTANCE`.
        what: the field, such as "outputs".
        first: its value in the first record. For differing statistics, `kind` is `VALUE` and this is `Statistics`.
        second: its value in the second.
    """

    kind: str
    what: str
    first: Any
    second: Any

    def in_words(self) -> list[str]:
        """Both values as text."""
        if all(each is None or isinstance(each, events.Statistics) for each in self[2:]):
            name, words = words_apart([self.first, self.second])
            return [f"{name} {word}".lstrip() for word in words]
        return [_words(self.first), _words(self.second)]


class PairComparer:
    """Compares records with the same key."""

    def __init__(self, first_names: Mapping[str, str]) -> None:
        """Set up. `first_names` maps names in the second run to those in the first."""
        self._first_names = first_names

    def are_same(self, first: Any, second: Any) -> bool:
        """Whether two records are identical in every compared field. Most are."""
        get = _GETTERS[type(first)]
        return bool(get(first) == get(second))

    def differences(self, first: Any, second: Any) -> Iterator[PairDifference]:
        """The differences: shapes first, then values, then circumstances."""
        for field in _COMPARED[type(first)]:
            one, other = getattr(first, field), getattr(second, field)
            if field == "groups":  # They hold only the ids of parameters.
                one, other = [each.settings for each in one], [each.settings for each in other]
            if one == other:
                continue
            if field in _STATISTICS:
                yield from _values(field, first, one, other)
            elif field != "value" or first.target not in _ADDRESSES:
                other = self._in_first(field, other)
                if one != other:
                    yield PairDifference(_kind_of(field, one, other), field, one, other)

    def _in_first(self, field: str, value: Any) -> Any:
        """A field of the second record, with names as in the first run."""
        names = self._first_names
        if not names or field not in (*_DESCRIPTIONS, "value"):
            return value
        if isinstance(value, dict):
            return {key: names.get(each, each) for key, each in value.items()}
        if isinstance(value, list):
            return [names.get(each, each) for each in value]
        return names.get(value, value) if isinstance(value, str) else value


def _values(field: str, event: Any, first: Any, second: Any) -> Iterator[PairDifference]:
    """The statistics with different values; none if one run has no statistics."""
    if first is None or second is None:  # One run did not record them, or could not read them.
        if isinstance(event, events.Gradient):
            yield PairDifference(VALUE, field, first, second)
    elif isinstance(first, events.Statistics):
        if not is_same(first, second):
            yield PairDifference(VALUE, field, first, second)
    else:
        for number, (one, other) in enumerate(zip(first, second, strict=False)):
            if one is not None and other is not None and not is_same(one, other):
                yield PairDifference(VALUE, f"{field}[{number}]" if len(first) > 1 else field, one, other)


def _kind_of(field: str, first: Any, second: Any) -> str:
    if field == "type":
        return SHAPE
    if field in ("value", "count"):
        return SHAPE if _is_tensor(first) and _is_tensor(second) else VALUE
    if field not in _DESCRIPTIONS:
        return CIRCUMSTANCE
    pairs = zip(_listed(first), _listed(second), strict=False)
    is_shape = all(one == other or (_is_tensor(one) and _is_tensor(other)) for one, other in pairs)
    return SHAPE if is_shape and len(_listed(first)) == len(_listed(second)) else TENSOR


def _is_tensor(description: Any) -> bool:
    return isinstance(description, str) and _TENSOR.fullmatch(description) is not None


def _listed(value: Any) -> list[str]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else [value]


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in value.items()) or "()"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "()"
    return str(value)
