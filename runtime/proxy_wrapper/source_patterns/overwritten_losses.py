"""Finds losses that are overwritten before anything reads them.

loss = age_criterion(age, true_age)
loss = gender_criterion(gender, true_gender)            # where loss += was meant
loss.backward()

Or a loop over tasks assigns the loss of each to a variable that was 0 before it, and so keeps that of the last one.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import names_in
from proxy_wrapper.source_patterns.loss_values import assigned_values, is_loss
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxy_wrapper.program_code.syntax import Scope

LOSS_OVERWRITTEN: Final = "loss-overwritten"

_ZEROS: Final = frozenset({"0", "0.0"})
_LEAVES: Final = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)


def overwritten_losses(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that overwrite a loss. `other` is the line that computed it."""
    values = assigned_values(scopes)
    for scope in scopes:
        for block in _blocks(scope):
            yield from _overwritten(block, values)
            yield from _kept_of_last(block, values)


def _blocks(scope: Scope) -> Iterator[Sequence[ast.stmt]]:
    """The lists of statements in a scope, without the outermost one."""
    for node in scope.nodes:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def _overwritten(block: Sequence[ast.stmt], values: Mapping[str, Sequence[ast.expr]]) -> Iterator[Pattern]:
    """The losses that a statement computes and a later one of the same block overwrites."""
    unread: dict[str, ast.Assign] = {}
    for statement in block:
        target = _assigned(statement, values)
        read = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name)}
        if isinstance(statement, ast.Assign) and target:
            before = unread.get(target)
            is_read = target in names_in(statement.value)
            if before is not None and not is_read and ast.unparse(before.value) != ast.unparse(statement.value):
                yield Pattern(LOSS_OVERWRITTEN, statement.lineno, (target,), before.lineno)
        if any(isinstance(each, _LEAVES) for each in ast.walk(statement)):
            unread.clear()
        for name in read:
            unread.pop(name, None)
        if isinstance(statement, ast.Assign) and target:
            unread[target] = statement


def _kept_of_last(block: Sequence[ast.stmt], values: Mapping[str, Sequence[ast.expr]]) -> Iterator[Pattern]:
    """The losses that each pass of a loop overwrites, although the block began a sum with 0 right before the loop."""
    for start, loop in pairwise(block):
        if not isinstance(loop, ast.For) or not isinstance(start, ast.Assign) or ast.unparse(start.value) not in _ZEROS:
            continue
        if any(isinstance(each, _LEAVES) for each in ast.walk(loop)):
            continue
        begun = ast.unparse(start.targets[-1])
        own = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
        mentioned = [each.id for each in ast.walk(loop) if isinstance(each, ast.Name)]
        for statement in loop.body:
            if not isinstance(statement, ast.Assign) or _assigned(statement, values) != begun:
                continue
            if mentioned.count(begun) == 1 and own & names_in(statement.value):
                yield Pattern(LOSS_OVERWRITTEN, statement.lineno, (begun,), statement.lineno)


def _assigned(statement: ast.stmt, values: Mapping[str, Sequence[ast.expr]]) -> str:
    """The variable that a statement assigns a loss to; "" if it does something else."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    (target,), value = statement.targets, statement.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Call) or not is_loss(value, values):
        return ""
    return target.id
