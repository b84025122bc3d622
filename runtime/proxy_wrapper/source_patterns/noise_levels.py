"""Finds diffusion models that add the noise of one step to a clean sample, instead of that of all steps so far.

alpha_bars = torch.cumprod(alphas, dim=0)
a = alphas[t].view(-1, 1)
noisy = a.sqrt() * x + (1 - a).sqrt() * noise       # alpha_bars[t] was meant
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import is_variable, last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

OF_ONE_STEP: Final = "noise-of-one-step"

_RESHAPING: Final = frozenset({"unsqueeze", "view", "reshape", "expand", "to", "float", "gather", "index_select"})
_TAKING: Final = frozenset({"extract", "_extract", "get_index_from_list", "gather"})
"""Functions that take the items of their first argument at some steps."""
_DRAWS: Final = frozenset({"randn", "randn_like", "normal"})
_NOISE: Final = ("noise", "eps")
_FARTHEST: Final = 4


class _Factor(NamedTuple):
    """The square root of a level, or of what is missing to 1, and what it multiplies."""

    level: str
    is_rest: bool
    of: ast.expr


def noise_levels(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that mix a sample and a noise by a level whose cumulative product the file computes.

    `names` has the level. A line that overwrites the sample does not count: step by step, each level is for one step.
    """
    multiplied = {name for scope in scopes for call in scope.calls if (name := _multiplied(call, scope))}
    for scope in scopes if multiplied else ():
        around = [each for each in scopes if each.owner is scope.owner or each.owner is None]
        overwritten = {
            id(value): ast.unparse(target) for target, value in scope.assignments if isinstance(value, ast.BinOp)
        }
        for node in scope.nodes:
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
                continue
            factors = [_factor(each, scope, around, multiplied) for each in (node.left, node.right)]
            levels = sorted((each for each in factors if each is not None), key=lambda each: each.is_rest)
            if len(levels) != 2 or [each.is_rest for each in levels] != [False, True]:
                continue
            sample, noise = levels
            is_overwritten = overwritten.get(id(node)) == ast.unparse(sample.of)
            if sample.level == noise.level and _is_noise(noise.of, scope) and not is_overwritten:
                yield Pattern(OF_ONE_STEP, node.lineno, (sample.level,))


def _multiplied(call: ast.Call, scope: Scope) -> str:
    """The variable whose cumulative product a call computes; "" if it is no such call."""
    if last_name(call.func) != "cumprod" or not isinstance(call.func, ast.Attribute):
        return ""
    owner = call.func.value
    of = (call.args[0] if call.args else None) if scope.module_of(owner) else owner
    return ast.unparse(of) if of is not None and is_variable(of) else ""


def _factor(value: ast.expr, scope: Scope, around: Sequence[Scope], multiplied: set[str]) -> _Factor | None:
    """The root of a level in a product, and the other factor; None if it has no such root."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
        return None
    for root, of in ((value.left, value.right), (value.right, value.left)):
        under = _under_root(root, scope)
        for _ in range(_FARTHEST):
            if under is not None:
                break
            root = scope.resolved(_taken(root, scope), around)  # noqa: PLW2901 - followed to what it stands for
            under = _under_root(_taken(root, scope), scope)
        if under is None:
            continue
        is_rest = (
            isinstance(under, ast.BinOp) and isinstance(under.op, ast.Sub) and ast.unparse(under.left) in ("1", "1.0")
        )
        level = under.right if is_rest and isinstance(under, ast.BinOp) else under
        for _ in range(_FARTHEST):
            level = _taken(level, scope)
            if ast.unparse(level) in multiplied:
                return _Factor(ast.unparse(level), is_rest, of)
            level = scope.resolved(level, around)
    return None


def _under_root(value: ast.expr, scope: Scope) -> ast.expr | None:
    """What an expression is the square root of; None if it is no square root."""
    value = _reshaped(value, scope)
    if isinstance(value, ast.Call) and last_name(value.func) == "sqrt" and isinstance(value.func, ast.Attribute):
        return value.args[0] if value.args else value.func.value
    is_power = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow) and ast.unparse(value.right) == "0.5"
    return value.left if is_power and isinstance(value, ast.BinOp) else None


def _taken(value: ast.expr, scope: Scope) -> ast.expr:
    """What an expression takes the items of at some steps, without changes of its shape."""
    for _ in range(_FARTHEST):
        value = _reshaped(value, scope)
        if isinstance(value, ast.Subscript):
            value = value.value
        elif isinstance(value, ast.Call) and last_name(value.func) in _TAKING and len(value.args) > 1:
            value = value.args[0]
    return value


def _reshaped(value: ast.expr, scope: Scope) -> ast.expr:
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in _RESHAPING
        and not scope.module_of(value.func.value)
    ):
        value = value.func.value
    return value


def _is_noise(value: ast.expr, scope: Scope) -> bool:
    """Whether a value is drawn from a normal distribution, or called noise."""
    drawn = scope.resolved(value)
    if isinstance(drawn, ast.Call) and last_name(drawn.func) in _DRAWS:
        return True
    return isinstance(value, ast.Name) and any(word in value.id.lower() for word in _NOISE)
