"""Finds scalers that are fitted to all data, which the program then splits into training and test data.

The scaler then knows the mean, the range or the deviation of the test data: of the future, if the data are a series.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import Scope, is_variable, last_name, names_in
from proxy_wrapper.source_patterns.data_roles import HELD_OUT, TRAINING, role_of, words_of
from proxy_wrapper.source_patterns.pattern import Pattern
from proxy_wrapper.source_patterns.scalers import makes_scaler, variable_in

if TYPE_CHECKING:
    from collections.abc import Iterator

FITTED: Final = "scaler-fitted-on-all"

_FITS: Final = frozenset({"fit", "fit_transform"})
_SPLITS: Final = frozenset({"train_test_split", "random_split"})


class _Fit(NamedTuple):
    """A call that fits a scaler to a variable; the scaler's variable, "" if it has none."""

    line: int
    scaler: str
    data: str
    result: str


def scaled_before_split(scope: Scope) -> Iterator[Pattern]:
    """The fits of a scope to data that it then splits, scaled by them."""
    if scope.words.isdisjoint(_FITS):
        return
    scalers = {
        ast.unparse(target)
        for target, value in scope.assignments
        if is_variable(target) and makes_scaler(value) and len(scope.stores(ast.unparse(target))) == 1
    }
    for fit in _fits(scope, scalers):
        scaled = {fit.result} if fit.result else set()
        scaled |= {
            ast.unparse(target)
            for target, value in scope.assignments
            if fit.scaler and is_variable(target) and _scales(value, fit)
        }
        line = _split(_derived(scaled, scope), scope)
        if line > fit.line:
            yield Pattern(FITTED, fit.line, (fit.data,), line)


def _fits(scope: Scope, scalers: set[str]) -> Iterator[_Fit]:
    """The calls that fit scalers to variables not named as training data."""
    results = {id(value): ast.unparse(target) for target, value in scope.assignments if is_variable(target)}
    for call in scope.calls:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in _FITS or not call.args:
            continue
        data, owner = variable_in(call.args[0]), ast.unparse(function.value)
        if data is None or _has_role(data):
            continue
        if owner not in scalers and not makes_scaler(function.value):
            continue
        result = results.get(id(call), "")
        scaler = owner if owner in scalers else result if function.attr == "fit" else ""
        yield _Fit(call.lineno, scaler, data, result if function.attr == "fit_transform" else "")


def _scales(value: ast.expr, fit: _Fit) -> bool:
    """Whether an expression is the data that a scaler was fitted to, scaled by it."""
    if not isinstance(value, ast.Call) or not value.args or variable_in(value.args[0]) != fit.data:
        return False
    return ast.unparse(value.func) in (fit.scaler, f"{fit.scaler}.transform")


def _derived(scaled: set[str], scope: Scope) -> set[str]:
    """Variables that hold scaled data, and those computed from them for all samples, as windows of a series are."""
    found = set(scaled)
    for target, value in scope.assignments:
        names = [ast.unparse(each) for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
        is_split = isinstance(value, ast.Call) and last_name(value.func) in _SPLITS
        if found & _read(value) and not is_split and not any(map(_has_role, names)):
            found.update(names)
    return found


def _split(data: set[str], scope: Scope) -> int:
    """The line that splits some of the data into a part for training and one for tests; 0 if none does."""
    first: set[str] = set()
    for target, value in scope.assignments:
        if isinstance(value, ast.Call) and last_name(value.func) in _SPLITS:
            if any(ast.unparse(each) in data for each in value.args):
                return value.lineno
            continue
        words = {word for each in ast.walk(target) if isinstance(each, (ast.Name, ast.Attribute)) for word in _of(each)}
        for part in (each for each in ast.walk(value) if isinstance(each, ast.Subscript)):
            name, index = ast.unparse(part.value), part.slice
            index = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
            if name not in data or not isinstance(index, ast.Slice):
                continue
            if index.lower is None and index.upper is not None and words & TRAINING:
                first.add(name)
            if index.lower is not None and words & HELD_OUT and name in first:
                return part.lineno
    return 0


def _read(value: ast.expr) -> set[str]:
    attributes = (each for each in ast.walk(value) if isinstance(each, ast.Attribute))
    return names_in(value) | {ast.unparse(each) for each in attributes}


def _of(node: ast.Name | ast.Attribute) -> list[str]:
    return words_of(node.id if isinstance(node, ast.Name) else node.attr)


def _has_role(name: str) -> bool:
    """Whether a variable is called training data, or held-out data."""
    role = role_of(name)
    return role.is_training or role.is_held_out
