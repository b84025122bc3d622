"""Finds counts of correct predictions that are divided by the number of batches.

for x, y in loader:
    correct += (model(x).argmax(1) == y).sum().item()
accuracy = correct / len(loader)            # where len(loader.dataset) was meant
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import iterated_by, last_name, nodes_within
from proxy_wrapper.source_patterns.divided_sums import divisions_after
from proxy_wrapper.source_patterns.overwritten_counts import counts_equal
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

PER_BATCH: Final = "count-per-batch"

_AVERAGES: Final = frozenset({"mean", "average"})


def counts_per_batch(scope: Scope) -> Iterator[Pattern]:
    """The divisions of a scope of such counts. `other` is the line of the loop."""
    for loop in scope.nodes:
        if not isinstance(loop, (ast.For, ast.AsyncFor)):
            continue
        counts = _counts(loop)
        batches = f"len({ast.unparse(iterated_by(loop))})"
        for line, divided, divisor in divisions_after(counts, loop, scope) if counts else ():
            if ast.unparse(divisor) == batches:
                yield Pattern(PER_BATCH, line, divided, loop.lineno)


def _counts(loop: ast.For | ast.AsyncFor) -> list[str]:
    """The variables to which a loop adds nothing but numbers of equal values."""
    added: dict[str, bool] = {}
    for node in nodes_within(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            is_count = isinstance(node.op, ast.Add) and counts_equal(node.value, loop) and not _is_averaged(node.value)
            added[node.target.id] = added.get(node.target.id, True) and is_count
    return [name for name, is_count in added.items() if is_count]


def _is_averaged(value: ast.expr) -> bool:
    """Whether a value is divided, so that it is one of a whole batch."""
    return any(
        (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mult)))
        or (isinstance(node, ast.Call) and last_name(node.func) in _AVERAGES)
        for node in ast.walk(value)
    )
