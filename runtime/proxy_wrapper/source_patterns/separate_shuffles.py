"""Finds inputs and labels that are shuffled by different permutations, so that the labels are those of other inputs.

Variables are taken for inputs and labels by their names, `x_train` and `y_train`, and only if the program then uses
them together: both in one call, both returned, or both with the same index in one statement.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import Scope, is_variable, last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

APART: Final = "shuffled-apart"

_PERMUTATIONS: Final = frozenset({"randperm", "permutation"})
_SHUFFLES: Final = frozenset({"shuffle", "permutation", "permuted"})
_SEEDS: Final = re.compile(r"seed|state|Generator|default_rng|RandomState|deepcopy", re.IGNORECASE)
_INPUTS: Final = frozenset(
    {"x", "xs", "data", "input", "inputs", "image", "images", "img", "imgs", "feature", "features", "feats", "text"}
    | {"texts", "sample", "samples", "sequences", "signals"}
)
_LABELS: Final = frozenset({"y", "ys", "label", "labels", "lab", "labs", "lbl", "lbls", "target", "targets"})
_JOINED: Final = re.compile(r"(x|y)(train|tr|val|valid|test|te)")


class _Shuffled(NamedTuple):
    """A variable that is shuffled, the line, and what tells the permutation from others."""

    name: str
    line: int
    draw: tuple[int, int]


def separate_shuffles(scope: Scope) -> Iterator[Pattern]:
    """The pairs of inputs and labels that are shuffled apart, told at the second of both lines."""
    if scope.words.isdisjoint(_PERMUTATIONS | _SHUFFLES):
        return
    shuffled = list(_shuffled(scope))
    for inputs in shuffled:
        for labels in shuffled:
            if inputs.draw == labels.draw or not _belong_together(inputs.name, labels.name):
                continue
            if sum(each.name in (inputs.name, labels.name) for each in shuffled) != 2:
                continue
            first, last = sorted((inputs.line, labels.line))
            if not _has_seed(scope, first, last) and _are_used_together(inputs.name, labels.name, scope):
                yield Pattern(APART, last, (inputs.name, labels.name), first)


def _shuffled(scope: Scope) -> Iterator[_Shuffled]:
    """The variables that a scope shuffles in place, or replaces by a permutation of themselves."""
    draws: dict[str, list[ast.expr]] = {}
    for target, value in scope.assignments:
        if isinstance(target, ast.Name) and _is_permutation(value):
            draws.setdefault(target.id, []).append(value)
    for target, value in scope.assignments:
        if not is_variable(target):
            continue
        name = ast.unparse(target)
        if isinstance(value, ast.Subscript) and ast.unparse(value.value) == name:
            drawn: ast.expr | None = value.slice
            if isinstance(drawn, ast.Name):
                earlier = [each for each in draws.get(drawn.id, ()) if each.lineno <= value.lineno]
                drawn = max(earlier, key=lambda each: each.lineno, default=None)
            if drawn is not None and _is_permutation(drawn):
                yield _Shuffled(name, target.lineno, (drawn.lineno, drawn.col_offset))
        elif _is_shuffle_of(value, name):
            yield _Shuffled(name, target.lineno, (value.lineno, value.col_offset))
    for node in scope.nodes:
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and last_name(call.func) == "shuffle" and call.args and is_variable(call.args[0]):
            name = ast.unparse(call.args[0])
            if _is_shuffle_of(call, name):
                yield _Shuffled(name, call.lineno, (call.lineno, call.col_offset))


def _is_permutation(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in _PERMUTATIONS


def _is_shuffle_of(value: ast.expr, name: str) -> bool:
    """Whether an expression shuffles one variable alone."""
    is_call = isinstance(value, ast.Call) and last_name(value.func) in _SHUFFLES
    return is_call and isinstance(value, ast.Call) and [ast.unparse(each) for each in value.args] == [name]


def _belong_together(inputs: str, labels: str) -> bool:
    """Whether two names are those of inputs and of their labels: `self.x` and `self.y`, `train_data`, `train_labels`.

    What they are called besides must be the same.
    """
    owner, _, name = inputs.rpartition(".")
    other, _, other_name = labels.rpartition(".")
    words, other_words = _words(name), _words(other_name)
    rest = [each for each in words if each not in _INPUTS]
    other_rest = [each for each in other_words if each not in _LABELS]
    is_one_each = len(words) - len(rest) == 1 == len(other_words) - len(other_rest)
    return owner == other and is_one_each and rest == other_rest


def _words(name: str) -> list[str]:
    joined = _JOINED.fullmatch(name.lower())
    return list(joined.groups()) if joined else [each for each in name.lower().split("_") if each]


def _has_seed(scope: Scope, first: int, last: int) -> bool:
    """Whether code between two lines may make the second draw the numbers of the first again."""
    for call in scope.calls:
        is_between = first <= call.lineno <= last
        words = (ast.unparse(call.func), *(each.arg or "seed" for each in call.keywords))
        if is_between and any(_SEEDS.search(word) for word in words):
            return True
    return False


def _are_used_together(inputs: str, labels: str, scope: Scope) -> bool:
    """Whether code passes or returns both variables together, or reads them with the same index in one statement."""
    roots = [*scope.nodes] if scope.owner is None else [*ast.walk(scope.owner)]
    for node in roots:
        parts: list[ast.expr] = node.args if isinstance(node, ast.Call) else []
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            parts = node.value.elts
        if {inputs, labels} <= {ast.unparse(each) for each in parts}:
            return True
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.For, ast.While)):
            indices: dict[str, set[str]] = {inputs: set(), labels: set()}
            for each in ast.walk(node):
                if isinstance(each, ast.Subscript) and ast.unparse(each.value) in indices:
                    indices[ast.unparse(each.value)].add(ast.unparse(each.slice))
            if indices[inputs] & indices[labels]:
                return True
    return False
