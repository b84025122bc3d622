"""Side effects of running code on the environment: of functions that are called, and of code that no call shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.dropped import note_overwritten
from instrumentor.analysis.touched import ANYTHING, steps_among

if TYPE_CHECKING:
    from instrumentor.analysis.scope import Scope
    from instrumentor.resolve.unit import Function


def let_run(scope: Scope, function: Function) -> None:
    """Apply the mod set of a function of the project that runs here."""
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
    """Apply the effect of code that may change anything reachable."""
    scope.facts.touched.note(scope.key, {ANYTHING})
    scope.env.forget_objects()
    _join_stored(scope)


def let_others_run(scope: Scope) -> None:
    """Apply the effect of unknown functions, which may store to everything that any function stores to."""
    scope.facts.touched.note(scope.key, {ANYTHING})
    _let_others_change(scope)


def _let_others_change(scope: Scope) -> None:
    let_unseen_run(scope)
    _join_stored(scope)


def let_unseen_run(scope: Scope) -> None:
    """Apply the effect of functions that may run without a visible call: callbacks, hooks, generators, threads."""
    if scope.env.objects:
        unseen = scope.unseen_steps()
        if unseen and scope.env.leads_through(unseen):
            scope.env.forget_steps(unseen)
    is_unseen = scope.facts.touched.is_unseen
    for owner, name in _shared(scope):
        if is_unseen((owner, name)):
            _join_stored_in(scope, owner, name)


def let_all_run(scope: Scope) -> None:
    """Apply the effect of a suspension of this function, during which enclosing scopes may run too."""
    _let_others_change(scope)
    for name, owner in scope.globals.items():
        ever = scope.facts.scopes.get((owner, name))
        if ever and scope.env.held(name) is not None:
            scope.env.may_hold(name, ever)


def _join_stored(scope: Scope) -> None:
    """Add to all names the values that other functions store to them."""
    for owner, name in _shared(scope):
        _join_stored_in(scope, owner, name)


def _shared(scope: Scope) -> tuple[tuple[str, str], ...]:
    """The names that others may store to, with the keys of their scopes."""
    inside = scope.facts.shared.get(scope.key)
    return (*((scope.key, name) for name in inside), *scope.others) if inside else scope.others


def _join_stored_in(scope: Scope, owner: str, name: str) -> None:
    """Add to a name the values that other functions store to it; `owner` is the key of its scope."""
    held = scope.facts.stored_outside.get((owner, name))
    if held and scope.env.held(name) is not None:
        note_overwritten(scope.facts, scope.key, scope.env, (name,), held)
        scope.env.may_hold(name, held)
