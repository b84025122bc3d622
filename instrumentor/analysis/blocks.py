"""Which parts of a function are sure to run when another part does."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.source.nodes import LOOPS, TRIES, last_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.resolve.unit import Unit


class Condition(NamedTuple):
    """One branch or block that contains some code.

    Attributes:
        node: the id of the node that has the branch.
        field: the field of the node that is the branch.
        position: the index of the branch's statement that contains the code. None unless the branch may be left early:
            by `return`, `break`, `continue`, or by an exception that an outer block ends.
        reach: the index of the last statement that is sure to begin once the code has run.
        is_start: whether the statement is sure to begin whenever the branch's node runs.
        is_end: whether the end of the branch is sure to be reached once the code has run.
    """

    node: int
    field: str
    position: int | None = None
    reach: int = 0
    is_start: bool = False
    is_end: bool = True


# From the outermost condition to the innermost.
Conditions = tuple[Condition, ...]

# Contexts that end exceptions, by the last component of their names.
_SUPPRESSING = frozenset({"suppress", "raises", "assertRaises"})

# Nodes that run their body once, unless it is left early.
_PLAIN = (ast.With, ast.AsyncWith, ast.FunctionDef, ast.AsyncFunctionDef)
_COMPOUND = (ast.If, *LOOPS, ast.With, ast.AsyncWith, *TRIES, ast.Match)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module, ast.ClassDef)
_CONDITIONAL_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    **dict.fromkeys(TRIES, ("body", "handlers", "orelse")),
    ast.match_case: ("body",),
    ast.IfExp: ("body", "orelse"),
    ast.ListComp: ("elt",),
    ast.SetComp: ("elt",),
    ast.GeneratorExp: ("elt",),
    ast.DictComp: ("key", "value"),
}


class Blocks:
    """Finds the conditions under which code runs. Results for blocks are cached."""

    def __init__(self) -> None:
        self._fields: dict[ast.AST, dict[ast.AST, str]] = {}
        self._stops: dict[tuple[ast.AST, str, bool], _Stops] = {}

    def conditions_of(self, unit: Unit, node: ast.AST) -> Conditions:
        """The conditions under which `node` runs, given that its function runs."""
        branches: list[_Branch] = []
        caught = 0
        child = node
        while not isinstance(child, _SCOPES) or child is node:
            parent = unit.parents.get(child)
            if parent is None:
                break
            field = self._field_of(parent, child)
            if field is not None:
                branches.append(_Branch(parent, field, child))
                if _is_catching(parent, field):
                    caught = len(branches)
            child = parent
        found: list[Condition] = []
        is_head = True
        for depth, branch in enumerate(branches):
            if depth < caught or branch.above in unit.left_early:
                found.append(self._positioned(unit, branch, is_caught=depth < caught, is_head=is_head))
            elif not branch.is_plain:
                found.append(Condition(id(branch.above), branch.field))
            is_head = is_head and not isinstance(branch.below, ast.stmt)
        return tuple(reversed(found))

    def _field_of(self, parent: ast.AST, child: ast.AST) -> str | None:
        """The branch or block of a node that contains a child; None if the child is in none."""
        if isinstance(parent, ast.BoolOp):
            return None if child is parent.values[0] else "values"
        if isinstance(parent, _PLAIN):
            return "body" if isinstance(child, ast.stmt) else None
        if type(parent) not in _CONDITIONAL_FIELDS:
            return None
        fields = self._fields.get(parent)
        if fields is None:
            names = _CONDITIONAL_FIELDS[type(parent)]
            fields = self._fields[parent] = {each: name for name in names for each in _nodes(getattr(parent, name))}
        return fields.get(child)

    def _positioned(self, unit: Unit, branch: _Branch, *, is_caught: bool, is_head: bool) -> Condition:
        """The condition of a block that may be left early, with how far the block is sure to run.

        Args:
            unit: the file.
            branch: the block, and its statement that contains the code in question.
            is_caught: whether an outer block ends exceptions.
            is_head: whether the code is that statement itself or its head, not a block inside it.
        """
        above, field, below = branch
        block = getattr(above, field)
        if not isinstance(block, list) or not isinstance(below, ast.stmt):
            return Condition(id(above), field)
        stops = self._stops.get((above, field, is_caught))
        if stops is None:
            is_passed = [each not in unit.exits and (not is_caught or _is_quiet(each)) for each in block]
            stops = self._stops[above, field, is_caught] = _Stops.of(block, is_passed)
        position = stops.positions[below]
        # Once the code has run, a simple statement is complete. After the head of a compound one, the rest may not run.
        is_done = stops.next[position] != position or not is_head or not isinstance(below, _COMPOUND)
        reach = min(stops.next[position + 1], len(block) - 1) if is_done else position
        is_start = branch.is_plain and stops.next[0] >= position
        return Condition(
            id(above), field, position, reach, is_start, is_done and stops.next[position + 1] == len(block)
        )


class _Stops(NamedTuple):
    """Where a block may be left early.

    Attributes:
        positions: the index of each statement.
        next: for each index, that of the first statement from there on that may leave the block; the number of
            statements if there is none.
    """

    positions: dict[ast.stmt, int]
    next: list[int]

    @classmethod
    def of(cls, block: Sequence[ast.stmt], is_passed: Sequence[bool]) -> _Stops:
        """The stops of a block; `is_passed` says for each statement whether the next one is sure to begin after it."""
        found = [len(block)]
        for position in reversed(range(len(block))):
            found.append(found[-1] if is_passed[position] else position)
        return cls({each: position for position, each in enumerate(block)}, found[::-1])


class _Branch(NamedTuple):
    above: ast.AST
    field: str
    below: ast.AST

    @property
    def is_plain(self) -> bool:
        """Whether it runs whenever its node does."""
        return isinstance(self.above, _PLAIN) and not _is_catching(self.above, self.field)


def _is_catching(parent: ast.AST, field: str) -> bool:
    """Whether an exception raised in a block may be ended by its node."""
    if isinstance(parent, (ast.With, ast.AsyncWith)):
        return any(_may_end_early(item.context_expr) for item in parent.items)
    return field == "body" and isinstance(parent, TRIES) and bool(getattr(parent, "handlers", []))


def _is_quiet(statement: ast.stmt) -> bool:
    """Whether a statement surely raises no exception."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        is_plain = isinstance(statement.value, (ast.Name, ast.Constant))
        return is_plain and all(isinstance(each, ast.Name) for each in targets)
    return isinstance(statement, (ast.Pass, ast.Global, ast.Nonlocal))


