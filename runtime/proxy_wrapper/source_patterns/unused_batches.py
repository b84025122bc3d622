"""Finds training loops that never use the batches that they go through.

x, y = next(iter(loader))                       # for a look at the shapes
for xb, yb in loader:
    criterion(model(x), y).backward()           # so each step sees the same batch
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import iterated_by, last_name, names_in, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

BATCH_UNUSED: Final = "batch-unused"

_STEPS: Final = frozenset({"range", "trange", "count", "repeat"})
"""What a loop over steps goes through."""
_LOADERS: Final = ("loader", "batches")


def unused_batches(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The loops of a file that compute gradients and read no part of their batch. `names` has the parts."""
    for scope in scopes:
        for loop in scope.nodes:
            if isinstance(loop, ast.For) and _computes_gradients(loop):
                parts = _parts(loop)
                if parts and _has_batches(loop, scope) and not _are_read(parts, loop, scopes):
                    yield Pattern(BATCH_UNUSED, loop.lineno, tuple(parts))
                    return


def _computes_gradients(loop: ast.For) -> bool:
    """Whether a loop has a backward pass that no loop inside it makes."""
    inner = {id(each) for inside in nodes_within(loop) if isinstance(inside, ast.For) for each in nodes_within(inside)}
    return any(
        isinstance(node, ast.Call) and last_name(node.func) == "backward" and id(node) not in inner
        for node in nodes_within(loop)
    )


def _parts(loop: ast.For) -> list[str]:
    """The variables for the batch, without that of `enumerate`; none if one has no name, or is meant to be unused."""
    target = loop.target
    if isinstance(target, ast.Tuple) and isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "enumerate":
        target = target.elts[-1]
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    names = [each.id for each in parts if isinstance(each, ast.Name)]
    is_named = len(names) == len(parts) and not any(name.startswith("_") for name in names)
    return names if is_named else []


def _has_batches(loop: ast.For, scope: Scope) -> bool:
    """Whether a loop surely goes through data, not through steps or epochs."""
    iterated = iterated_by(loop)
    source = scope.resolved(iterated)
    made = last_name(source.func) if isinstance(source, ast.Call) else ""
    return made not in _STEPS and any(each in name.lower() for name in (last_name(iterated), made) for each in _LOADERS)


def _are_read(parts: Sequence[str], loop: ast.For, scopes: Sequence[Scope]) -> bool:
    """Whether the loop, or a function that can see its variables, reads a part of the batch."""
    read = {name for statement in loop.body for name in names_in(statement)}
    read |= {
        name
        for scope in scopes
        if isinstance(scope.root, (ast.FunctionDef, ast.AsyncFunctionDef)) and loop not in scope.nodes
        for name in names_in(scope.root) - _own(scope.root)
    }
    return not read.isdisjoint(parts)


def _own(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The variables that a function assigns, or has as arguments."""
    nodes = [*ast.walk(function)]
    given = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return given | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
