"""Finds views that reorder the sizes of a tensor, where its dimensions were to be reordered.

`h, w, c = image.shape; image.view(c, h, w)` gives the shape of `image.permute(2, 0, 1)`, but the elements keep their
order in memory, so that each "channel" has pixels of all channels.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.imported_modules import TORCH, USUAL, module_of
from proxy_wrapper.program_code.syntax import Scope, is_variable, last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PERMUTED: Final = "sizes-permuted"

_VIEWS: Final = frozenset({"view", "reshape"})
_IN_PLACE: Final = frozenset({"transpose_", "swapaxes_", "swapdims_", "t_"})
_KEEPING: Final = frozenset(
    {"contiguous", "clone", "detach", "float", "double", "half", "to", "cpu", "cuda", "copy", "astype", "div", "type"}
)
"""Methods that keep the order of the elements, and return an array or a tensor of the same shape."""
_CONVERSIONS: Final = frozenset({"from_numpy", "tensor", "as_tensor", "array", "asarray", "ascontiguousarray"})
_PADDING: Final = frozenset({"pad", "cat", "concat", "concatenate", "hstack", "new_zeros", "zeros"})
_LIBRARIES: Final = frozenset({TORCH, "numpy"})
_FEWEST: Final = 3
_MOST_CALLS: Final = 8
_COLOURED: Final = frozenset({"resize", "cvtColor", "flip", "GaussianBlur"})
"""Functions of OpenCV that return an image with the channels last."""


class _Size(NamedTuple):
    """A size of a tensor: its variable, the dimension, and the line that reads it (0 if the view itself does).

    `dimensions` is their number; 0 if unknown.
    """

    tensor: str
    dim: int
    line: int
    dimensions: int


def permuted_sizes(scope: Scope) -> Iterator[Pattern]:
    """The views of a scope whose sizes are all those of the tensor itself, in another order."""
    if scope.words.isdisjoint(_VIEWS) or not scope.words.isdisjoint(_IN_PLACE):
        return
    unpacked = _unpacked_sizes(scope)
    for call in scope.calls:
        viewed, given = view_of(call, scope.modules)
        tensor = None if viewed is None else _variable_in(viewed)
        if viewed is not None and len(given) == _FEWEST and _is_three(given[0]) and _is_image(viewed, scope):
            yield Pattern(PERMUTED, call.lineno, ("height, width, 3", ", ".join(map(ast.unparse, given))))
        if tensor is None or len(given) < _FEWEST:
            continue
        sizes = [_size_of(each, unpacked) for each in given]
        order = _order(tensor, sizes, call.lineno, scope)
        if order is not None and not (_swaps_two(order) and _may_skew(scope)):
            before = ", ".join(ast.unparse(given[order.index(dim)]) for dim in range(len(order)))
            yield Pattern(PERMUTED, call.lineno, (before, ", ".join(map(ast.unparse, given))))


def _unpacked_sizes(scope: Scope) -> dict[str, _Size]:
    """The variables to which `a, b, c = tensor.shape` assigns sizes, if nothing else assigns them."""
    found = {}
    for target, value in scope.assignments:
        tensor = _tensor_of_shape(value)
        if tensor is None or not isinstance(target, (ast.Tuple, ast.List)):
            continue
        for dim, name in enumerate(target.elts):
            if isinstance(name, ast.Name) and len(scope.stores(name.id)) == 1:
                found[name.id] = _Size(tensor, dim, value.lineno, len(target.elts))
        if any(isinstance(each, ast.Starred) for each in target.elts):
            for each in target.elts:
                found.pop(ast.unparse(each), None)
    return found


def _tensor_of_shape(value: ast.expr) -> str | None:
    """The variable whose shape an expression is; None if it is not one."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "size":
        return ast.unparse(value.func.value) if not value.args and is_variable(value.func.value) else None
    is_shape = isinstance(value, ast.Attribute) and value.attr == "shape" and is_variable(value.value)
    return ast.unparse(value.value) if is_shape and isinstance(value, ast.Attribute) else None


