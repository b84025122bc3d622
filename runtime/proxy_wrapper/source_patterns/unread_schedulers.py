"""Finds out whether a program ever uses a scheduler of learning rates after it has created it.

scheduler = StepLR(optimizer, step_size=10)         # and no `scheduler.step()` anywhere
self.scheduler = StepLR(optimizer, step_size=10)    # and nothing reads an attribute of this name
state["scheduler"] = StepLR(optimizer, 10)          # and nothing reads this key
return optimizer, StepLR(optimizer, 10)             # and no caller reads the second
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import last_name, scopes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

UNREAD: Final = "scheduler-unread"

_LOOKED_UP: Final = frozenset({"locals", "globals", "vars", "eval", "exec"})
"""Functions that read variables without naming them."""
_PASSIVE: Final = frozenset({"get_last_lr", "get_lr", "state_dict", "load_state_dict", "last_epoch", "base_lrs"})
"""The attributes of a scheduler that do not advance it."""
_PLAIN_BASES: Final = frozenset({"object", "ABC", "Module"})
"""Bases of classes that read no scheduler."""
_ALL: Final = frozenset({"values", "items"})
"""The methods of a dictionary that give what is in it without naming it."""
_HOOK: Final = "configure_optimizers"
"""The function whose result a library reads."""
_MOST_CALLERS: Final = 2
"""How many callers of callers are followed."""


def unread_scheduler(tree: ast.Module, line: int, mentioning: Callable[[str], Sequence[ast.Module] | None]) -> str:
    """What keeps the scheduler created at a line of a file, as it is written, if nothing advances it; else "".

    It is read if anything but its rate or its state is. A variable is read within its function, or by callers to which
    the function returns it; one of a module, by the file. An attribute or the key of a dictionary is read if any file
    of the program mentions it, or by a library, which may read the attributes of a class with such a base.

    Args:
        tree: the file.
        line: the line that creates the scheduler.
        mentioning: gives the files of the program that mention a word, this one included; None if it is unknown.
    """
    program = _Program(tree, mentioning)
    kept = [(scope, keeper) for scope in scopes_of(tree) for keeper in _keepers(scope, line)]
    if len(kept) != 1:
        return ""
    ((scope, keeper),) = kept
    is_unread = _is_kept_unread(keeper, scope, program, _MOST_CALLERS)
    return ast.unparse(keeper.func if isinstance(keeper, ast.Call) else keeper) if is_unread else ""


class _Program(NamedTuple):
    """A file, and what gives the files of the program that mention a word."""

    tree: ast.Module
    mentioning: Callable[[str], Sequence[ast.Module] | None]


def _is_kept_unread(keeper: ast.expr, scope: Scope, program: _Program, callers: int) -> bool:
    """Whether nothing reads what keeps a scheduler, as `_keepers` gives it.

    Args:
        keeper: a target, the key of a dictionary, or the call that is returned.
        scope: the function that keeps it.
        program: the file, and the others.
        callers: how many callers of callers are followed, if it is returned.
    """
    if isinstance(keeper, ast.Call):
        return _is_unread_by_callers(scope, {id(keeper)}, program, callers)
    if isinstance(keeper, ast.Name):
        return _is_unread(keeper.id, scope, program, callers)
    if isinstance(keeper, ast.Attribute):
        files = program.mentioning(keeper.attr)
        return _is_of_own_class(scope, program.tree) and _is_unread_attribute(keeper.attr, files)
    if not isinstance(keeper, ast.Constant) or type(keeper.value) is not str or scope.name == _HOOK:
        return False
    return _is_unread_key(keeper.value, program.mentioning(keeper.value))


def _keepers(scope: Scope, line: int) -> Iterator[ast.expr]:
    """What keeps the result of the call at a line: a target, the key of a dictionary, or the call if it is returned."""
    for target, value in scope.assignments:
        if _is_call_at(value, line):
            yield _key_or_target(target)
    for node in scope.nodes:
        if isinstance(node, ast.Dict):
            keys = zip(node.keys, node.values, strict=True)
            yield from (key for key, value in keys if key is not None and _is_call_at(value, line))
    yield from (each for elements in _returned(scope) for each in elements if _is_call_at(each, line))


def _key_or_target(target: ast.expr) -> ast.expr:
    return target.slice if isinstance(target, ast.Subscript) else target


def _is_call_at(node: ast.expr, line: int) -> bool:
    return isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _returned(scope: Scope) -> list[list[ast.expr]]:
    """What a function returns: the elements of each tuple, or the only value."""
    values = [node.value for node in scope.nodes if isinstance(node, ast.Return) and node.value is not None]
    return [each.elts if isinstance(each, ast.Tuple) else [each] for each in values]


def _is_unread(name: str, scope: Scope, program: _Program, callers: int) -> bool:
    """Whether nothing reads a variable of a function, or of a module, and no caller that gets it."""
    nodes = list(ast.walk(scope.root))
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in nodes):
        return False
    if any(_reads_unnamed(node, name) for node in nodes):
        return False
    passive = _passive(nodes)
    variables = (node for node in nodes if isinstance(node, ast.Name) and node.id == name)
    reads = {id(node) for node in variables if isinstance(node.ctx, ast.Load) and id(node) not in passive}
    return not reads or _is_unread_by_callers(scope, reads, program, callers)


def _is_unread_by_callers(scope: Scope, reads: set[int], program: _Program, callers: int) -> bool:
    """Whether a function only returns what it has, and nothing reads what keeps it in each of its callers.

    `reads` are the nodes, by `id`, that read it; for the others, see `_is_kept_unread`.
    """
    found = _returned(scope)
    places = {(at, len(each)) for each in found for at, one in enumerate(each) if id(one) in reads}
    files = program.mentioning(scope.name) if scope.name and callers else None
    if len(places) != 1 or not files or reads - {id(one) for each in found for one in each}:
        return False
    ((place, count),) = places
    calls = 0
    for tree in files:
        for caller in scopes_of(tree):
            mentions = [node for node in caller.nodes if isinstance(node, ast.expr) and last_name(node) == scope.name]
            for target, value in caller.assignments:
                if isinstance(value, ast.Call) and value.func in mentions:
                    keeper = _element(target, place, count)
                    if keeper is None or not _is_kept_unread(
                        keeper, caller, _Program(tree, program.mentioning), callers - 1
                    ):
                        return False
                    mentions.remove(value.func)
                    calls += 1
            if mentions:
                return False
    return calls > 0


def _element(target: ast.expr, place: int, count: int) -> ast.expr | None:
    """What a target keeps of so many values that are assigned to it; None if that is not told."""
    if count == 1:
        return None if isinstance(target, (ast.Tuple, ast.List)) else _key_or_target(target)
    elements = target.elts if isinstance(target, ast.Tuple) else []
    return _key_or_target(elements[place]) if len(elements) == count else None


def _is_of_own_class(scope: Scope, tree: ast.Module) -> bool:
    """Whether a method is of a class without a base of a library that may read its attributes."""
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    pending = [] if scope.owner is None else [scope.owner]
    for each in pending:
        for base in each.bases:
            found = classes.get(last_name(base))
            if found is None and last_name(base) not in _PLAIN_BASES:
                return False
            pending += [found] if found is not None and found not in pending else []
    return scope.owner is not None


def _is_unread_attribute(name: str, files: Iterable[ast.Module] | None) -> bool:
    """Whether no file reads an attribute of a name."""
    for tree in files or ():
        nodes = list(ast.walk(tree))
        passive = _passive(nodes)
        # Those of `checkpoint["scheduler"]` and `{"scheduler": ...}` are no attributes.
        keys = {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)}
        keys |= {id(key) for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
        for node in nodes:
            is_read = isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)
            is_named = isinstance(node, ast.Constant) and node.value == name and id(node) not in keys
            if (is_read and id(node) not in passive) or is_named:
                return False
    return files is not None


def _is_unread_key(key: str, files: Iterable[ast.Module] | None) -> bool:
    """Whether no file reads the item of a dictionary with a key."""
    for tree in files or ():
        nodes = list(ast.walk(tree))
        passive = _passive(nodes)
        given = {id(each) for node in nodes if isinstance(node, ast.Dict) for each in node.keys}
        for node in nodes:
            if isinstance(node, ast.Subscript) and (not isinstance(node.ctx, ast.Load) or id(node) in passive):
                given.add(id(node.slice))
        for node in nodes:
            is_named = isinstance(node, ast.Constant) and node.value == key and id(node) not in given
            is_all = isinstance(node, ast.Attribute) and node.attr in _ALL
            is_unpacked = isinstance(node, ast.keyword) and node.arg is None
            if is_named or is_all or is_unpacked:
                return False
    return files is not None


def _passive(nodes: Iterable[ast.AST]) -> set[int]:
    """What is only asked for its rate or its state, by `id`."""
    return {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in _PASSIVE}


def _reads_unnamed(node: ast.AST, name: str) -> bool:
    """Whether a node may read a variable in another way than by its name as an expression."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LOOKED_UP:
        return True
    return isinstance(node, ast.Constant) and node.value == name
