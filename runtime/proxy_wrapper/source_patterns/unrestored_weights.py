"""Finds models that get other weights for an evaluation in the training loop, and never their own back.

for epoch in range(epochs):
    train(model)                                    # steps
    ema.store(model.parameters())
    ema.copy_to(model.parameters())                 # and nothing calls `ema.restore`
    validate(model)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import is_variable, last_name, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

UNRESTORED: Final = "weights-unrestored"

_STATES: Final = frozenset({"parameters", "named_parameters", "state_dict"})
_INIT: Final = "__init__"
_LOAD: Final = "load_state_dict"
_COPIES: Final = frozenset({"deepcopy", "clone"})


class _Methods(NamedTuple):
    """The methods of a class that put stored weights back, and those that give a model other weights."""

    restores: frozenset[str]
    writes: frozenset[str]


_OF_LIBRARIES: Final = {"store": _Methods(frozenset({"restore"}), frozenset({"copy_to"}))}
"""The methods of `torch_ema` and of `EMAModel` in `diffusers`."""


def unrestored_weights(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that store a model's own weights, how, and the model if it is known.

    `other` is the line of the training loop.
    """
    called = {last_name(call.func) for scope in scopes for call in scope.calls}
    stores = {**_OF_LIBRARIES, **_methods_that_store(scopes)}
    for scope in scopes:
        for call in scope.calls:
            of_class = stores.get(call.func.attr) if isinstance(call.func, ast.Attribute) else None
            is_restored = of_class is None or not called.isdisjoint(of_class.restores)
            if of_class is not None and not is_restored and _gives_other_weights(call, of_class, scope):
                yield from _in_training(call, (ast.unparse(call.func), *_model_given(call)), scope, scopes)
        for target, value in scope.assignments:
            model = _model_of_unread_copy(target.id, value, scope) if isinstance(target, ast.Name) else ""
            if isinstance(target, ast.Name) and model:
                yield from _in_training(value, (target.id, model), scope, scopes)


def _methods_that_store(scopes: Sequence[Scope]) -> dict[str, _Methods]:
    """The methods of the classes in a file that store the weights of a model, for others to put back."""
    found: dict[str, _Methods] = {}
    for scope in scopes:
        if scope.owner is None or scope.name == _INIT or not _STATES & scope.words:
            continue
        others = [each for each in scopes if each.owner is scope.owner and each.name not in (scope.name, _INIT)]
        for kept in _attributes_stored(scope):
            restores = frozenset(each.name for each in others if _writes_weights(each) and kept in each.words)
            writes = frozenset(each.name for each in (scope, *others) if _writes_weights(each)) - restores
            if restores and writes:
                found[scope.name] = _Methods(restores, writes)
    return found


def _attributes_stored(scope: Scope) -> set[str]:
    """The attributes of `self` that a method assigns, or an item of them, without computing anything."""
    targets = [
        target.value if isinstance(target, ast.Subscript) else target
        for target, value in scope.assignments
        if not any(isinstance(each, ast.BinOp) for each in ast.walk(value))
    ]
    return {each.attr for each in targets if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"}


def _writes_weights(scope: Scope) -> bool:
    """Whether a method gives a model weights."""
    is_assigned = any(isinstance(target, ast.Attribute) and target.attr == "data" for target, _ in scope.assignments)
    copied = [ast.unparse(call.func) for call in scope.calls if last_name(call.func) in ("copy_", _LOAD)]
    return is_assigned or any(not each.startswith("self.") for each in copied)


def _gives_other_weights(call: ast.Call, methods: _Methods, scope: Scope) -> bool:
    """Whether a call that stores weights replaces them, too, or another method of the object does so nearby."""
    if not isinstance(call.func, ast.Attribute) or not call.args:
        return isinstance(call.func, ast.Attribute) and call.func.attr in methods.writes
    of = ast.unparse(call.func.value)
    names = {each.func.attr for each in scope.calls if _is_of(each, of) and isinstance(each.func, ast.Attribute)}
    return not names.isdisjoint(methods.writes)


def _is_of(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == name


def _model_given(call: ast.Call) -> Iterator[str]:
    """The model that a call is given, or whose weights it is given; nothing if it is given none."""
    for given in call.args[:1]:
        if is_variable(given):
            yield ast.unparse(given)
        elif isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr in _STATES:
            yield ast.unparse(given.func.value)


def _model_of_unread_copy(name: str, value: ast.expr, scope: Scope) -> str:
    """The model of whose state a value is an unread copy, and that then loads another one; "" for other values."""
    calls = [each for each in ast.walk(value) if isinstance(each, ast.Call)]
    models = [
        ast.unparse(each.func.value) for each in calls if _is_state(each) and isinstance(each.func, ast.Attribute)
    ]
    if len(models) != 1 or not any(last_name(each.func) in _COPIES for each in calls):
        return ""
    is_read = any(isinstance(each, ast.Name) and each.id == name and _is_load(each) for each in scope.nodes)
    after = [node for statement in _following(value, scope) for node in nodes_within(statement)]
    loads = (node for node in after if isinstance(node, ast.Call) and last_name(node.func) == _LOAD)
    return models[0] if not is_read and any(_is_of(call, models[0]) for call in loads) else ""


def _following(value: ast.expr, scope: Scope) -> list[ast.stmt]:
    """The statements after the one that assigns a value, in the same block."""
    for node in (scope.root, *scope.nodes):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for index, statement in enumerate(block if isinstance(block, list) else ()):
                if isinstance(statement, ast.Assign) and statement.value is value:
                    return block[index + 1 :] if isinstance(block, list) else []
    return []


def _is_state(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "state_dict"


def _is_load(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _in_training(node: ast.expr, names: tuple[str, ...], scope: Scope, scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The pattern, if a node is part of a training loop, or of a function that one calls, and does not end it."""
    trainers = {each.name for each in scopes if each.name and "backward" in each.words}
    for each in scopes:
        for loop in each.nodes:
            if not isinstance(loop, (ast.For, ast.While)):
                continue
            inside = nodes_within(loop)
            called = {last_name(call.func) for call in inside if isinstance(call, ast.Call)}
            trains = "backward" in called or not called.isdisjoint(trainers - {scope.name})
            is_inside = any(other is node for other in inside) or (scope.name in called and scope.name != "")
            if trains and is_inside and not _ends(node, scope):
                yield Pattern(UNRESTORED, node.lineno, names, loop.lineno)
                return


def _ends(node: ast.expr, scope: Scope) -> bool:
    """Whether a node is in a branch that leaves its loop or its function."""
    branches = (each for each in scope.nodes if isinstance(each, ast.If))
    return any(
        any(other is node for other in nodes_within(branch))
        and any(isinstance(other, (ast.Break, ast.Return, ast.Raise)) for other in nodes_within(branch))
        for branch in branches
    )
