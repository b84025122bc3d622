"""What may have changed where code runs: functions of the project that are called, and those that no call shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.dropped import note_overwritten
from instrumentor.analysis.touched import ANYTHING, steps_among

if TYPE_CHECKING:
    from instrumentor.analysis.scope import Scope
    from instrumentor.resolve.units import Function


def let_run(scope: Scope, function: Function) -> None:
    """A function of the project runs here: what it may store to may hold something else from now on."""
    touched = scope.facts.touched.by(function.key)
    scope.facts.touched.note(scope.key, touched)
    if scope.is_put_off:
        scope.facts.touched.note_running_unseen(function.key)
    if ANYTHING in touched:
        let_anything_run(scope)
    else:
        scope.env.forget_steps(steps_among(touched))
        for owner, name in touched:
            if owner in (scope.key, scope.globals.get(name), scope.outside.get(name)):
                _join_stored_in(scope, owner, name)


def let_anything_run(scope: Scope) -> None:
    """Code runs here that may change whatever can be reached."""
    scope.facts.touched.note(scope.key, {ANYTHING})
    scope.env.forget_objects()
    _join_stored(scope)


def let_others_run(scope: Scope) -> None:
    """Functions run here of which nothing is known: whatever any stores to may hold something else from now on."""
    scope.facts.touched.note(scope.key, {ANYTHING})
    _let_others_change(scope)


def _let_others_change(scope: Scope) -> None:
    let_unseen_run(scope)
    _join_stored(scope)


def let_unseen_run(scope: Scope) -> None:
    """Functions may run here that no call shows: callbacks, hooks, generators, operators, other threads."""
    if scope.env.objects:
        unseen = scope.unseen_steps()
        if unseen and scope.env.leads_through(unseen):
            scope.env.forget_steps(unseen)
    is_unseen = scope.facts.touched.is_unseen
    for owner, name in _shared(scope):
        if is_unseen((owner, name)):
            _join_stored_in(scope, owner, name)


def let_all_run(scope: Scope) -> None:
    """The function is left for a while: the scopes around it may go on as well."""
    _let_others_change(scope)
    for name, owner in scope.globals.items():
        ever = scope.facts.scopes.get((owner, name))
        if ever and scope.env.held(name) is not None:
            scope.env.may_hold(name, ever)


def _join_stored(scope: Scope) -> None:
    """Let all names hold what other functions store to them."""
    for owner, name in _shared(scope):
        _join_stored_in(scope, owner, name)


def _shared(scope: Scope) -> tuple[tuple[str, str], ...]:
    """The names that others may store to, after the keys of their scopes."""
    inside = scope.facts.shared.get(scope.key)
    return (*((scope.key, name) for name in inside), *scope.others) if inside else scope.others


def _join_stored_in(scope: Scope, owner: str, name: str) -> None:
    """Let a name hold what other functions store to it; `owner` is the key of the scope that has it."""
    held = scope.facts.stored_outside.get((owner, name))
    if held and scope.env.held(name) is not None:
        note_overwritten(scope.facts, scope.key, scope.env, (name,), held)
        scope.env.may_hold(name, held)
