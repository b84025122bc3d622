"""Finds differences of unsigned bytes that wrap around, in the code of a data set that returns a sample.

`self.after[index] - self.before[index]` of two uint8 arrays is 255 where the pixel got darker by 1. The operands are
looked up in the attributes of the data set, for a few of its samples. None of its code is run.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.source_patterns.sample_values import Evaluator, assigned_once, is_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNSIGNED: Final = "unsigned-difference"

_MOST_SAMPLES: Final = 8
_LARGEST: Final = 1 << 22
"""The most elements of an operand that is compared."""
_SUBTRACTIONS: Final = frozenset({"sub", "subtract"})


class UnsignedDifference(NamedTuple):
    """A difference that wraps around: its line, and its operands as they are written."""

    line: int
    names: tuple[str, str]


def unsigned_differences(
    function: ast.FunctionDef, dataset: Any, count: Callable[[], int]
) -> Iterator[UnsignedDifference]:
    """The differences in a data set's `__getitem__` that wrap around for some of its samples.

    Args:
        function: the syntax of `__getitem__`.
        dataset: the data set.
        count: how many samples it has; called only if there is a subtraction.
    """
    arguments = [each.arg for each in function.args.args]
    if len(arguments) != len(("self", "index")):
        return
    differences = list(_differences(function))
    if not differences:
        return
    assigned, samples = assigned_once(function), count()
    chosen = range(0, samples, max(1, samples // _MOST_SAMPLES))
    for line, left, right in differences:
        for index in chosen:
            evaluator = Evaluator({arguments[0]: dataset, arguments[1]: index}, assigned)
            if _wraps(evaluator.value_of(left), evaluator.value_of(right)):
                yield UnsignedDifference(line, (ast.unparse(left), ast.unparse(right)))
                break


def _differences(function: ast.FunctionDef) -> Iterator[tuple[int, ast.expr, ast.expr]]:
    """The lines and operands of subtractions."""
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            yield node.lineno, node.left, node.right
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SUBTRACTIONS:
            operands = node.args if len(node.args) > 1 else [node.func.value, *node.args]
            if len(operands) == len(("left", "right")):
                yield node.lineno, operands[0], operands[1]


def _wraps(left: Any, right: Any) -> bool:
    """Whether the difference of two arrays of bytes wraps around."""
    if not (is_array(left) and is_array(right)) or {str(left.dtype), str(right.dtype)} - {"torch.uint8", "uint8"}:
        return False
    if type(left) is not type(right) or left.shape != right.shape or math.prod(left.shape) > _LARGEST:
        return False
    return bool((left < right).any())
