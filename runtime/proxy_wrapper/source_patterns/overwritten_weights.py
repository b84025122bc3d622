"""Finds models whose weights are loaded, and then drawn anew before anything has used them.

`net.load_state_dict(...)` followed by `net.apply(init_weights)` trains from scratch.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.parsed_functions import statements_of
from proxy_wrapper.program_code.syntax import last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OVERWRITTEN: Final = "weights-overwritten"

_LAYERS: Final = frozenset({"Conv1d", "Conv2d", "Conv3d"})
"""Layers of which models have many. The only linear layer of many a model is a new head, drawn anew on purpose."""
_LEAVING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_DRAWS: Final = frozenset(
    {
        *("normal_", "uniform_", "trunc_normal_", "xavier_normal_", "xavier_uniform_", "orthogonal_"),
        *("kaiming_normal_", "kaiming_uniform_", "reset_parameters"),
    }
)


def overwritten_weights(tree: ast.Module) -> Iterator[Pattern]:
    """The calls of `apply` that draw the weights of a model anew, right after it has loaded some. `other` loads them.

    Right after: the statements between do not mention the model. The function that is applied must draw weights of
    convolutions.
    """
    functions = {node.name: node for node in statements_of(tree) if isinstance(node, ast.FunctionDef)}
    drawing = {name for name, function in functions.items() if _draws(function)}
    if drawing:
        for block in (tree.body, *(each.body for each in functions.values())):
            found: list[Pattern] = []
            _follow(block, {}, drawing, found)
            yield from found


def _follow(block: Sequence[ast.stmt], loaded: dict[str, int], drawing: set[str], found: list[Pattern]) -> None:
    """Add to `found` what a block overwrites.

    Args:
        block: the statements.
        loaded: the models that have loaded weights before, each with the line; changed to those after the block.
        drawing: the functions that draw weights.
        found: the patterns.
    """
    for statement in block:
        mentioned = {ast.unparse(each) for each in ast.walk(statement) if isinstance(each, (ast.Name, ast.Attribute))}
        if isinstance(statement, ast.If):
            for name in mentioned & loaded.keys():
                del loaded[name]
            for branch in (statement.body, statement.orelse):
                inside: dict[str, int] = {}  # A condition may tell whether weights have been loaded.
                _follow(branch, inside, drawing, found)
                if branch and not isinstance(branch[-1], _LEAVING):
                    loaded.update(inside)
            continue
        call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        method = call.func if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        model = "" if method is None else ast.unparse(method.value)
        if isinstance(call, ast.Call) and method is not None and method.attr == "apply" and model in loaded:
            arguments = [last_name(each) for each in call.args]
            if arguments[:1] and arguments[0] in drawing:
                found.append(Pattern(OVERWRITTEN, statement.lineno, (model,), loaded[model]))
        for name in mentioned & loaded.keys():
            del loaded[name]
        if method is not None and method.attr == "load_state_dict":
            loaded[model] = statement.lineno


def _draws(function: ast.FunctionDef) -> bool:
    """Whether a function draws weights, and names convolutions."""
    names = {last_name(each) for each in ast.walk(function) if isinstance(each, (ast.Name, ast.Attribute))}
    return not names.isdisjoint(_LAYERS) and not names.isdisjoint(_DRAWS)