def always_follows(later: Conditions, earlier: Conditions) -> bool:
    """Whether code under the conditions `later` runs whenever code under `earlier` has run before it.

    Empty conditions stand for the start of the function. Uncaught exceptions are disregarded: after one, the objects
    made are no longer used.
    """
    shared = 0
    for each, met in zip(later, earlier, strict=False):
        if (each.node, each.field) != (met.node, met.field):
            break
        if each.position is not None and met.position is not None and each.position > met.reach:
            return False
        shared += 1
    return all(each.is_start for each in later[shared:]) and all(each.is_end for each in earlier[shared:])


def is_in_loop(unit: Unit, node: ast.AST) -> bool:
    """Whether code may run repeatedly within one call of its function."""
    while node in unit.parents and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        above = unit.parents[node]
        if isinstance(above, LOOPS) and node is not getattr(above, "iter", None):
            return True
        if isinstance(above, ast.comprehension) and node is not above.iter:
            return True
        if isinstance(above, COMPREHENSIONS) and node is not above.generators[0]:
            return True
        node = above
    return False


def outermost_loop(unit: Unit, node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    """The outermost loop around a node within its function; None if there is none."""
    found = None
    while node in unit.parents and not isinstance(node, _SCOPES):
        node = unit.parents[node]
        if isinstance(node, LOOPS):
            found = node
    return found


def statement_of(unit: Unit, node: ast.AST) -> ast.stmt:
    """The innermost statement that contains `node`."""
    while not isinstance(node, ast.stmt):
        node = unit.parents[node]
    return node


def _may_end_early(context: ast.expr) -> bool:
    """Whether a context manager exists to end exceptions, so that the rest of its block is skipped."""
    maker = context.func if isinstance(context, ast.Call) else context
    return last_name(maker) in _SUPPRESSING


def _nodes(field: object) -> list[ast.AST]:
    return field if isinstance(field, list) else [field] if isinstance(field, ast.AST) else []
