"""Finds losses of actors that lower the values of their actions.

critic_loss = F.mse_loss(critic(state, action), reward + discount * next_value)
actor_loss = critic(state, actor(state)).mean()     # and `actor_loss.backward()`

The critic learns rewards, by their name, so its values are to be raised.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

LOWERED: Final = "values-lowered"

_ERRORS: Final = re.compile(r"mse_loss|smooth_l1_loss|huber_loss|mse|\w*criterion\w*|\w*loss_fn|MSELoss")
_REWARD: Final = re.compile(r"reward", re.IGNORECASE)
_OTHERWISE: Final = re.compile(r"cost|penalt|advers|attack|worst|regret", re.IGNORECASE)
"""Names of what is to be lowered, or of those who mean to lower values."""
_FARTHEST: Final = 4
_CALLS: Final = frozenset({"forward", "Q1", "q1", "Q", "q"})
_JOINS: Final = frozenset({"cat", "concat", "hstack"})
_SHAPES: Final = frozenset({"squeeze", "view", "flatten", "reshape", "detach"})


def lowered_values(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that compute such losses, with their names."""
    for scope in scopes:
        if "backward" not in scope.words:
            continue
        beside = [each for each in scopes if each is scope or (scope.owner is not None and each.owner is scope.owner)]
        critics = {critic for each in beside for critic in _critics_of_rewards(each)}
        for target, value in scope.assignments:
            call = _mean_of_call(value, scope) if isinstance(target, ast.Name) else None
            if call is None or not isinstance(target, ast.Name) or _model_of(call) not in critics:
                continue
            words = " ".join([scope.name, target.id, ast.unparse(call)])
            is_once = len(scope.stores(target.id)) == 1 and _goes_backward(target.id, scope)
            if is_once and _acts(call, scope) and not _OTHERWISE.search(words):
                yield Pattern(LOWERED, target.lineno, (target.id,))


def _critics_of_rewards(scope: Scope) -> Iterator[str]:
    """The models whose outputs a scope compares with rewards that are neither negated nor called costs."""
    for call in scope.calls:
        if len(call.args) < 2 or not _ERRORS.fullmatch(last_name(call.func)):
            continue
        output, target = call.args[:2]
        made = _resolved(output, scope)
        if isinstance(made, ast.Call) and _rewards(target, scope, _FARTHEST) == {True}:
            yield _model_of(made)


def _rewards(value: ast.expr, scope: Scope, farthest: int) -> set[bool]:
    """The signs with which rewards are part of a value, whether positive; both if other things are to be lowered."""
    signs: set[bool] = set()
    pending = [(value, True)]
    for node, is_positive in pending:
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = last_name(node)
            if _OTHERWISE.search(name):
                return {True, False}
            if _REWARD.search(name):
                signs.add(is_positive)
                continue
            others = [other for target, other in scope.assignments if ast.unparse(target) == ast.unparse(node)]
            for other in others if farthest else ():
                signs |= {found == is_positive for found in _rewards(other, scope, farthest - 1)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            pending.append((node.operand, not is_positive))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            pending += [(node.left, is_positive), (node.right, not is_positive)]
        elif not isinstance(node, ast.Name):
            pending += [(each, is_positive) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
    return signs


def _mean_of_call(value: ast.expr, scope: Scope) -> ast.Call | None:
    """The call of which a value is the mean, as it is; None for other values."""
    if not isinstance(value, ast.Call) or last_name(value.func) != "mean":
        return None
    inner = value.args[0] if value.args else value.func.value if isinstance(value.func, ast.Attribute) else None
    found = None if inner is None else _resolved(inner, scope)
    return found if isinstance(found, ast.Call) else None


def _resolved(value: ast.expr, scope: Scope) -> ast.expr:
    """What a variable that is assigned once is assigned, without changes of its shape; else the value itself."""
    for _ in range(_FARTHEST):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SHAPES:
            value = value.func.value
        elif isinstance(value, ast.Name):
            found = [other for target, other in scope.assignments if value.id in _names_of(target)]
            if len(found) != 1:
                return value
            (value,) = found
        else:
            break
    return value


def _names_of(target: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def _model_of(call: ast.Call) -> str:
    """The expression of the model that a call calls: `self.critic` of `self.critic.Q1(state, action)`."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in _CALLS:
        function = function.value
    return ast.unparse(function)


def _acts(call: ast.Call, scope: Scope) -> bool:
    """Whether an argument of a critic is what another model puts out."""
    given = [_resolved(each, scope) for each in call.args]
    joined = (
        given[0].args[:1] if given and isinstance(given[0], ast.Call) and last_name(given[0].func) in _JOINS else []
    )
    for each in joined:
        given = [_resolved(part, scope) for part in each.elts] if isinstance(each, (ast.List, ast.Tuple)) else given
    return any(isinstance(each, ast.Call) and _model_of(each) != _model_of(call) for each in given[1:])


def _goes_backward(name: str, scope: Scope) -> bool:
    return any(
        last_name(call.func) == "backward"
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == name
        for call in scope.calls
    )
