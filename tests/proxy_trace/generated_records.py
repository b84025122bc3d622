"""Records of every kind for Hypothesis, worked out from the classes: a kind or field that is new is tried too."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from proxy_trace.reading.trace import KINDS

_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_NUMBERS = st.one_of(_FLOATS, st.sampled_from(["nan", "inf", "-inf"]))
_TEXTS = st.text(max_size=8)
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    str: _TEXTS,
    float: _FLOATS,
    list[str]: st.lists(_TEXTS, max_size=3),
    Sequence[str]: st.lists(_TEXTS, max_size=3),
    dict[str, str]: st.dictionaries(_TEXTS, _TEXTS, max_size=3),
}


def _strategy(annotation: Any) -> st.SearchStrategy[Any]:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        some = typing.get_args(annotation)
        texts = [each for each in some if each is str or typing.get_origin(each) is typing.Literal]
        numbers = [_NUMBERS] if float in some and texts else []
        plain = [each for each in some if each not in (float, types.NoneType, *texts)]
        none = [st.none()] if types.NoneType in some else []
        return st.one_of(*none, *numbers, *map(_strategy, plain))
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return instances(annotation)
    if typing.get_origin(annotation) is typing.Annotated:
        return _constrained(*typing.get_args(annotation))
    if typing.get_origin(annotation) is Sequence and annotation not in _BY_TYPE:
        return st.lists(_strategy(typing.get_args(annotation)[0]), max_size=3)
    if typing.get_origin(annotation) is dict and annotation not in _BY_TYPE:
        return st.dictionaries(_TEXTS, _strategy(typing.get_args(annotation)[1]), max_size=3)
    return _BY_TYPE[annotation]


def _constrained(annotation: type, meta: Any) -> st.SearchStrategy[Any]:
    """Values of a type with bounds, as a trace may have them."""
    if annotation is int:
        return st.integers(meta.ge, meta.le)
    return st.from_regex(meta.pattern)


def instances(struct: type) -> st.SearchStrategy[Any]:
    """Instances of a record class with any values in its fields."""
    return st.builds(struct, **{name: _strategy(hint) for name, hint in _fields(struct).items()})


def _fields(struct: type) -> dict[str, Any]:
    hints = typing.get_type_hints(struct, include_extras=True)
    return {name: hints[name] for name in struct.__struct_fields__}  # type: ignore[attr-defined]


def records(*leave_out: type) -> st.SearchStrategy[Any]:
    """A record of any kind, those in `leave_out` aside."""
    return st.one_of(*(instances(struct) for struct in KINDS.values() if struct not in leave_out))
