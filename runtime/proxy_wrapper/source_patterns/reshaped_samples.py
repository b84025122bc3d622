"""Finds views, in the code of a data set that returns a sample, that give it its own sizes in another order.

`torch.from_numpy(self.images[index]).reshape(3, 32, 32)` of an image of shape (32, 32, 3) has the shape of the permuted
image, but moves no element. The image is looked up in the attributes of the data set. None of its code is run.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.program_code.known_expressions import KnownExpressions, is_array
from proxy_wrapper.program_code.syntax import Scope
from proxy_wrapper.source_patterns.pattern import Pattern
from proxy_wrapper.source_patterns.permuted_sizes import PERMUTED, keeps_order, view_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST: Final = 12
_IMAGE: Final = 3
"""The dimensions of an image."""


def reshaped_samples(function: ast.FunctionDef, dataset: Any) -> Iterator[Pattern]:
    """The views in a data set's `__getitem__` whose sizes are those of the first sample in another order.

    Args:
        function: the syntax of `__getitem__`.
        dataset: the data set.
    """
    arguments = [each.arg for each in function.args.args]
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
    if len(arguments) != len(("self", "index")) or not calls:
        return
    scope = Scope(function)
    known = KnownExpressions(scope, {arguments[0]: dataset, arguments[1]: 0})
    for call in calls:
        viewed, given = view_of(call)
        if viewed is None or len(given) != _IMAGE:
            continue
        sizes = tuple(known.value_of(each) for each in given)
        sample = known.value_of(_unconverted(viewed, scope))
        if not is_array(sample) or not all(type(each) is int and each > 1 for each in sizes):
            continue
        shape = tuple(int(each) for each in sample.shape)
        if shape != sizes and sorted(shape) == sorted(sizes):
            yield Pattern(PERMUTED, call.lineno, (", ".join(map(str, shape)), ", ".join(map(str, sizes))))


def _unconverted(value: ast.expr, scope: Scope) -> ast.expr:
    """What an expression was before conversions and arithmetic with numbers, which change no shape."""
    for _ in range(_DEEPEST):
        if isinstance(value, ast.Name) and scope.resolved(value) is not value:
            value = scope.resolved(value)
        elif isinstance(value, ast.BinOp) and isinstance(value.right, ast.Constant):
            value = value.left
        elif isinstance(value, ast.Call) and (inner := keeps_order(value)) is not None:
            value = inner
        else:
            break
    return value
