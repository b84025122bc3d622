"""Finds comparisons that keep the worst weights instead of the best.

if val_loss > best_loss:            # where < was meant
    best_loss = val_loss
    torch.save(model.state_dict(), "best.pt")
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import is_variable, last_name, nodes_within
from proxy_wrapper.source_patterns.data_roles import words_of
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

WORST_KEPT: Final = "worst-kept"

_LOW: Final = frozenset({"loss", "losses", "mse", "mae", "rmse", "wer", "cer", "perplexity", "ppl"})
_HIGH: Final = frozenset({"acc", "accuracy", "f1", "auc", "auroc", "iou", "miou", "dice", "psnr", "ssim", "bleu"})
_LOWEST: Final = frozenset({"best", "lowest", "min", "minimum"})
_HIGHEST: Final = frozenset({"best", "highest", "max", "maximum"})
_MODELS: Final = frozenset({"model", "net", "network", "weights"})
_KEEPS: Final = frozenset({"state_dict", "save", "save_model", "save_checkpoint", "save_pretrained"})
_IS_BEST: Final = "is_best"
_GREATER: Final = (ast.Gt, ast.GtE)
_LESS: Final = (ast.Lt, ast.LtE)
_PAIR: Final = 2
_TURNED: Final = frozenset({"neg", "negative", "adv", "adversarial", "attack"})
"""Words of losses that are to be high."""


def worst_kept(scope: Scope) -> Iterator[Pattern]:
    """The lines of a scope that keep weights if a loss is higher than before, or an accuracy lower."""
    for node in scope.nodes:
        if isinstance(node, ast.If) and (found := _compared(node.test)):
            new, best = found
            if _takes(node, new, best) and _keeps_weights(node) and not _is_turned(new, scope):
                yield Pattern(WORST_KEPT, node.test.lineno, (new, best))
    if _IS_BEST in scope.words:
        yield from _extremes(scope)


def _is_turned(new: str, scope: Scope) -> bool:
    """Whether a loss is to be high: it is that of an attack, or has been negated."""
    values = [value for target, value in scope.assignments if ast.unparse(target) == new]
    is_negated = any(isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub) for each in values)
    return is_negated or not _TURNED.isdisjoint(words_of(new))


def _compared(test: ast.expr) -> tuple[str, str] | None:
    """A new value and the best one, if a comparison is true for worse ones."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right = test.left, test.comparators[0]
    is_greater = isinstance(test.ops[0], _GREATER)
    if not is_greater and not isinstance(test.ops[0], _LESS):
        return None
    best = _LOWEST if is_greater else _HIGHEST
    if not _has_word(right, best):
        left, right, is_greater = right, left, not is_greater
        best = _LOWEST if is_greater else _HIGHEST
    is_pair = _has_word(right, best) and not _has_word(left, _LOWEST | _HIGHEST)
    return (ast.unparse(left), ast.unparse(right)) if is_pair and _are_low(left, right) is is_greater else None


def _extremes(scope: Scope) -> Iterator[Pattern]:
    """The lines that make the highest loss the best one, `best_loss = max(loss, best_loss)`, or the lowest accuracy."""
    for target, value in scope.assignments:
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or len(value.args) != _PAIR:
            continue
        others = [each for each in value.args if ast.unparse(each) != ast.unparse(target)]
        is_max = value.func.id == "max"
        if len(others) != 1 or not (is_max or value.func.id == "min"):
            continue
        if _has_word(target, _LOWEST if is_max else _HIGHEST) and _are_low(others[0], target) is is_max:
            yield Pattern(WORST_KEPT, value.lineno, (ast.unparse(others[0]), ast.unparse(target)))


def _has_word(value: ast.expr, words: frozenset[str]) -> bool:
    """Whether an expression is a variable with one of some words in its name."""
    return is_variable(value) and not words.isdisjoint(words_of(last_name(value)))


def _are_low(*variables: ast.expr) -> bool | None:
    """Whether low values of variables are good, by their names; None if these do not tell, or differ."""
    told: set[bool] = set()
    for variable in variables:
        told |= {True} if _has_word(variable, _LOW) else set()
        told |= {False} if _has_word(variable, _HIGH) else set()
    return told.pop() if len(told) == 1 and all(map(is_variable, variables)) else None


def _takes(branch: ast.If, new: str, best: str) -> bool:
    """Whether a branch makes the new value the best one."""
    return any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.value) == new
        and any(ast.unparse(target) == best for target in node.targets)
        for node in _nodes(branch)
    )


def _keeps_weights(branch: ast.If) -> bool:
    """Whether a branch stores weights."""
    for node in _nodes(branch):
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if name in _KEEPS or (name == "deepcopy" and any(_has_word(each, _MODELS) for each in node.args)):
                return True
    return False


def _nodes(branch: ast.If) -> list[ast.AST]:
    """The nodes that are run if a condition is true."""
    return [node for statement in branch.body for node in (statement, *nodes_within(statement))]
