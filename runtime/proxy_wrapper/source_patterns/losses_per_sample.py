"""Finds averages of batches that are added up and divided by the number of samples.

for x, y in loader:
    loss = criterion(model(x), y)               # the mean over a batch
    total += loss.item()
print(total / len(loader.dataset))              # where len(loader) was meant
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import iterated_by, last_name, nodes_within
from proxy_wrapper.source_patterns.divided_sums import divisions_after
from proxy_wrapper.source_patterns.loss_values import assigned_values, is_loss
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxy_wrapper.program_code.syntax import Scope

PER_SAMPLE: Final = "loss-per-sample"

_AS_NUMBER: Final = frozenset({"cpu", "detach", "float", "item", "numpy"})


def losses_per_sample(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The divisions in a file of such sums. `other` is the line of the loop."""
    values = assigned_values(scopes)
    for scope in scopes:
        for loop in scope.nodes:
            if not isinstance(loop, (ast.For, ast.AsyncFor)):
                continue
            sums = _sums(loop, values)
            for line, names, divisor in divisions_after(sums, loop, scope) if sums else ():
                if _is_number_of_samples(divisor, loop, scope, values):
                    yield Pattern(PER_SAMPLE, line, names, loop.lineno)


def _sums(loop: ast.For | ast.AsyncFor, values: Mapping[str, Sequence[ast.expr]]) -> list[str]:
    """The variables to which a loop adds nothing but the averages of batches."""
    inside = nodes_within(loop)
    assigned: dict[str, list[ast.expr]] = {}
    changed: set[str] = set()
    for node in inside:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            changed.add(node.target.id)
    added: dict[str, bool] = {}
    for node in inside:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            value: ast.expr = _as_tensor(node.value)
            if isinstance(value, ast.Name) and value.id not in changed and len(assigned.get(value.id, ())) == 1:
                value = assigned[value.id][0]
            is_mean = isinstance(node.op, ast.Add) and node.target.id not in assigned and _is_mean(value, values)
            added[node.target.id] = added.get(node.target.id, True) and is_mean
    return [name for name, is_mean in added.items() if is_mean]


def _as_tensor(value: ast.expr) -> ast.expr:
    """An expression without what turns it into a number: `loss` of `loss.detach().item()` and `float(loss)`."""
    while isinstance(value, ast.Call) and last_name(value.func) in _AS_NUMBER:
        if isinstance(value.func, ast.Attribute) and not value.args:
            value = value.func.value
        elif isinstance(value.func, ast.Name) and len(value.args) == 1:
            value = value.args[0]
        else:
            break
    return value


def _is_mean(value: ast.expr, values: Mapping[str, Sequence[ast.expr]]) -> bool:
    """Whether an expression is a loss of torch that is averaged over a batch, or a sum of several."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _is_mean(value.left, values) and _is_mean(value.right, values)
    return isinstance(value, ast.Call) and is_loss(value, values, is_averaged=True)


def _is_number_of_samples(
    divisor: ast.expr, loop: ast.For | ast.AsyncFor, scope: Scope, values: Mapping[str, Sequence[ast.expr]]
) -> bool:
    """Whether a divisor is the number of samples that a loop goes through, or a variable that it adds them up in."""
    source = iterated_by(loop)
    text = ast.unparse(divisor)
    if text == f"len({ast.unparse(source)}.dataset)" or text in _lengths_of_sets(last_name(source), values):
        return True
    if not isinstance(divisor, ast.Name) or not scope.is_zero_before(divisor.id, loop.lineno):
        return False
    adding = [
        node
        for node in nodes_within(loop)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == divisor.id
    ]
    return len(adding) == 1 and isinstance(adding[0].op, ast.Add) and _is_size(adding[0].value)


def _lengths_of_sets(loader: str, values: Mapping[str, Sequence[ast.expr]]) -> set[str]:
    """The length of the data set of a loader that is created once in the file."""
    made = values.get(loader, ())
    if len(made) != 1 or not isinstance(made[0], ast.Call) or last_name(made[0].func) != "DataLoader":
        return set()
    return {f"len({ast.unparse(each)})" for each in made[0].args[:1]}


def _is_size(value: ast.expr) -> bool:
    """Whether an expression is the size of a batch: `len(y)`, `y.size(0)` or `y.shape[0]`."""
    if isinstance(value, ast.Call):
        is_first = ast.unparse(value.args[0]) == "0" if len(value.args) == 1 else False
        is_length = isinstance(value.func, ast.Name) and value.func.id == "len"
        return is_length or (last_name(value.func) == "size" and is_first)
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Attribute):
        return value.value.attr == "shape" and ast.unparse(value.slice) == "0"
    return False
