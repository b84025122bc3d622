"""Sizes of tensors that know their source, so that a graph can recompute them for another input.

Such a size behaves as an int: it compares, hashes, prints, pickles and copies as one. Arithmetic with integers gives
another such size. A comparison or conversion gives the same result as for an int, and is recorded, because the path
depends on it from then on. Once the recording has ended, the size is no more than an int.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Recorder(Protocol):
    """The recording that a size belongs to."""

    @property
    def is_open(self) -> bool:
        """Whether it is still recording."""

    def freeze(self, what: str, value: object) -> None:
        """Record that the program continued with a fixed `value`, read by `what`."""


class SizeRead(NamedTuple):
    """A size read from a tensor: the number of the step, and the index among the sizes that it returned.

    `position` is None if the step returned a single number.
    """

    step: int
    position: int | None


class SizeArithmetic(NamedTuple):
    """A size computed by a function of `operator` from sizes and integers."""

    function: Callable[..., Any]
    operands: tuple[int, ...]


class LiveSize(int):
    """An int that knows its `source`."""

    source: SizeRead | SizeArithmetic
    recorder: Recorder

    def __reduce_ex__(self, protocol: Any) -> Any:
        return int, (int.__index__(self),)

    def __copy__(self) -> int:
        return self

    def __deepcopy__(self, memo: Any) -> int:
        return self

    __hash__ = int.__hash__  # A class that defines `__eq__` would get None.


def live_size(value: int, source: SizeRead | SizeArithmetic, recorder: Recorder) -> LiveSize:
    """A `LiveSize` with this value."""
    size = LiveSize(value)
    size.source = source
    size.recorder = recorder
    return size


def _arithmetic(name: str, symbol: str) -> None:
    """Make the operator `name` and its reflection return another `LiveSize`."""
    function = getattr(operator, name)
    plain: Any = getattr(int, f"__{name}__")
    reflected: Any = getattr(int, f"__r{name}__")

    def forward(self: LiveSize, other: Any) -> Any:
        result = plain(self, other)
        if not self.recorder.is_open:
            return result
        if type(result) is int and isinstance(other, int):
            return live_size(result, SizeArithmetic(function, (self, other)), self.recorder)
        _note_float(self, symbol, function, other)
        return result

    def backward(self: LiveSize, other: Any) -> Any:
        result = reflected(self, other)
        if not self.recorder.is_open:
            return result
        if type(result) is int and isinstance(other, int):
            return live_size(result, SizeArithmetic(function, (other, self)), self.recorder)
        _note_float(self, symbol, function, other, is_reflected=True)
        return result

    setattr(LiveSize, f"__{name}__", forward)
    setattr(LiveSize, f"__r{name}__", backward)


def _note_float(
    size: LiveSize, symbol: str, function: Callable[..., Any], other: Any, *, is_reflected: bool = False
) -> None:
    """Record that arithmetic with a float leaves the graph. With a tensor, the tensor's method stays in the graph."""
    if isinstance(other, float):
        first, second = (other, int.__index__(size)) if is_reflected else (int.__index__(size), other)
        size.recorder.freeze(f"{first} {symbol} {second}", function(first, second))


def _unary(name: str, function: Callable[..., Any]) -> None:
    plain: Any = getattr(int, f"__{name}__")

    def compute(self: LiveSize) -> Any:
        result = plain(self)
        if not self.recorder.is_open:
            return result
        return live_size(result, SizeArithmetic(function, (self,)), self.recorder)

    setattr(LiveSize, f"__{name}__", compute)


def _noted(name: str, words: str) -> None:
    """Make `name` return the same as for an int, and record that the path depends on it."""
    plain: Any = getattr(int, f"__{name}__")

    def read(self: LiveSize, *others: Any) -> Any:
        result = plain(self, *others)
        if not self.recorder.is_open:
            return result
        if result is not NotImplemented:
            shown = " ".join([str(int.__index__(self)), words, *map(repr, others)])
            self.recorder.freeze(shown, result)
        elif name in _WITH_FLOATS:
            _note_float(self, words, getattr(operator, name), others[0])
        return result

    setattr(LiveSize, f"__{name}__", read)


_ARITHMETIC: Final = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_WITH_FLOATS: Final = ("truediv", "pow")
_COMPARISONS: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_CONVERSIONS: Final = {"bool": "as a truth value", "int": "as a plain int", "float": "as a float"}
_OTHERS: Final = {
    "truediv": "/",
    "pow": "**",
    "divmod": "divmod",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
    "rtruediv": "dividing",
    "rpow": "as the exponent of",
    "rdivmod": "dividing",
}

for _name, _words in _ARITHMETIC.items():
    _arithmetic(_name, _words)
for _name in ("neg", "pos", "abs"):
    _unary(_name, getattr(operator, _name))
for _name, _words in {**_COMPARISONS, **_CONVERSIONS, **_OTHERS}.items():
    _noted(_name, _words)
