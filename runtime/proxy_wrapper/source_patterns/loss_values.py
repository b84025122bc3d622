"""Tells which expressions compute a loss of torch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy_wrapper.program_code.syntax import Scope

_FUNCTIONS: Final = frozenset(
    {
        *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "l1_loss"),
        *("mse_loss", "nll_loss", "smooth_l1_loss"),
    }
)
_CLASSES: Final = frozenset(
    {"BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "L1Loss", "MSELoss", "NLLLoss", "SmoothL1Loss"}
)
_REDUCES: Final = frozenset({"reduce", "reduction", "size_average"})


def assigned_values(scopes: Sequence[Scope]) -> dict[str, list[ast.expr]]:
    """What a file assigns to its variables, by their names, and to attributes, by the names of these alone."""
    values: dict[str, list[ast.expr]] = {}
    for scope in scopes:
        for target, value in scope.assignments:
            if name := last_name(target):
                values.setdefault(name, []).append(value)
    return values


def is_loss(call: ast.Call, values: Mapping[str, Sequence[ast.expr]], *, is_averaged: bool = False) -> bool:
    """Whether a call computes a loss, by a function of torch or by modules that the file creates.

    Args:
        call: such as `F.mse_loss(...)`, or `criterion(...)`.
        values: what the file assigns to its variables.
        is_averaged: the loss must also be averaged over the batch: the default, with no argument for it.
    """
    name = last_name(call.func)
    if name in _FUNCTIONS and isinstance(call.func, ast.Attribute):
        return not is_averaged or _is_default(call)
    made = [value for value in values.get(name, ()) if last_name(value) != name]
    return bool(made) and all(
        isinstance(value, ast.Call)
        and last_name(value.func) in _CLASSES
        and (not is_averaged or (_is_default(value) and not value.args))
        for value in made
    )


def _is_default(call: ast.Call) -> bool:
    """Whether a call leaves out how its losses are reduced."""
    return all(each.arg is not None and each.arg not in _REDUCES for each in call.keywords)
