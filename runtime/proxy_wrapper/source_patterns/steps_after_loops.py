"""Finds steps of optimizers that follow the loop over batches, instead of being in it.

for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
optimizer.step()                                # one step per epoch, for the last batch
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

STEP_AFTER: Final = "step-after-loop"

_USUAL: Final = frozenset(
    {"zero_grad", "requires_grad", "requires_grad_", "no_grad", "enable_grad", "set_grad_enabled", "is_grad_enabled"}
)
"""Names that do not read or replace a gradient."""


_SCHEDULER: Final = "sched"


def steps_after_loops(scope: Scope) -> Iterator[Pattern]:
    """The steps after loops of a scope that clear gradients in each pass. `other` is the line of the loop."""
    for node in scope.nodes:
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield from _in_block(block)


def _in_block(block: list[ast.stmt]) -> Iterator[Pattern]:
    for index, loop in enumerate(block):
        if isinstance(loop, (ast.For, ast.AsyncFor)) and _only_clears(loop):
            for statement in block[index + 1 :]:
                if stepped := _stepped(statement):
                    yield Pattern(STEP_AFTER, statement.lineno, (stepped,), loop.lineno)


def _only_clears(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop clears gradients and goes backward, and does nothing else with gradients, or a step."""
    inside = nodes_within(loop)
    called = {last_name(node.func) for node in inside if isinstance(node, ast.Call)}
    named = {node.id for node in inside if isinstance(node, ast.Name)}
    named |= {node.attr for node in inside if isinstance(node, ast.Attribute)}
    is_plain = not any("grad" in name.lower() for name in named - _USUAL)
    return {"zero_grad", "backward"} <= called and "step" not in called and is_plain


def _stepped(statement: ast.stmt) -> str:
    """What a statement steps, such as `optimizer`; "" if it does something else."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return ""
    stepped = ast.unparse(call.func.value)
    return "" if _SCHEDULER in stepped.lower() else stepped
