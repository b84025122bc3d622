"""Finds validations and tests that use the training data.

    val_loader = DataLoader(train_set, batch_size=64)       # and `val_set` exists
    val_loader = DataLoader(dataset, batch_size=64)         # and nothing reads `val_dataset`
    val_loss = evaluate(model, train_loader)                # and `val_loader` exists
    def validate(self):
        for x, y in self.train_loader: ...                  # and `self.val_loader` exists

The names tell which data are meant. The same name for held-out data must occur in the file: `val_loader` or
`test_loader` for `train_loader`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import Scope, is_variable, iterated_by, last_name
from proxy_wrapper.source_patterns.data_roles import role_of, words_of
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EVALUATED: Final = "training-data-evaluated"

_LOADER: Final = "DataLoader"
_DATA: Final = frozenset({"data", "dataset", "db", "dl", "ds", "generator", "iter", "loader", "dataloader", "set"})
_BATCHES: Final = frozenset({"dl", "iter", "loader", "dataloader"})
_CHOOSES: Final = frozenset({"sampler", "batch_sampler"})
_EVALUATES: Final = frozenset({"eval", "evaluate", "evaluation", "valid", "validate", "validation", "val", "test"})
_VALIDATES: Final = _EVALUATES - {"eval", "evaluate", "evaluation"}
"""The words of functions that use held-out data alone; an `evaluate` may rightly get any data."""
_LEARNS: Final = frozenset({"train", "training", "fit", "backward"})
_COMPARES: Final = frozenset({"knn", "nearest", "neighbors", "neighbours", "bank", "memory", "linear", "probe"})
_CALIBRATES: Final = frozenset(
    {"ptq", "quant", "quantize", "quantization", "calibrate", "calibration", "bn", "overfit"}
)
_ON_PURPOSE: Final = _LEARNS | _COMPARES | _CALIBRATES
"""Words of functions that rightly go through training data: they learn, look up neighbours, or calibrate."""
_FEWEST_ARGUMENTS: Final = 3
"""The positional arguments of a `DataLoader` that leave out its sampler: data set, batch size, shuffle."""


def training_data_evaluated(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that evaluate with training data."""
    held_out = {role.rest for scope in scopes for role in map(role_of, scope.words) if role.is_held_out}
    for scope in scopes:
        yield from _loaders(scope, held_out)
        yield from _evaluations(scope, held_out)
        yield from _validations(scope, held_out)


def _loaders(scope: Scope, held_out: set[tuple[str, ...]]) -> Iterator[Pattern]:
    """Loaders called held-out data, of a data set called training data, or in place of one that nothing reads."""
    unread = {role_of(name).rest for name in _unread(scope) if role_of(name).is_held_out}
    for target, value in scope.assignments:
        if not isinstance(value, ast.Call) or last_name(value.func) != _LOADER or not _is_held_out(target):
            continue
        given = [*value.args, *(each.value for each in value.keywords if each.arg == "dataset")]
        is_whole = len(value.args) <= _FEWEST_ARGUMENTS and all(each.arg not in _CHOOSES for each in value.keywords)
        is_only = len(scope.stores(ast.unparse(target))) == 1
        if not given or not is_whole or not is_only:
            continue
        other = role_of(_name_of(given[0]))
        is_mistaken = bool(other.rest) and other.rest in unread and not other.is_held_out
        if is_mistaken or _is_training_data(given[0], _DATA, held_out):
            yield Pattern(EVALUATED, given[0].lineno, (ast.unparse(given[0]), ast.unparse(target)))


def _unread(scope: Scope) -> set[str]:
    """The variables that a function assigns and never reads."""
    names = [node for node in scope.nodes if isinstance(node, ast.Name)] if scope.name else []
    return {node.id for node in names} - {node.id for node in names if isinstance(node.ctx, ast.Load)}


def _evaluations(scope: Scope, held_out: set[tuple[str, ...]]) -> Iterator[Pattern]:
    """Results called those of held-out data, of an evaluation with training data."""
    for node in scope.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or len(node.targets) != 1:
            continue
        (target,), call = node.targets, node.value
        results = target.elts if isinstance(target, ast.Tuple) else [target]
        words = frozenset(words_of(last_name(call.func)))
        if words.isdisjoint(_EVALUATES) or not words.isdisjoint(_ON_PURPOSE) or not all(map(_is_held_out, results)):
            continue
        given = [*call.args, *(each.value for each in call.keywords)]
        named = (each for value in given for each in ast.walk(value) if isinstance(each, (ast.Name, ast.Attribute)))
        if any(role_of(_name_of(each)).is_held_out for each in named):
            continue
        for each in given:
            if _is_training_data(each, _BATCHES, held_out):
                yield Pattern(EVALUATED, each.lineno, (ast.unparse(each), ast.unparse(target)))


def _validations(scope: Scope, held_out: set[tuple[str, ...]]) -> Iterator[Pattern]:
    """Functions called a validation or test, which mention no held-out data and go through training data."""
    words = frozenset(words_of(scope.name))
    if words.isdisjoint(_VALIDATES) or not words.isdisjoint(_ON_PURPOSE) or "backward" in scope.words:
        return
    if any(role.is_held_out and role.rest and not _DATA.isdisjoint(role.rest) for role in map(role_of, scope.words)):
        return
    loops = [node for node in scope.nodes if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))]
    iterated = [iterated_by(loop) for loop in loops]
    if any(is_variable(each) and not _BATCHES.isdisjoint(words_of(_name_of(each))) for each in _others(iterated)):
        return  # It compares what it learns of the training data with other data.
    for each in iterated:
        if _is_training_data(each, _BATCHES, held_out):
            yield Pattern(EVALUATED, each.lineno, (ast.unparse(each), scope.name))


def _others(iterated: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """What is not called training data."""
    return (each for each in iterated if not role_of(_name_of(each)).is_training)


def _is_held_out(target: ast.expr) -> bool:
    """Whether a variable is called held-out data, or a result of these, and not those of training."""
    role = role_of(_name_of(target))
    return is_variable(target) and role.is_held_out and not role.is_training


def _is_training_data(value: ast.expr, kinds: frozenset[str], held_out: set[tuple[str, ...]]) -> bool:
    """Whether a variable is called training data of one of some kinds, and the file has the same as held-out data."""
    role = role_of(_name_of(value))
    is_training = is_variable(value) and role.is_training and not role.is_held_out
    return is_training and not kinds.isdisjoint(role.rest) and role.rest in held_out


def _name_of(value: ast.expr) -> str:
    """The name of a variable, or of an attribute without what it belongs to; "" if it is neither."""
    return value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
