"""Numbers that bends use, and that can change while the bends are active."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

from proxy_views.bending.errors import NotBendableError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPERATIONS: Final[dict[str, Callable[..., float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "neg": operator.neg,
    "abs": operator.abs,
}


class Expression:
    """A number that is computed each time it is used."""

    @property
    def value(self) -> float:
        """The current number."""
        raise NotImplementedError

    def parameters(self) -> Iterator[BendingParameter]:
        """The parameters that it depends on."""
        raise NotImplementedError

    def __add__(self, other: Number) -> Expression:
        return Arithmetic("+", self, other)

    def __radd__(self, other: Number) -> Expression:
        return Arithmetic("+", other, self)

    def __sub__(self, other: Number) -> Expression:
        return Arithmetic("-", self, other)

    def __rsub__(self, other: Number) -> Expression:
        return Arithmetic("-", other, self)

    def __mul__(self, other: Number) -> Expression:
        return Arithmetic("*", self, other)

    def __rmul__(self, other: Number) -> Expression:
        return Arithmetic("*", other, self)

    def __truediv__(self, other: Number) -> Expression:
        return Arithmetic("/", self, other)

    def __rtruediv__(self, other: Number) -> Expression:
        return Arithmetic("/", other, self)

    def __pow__(self, other: Number) -> Expression:
        return Arithmetic("**", self, other)

    def __rpow__(self, other: Number) -> Expression:
        return Arithmetic("**", other, self)

    def __neg__(self) -> Expression:
        return Arithmetic("neg", self)

    def __abs__(self) -> Expression:
        return Arithmetic("abs", self)

    def __float__(self) -> float:
        return float(self.value)


Number: TypeAlias = Union[int, float, Expression]  # noqa: UP007  An alias is evaluated, and Python 3.10 has no `|` there.
"""A number, as bends accept it."""


class BendingParameter(Expression):
    """A named number within a range. Any number of bends may share it.

        c = BendingParameter("c", 1.0, range=(-1, 1))
        bend(model, "conv", Scale(2.0 * c))
        c.update(0.5)

    Attributes:
        name: an identifier, used by configurations and versions.
        range: the smallest and the largest value allowed; None for any.
    """

    def __init__(self, name: str, value: float, range: tuple[float, float] | None = None) -> None:  # noqa: A002
        """Start with `value`.

        Raises:
            NotBendableError: if something is of the wrong type.
            SettingError: if the range is invalid, or `value` is outside it.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise NotBendableError("name", name, "an identifier")
        if range is not None:
            try:
                low, high = map(check_number, ("range", "range"), range)
            except (TypeError, ValueError):
                raise SettingError("range", range, "(lowest, highest)") from None
            if not low <= high:
                raise SettingError("range", range, "(lowest, highest)")
            range = (low, high)  # noqa: A001
        self.name = name
        self.range = range
        self._value = self._checked(value)

    @property
    def value(self) -> float:
        """The present value."""
        return self._value

    @value.setter
    def value(self, value: float) -> None:
        self.update(value)

    def update(self, value: float) -> None:
        """Change the value, for all bends that use it.

        Raises:
            NotBendableError: if `value` is not a number.
            SettingError: if `value` is outside the range.
        """
        self._value = self._checked(value)

    def _checked(self, value: float) -> float:
        number = check_number(self.name, value)
        if self.range is not None and not self.range[0] <= number <= self.range[1]:
            raise SettingError(self.name, value, f"a number from {self.range[0]} to {self.range[1]}")
        return number

    def parameters(self) -> Iterator[BendingParameter]:
        """Itself."""
        yield self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BendingParameter):
            return NotImplemented
        return (self.name, self.value, self.range) == (other.name, other.value, other.range)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"BendingParameter({self.name!r}, {self._value!r}, range={self.range!r})"


class Arithmetic(Expression):
    """The result of an operation on numbers.

    Attributes:
        operation: "+", "-", "*", "/", "**", "neg" or "abs".
        operands: one or two numbers or expressions.
    """

    def __init__(self, operation: str, *operands: Number) -> None:
        """Set up the operation. It is computed on each use.

        Raises:
            NotBendableError: if an operand is not a number.
            SettingError: if there is no such operation, or the number of operands is wrong.
        """
        if operation not in _OPERATIONS:
            raise SettingError("operation", operation, f"one of {', '.join(_OPERATIONS)}")
        wanted = 1 if operation in ("neg", "abs") else 2
        if len(operands) != wanted:
            raise SettingError("operands", operands, f"{wanted} of them")
        for each in operands:
            check_operand(f"the operand of {operation!r}", each)
        self.operation = operation
        self.operands = operands

    @property
    def value(self) -> float:
        """The current result."""
        return _OPERATIONS[self.operation](*map(number, self.operands))

    def parameters(self) -> Iterator[BendingParameter]:
        """The parameters of the operands."""
        for each in self.operands:
            if isinstance(each, Expression):
                yield from each.parameters()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arithmetic) and (self.operation, self.operands) == (other.operation, other.operands)

    def __hash__(self) -> int:
        return hash((self.operation, self.operands))

    def __repr__(self) -> str:
        words = [each.name if isinstance(each, BendingParameter) else repr(each) for each in self.operands]
        if self.operation == "neg":
            return f"-{words[0]}"
        return f"abs({words[0]})" if self.operation == "abs" else f"({words[0]} {self.operation} {words[1]})"


def number(value: Number) -> int | float:
    """The current value of `value`."""
    return value.value if isinstance(value, Expression) else value


def check_number(name: str, value: Any) -> int | float:
    """`value`, which must be a finite number.

    Raises:
        NotBendableError: if it is not a number.
        SettingError: if it is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise NotBendableError(name, value, "a number")
    if not math.isfinite(value):
        raise SettingError(name, value, "a finite number")
    return value


def check_operand(name: str, value: Any) -> None:
    """Make sure that `value` is a finite number or an `Expression`.

    Raises:
        NotBendableError: if it is neither.
        SettingError: if it is not finite.
    """
    if not isinstance(value, Expression):
        check_number(name, value)