def _size_of(value: ast.expr, unpacked: dict[str, _Size]) -> _Size | None:
    """The size that an expression is; None if it is something else."""
    if isinstance(value, ast.Name):
        return unpacked.get(value.id)
    dim: ast.expr | None = None
    tensor: str | None = None
    if isinstance(value, ast.Subscript):
        tensor, dim = _tensor_of_shape(value.value), value.slice
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "size":
        tensor = ast.unparse(value.func.value) if is_variable(value.func.value) else None
        dim = value.args[0] if len(value.args) == 1 else None
    if tensor is None or not isinstance(dim, ast.Constant) or type(dim.value) is not int:
        return None
    return _Size(tensor, dim.value, 0, 0)


def view_of(call: ast.Call, modules: Mapping[str, str] = USUAL) -> tuple[ast.expr | None, Sequence[ast.expr]]:
    """What a call views or reshapes, and the new sizes; None if it does not.

    Args:
        call: the call.
        modules: the modules that the file imports, by the names that it gives them.
    """
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _VIEWS or call.keywords:
        return None, ()
    is_function = module_of(call.func.value, modules) in _LIBRARIES and len(call.args) > 1
    viewed, sizes = (call.args[0], call.args[1:]) if is_function else (call.func.value, call.args)
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    return viewed, sizes


def keeps_order(call: ast.Call) -> ast.expr | None:
    """What a call converts to another type or dtype, without a change of its shape; None if it does something else."""
    name = last_name(call.func)
    if name in _CONVERSIONS and call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) and name in _KEEPING else None


def _is_three(size: ast.expr) -> bool:
    return isinstance(size, ast.Constant) and size.value == 3


def _is_image(value: ast.expr, scope: Scope) -> bool:
    """Whether an expression is an image as OpenCV or Pillow reads it, of shape (height, width, 3).

    An image that was read as a grey one has no size of 3, so it cannot be viewed like that.
    """
    for _ in range(_MOST_CALLS):
        value = scope.resolved(value)
        if not isinstance(value, ast.Call):
            return False
        name = last_name(value.func)
        if name in ("imread", "imdecode"):
            return True
        if name in ("array", "asarray") and value.args and _opens_image(value.args[0], scope):
            return True
        if name in _CONVERSIONS | _COLOURED and value.args:
            value = value.args[0]
        elif isinstance(value.func, ast.Attribute) and name in _KEEPING:
            value = value.func.value
        else:
            return False
    return False


def _opens_image(value: ast.expr, scope: Scope) -> bool:
    """Whether an expression is an image that Pillow opens."""
    nodes = ast.walk(scope.resolved(value))
    return any(isinstance(node, ast.Call) and ast.unparse(node.func) == "Image.open" for node in nodes)


def _variable_in(value: ast.expr) -> str | None:
    """The variable whose elements an expression has in the same order; None if there is none."""
    while isinstance(value, ast.Call):
        if last_name(value.func) in _CONVERSIONS and value.args:
            value = value.args[0]
        elif isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPING:
            value = value.func.value
        else:
            return None
    return ast.unparse(value) if is_variable(value) else None


def _order(tensor: str, sizes: Sequence[_Size | None], line: int, scope: Scope) -> tuple[int, ...] | None:
    """In which order the sizes of a tensor are given; None if they are not all of its sizes, or in their order."""
    order = []
    for each in sizes:
        if each is None or each.tensor != tensor or each.dimensions not in (0, len(sizes)):
            return None
        if each.line and scope.is_stored_between(tensor, each.line, line):
            return None
        order.append(each.dim)
    is_permuted = sorted(order) == list(range(len(order))) != order
    return tuple(order) if is_permuted else None


def _swaps_two(order: Sequence[int]) -> bool:
    return sum(place != dim for place, dim in enumerate(order)) == 2


def _may_skew(scope: Scope) -> bool:
    """Whether a function may shift rows against each other: one pads a matrix, and swaps its sizes, on purpose."""
    return any(last_name(call.func) in _PADDING for call in scope.calls)
