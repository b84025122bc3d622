"""Finds the positions that the code of a `forward` adds along a dimension of its input.

`x + self.pe[:x.size(0)]` adds one row of `pe` to each item of the first dimension of `x`, and so does
`x + self.embedding(torch.arange(x.size(0)).unsqueeze(1))`. Nothing is run. Functions that move dimensions are left out:
their sizes do not show to which dimension positions are added.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOVING: Final = frozenset(
    {"transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "t", "T", "mT", "rearrange", "einsum"}
    | {"view", "reshape", "flatten", "unflatten", "expand", "repeat", "unfold"}
)
"""Names of functions that may move dimensions."""


class PositionSlice(NamedTuple):
    """Positions that are added along a dimension.

    Attributes:
        attribute: the attribute of the module that holds them: a tensor that is sliced, or an embedding that is called.
        dim: the dimension of the input of `forward`.
        line: the line that slices or calls the attribute.
        is_called: whether the attribute is an embedding.
    """

    attribute: str
    dim: int
    line: int
    is_called: bool = False


def position_slices(forward: ast.FunctionDef) -> Iterator[PositionSlice]:
    """The positions that a `forward` adds along a dimension of its input, as many as the dimension has items."""
    if _names_in(forward) & _MOVING:
        return
    arguments = {each.arg for each in (*forward.args.posonlyargs, *forward.args.args)[1:]}
    sizes = _named_sizes(forward)
    counts = _named_counts(forward, sizes)
    cuts = {
        id(node): cut
        for node in ast.walk(forward)
        if (cut := _slice_of(node, sizes, arguments) or _called_of(node, sizes, counts, arguments)) is not None
    }
    assigned = {
        node.targets[0].id: cuts[id(each)]
        for node in ast.walk(forward)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        for each in ast.walk(node.value)
        if id(each) in cuts and not isinstance(node.value, ast.BinOp)
    }
    found: dict[PositionSlice, None] = {}
    for side in _added(forward):
        for each in ast.walk(side):
            if id(each) in cuts:
                found[cuts[id(each)]] = None
            elif isinstance(each, ast.Name) and each.id in assigned:
                found[assigned[each.id]] = None
    yield from found


def _names_in(function: ast.FunctionDef) -> set[str]:
    """The names and attributes in a function."""
    nodes = list(ast.walk(function))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _added(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """The operands of each sum in a function; of `+=`, only the right one."""
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from (node.left, node.right)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield node.value


def _named_sizes(function: ast.FunctionDef) -> dict[str, tuple[str, int]]:
    """The variables that hold a size of a tensor: the tensor's name and the dimension. Each is assigned only once."""
    found: dict[str, tuple[str, int]] = {}
    times: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            times[node.id] = times.get(node.id, 0) + 1
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        (target,) = node.targets
        if isinstance(target, ast.Name):
            size = _size_of(node.value, {})
            if size is not None:
                found[target.id] = size
        elif isinstance(target, ast.Tuple):
            name = _shape_of(node.value)
            for place, each in enumerate(target.elts):
                if isinstance(each, ast.Starred):
                    break
                if name and isinstance(each, ast.Name):
                    found[each.id] = name, place
    return {name: size for name, size in found.items() if times.get(name) == 1}


def _shape_of(value: ast.expr) -> str:
    """The name of the tensor whose shape a value is; "" if it is not a shape."""
    if isinstance(value, ast.Call) and not value.args and not value.keywords:
        value = value.func
        is_shape = isinstance(value, ast.Attribute) and value.attr == "size"
    else:
        is_shape = isinstance(value, ast.Attribute) and value.attr == "shape"
    return value.value.id if is_shape and isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) else ""


def _size_of(value: ast.expr, sizes: dict[str, tuple[str, int]]) -> tuple[str, int] | None:
    """The tensor and the dimension whose size a value is: `x.size(0)`, `x.shape[0]`, `len(x)`, or such a variable."""
    if isinstance(value, ast.Name):
        return sizes.get(value.id)
    if isinstance(value, ast.Subscript):
        name, index = _shape_of(value.value), value.slice
    elif isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
        function, index = value.func, value.args[0]
        if isinstance(function, ast.Name) and function.id == "len" and isinstance(index, ast.Name):
            return index.id, 0
        is_size = isinstance(function, ast.Attribute) and function.attr == "size"
        named = function.value if is_size and isinstance(function, ast.Attribute) else None
        name = named.id if isinstance(named, ast.Name) else ""
    else:
        return None
    if not name or not isinstance(index, ast.Constant) or type(index.value) is not int or index.value < 0:
        return None
    return name, index.value


def _slice_of(node: ast.AST, sizes: dict[str, tuple[str, int]], arguments: set[str]) -> PositionSlice | None:
    """`self.NAME[:size]` or `self.NAME[:, :size]`, where an argument has that size in the same dimension."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Attribute):
        return None
    owner = node.value.value
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not isinstance(owner, ast.Name) or owner.id != "self":
        return None
    cut = [place for place, each in enumerate(parts) if not (isinstance(each, ast.Slice) and not _bounds(each))]
    if len(cut) != 1:
        return None
    part = parts[cut[0]]
    if not isinstance(part, ast.Slice) or part.upper is None or _bounds(part) != [part.upper]:
        return None
    size = _size_of(part.upper, sizes)
    if size is None or size[1] != cut[0] or size[0] not in arguments:
        return None
    return PositionSlice(node.value.attr, cut[0], node.lineno)


def _named_counts(function: ast.FunctionDef, sizes: dict[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """The variables that count along a dimension of a tensor, such as `torch.arange(x.size(0)).unsqueeze(1)`."""
    stores = [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {
        node.targets[0].id: count
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        if stores.count(node.targets[0].id) == 1 and (count := _count_of(node.value, sizes)) is not None
    }


def _count_of(value: ast.expr, sizes: dict[str, tuple[str, int]]) -> tuple[str, int] | None:
    """The tensor and the dimension along which a value counts. Its other dimension has size 1."""
    is_call = isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords
    if not is_call or not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    added, counted = value.args[0], value.func.value
    if value.func.attr != "unsqueeze" or not isinstance(counted, ast.Call) or not isinstance(added, ast.Constant):
        return None
    is_range = isinstance(counted.func, ast.Attribute) and counted.func.attr == "arange" and len(counted.args) == 1
    size = _size_of(counted.args[0], sizes) if is_range else None
    return size if size is not None and added.value == 1 - size[1] else None


def _called_of(
    node: ast.AST, sizes: dict[str, tuple[str, int]], counts: dict[str, tuple[str, int]], arguments: set[str]
) -> PositionSlice | None:
    """`self.NAME(count)`, where the count is along a dimension of an argument."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 1:
        return None
    owner, given = node.func.value, node.args[0]
    count = counts.get(given.id) if isinstance(given, ast.Name) else _count_of(given, sizes)
    if count is None or count[0] not in arguments or not isinstance(owner, ast.Name) or owner.id != "self":
        return None
    return PositionSlice(node.func.attr, count[1], node.lineno, is_called=True)


def _bounds(part: ast.Slice) -> list[ast.expr]:
    """The bounds and the step of a slice, without those that are absent."""
    return [each for each in (part.lower, part.upper, part.step) if each is not None]
