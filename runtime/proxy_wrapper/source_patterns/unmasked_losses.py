"""Finds losses over all nodes of a graph, whose labels are divided into training and test nodes by masks.

out = model(data.x, data.edge_index)
loss = F.cross_entropy(out, data.y)             # out[data.train_mask], data.y[data.train_mask] was meant
...
correct = out.argmax(1)[data.test_mask] == data.y[data.test_mask]
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import is_variable, last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

UNMASKED: Final = "loss-unmasked"

_TRAINING: Final = re.compile(r"train(ing)?_(mask|idx|index|nodes)|(mask|idx|index|nodes)_train")
_HELD_OUT: Final = re.compile(r"(test|val|valid)_(mask|idx|index|nodes)|(mask|idx|index|nodes)_(test|val|valid)")
_LABELS: Final = frozenset({"y", "label", "labels", "target", "targets"})
_LOSSES: Final = frozenset({"cross_entropy", "nll_loss", "criterion", "loss_fn", "loss_func", "loss_function"})


def unmasked_losses(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that compute such a loss. `names` has the labels, `other` is a line that selects some."""
    words = {word for scope in scopes for word in scope.words}
    if not any(map(_TRAINING.fullmatch, words)) or not any(map(_HELD_OUT.fullmatch, words)):
        return
    selected: dict[str, int] = {}
    for node in (node for scope in scopes for node in scope.nodes):
        if isinstance(node, ast.Subscript) and is_variable(node.value) and is_variable(node.slice):
            selected.setdefault(last_name(node.value), node.lineno)
    for scope in scopes:
        for target, value in scope.assignments if "backward" in scope.words else ():
            is_loss = isinstance(value, ast.Call) and last_name(value.func) in _LOSSES and len(value.args) == 2
            if not is_loss or not isinstance(value, ast.Call) or not _goes_backward(target, scope):
                continue
            labels = value.args[1]
            name = last_name(labels) if is_variable(labels) else ""
            is_whole = name in _LABELS and name in selected and not _is_selected_before(labels, scopes)
            if is_whole and not value.keywords and _is_of_all(scope.resolved(value.args[0])):
                yield Pattern(UNMASKED, value.lineno, (ast.unparse(labels),), selected[name])


def _is_selected_before(labels: ast.expr, scopes: Sequence[Scope]) -> bool:
    """Whether a variable may hold only some of the labels: an item of something, or part of a batch, is assigned."""
    name = ast.unparse(labels)
    stored = [value for scope in scopes for target, value in scope.assignments if ast.unparse(target) == name]
    return any(isinstance(each, ast.Subscript) for each in stored) or _is_loop_variable(name, scopes)


def _is_loop_variable(name: str, scopes: Sequence[Scope]) -> bool:
    """Whether a loop assigns a variable, or what it is an attribute of: each pass may have its own graph."""
    owner = name.partition(".")[0]
    loops = (node for scope in scopes for node in scope.nodes if isinstance(node, (ast.For, ast.AsyncFor)))
    return any(isinstance(each, ast.Name) and each.id == owner for loop in loops for each in ast.walk(loop.target))


def _goes_backward(target: ast.expr, scope: Scope) -> bool:
    return any(ast.unparse(call.func) == f"{ast.unparse(target)}.backward" for call in scope.calls)


def _is_of_all(output: ast.expr) -> bool:
    """Whether a value is that of a call, of which no items are selected."""
    return isinstance(output, ast.Call) and not any(isinstance(each, ast.Subscript) for each in ast.walk(output))
