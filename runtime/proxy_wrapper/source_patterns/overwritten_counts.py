"""Finds loops over batches that overwrite what they should add up, so that only the last batch counts.

correct = 0
for x, y in loader:
    correct = (model(x).argmax(1) == y).sum()
accuracy = correct / len(loader.dataset)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import Scope, iterated_by, last_name, names_in, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OVERWRITTEN: Final = "count-overwritten"

_COUNTS: Final = frozenset({"sum", "count_nonzero"})
_WHOLE_RANGE: Final = 3
"""`range` has as many arguments if it gives the starts of batches."""
_LEAVES: Final = (ast.Break, ast.Return, ast.Yield, ast.YieldFrom)


def overwritten_counts(scope: Scope) -> Iterator[Pattern]:
    """The loops of a scope that overwrite counts. `other` is the line of the loop."""
    for loop in scope.nodes:
        if isinstance(loop, (ast.For, ast.AsyncFor)) and not _is_of_epochs(loop):
            found = list(_overwritten(loop, scope))
            if found:
                yield Pattern(OVERWRITTEN, found[0][0], tuple(name for _, name in found), loop.lineno)


def _is_of_epochs(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop only counts, and so may do each time what it did before."""
    call = iterated_by(loop)
    return isinstance(call, ast.Call) and last_name(call.func) == "range" and len(call.args) < _WHOLE_RANGE


def _overwritten(loop: ast.For | ast.AsyncFor, scope: Scope) -> Iterator[tuple[int, str]]:
    """The lines of a loop that overwrite a count, and the names of these."""
    inside = nodes_within(loop)
    if any(isinstance(each, _LEAVES) for each in inside):
        return
    computed = _computed_from_batch(loop)
    for statement in _statements(loop.body):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        (target,) = statement.targets
        if not isinstance(target, ast.Name) or not _depends(statement.value, computed):
            continue
        name = target.id
        uses = [each for each in inside if isinstance(each, ast.Name) and each.id == name]
        if len(uses) != 1 or not scope.is_zero_before(name, loop.lineno):
            continue
        divisors = list(_divisors_after(name, loop, scope))
        if divisors and (
            counts_equal(statement.value, loop) or any(_is_number_of_batches(each, loop) for each in divisors)
        ):
            yield statement.lineno, name


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that are run for each batch."""
    for statement in body:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from _statements(statement.body)
        else:
            yield statement


def _computed_from_batch(loop: ast.For | ast.AsyncFor) -> set[str]:
    """The variables that a loop computes from what it iterates over, and these themselves."""
    found = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    for statement in _statements(loop.body):
        if isinstance(statement, ast.Assign) and _depends(statement.value, found):
            stored = (each for target in statement.targets for each in ast.walk(target))
            found |= {each.id for each in stored if isinstance(each, ast.Name)}
    return found


def _depends(value: ast.expr, names: set[str]) -> bool:
    return not names.isdisjoint(names_in(value))


def _divisors_after(name: str, loop: ast.For | ast.AsyncFor, scope: Scope) -> Iterator[ast.expr]:
    """By what a variable is divided after a loop, before it is assigned again."""
    end = loop.end_lineno or loop.lineno
    following = min((line for line in scope.stores(name) if line > end), default=0)
    for node in scope.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or name not in names_in(node.left):
            continue
        if node.lineno > end and not 0 < following < node.lineno:
            yield node.right


def counts_equal(value: ast.expr, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether an expression is the number of equal values."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and last_name(node.func) in _COUNTS:
            assigned = {
                target.id: each.value
                for each in _statements(loop.body)
                if isinstance(each, ast.Assign)
                for target in each.targets
                if isinstance(target, ast.Name)
            }
            if any(_has_comparison(each) for each in (node, *(assigned.get(name) for name in names_in(node)))):
                return True
    return False


def _has_comparison(value: ast.expr | None) -> bool:
    nodes = () if value is None else ast.walk(value)
    return any(
        (isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq) for op in node.ops))
        or (isinstance(node, ast.Call) and last_name(node.func) in ("eq", "equal"))
        for node in nodes
    )


def _is_number_of_batches(divisor: ast.expr, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a divisor is the length of what a loop iterates over or of the data set behind it, or counts batches."""
    is_counted = isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "enumerate"
    if is_counted and isinstance(loop.target, ast.Tuple) and ast.unparse(loop.target.elts[0]) in names_in(divisor):
        return True
    source = ast.unparse(iterated_by(loop))
    return ast.unparse(divisor) in (f"len({source})", f"len({source}.dataset)")
