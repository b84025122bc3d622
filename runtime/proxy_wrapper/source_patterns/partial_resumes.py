"""Finds code that resumes training from a checkpoint, but leaves the saved state of an optimizer or scheduler in it.

torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
...
checkpoint = torch.load(path)
model.load_state_dict(checkpoint["model"])
start = checkpoint["epoch"] + 1                     # used in `range(start, epochs)`
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import last_name, names_in
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

LEFT: Final = "state-left-in-checkpoint"

_KEPT: Final = re.compile(r"optim|(^|_)opt($|_)|sched", re.IGNORECASE)
_STATE: Final = "state_dict"
_LOADS: Final = "load_state_dict"
_LOAD: Final = "load"
_BACKWARD: Final = "backward"


class _Saved(NamedTuple):
    """A key of a checkpoint, what its state is of, and the line."""

    key: str
    owner: str
    line: int


def partial_resumes(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that load a model to resume its training, while saved state of another kind stays unread.

    No other code of the file may mention the key of that state, or load state into anything of that kind.
    """
    if not any(_BACKWARD in scope.words for scope in scopes) or not any(_LOADS in scope.words for scope in scopes):
        return
    saved = [each for scope in scopes for each in _saved(scope)]
    if not saved:
        return
    nodes = [node for scope in scopes for node in scope.nodes]
    mentioned = [node.value for node in nodes if isinstance(node, ast.Constant) and type(node.value) is str]
    loaded = {ast.unparse(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr == _LOADS}
    counted = {
        name for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "range" for name in _read(node)
    }
    if any(_loads_unknown(call) for scope in scopes for call in scope.calls):
        return
    counted |= _passed_on(counted, scopes)
    returned = {
        last_name(value.func)
        for scope in scopes
        for target, value in scope.assignments
        if isinstance(value, ast.Call) and any(ast.unparse(each) in counted for each in _parts(target))
    }
    for scope in scopes:
        line = _resumed(scope, counted, returns=scope.name in returned)
        for each in saved if line else ():
            is_loaded = any(_KEPT.search(name) and _kind(name) == _kind(each.owner) for name in loaded)
            if not is_loaded and mentioned.count(each.key) == 1:
                yield Pattern(LEFT, line, (each.owner, each.key), each.line)


def _loads_unknown(call: ast.Call) -> bool:
    """Whether a call loads an item of a checkpoint whose key is computed; it may be that of an optimizer."""
    given = call.args[0] if call.args else None
    if not isinstance(call.func, ast.Attribute) or call.func.attr != _LOADS:
        return False
    key: ast.expr | None = given.slice if isinstance(given, ast.Subscript) else None
    if isinstance(given, ast.Call) and last_name(given.func) == "get" and given.args:
        key = given.args[0]
    return key is not None and not isinstance(key, ast.Constant)


def _saved(scope: Scope) -> Iterator[_Saved]:
    """The states of optimizers and schedulers in dictionaries that have the state of another object, too."""
    for node in scope.nodes:
        if not isinstance(node, ast.Dict):
            continue
        states = [
            (key.value, ast.unparse(value.func.value), key.lineno)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and type(key.value) is str
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == _STATE
        ]
        kept = [_Saved(*each) for each in states if _KEPT.search(each[1])]
        if len(kept) < len(states):
            yield from kept


def _passed_on(counted: set[str], scopes: Sequence[Scope]) -> set[str]:
    """The names that are passed to functions of the file whose arguments have one of some names."""
    parameters = {
        scope.name: [each.arg for each in scope.root.args.args]
        for scope in scopes
        if isinstance(scope.root, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    return {
        name
        for scope in scopes
        for call in scope.calls
        for given, argument in zip(call.args, parameters.get(last_name(call.func), ()), strict=False)
        if argument in counted
        for name in names_in(given)
    }


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _resumed(scope: Scope, counted: set[str], *, returns: bool) -> int:
    """The line that loads the state of a model from a checkpoint that also tells where to continue; else 0.

    Args:
        scope: the code.
        counted: the names in the arguments of `range`.
        returns: whether what it returns has one of these names.
    """
    checkpoints = {
        ast.unparse(target)
        for target, value in scope.assignments
        if isinstance(value, ast.Call) and last_name(value.func) == _LOAD
    }
    continues = any(
        ast.unparse(target) in counted and any(_item_of(each, checkpoints) for each in ast.walk(value))
        for target, value in scope.assignments
    ) or any(
        _item_of(each, checkpoints)
        for node in scope.nodes
        if returns and isinstance(node, ast.Return)
        for each in ast.walk(node)
    )
    for call in scope.calls if continues else ():
        is_load = isinstance(call.func, ast.Attribute) and call.func.attr == _LOADS
        if is_load and call.args and _item_of(call.args[0], checkpoints):
            return call.lineno
    return 0


def _item_of(node: ast.AST, checkpoints: set[str]) -> bool:
    """Whether an expression is an item of a checkpoint with a key that is written out."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and ast.unparse(node.value) in checkpoints
    )


def _read(call: ast.Call) -> set[str]:
    """The variables and attributes in the arguments of a call."""
    found = {name for each in call.args for name in names_in(each)}
    parts = (node for each in call.args for node in ast.walk(each))
    return found | {ast.unparse(node) for node in parts if isinstance(node, ast.Attribute)}


def _kind(name: str) -> bool:
    """Whether a name is that of a scheduler, and not of an optimizer."""
    return "sched" in name.lower()
