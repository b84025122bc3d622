"""Finds held-out data that are standardised by their own statistics, as the training data are by theirs.

x_train = (x_train - x_train.mean(0)) / x_train.std(0)
x_val = (x_val - x_val.mean(0)) / x_val.std(0)          # or `standardize(x_val)`, or `scaler.fit_transform(x_val)`

The names of the variables tell which data are held out, and which are for training: `features_train`, or `features`,
if the others are called `features_test`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import is_variable, last_name
from proxy_wrapper.source_patterns.data_roles import role_of
from proxy_wrapper.source_patterns.pattern import Pattern
from proxy_wrapper.source_patterns.scalers import makes_scaler, variable_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

OWN_STATISTICS: Final = "scaled-by-own-statistics"

_CONVERTING: Final = frozenset({"float", "double", "to", "astype", "type", "numpy", "copy", "clone", "cpu", "cuda"})
_MAKING: Final = frozenset({"tensor", "as_tensor", "from_numpy", "FloatTensor", "Tensor", "array", "asarray"})
_LIMITING: Final = frozenset({"clamp", "clamp_min", "clip", "maximum", "max"})
_CENTRES: Final = frozenset({"mean"})
_SCALES: Final = frozenset({"std"})
_DIMENSIONS: Final = frozenset({"dim", "axis"})
_FITTED: Final = frozenset({"fit_transform"})
_OF_ONE_SAMPLE: Final = frozenset(
    {"image", "img", "sample", "item", "frame", "signal", "batch", "example", "window", "sequence", "seq", "subject"}
)
"""Words of names of parts of a data set, each of which may be standardised by itself on purpose."""


class _Scaled(NamedTuple):
    """Data that are standardised by their own statistics."""

    line: int
    data: str


def own_statistics(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that standardise held-out data by their own statistics, and not by those of training.

    `names` has the data, and the training data that are standardised by theirs at `other`.
    """
    helpers = _helpers(scopes)
    scalers = {ast.unparse(target) for scope in scopes for target, value in scope.assignments if makes_scaler(value)}
    for scope in scopes:
        found = [*_standardised(scope), *_by_helpers(scope, helpers), *_by_scalers(scope, scalers)]
        of_training: dict[tuple[str, ...], _Scaled] = {}
        for each in found:
            role = role_of(each.data.rpartition(".")[2])
            if not role.is_held_out and (role.is_training or role.rest):
                of_training.setdefault(role.rest, each)
        for each in found:
            role = role_of(each.data.rpartition(".")[2])
            training = of_training.get(role.rest)
            if role.is_held_out and not role.is_training and training and _OF_ONE_SAMPLE.isdisjoint(role.rest):
                yield Pattern(OWN_STATISTICS, each.line, (each.data, training.data), training.line)


def _helpers(scopes: Sequence[Scope]) -> dict[str, int]:
    """The functions and classes of a file that standardise one argument by its own statistics, with its position.

    What standardises two of them compares them, as a loss or a correlation does.
    """
    names = [_name_of_helper(scope) for scope in scopes]
    found: dict[str, int] = {}
    for name, scope in zip(names, scopes, strict=True):
        arguments = _arguments(scope)
        given = arguments[1:] if arguments[:1] in (["self"], ["cls"]) else arguments
        positions = [position for position, argument in enumerate(given) if _standardises(argument, scope)]
        if len(positions) == names.count(name) == 1 and "loss" not in name.lower():
            found[name] = positions[0]
    return found


def _name_of_helper(scope: Scope) -> str:
    """What a function is called by; the name of a class for its `__init__`, "" for a module."""
    return scope.owner.name if scope.owner is not None and scope.name == "__init__" else scope.name


def _standardises(argument: str, scope: Scope) -> bool:
    """Whether a function standardises an argument whenever it is called, and keeps or returns the result."""
    lines = {each.line for each in _in_steps(scope) if each.data == argument}
    returned = [node.value for node in scope.nodes if isinstance(node, ast.Return) and node.value is not None]
    kept = {argument, *map(ast.unparse, returned)}
    values = [(target.lineno, value) for target, value in scope.assignments if _is_kept(target, kept)]
    values += [(value.lineno, value) for value in returned]
    lines |= {line for line, value in values if _is_own(_converted(value), line, scope, argument)}
    return any(not _is_conditional(line, 0, scope) for line in lines)


def _is_kept(target: ast.expr, names: set[str]) -> bool:
    return ast.unparse(target) in names or ast.unparse(target).startswith("self.")


def _is_conditional(line: int, before: int, scope: Scope) -> bool:
    """Whether a line is in a branch in which another one is not."""
    branches = (node for node in scope.nodes if isinstance(node, (ast.If, ast.Try)))
    ends = ((node.lineno, node.end_lineno or node.lineno) for node in branches)
    return any(first <= line <= last and not first <= before <= last for first, last in ends)


def _arguments(scope: Scope) -> list[str]:
    """The arguments of a function, in their order."""
    if not isinstance(scope.root, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    given = scope.root.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _standardised(scope: Scope) -> Iterator[_Scaled]:
    """The assignments of a scope that standardise data by their own statistics."""
    loops = (node.target for node in scope.nodes if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)))
    drawn = {each.id for target in loops for each in ast.walk(target) if isinstance(each, ast.Name)}
    for each in _in_steps(scope):
        if each.data not in drawn:
            yield each
    for target, assigned in scope.assignments:
        value = _converted(assigned)
        if not is_variable(target) or not isinstance(value, ast.BinOp):
            continue
        centred = value.left
        data = ast.unparse(centred.left) if isinstance(centred, ast.BinOp) else ""
        if data and data not in drawn and _is_own(value, target.lineno, scope, data):
            yield _Scaled(value.lineno, _named(data, target))


