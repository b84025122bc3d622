"""Finds loops that unfreeze what the statements before them have frozen.

for name, parameter in model.named_parameters():
    if "backbone" in name:
        parameter.requires_grad = False
for parameter in model.parameters():                # and nothing trains in between
    parameter.requires_grad = True
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

UNDONE: Final = "freeze-undone"

_ALL: Final = frozenset({"parameters", "named_parameters"})
_REQUIRES: Final = "requires_grad"
_TRAINS: Final = re.compile(r".*(train|fit|epoch|step|backward|warm|run|loop).*", re.IGNORECASE)


def undone_freezes(scope: Scope) -> Iterator[Pattern]:
    """The lines of a function that unfreeze parameters in vain, with the model. `other` is the line that froze them."""
    if _REQUIRES not in scope.words:
        return
    for node in (scope.root, *scope.nodes):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list):
                yield from _of_block(block)


def _of_block(block: Sequence[ast.stmt]) -> Iterator[Pattern]:
    frozen: dict[str, int] = {}
    for statement in block:
        model = model_of(statement)
        if model is None:
            if _may_train(statement):
                frozen.clear()
            for name in [each for each in frozen if _uses(statement, each)]:
                del frozen[name]  # As where a generator's loss is computed with a discriminator that is frozen so long.
            continue
        inside = nodes_within(statement)
        freezes = [node.lineno for node in inside if isinstance(node, ast.stmt) and sets_requires_grad(node) is False]
        own = statement.body if isinstance(statement, ast.For) else []
        unfreezes = [each.lineno for each in own if sets_requires_grad(each) is True]
        before = [line for name, line in frozen.items() if name == model or name.startswith(f"{model}.")]
        if unfreezes and not freezes and before:
            yield Pattern(UNDONE, unfreezes[0], (model,), before[0])
        if freezes:
            frozen[model] = freezes[0]


def model_of(statement: ast.stmt) -> str | None:
    """The model whose parameters a loop goes through; None if the statement is no such loop."""
    iterated = statement.iter if isinstance(statement, ast.For) else None
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute) and iterated.func.attr in _ALL:
        return ast.unparse(iterated.func.value)
    return None


def sets_requires_grad(statement: ast.stmt) -> bool | None:
    """What a statement sets `requires_grad` to; None if it does not."""
    value: ast.expr | None = None
    if isinstance(statement, ast.Assign):
        targets = [each for each in statement.targets if isinstance(each, ast.Attribute) and each.attr == _REQUIRES]
        value = statement.value if targets else None
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        value = call.args[0] if last_name(call.func) == f"{_REQUIRES}_" and call.args else None
    constant = value.value if isinstance(value, ast.Constant) else None
    return constant if isinstance(constant, bool) else None


def _uses(statement: ast.stmt, model: str) -> bool:
    """Whether a statement calls a model, or what it is a part of, or passes it to a function."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    used = {
        ast.unparse(each) for call in calls for each in (call.func, *call.args, *(word.value for word in call.keywords))
    }
    return any(f"{model}.".startswith(f"{each}.") for each in used)


def _may_train(statement: ast.stmt) -> bool:
    """Whether a statement may train in between: it has a loop, or calls a function that is named so."""
    nodes = [statement, *nodes_within(statement)]
    return any(
        isinstance(node, (ast.For, ast.While))
        or (isinstance(node, ast.Call) and _TRAINS.fullmatch(last_name(node.func)) is not None)
        for node in nodes
    )
