"""Finds metrics that are added up over all epochs, but divided as if they were of one.

correct = 0
for epoch in range(10):
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
    print(correct / len(loader.dataset))            # above 1 from the second epoch on
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.comparisons import counted_comparison
from proxy_wrapper.program_code.syntax import Scope, names_in, nodes_within
from proxy_wrapper.source_patterns.data_roles import words_of
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ACCUMULATED: Final = "count-not-reset"

_METRICS: Final = frozenset({"acc", "accuracy", "correct", "corrects", "hits", "loss"})
_OUTER: Final = (ast.For, ast.AsyncFor, ast.While)
_INNER: Final = (ast.For, ast.AsyncFor)


def accumulated_counts(scope: Scope) -> Iterator[Pattern]:
    """The additions of a scope to metrics that no epoch sets back. `other` is the line of the loop over epochs."""
    told: set[str] = set()
    for epochs in scope.nodes:
        if not isinstance(epochs, _OUTER):
            continue
        inside = nodes_within(epochs)
        for batches in inside:
            is_inner = isinstance(batches, _INNER) and not _is_given(batches, epochs)
            added = _added(batches) if is_inner else {}
            for name, line in added.items():
                is_of_all = scope.is_zero_before(name, epochs.lineno) and not _is_set(name, inside)
                if name not in told and is_of_all and _is_divided_once(name, epochs, batches, inside):
                    told.add(name)
                    yield Pattern(ACCUMULATED, line, (name,), epochs.lineno)


def _is_given(batches: ast.For | ast.AsyncFor, epochs: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether the outer loop tells the inner one what to go through: other data in each pass, which add up rightly."""
    targets = [] if isinstance(epochs, ast.While) else ast.walk(epochs.target)
    named = {node.id for node in targets if isinstance(node, ast.Name)}
    return not named.isdisjoint(names_in(batches.iter))


def _added(loop: ast.AST) -> dict[str, int]:
    """The metrics that a loop adds to, with the first line that does."""
    found: dict[str, int] = {}
    for node in nodes_within(loop):
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
            continue
        if isinstance(node.target, ast.Name) and (_is_metric(node.target.id) or _counts_hits(node.value)):
            found.setdefault(node.target.id, node.lineno)
    return found


def _is_metric(name: str) -> bool:
    return not _METRICS.isdisjoint(words_of(name))


def _counts_hits(value: ast.expr) -> bool:
    """Whether an expression counts how often two others are equal."""
    return any(counted_comparison(node) for node in ast.walk(value))


def _is_set(name: str, inside: Sequence[ast.AST]) -> bool:
    """Whether a loop does something else to a variable than to add to it."""
    added = {id(node.target) for node in inside if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)}
    return any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load) and id(node) not in added
        for node in inside
    )


def _is_divided_once(name: str, epochs: ast.AST, batches: ast.AST, inside: Sequence[ast.AST]) -> bool:
    """Whether a variable is divided after the loop over batches, and only by what does not grow with the epochs."""
    in_batches = {id(node) for node in nodes_within(batches)}
    divisions = [
        node
        for node in inside
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and name in names_in(node.left)
    ]
    reset = {
        target.id
        for node in inside
        if isinstance(node, ast.Assign) and id(node) not in in_batches and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    stored = {node.id for node in ast.walk(epochs) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    growing = stored - reset
    return bool(divisions) and all(
        id(node) not in in_batches and growing.isdisjoint(names_in(node.right)) for node in divisions
    )
