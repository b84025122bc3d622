"""Which parts of a function run whenever another does."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from instrumentor.resolve.units import Unit


class Condition(NamedTuple):
    """One branch of one node that code lies in.

    Attributes:
        node: the node's id.
        field: which of its branches.
        position: where something may end an exception further out, which of the branch's statements; None elsewhere.
        reach: the last of the statements that are begun whenever that one has run: nothing before it can raise.
        is_end: whether the end of the branch is reached whenever that one has run.
    """

    node: int
    field: str
    position: int | None = None
    reach: int = 0
    is_end: bool = True


# From the outermost condition inwards.
Conditions = tuple[Condition, ...]

# The contexts that end exceptions, by the last part of their names.
_SUPPRESSING = frozenset({"suppress", "raises", "assertRaises"})

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TRIES: tuple[type[ast.AST], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module, ast.ClassDef)
_CONDITIONAL_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    **dict.fromkeys(_TRIES, ("body", "handlers", "orelse")),
    ast.match_case: ("body",),
    ast.IfExp: ("body", "orelse"),
    ast.ListComp: ("elt",),
    ast.SetComp: ("elt",),
    ast.GeneratorExp: ("elt",),
    ast.DictComp: ("key", "value"),
}


def conditions_of(unit: Unit, node: ast.AST) -> Conditions:
    """The conditions under which `node` runs once its function does."""
    branches: list[tuple[ast.AST, str, ast.AST, bool]] = []
    caught = 0
    child = node
    while not isinstance(child, _SCOPES) or child is node:
        parent = unit.parents.get(child)
        if parent is None:
            break
        if isinstance(parent, ast.BoolOp):
            if child is not parent.values[0]:
                branches.append((parent, "values", child, True))
        elif isinstance(parent, (ast.With, ast.AsyncWith)):
            if child in parent.body:
                is_catching = any(_may_end_early(item.context_expr) for item in parent.items)
                branches.append((parent, "body", child, is_catching))
                caught = len(branches) if is_catching else caught
        else:
            for field in _CONDITIONAL_FIELDS.get(type(parent), ()):
                if _holds(getattr(parent, field), child):
                    branches.append((parent, field, child, True))
                    if isinstance(parent, _TRIES) and field == "body" and getattr(parent, "handlers", False):
                        caught = len(branches)
        child = parent
    found = [
        _positioned(above, field, below) if depth < caught else Condition(id(above), field)
        for depth, (above, field, below, is_condition) in enumerate(branches)
        if is_condition or depth < caught
    ]
    return tuple(reversed(found))


def _positioned(above: ast.AST, field: str, below: ast.AST) -> Condition:
    """A condition under which an exception may be ended further out: not all of the block runs where its head does."""
    block = getattr(above, field)
    if not isinstance(block, list) or not isinstance(below, ast.stmt):
        return Condition(id(above), field)
    position = reach = next(i for i, each in enumerate(block) if each is below)
    while reach + 1 < len(block) and (reach == position or _is_quiet(block[reach])):
        reach += 1
    is_end = all(_is_quiet(each) for each in block[position + 1 :])
    return Condition(id(above), field, position, reach, is_end)


def _is_quiet(statement: ast.stmt) -> bool:
    """Whether a statement is sure to raise nothing."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        is_plain = isinstance(statement.value, (ast.Name, ast.Constant))
        return is_plain and all(isinstance(each, ast.Name) for each in targets)
    return isinstance(statement, (ast.Pass, ast.Global, ast.Nonlocal))


def always_follows(later: Conditions, earlier: Conditions) -> bool:
    """Whether code under the conditions `later` runs whenever code under `earlier` has run before it.

    Early exits aside, and exceptions that nothing ends: where they happen, what was made is not used the way it was
    meant to be.
    """
    inner = earlier[len(later) :]
    return (
        len(later) <= len(earlier)
        and all(_is_met(each, met) for each, met in zip(later, earlier, strict=False))
        and all(each.is_end for each in inner)
    )


def _is_met(later: Condition, earlier: Condition) -> bool:
    """Whether one condition is met where another was, and nothing can be raised between them."""
    if (later.node, later.field) != (earlier.node, earlier.field):
        return False
    return earlier.position is None or later.position is None or later.position <= earlier.reach


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
