"""Finds losses whose target is a noise of its own, while the model gets an input with another noise.

noise = torch.randn_like(x)
noisy = add_noise(x, t)                         # draws its own noise: `noise` is not passed
loss = F.mse_loss(model(noisy, t), noise)       # and nothing else reads `noise`
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name, names_in, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

UNADDED: Final = "noise-unadded"

_DRAWS: Final = frozenset({"randn_like", "randn"})
_LOSSES: Final = re.compile(r"\w*(loss|mse|l1|huber|criterion)\w*", re.IGNORECASE)


def unadded_noise(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that draw such targets, with their names. `other` is the line that computes the input."""
    drawers = {scope.name for scope in scopes if scope.name and any(map(_drawn_for, scope.calls))}
    for scope in scopes:
        for target, value in scope.assignments if not _DRAWS.isdisjoint(scope.words) else ():
            of = _drawn_for(value) if isinstance(value, ast.Call) else ""
            if not (of and isinstance(target, ast.Name) and len(scope.stores(target.id)) == 1):
                continue
            uses = [each for each in scope.nodes if isinstance(each, ast.Name) and each.id == target.id]
            losses = [call for call in scope.calls if _compares(call, target.id)]
            if len(uses) == 2 and len(losses) == 1 and _are_in_one_loop(value, losses[0], scope):
                line = _line_of_input(losses[0], of, scope, drawers)
                if line:
                    yield Pattern(UNADDED, target.lineno, (target.id,), line)


def _drawn_for(call: ast.Call) -> str:
    """The variable with whose shape a call draws noise; "" if it is no such call."""
    if last_name(call.func) not in _DRAWS or not call.args:
        return ""
    given = call.args[0].value if isinstance(call.args[0], ast.Starred) else call.args[0]
    if isinstance(given, ast.Attribute) and given.attr == "shape":
        given = given.value
    return given.id if isinstance(given, ast.Name) else ""


def _compares(call: ast.Call, name: str) -> bool:
    """Whether a call is a loss one of whose arguments is a variable."""
    given = [*call.args, *(each.value for each in call.keywords)]
    return _LOSSES.fullmatch(last_name(call.func)) is not None and any(
        isinstance(each, ast.Name) and each.id == name for each in given
    )


def _are_in_one_loop(draw: ast.expr, loss: ast.Call, scope: Scope) -> bool:
    """Whether each pass that computes a loss draws anew."""
    loops = (set(nodes_within(node)) for node in scope.nodes if isinstance(node, (ast.For, ast.While)))
    return all(draw in inside for inside in loops if loss in inside)


def _line_of_input(loss: ast.Call, of: str, scope: Scope, drawers: set[str]) -> int:
    """The line that computes the input of the model whose output a loss compares, if it draws noise of its own; or 0.

    The noise is for the same variable `of`: in the expression itself, or in a function of the file that is given it.
    """
    made = {target.id: value for target, value in scope.assignments if isinstance(target, ast.Name)}
    made |= {
        target.elts[0].id: value
        for target, value in scope.assignments
        if isinstance(target, ast.Tuple) and target.elts and isinstance(target.elts[0], ast.Name)
    }
    outputs = [made[each.id] if isinstance(each, ast.Name) and each.id in made else each for each in loss.args]
    for output in outputs:
        for given in output.args if isinstance(output, ast.Call) else ():
            value = made.get(given.id) if isinstance(given, ast.Name) else given
            for call in [value, *nodes_within(value)] if value is not None else ():
                if isinstance(call, ast.Call):
                    is_drawer = last_name(call.func) in drawers and any(of in names_in(each) for each in call.args)
                    if is_drawer or _drawn_for(call) == of:
                        return call.lineno
    return 0
