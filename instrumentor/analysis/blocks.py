"""Which parts of a function run whenever another does."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from instrumentor.resolve.units import Unit

# From the outermost condition inwards: which branch of which node an expression lies in.
Conditions = tuple[tuple[int, str], ...]

# The contexts that end exceptions, by the last part of their names.
_SUPPRESSING = frozenset({"suppress", "raises", "assertRaises"})

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module, ast.ClassDef)
_CONDITIONAL_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.Try: ("body", "handlers", "orelse"),
    ast.match_case: ("body",),
    ast.IfExp: ("body", "orelse"),
    ast.ListComp: ("elt",),
    ast.SetComp: ("elt",),
    ast.GeneratorExp: ("elt",),
    ast.DictComp: ("key", "value"),
}


def conditions_of(unit: Unit, node: ast.AST) -> Conditions:
    """The conditions under which `node` runs once its function does."""
    found: list[tuple[int, str]] = []
    child = node
    while not isinstance(child, _SCOPES) or child is node:
        parent = unit.parents.get(child)
        if parent is None:
            break
        if isinstance(parent, ast.BoolOp):
            if child is not parent.values[0]:
                found.append((id(parent), "values"))
        elif isinstance(parent, (ast.With, ast.AsyncWith)):
            if child in parent.body and any(_may_end_early(item.context_expr) for item in parent.items):
                found.append((id(parent), "body"))
        else:
            found.extend(
                (id(parent), field)
                for field in _CONDITIONAL_FIELDS.get(type(parent), ())
                if _holds(getattr(parent, field), child)
            )
        child = parent
    return tuple(reversed(found))


def always_follows(later: Conditions, earlier: Conditions) -> bool:
    """Whether code under the conditions `later` runs whenever code under `earlier` has run before it.

    Exceptions and early exits aside: where they happen, what was made is not used the way it was meant to be.
    """
    return earlier[: len(later)] == later


def is_in_loop(unit: Unit, node: ast.AST) -> bool:
    """Whether code runs again and again in its function."""
    while node in unit.parents and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        above = unit.parents[node]
        if isinstance(above, _LOOPS) and node is not getattr(above, "iter", None):
            return True
        if isinstance(above, ast.comprehension) and node is not above.iter:
            return True
        if isinstance(above, _COMPREHENSIONS) and node is not above.generators[0]:
            return True
        node = above
    return False


def statement_of(unit: Unit, node: ast.AST) -> ast.stmt:
    """The innermost statement that `node` is part of."""
    while not isinstance(node, ast.stmt):
        node = unit.parents[node]
    return node


def _may_end_early(context: ast.expr) -> bool:
    """Whether a context is there to end exceptions, so that the rest of its block is skipped."""
    maker = context.func if isinstance(context, ast.Call) else context
    return (maker.attr if isinstance(maker, ast.Attribute) else getattr(maker, "id", "")) in _SUPPRESSING


def _holds(field: object, child: ast.AST) -> bool:
    return any(each is child for each in field) if isinstance(field, list) else field is child
