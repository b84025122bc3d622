"""Finds discounted returns that are in another order than the steps of their episode.

for reward in reversed(rewards):
    total = reward + gamma * total
    returns.append(total)           # and nothing in the file reverses `returns`, or inserts at its beginning

Without `reversed`, each return adds up the rewards before its step, instead of those after it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name, nodes_within
from proxy_wrapper.source_patterns.data_roles import words_of
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

BACKWARDS: Final = "returns-backwards"
FORWARDS: Final = "returns-forwards"

_REWARDS: Final = frozenset({"reward", "rewards", "rews"})
_DISCOUNTS: Final = frozenset({"gamma", "discount"})
_REVERSING: Final = frozenset({"reversed", "reverse", "flip", "flipud", "insert", "appendleft"})
_LOG_PROBABILITIES: Final = re.compile(r"log_?p(rob|i|a|s|$)", re.IGNORECASE)


def misordered_returns(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that append returns in reverse, or begin to add them up at the first reward.

    Only files with log-probabilities count, which returns are to be multiplied by. `names` has the list.
    """
    if not any(_LOG_PROBABILITIES.search(word) for scope in scopes for word in scope.words):
        return
    reversals = sum(_is_reversal(node) for scope in scopes for node in scope.nodes)
    for scope in scopes:
        for loop in scope.nodes:
            if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
                continue
            rewards = _reversed(loop.iter)
            appended = _appended_return(loop, loop.target.id) if _are_rewards(rewards or loop.iter) else None
            if appended is not None and reversals == (rewards is not None):
                what, line = (BACKWARDS, appended.lineno) if rewards is not None else (FORWARDS, loop.lineno)
                yield Pattern(what, line, (ast.unparse(appended.value),))


def _is_reversal(node: ast.AST) -> bool:
    """Whether a node reverses something, or builds a list from its end."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in _REVERSING and ast.unparse(node.func) != "sys.path.insert"
    step = node.step if isinstance(node, ast.Slice) else None
    return isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)


def _reversed(value: ast.expr) -> ast.expr | None:
    """What an expression gives in reverse; None if it is no such expression."""
    if isinstance(value, ast.Call) and last_name(value.func) == "reversed" and value.args:
        return value.args[0]
    return value.value if isinstance(value, ast.Subscript) and _is_reversal(value.slice) else None


def _are_rewards(value: ast.expr) -> bool:
    return isinstance(value, (ast.Name, ast.Attribute)) and not _REWARDS.isdisjoint(words_of(last_name(value)))


def _appended_return(loop: ast.For, reward: str) -> ast.Attribute | None:
    """The `append` of what a loop adds up, a reward plus the discounted sum so far; None if not exactly one."""
    nodes = nodes_within(loop)
    sums = {
        ast.unparse(node.targets[0])
        for node in nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _adds_up(node.targets[0], node.value, reward)
    }
    calls = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "append" and node.args]
    found = [call.func for call in calls if isinstance(call.func, ast.Attribute) and ast.unparse(call.args[0]) in sums]
    return found[0] if len(found) == 1 else None


def _adds_up(target: ast.expr, value: ast.expr, reward: str) -> bool:
    """Whether an expression is `reward` plus a discount times the target."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    for one, other in ((value.left, value.right), (value.right, value.left)):
        if isinstance(one, ast.Name) and one.id == reward and isinstance(other, ast.BinOp):
            factors = [other.left, other.right]
            is_discounted = any(
                isinstance(each, (ast.Name, ast.Attribute)) and not _DISCOUNTS.isdisjoint(words_of(last_name(each)))
                for each in factors
            )
            is_of_target = any(ast.unparse(each) == ast.unparse(target) for each in factors)
            return isinstance(other.op, ast.Mult) and is_discounted and is_of_target
    return False
