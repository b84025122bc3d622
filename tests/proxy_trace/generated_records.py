"""Records of every kind for Hypothesis, worked out from the classes: a kind or field that is new is tried too."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from proxy_trace.trace import KINDS
from proxy_wrapper import events

_INTEGERS = st.integers(-(2**63), 2**63 - 1)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_NUMBERS = st.one_of(_FLOATS, st.sampled_from(["nan", "inf", "-inf"]))
_TEXTS = st.text(max_size=8)
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: _INTEGERS,
    bool: st.booleans(),
    str: _TEXTS,
    float: _FLOATS,
    list[str]: st.lists(_TEXTS, max_size=3),
    Sequence[str]: st.lists(_TEXTS, max_size=3),
    Sequence[int]: st.lists(_INTEGERS, max_size=3),
    dict[str, str]: st.dictionaries(_TEXTS, _TEXTS, max_size=3),
    dict[str, int]: st.dictionaries(_TEXTS, _INTEGERS, max_size=3),
}


def _strategy(annotation: Any) -> st.SearchStrategy[Any]:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        some = typing.get_args(annotation)
        numbers = [_NUMBERS] if float in some and str in some else []
        plain = [each for each in some if each not in (float, str, types.NoneType)]
        none = [st.none()] if types.NoneType in some else []
        return st.one_of(*none, *numbers, *map(_strategy, plain))
    if annotation is events.Statistics:
        return instances(events.Statistics)
    return _BY_TYPE[annotation]


def instances(struct: type) -> st.SearchStrategy[Any]:
    """Instances of a record class with any values in its fields."""
    return st.builds(struct, **{name: _strategy(hint) for name, hint in _fields(struct).items()})


def _fields(struct: type) -> dict[str, Any]:
    hints = typing.get_type_hints(struct)
    return {name: hints[name] for name in struct.__struct_fields__}  # type: ignore[attr-defined]


def records(*leave_out: type) -> st.SearchStrategy[Any]:
    """A record of any kind, those in `leave_out` aside."""
    return st.one_of(*(instances(struct) for struct in KINDS.values() if struct not in leave_out))