def _named(data: str, target: ast.expr) -> str:
    """What data are assigned to, if that name tells their role, as `x_val` does for `x[800:]`; or else the data."""
    name = ast.unparse(target)
    role = role_of(name.rpartition(".")[2])
    return name if role.is_training != role.is_held_out else data


def _in_steps(scope: Scope) -> Iterator[_Scaled]:
    """The data from which their mean is subtracted, and which are then divided by their deviation, in two steps."""
    centred: dict[str, int] = {}
    for node in scope.nodes:
        target: ast.expr
        if isinstance(node, ast.AugAssign):
            target, operator, operand = node.target, node.op, node.value
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
            target, operator, operand = node.targets[0], node.value.op, node.value.right
            if ast.unparse(node.value.left) != ast.unparse(target):
                continue
        else:
            continue
        data = ast.unparse(target)
        if isinstance(operator, ast.Sub) and _is_statistic(operand, node.lineno, scope, data, _CENTRES):
            centred[data] = node.lineno
        is_scaled = isinstance(operator, ast.Div) and _is_statistic(operand, node.lineno, scope, data, _SCALES)
        if is_scaled and data in centred:
            yield _Scaled(centred[data], data)


def _by_helpers(scope: Scope, helpers: dict[str, int]) -> Iterator[_Scaled]:
    """The calls that standardise data by a function or class of the file."""
    targets = {
        id(each): target
        for target, value in scope.assignments
        if is_variable(target)
        for each in ast.walk(value)
        if isinstance(each, ast.Call)
    }
    for call in scope.calls:
        position = helpers.get(last_name(call.func), len(call.args))
        if position < len(call.args):
            data = _converted(call.args[position])
            role = role_of(last_name(data))
            if role.is_training != role.is_held_out:
                yield _Scaled(call.lineno, ast.unparse(data))
            elif isinstance(data, ast.Subscript) and id(call) in targets:
                yield _Scaled(call.lineno, _named(ast.unparse(data), targets[id(call)]))


def _by_scalers(scope: Scope, scalers: set[str]) -> Iterator[_Scaled]:
    """The calls that fit scalers to data, and scale these by them."""
    for call in scope.calls:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in _FITTED or not call.args:
            continue
        data = variable_in(call.args[0])
        if data is not None and (ast.unparse(function.value) in scalers or makes_scaler(function.value)):
            yield _Scaled(call.lineno, data)


def _is_own(value: ast.expr, line: int, scope: Scope, data: str) -> bool:
    """Whether an expression is `(data - data.mean()) / data.std()`."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div):
        return False
    centred = value.left
    if not isinstance(centred, ast.BinOp) or not isinstance(centred.op, ast.Sub) or ast.unparse(centred.left) != data:
        return False
    is_centred = _is_statistic(centred.right, line, scope, data, _CENTRES)
    return is_centred and _is_statistic(value.right, line, scope, data, _SCALES)


def _is_statistic(value: ast.expr, line: int, scope: Scope, data: str, functions: frozenset[str]) -> bool:
    """Whether an expression, above a line, is a statistic of all rows of data."""
    value = _assigned_before(value, line, scope)
    while True:
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            value = value.left
        elif (
            isinstance(value, ast.Call) and last_name(value.func) in _LIMITING and not isinstance(value.func, ast.Name)
        ):
            is_function = isinstance(value.func, ast.Attribute) and bool(scope.module_of(value.func.value))
            value = value.args[0] if is_function and value.args else value.func.value  # type: ignore[attr-defined]
        else:
            break
    value = _assigned_before(value, line, scope)
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr not in functions:
        return False
    is_function = bool(scope.module_of(value.func.value))
    arguments = list(value.args)
    of = (arguments.pop(0) if arguments else None) if is_function else value.func.value
    if of is None or ast.unparse(of) != data:
        return False
    given = [*arguments[:1], *(each.value for each in value.keywords if each.arg in _DIMENSIONS)]
    return not given or _reduces_rows(given[0])


def _reduces_rows(dimension: ast.expr) -> bool:
    """Whether the first dimension, that of the samples, is among those given."""
    given = dimension.elts if isinstance(dimension, (ast.Tuple, ast.List)) else [dimension]
    return any(isinstance(each, ast.Constant) and each.value == 0 for each in given)


def _assigned_before(value: ast.expr, line: int, scope: Scope) -> ast.expr:
    """What the last assignment above a line gives a variable; other expressions as they are."""
    name = ast.unparse(value)
    if not is_variable(value) or name in _arguments(scope):
        return value
    before = [each for target, each in scope.assignments if target.lineno < line and ast.unparse(target) == name]
    last = max((at for at in scope.stores(name) if at < line), default=0)
    is_certain = bool(before) and before[-1].lineno == last and not _is_conditional(last, line, scope)
    return before[-1] if is_certain else value


def _converted(value: ast.expr) -> ast.expr:
    """The expression with the values of another, which only converts them."""
    while isinstance(value, ast.Call):
        name = last_name(value.func)
        if name in _MAKING and value.args:
            value = value.args[0]
        elif name in _CONVERTING and isinstance(value.func, ast.Attribute):
            value = value.func.value
        else:
            break
    return value
