"""Finds targets of Q-learning that look past the end of an episode.

dones = torch.tensor(batch.done)                # and nothing reads `dones`
target = rewards + gamma * next_values          # where next_values * (1 - dones) was meant
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import names_in
from proxy_wrapper.source_patterns.data_roles import words_of
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

ENDS_UNREAD: Final = "ends-unread"

_ENDS: Final = frozenset({"done", "dones", "terminal", "terminals", "terminated", "terminateds", "nonterminal"})
_REWARDS: Final = frozenset({"r", "reward", "rewards"})
_DISCOUNTS: Final = frozenset({"gamma", "discount"})


def unread_ends(scope: Scope) -> Iterator[Pattern]:
    """The targets of a function that computes which episodes have ended, and never reads it. `other` is that line."""
    found = [
        (target, value)
        for target, value in scope.assignments
        if isinstance(target, ast.Name)
        and isinstance(value, (ast.Call, ast.BinOp))
        and not _ENDS.isdisjoint(words_of(target.id))
    ]
    # `dones = torch.tensor(dones)` reads them without any effect.
    own = {
        node
        for target, value in found
        for node in ast.walk(value)
        if isinstance(node, ast.Name) and node.id == target.id
    }
    names = (node for node in scope.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    if not found or any(_is_end(node.id) for node in names if node not in own):
        return
    (end, _), *_ = found
    for node in scope.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_target(node):
            yield Pattern(ENDS_UNREAD, node.lineno, (ast.unparse(node), end.id), end.lineno)


def _is_end(name: str) -> bool:
    """Whether a variable may tell which episodes have ended: also a mask, or the states that are not final."""
    words = frozenset(words_of(name))
    return not words.isdisjoint(_ENDS) or any(word in name.lower() for word in ("mask", "final", "done", "end"))


def _is_target(node: ast.BinOp) -> bool:
    """Whether an expression is a reward and a discounted value."""
    for reward, value in ((node.left, node.right), (node.right, node.left)):
        is_discounted = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult) and _mentions(value, _DISCOUNTS)
        if is_discounted and _mentions(reward, _REWARDS):
            return True
    return False


def _mentions(value: ast.expr, words: frozenset[str]) -> bool:
    """Whether a variable or an attribute in an expression has one of some words in its name."""
    attributes = {each.attr for each in ast.walk(value) if isinstance(each, ast.Attribute)}
    return any(not words.isdisjoint(words_of(name)) for name in names_in(value) | attributes)
