"""Finds loops over batches that carry the state of a recurrent layer from one batch to the next.

The state is a variable of the loop, `out, hidden = model(x, hidden)`, or an attribute that a module of the same file
sets in its `forward`. It is right to carry it if each batch continues the one before, and wrong if batches are
shuffled.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import is_variable, last_name, names_in, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

CARRIED: Final = "state-carried"
CARRIED_SHUFFLED: Final = "state-carried-shuffled"
"""The source shows that the batches are shuffled."""

_STATES: Final = re.compile(r"_?(h|hx|cx|c|hn|cn|h_n|c_n|hc|hid|\w*hidden\w*|\w*states?|\w*cells?|memory)")
_SHUFFLES: Final = frozenset({"randperm", "permutation", "shuffle", "shuffled", "sample"})
_BACKWARD: Final = "backward"

_LOOPS: Final = (ast.For, ast.While)
_Loop = ast.For


class _Kept(NamedTuple):
    """An attribute in which a module keeps its state, the module's class, and the methods that set it otherwise."""

    attribute: str
    owner: str
    resets: frozenset[str]


def carried_states(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The loops of a file that carry states. `other` is the line of the loop."""
    kept = [found for scope in scopes for found in _kept_states(scope)]
    for scope in scopes:
        if _BACKWARD not in scope.words and not kept:
            continue
        for loop in scope.nodes:
            if not isinstance(loop, _Loop):
                continue
            inside = nodes_within(loop)
            if not any(isinstance(node, ast.Attribute) and node.attr == _BACKWARD for node in inside):
                continue
            in_inner = {id(each) for node in inside if isinstance(node, _LOOPS) for each in nodes_within(node)}
            own = [node for node in inside if id(node) not in in_inner]
            found = _carried_variable(loop, own, inside, scope) or _carried_attribute(own, inside, kept, scopes)
            if found is not None:
                line, name = found
                what = CARRIED_SHUFFLED if _is_shuffled(loop, inside, scope) else CARRIED
                yield Pattern(what, line, (name,), loop.lineno)


def _carried_variable(
    loop: _Loop, own: Sequence[ast.AST], inside: Sequence[ast.AST], scope: Scope
) -> tuple[int, str] | None:
    """The line of a loop that passes a state to a call and gets it back, and the state's variable; else None.

    `own` are the nodes of the loop outside of inner loops, and `inside` all of them.
    """
    targets = names_stored(loop.target)
    for statement in own:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        stored = {name for target in statement.targets for name in names_stored(target)}
        given = {name for each in statement.value.args for name in names_of_state(each)}
        given |= {name for each in statement.value.keywords for name in names_of_state(each.value)}
        for name in sorted(stored & given):
            is_state = _STATES.fullmatch(name) is not None and name not in targets
            is_made_before = any(line < loop.lineno for line in scope.stores(name))
            if is_state and is_made_before and _is_only_continued(name, inside):
                return statement.lineno, name
    return None


def names_stored(target: ast.AST) -> set[str]:
    """The variables that a target assigns."""
    stored = (each for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    return {each.id for each in stored}


def names_of_state(value: ast.expr) -> set[str]:
    """The variables of a state that is passed: `h`, `(h, c)`, `h.detach()`."""
    if isinstance(value, (ast.Tuple, ast.List)):
        return {name for each in value.elts for name in names_of_state(each)}
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "detach":
        value = value.func.value
    return {value.id} if isinstance(value, ast.Name) else set()


def _is_only_continued(name: str, inside: Sequence[ast.AST]) -> bool:
    """Whether all that a loop assigns to a variable is computed from the variable, and nothing changes it in place."""
    for node in inside:
        if isinstance(node, ast.Assign):
            is_stored = any(name in names_stored(target) for target in node.targets)
            if is_stored and name not in names_in(node.value):
                return False
        elif isinstance(node, (ast.AugAssign, ast.Delete, ast.For, ast.With, ast.NamedExpr, ast.AnnAssign)):
            target = getattr(node, "target", None)
            if target is not None and name in names_stored(target):
                return False
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if name in names_in(node.value):
                return False
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_in_place = node.func.attr.endswith("_") and not node.func.attr.startswith("detach")
            if is_in_place and name in names_in(node.func.value):
                return False
    return True


def _kept_states(scope: Scope) -> Iterator[_Kept]:
    """The attributes that a method passes to a layer, and sets to the state that the layer returns."""
    if scope.owner is None or "self" not in scope.words:
        return
    for node in scope.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        given = {each.attr for value in node.value.args for each in _own_attributes(value)}
        given |= {each.attr for word in node.value.keywords for each in _own_attributes(word.value)}
        results = {ast.unparse(each) for target in node.targets for each in ast.walk(target) if _is_stored(each)}
        for attribute in sorted(given):
            own = f"self.{attribute}"
            values = [value for target, value in scope.assignments if own in _parts(target)]
            is_continued = own in results or any(results & names_in(value) for value in values)
            others = [value for value in values if not _continues(value, results, own) and value is not node.value]
            if is_continued and not others:
                setters = {
                    method.name
                    for method in scope.owner.body
                    if isinstance(method, ast.FunctionDef) and _sets(method, attribute) and method.name != "__init__"
                }
                yield _Kept(attribute, scope.owner.name, frozenset(setters - {scope.name}))


def _own_attributes(value: ast.expr) -> Iterator[ast.Attribute]:
    parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
    for each in parts:
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self":
            yield each


def _is_stored(node: ast.AST) -> bool:
    is_target = isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store)
    return is_target and isinstance(node, ast.expr) and is_variable(node)


def _parts(target: ast.expr) -> set[str]:
    return {ast.unparse(each) for each in ast.walk(target) if _is_stored(each)}


def _continues(value: ast.expr, results: set[str], own: str) -> bool:
    """Whether a value is computed from the state that a layer returned, or from the attribute that keeps it."""
    reads = names_in(value) | {ast.unparse(each) for each in ast.walk(value) if isinstance(each, ast.Attribute)}
    return bool(reads & (results | {own}))


def _sets(function: ast.AST, attribute: str) -> bool:
    """Whether a function sets an attribute of that name on any object."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)
        for node in ast.walk(function)
    )


