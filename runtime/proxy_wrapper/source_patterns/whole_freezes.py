"""Finds code that freezes all parameters of a model.

for parameter in model.parameters():
    parameter.requires_grad = False
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.source_patterns.pattern import Pattern
from proxy_wrapper.source_patterns.undone_freezes import model_of, sets_requires_grad

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

FROZEN: Final = "model-frozen"


def whole_freezes(scope: Scope) -> Iterator[Pattern]:
    """The lines of a function that do this, with the model."""
    if "requires_grad" not in scope.words and "requires_grad_" not in scope.words:
        return
    for node in scope.nodes:
        if isinstance(node, ast.For):
            model = model_of(node)
            line = next((each.lineno for each in node.body if sets_requires_grad(each) is False), 0)
            if model is not None and line:
                yield Pattern(FROZEN, line, (model,))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and sets_requires_grad(node) is False:
            of = node.value.func.value if isinstance(node.value.func, ast.Attribute) else node.value.func
            if not isinstance(of, ast.Name) or of.id not in _variables_of_loops(scope):
                yield Pattern(FROZEN, node.lineno, (ast.unparse(of),))


def _variables_of_loops(scope: Scope) -> set[str]:
    """The variables of loops over parameters: to freeze one of these is not to freeze a model."""
    loops = [node for node in scope.nodes if isinstance(node, ast.For) and model_of(node) is not None]
    return {each.id for loop in loops for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
