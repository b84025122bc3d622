"""Finds loops over losses in which the gradients of each loss replace those of the one before.

for loss in losses:
    grads = torch.autograd.grad(loss, parameters, retain_graph=True)
    for parameter, grad in zip(parameters, grads):
        parameter.grad = grad                       # and no step in the loop
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name, names_in, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

OVERWRITTEN: Final = "gradient-overwritten"

_GRAD: Final = "grad"
_USES: Final = frozenset({"step", "clone", "append", "update", "accumulate", "zero_grad"})
"""Functions that may use or keep the gradients of one loss in the loop."""


def overwritten_gradients(scope: Scope) -> Iterator[Pattern]:
    """The lines of a function that assign a gradient, with what it is of. `other` is the line of the loop.

    All losses must be differentiated with respect to the same parameters.
    """
    if _GRAD not in scope.words:
        return
    for loop in scope.nodes:
        if not isinstance(loop, ast.For):
            continue
        inside = nodes_within(loop)
        names = [node for node in inside if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]
        stored = {each.id for each in names}
        calls = [node for node in inside if isinstance(node, ast.Call)]
        is_used = any(last_name(call.func) in _USES for call in calls)
        is_left = any(isinstance(node, (ast.Break, ast.Return, ast.Yield)) for node in inside)
        losses = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
        is_of_losses = any(_differentiates(call, losses, stored) for call in calls)
        if is_used or is_left or not is_of_losses or _reads_gradient(inside):
            continue
        for node in inside:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.Assign) and isinstance(target, ast.Attribute) and target.attr == _GRAD:
                is_of_parameter = isinstance(target.value, ast.Name) and target.value.id in stored
                if is_of_parameter and names_in(node.value) & stored:
                    yield Pattern(OVERWRITTEN, node.lineno, (ast.unparse(target),), loop.lineno)


def _differentiates(call: ast.Call, losses: set[str], stored: set[str]) -> bool:
    """Whether a call computes the gradients of what a loop goes through, for the same parameters in each pass."""
    if not isinstance(call.func, ast.Attribute) or not ast.unparse(call.func).endswith("autograd.grad"):
        return False
    given = [*call.args, *(each.value for each in call.keywords if each.arg in ("outputs", "inputs"))]
    if len(given) < 2:
        return False
    outputs, inputs = given[:2]
    return bool(names_in(outputs) & losses) and not names_in(inputs) & (stored | losses)


def _reads_gradient(nodes: list[ast.AST]) -> bool:
    """Whether any gradient is read, or added to: the new one may be added to the old one, or used."""
    attributes = (node for node in nodes if isinstance(node, ast.Attribute) and node.attr == _GRAD)
    is_added = any(
        isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute) and node.target.attr == _GRAD
        for node in nodes
    )
    return is_added or any(
        isinstance(each.ctx, ast.Load) and ast.unparse(each) not in ("torch.autograd.grad", "autograd.grad")
        for each in attributes
    )