def _carried_attribute(
    own: Sequence[ast.AST], inside: Sequence[ast.AST], kept: Sequence[_Kept], scopes: Sequence[Scope]
) -> tuple[int, str] | None:
    """The line of a loop that calls a module which keeps its state, and the attribute; None if something resets it."""
    for each in kept:
        models = {
            ast.unparse(target)
            for scope in scopes
            for target, value in scope.assignments
            if any(isinstance(call, ast.Call) and last_name(call.func) == each.owner for call in ast.walk(value))
        }
        calls = [node for node in own if isinstance(node, ast.Call)]
        called = [call.lineno for call in calls if ast.unparse(call.func) in models]
        if called and not _may_reset(inside, each, scopes):
            return called[0], f"{each.owner}.{each.attribute}"
    return None


def _may_reset(inside: Sequence[ast.AST], kept: _Kept, scopes: Sequence[Scope]) -> bool:
    """Whether a loop, or a function of the file that it calls by name, may reset a state that a module keeps."""
    pending, seen = [*inside], set()
    for node in pending:
        if isinstance(node, ast.Attribute) and node.attr == kept.attribute and not isinstance(node.ctx, ast.Load):
            return True
        name = last_name(node.func) if isinstance(node, ast.Call) else ""
        if name in kept.resets or name == "setattr":
            return True
        if name and name not in seen:
            seen.add(name)
            pending += [
                each for scope in scopes if scope.name == name and not _is_forward(scope) for each in scope.nodes
            ]
    return False


def _is_forward(scope: Scope) -> bool:
    return scope.name == "forward"


def _is_shuffled(loop: _Loop, inside: Sequence[ast.AST], scope: Scope) -> bool:
    """Whether a loop goes through a random permutation, or takes its batches from one."""
    permutations = {
        ast.unparse(target) for target, value in scope.assignments if is_variable(target) and _draws_order(value)
    }
    permutations |= {
        ast.unparse(call.args[0]) for call in scope.calls if last_name(call.func) == "shuffle" and len(call.args) == 1
    }
    if _draws_order(loop.iter) or permutations & names_in(loop.iter):
        return True
    parts = (node for node in inside if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice))
    return any(ast.unparse(part.value) in permutations for part in parts)


def _draws_order(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and last_name(node.func) in _SHUFFLES for node in ast.walk(value))
