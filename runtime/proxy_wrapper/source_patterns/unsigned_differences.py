"""Finds differences of unsigned bytes that wrap around, by their values.

`self.after[index] - self.before[index]` of two uint8 arrays is 255 where the pixel got darker by 1. In the code of a
data set that returns a sample, the operands are looked up in its attributes, for a few of its samples. None of its code
is run.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.program_code.known_expressions import KnownExpressions, is_array
from proxy_wrapper.program_code.syntax import Scope, last_name, nodes_within
from proxy_wrapper.values.statistics import is_hosted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
    scope = Scope(function)
    if len(arguments) != len(("self", "index")) or not any(map(_operands, scope.nodes)):
        return
    samples = count()
    chosen = range(0, samples, max(1, samples // _MOST_SAMPLES))
    known = [KnownExpressions(scope, {arguments[0]: dataset, arguments[1]: index}) for index in chosen]
    yield from wrapping_differences(scope.nodes, known)


def wrapping_differences(nodes: Iterable[ast.AST], known: Sequence[KnownExpressions]) -> Iterator[UnsignedDifference]:
    """The differences among some nodes that wrap around for some of the values of their function's variables.

    `torch.where(a > b, a - b, b - a)` takes no difference that does.
    """
    nodes = list(nodes)
    chosen = {
        id(inside)
        for node in nodes
        if isinstance(node, ast.Call) and last_name(node.func) == "where"
        for inside in nodes_within(node)
    }
    for node in nodes:
        operands = _operands(node) if id(node) not in chosen else ()
        if operands and any(_wraps(*map(each.value_of, operands)) for each in known):
            left, right = map(ast.unparse, operands)
            yield UnsignedDifference(operands[0].lineno, (left, right))


def _operands(node: ast.AST) -> tuple[ast.expr, ...]:
    """The minuend and the subtrahend of a subtraction; () for other nodes."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return node.left, node.right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SUBTRACTIONS:
        operands = node.args if len(node.args) > 1 else [node.func.value, *node.args]
        return tuple(operands) if len(operands) == len(("left", "right")) else ()
    return ()


def _wraps(left: Any, right: Any) -> bool:
    """Whether the difference of two arrays of bytes in memory wraps around; an accelerator is not waited for."""
    if not (is_array(left) and is_array(right)) or {str(left.dtype), str(right.dtype)} - {"torch.uint8", "uint8"}:
        return False
    if isinstance(left, torch.Tensor) and not (is_hosted(left) and is_hosted(right)):
        return False
    if type(left) is not type(right) or left.shape != right.shape or math.prod(left.shape) > _LARGEST:
        return False
    return bool((left < right).any())
