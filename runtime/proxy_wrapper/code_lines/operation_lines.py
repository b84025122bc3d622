"""Finds the line of some functions that calls an operation, such as a square root or a division."""

from __future__ import annotations

import dis
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.assigned_lines import MOST_BYTES, AssignedLine, named_instructions
from proxy_wrapper.program_code.called_functions import reachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType

    from proxy_wrapper.program_code.called_functions import Body

_NAMES: Final = {
    "div": frozenset({"div", "div_", "true_divide"}),
    "reciprocal": frozenset({"reciprocal", "reciprocal_"}),
    "softmax": frozenset({"softmax", "Softmax"}),
}
"""The names of an operation, where they are not just its own name and that with an underscore."""
_OPERATORS: Final = {
    "div": ("/", "/=", "BINARY_TRUE_DIVIDE", "INPLACE_TRUE_DIVIDE"),
    "reciprocal": ("/", "BINARY_TRUE_DIVIDE"),
    "pow": ("**", "BINARY_POWER"),
}
_OF_NUMBERS: Final = frozenset({"math", "np", "numpy"})


def operation_line(
    starts: Iterable[Body], operation: str, is_followed: Callable[[CodeType], bool]
) -> AssignedLine | None:
    """The only line of some functions, and of those they call, that calls an operation; None if not exactly one."""
    found = {
        (id(each.code), each.line): each
        for start in starts
        if is_followed(start.code)
        for called in reachable(start, is_followed)
        for each in operation_lines(called.body.code, operation)
    }
    return next(iter(found.values())) if len(found) == 1 else None


def operation_lines(code: CodeType, operation: str) -> Iterator[AssignedLine]:
    """The lines of a function that call an operation."""
    names = _NAMES.get(operation, frozenset({operation, f"{operation}_"}))
    before = ""
    for each in named_instructions(code):
        if not each.is_store and each.name.lstrip(".") in names and before not in _OF_NUMBERS:
            yield AssignedLine(code, each.line)
        before = each.name
    if operation in _OPERATORS and len(code.co_code) <= MOST_BYTES:
        lines = [(start, line or 0) for start, _, line in code.co_lines()]
        for instruction in dis.get_instructions(code):
            kind = instruction.argrepr if instruction.opname == "BINARY_OP" else instruction.opname
            if kind in _OPERATORS[operation]:
                place = bisect_right(lines, instruction.offset, key=lambda each: each[0]) - 1
                yield AssignedLine(code, lines[place][1])
