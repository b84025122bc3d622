"""Functions that return layers in a container, if every caller puts these into a module."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.blocks import always_follows, statement_of
from instrumentor.analysis.spelling import text_of
from instrumentor.analysis.values import NOTHING, Made
from instrumentor.resolve.catalogue import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.analysis.entries import Event, Site
    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.units import Function

# Nodes around a call that pass it on, whole or by its elements.
_AROUND = (ast.Starred, ast.keyword, ast.List, ast.Tuple, ast.Set)
_PUTTING_IN = frozenset({"append", "extend"})


class LayerMakers:
    """Finds where the objects of such functions become part of a module, for all calls that make them."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def absorptions(self, site: Site) -> tuple[Event, ...]:
        """Where the callers of a site's function put its object into a module; empty unless all of them do.

        Other holders of the object do not matter: it is part of the module before anything calls it.
        """
        function = site.function
        made = Made(site.key)
        events = [each for each in self._facts.absorbed.get(made, {}).values() if each.is_sure]
        if function is None or not events or self._facts.is_dropped(site):
            return ()
        found = self._events_of_calls(function, made, events, frozenset())
        if found is None or any(self._is_called_before(site, event) for event in found):
            return ()
        return tuple(found)

    def _events_of_calls(
        self, function: Function, made: Made, events: list[Event], seen: frozenset[str]
    ) -> list[Event] | None:
        """For each call of a function, the event that absorbs its result; None unless there is one for every call."""
        facts, key = self._facts, function.key
        calls = facts.calls.get(key, {}).values()
        returned, yielded = facts.returns.get(key, NOTHING), facts.yields.get(key, NOTHING)
        if key in seen or not calls or key in facts.escaped or key in facts.called_unseen:
            return None
        if made in returned or made not in facts.contents.reach(returned | yielded):
            return None
        found: list[Event] = []
        for call in calls:
            behind = [each for each in events if each.unit is call.unit and each.function is call.function]
            event = next((each for each in behind if self._leads_to(call, each)), None)
            if event is not None:
                found.append(event)
                continue
            above = self._above(call)
            if call.function is None or not isinstance(above, (ast.Return, ast.YieldFrom)):
                return None
            handed_on = self._events_of_calls(call.function, made, events, seen | {key})
            if handed_on is None:
                return None
            found.extend(handed_on)
        return found

    def _above(self, call: Event) -> ast.AST | None:
        """The node that consumes the whole result of a call, possibly along with other values."""
        parents = call.unit.parents
        above = parents.get(call.node)
        while above is not None and (isinstance(above, _AROUND) or self._is_collecting(above)):
            above = parents.get(above)
        return above

    def _is_collecting(self, node: ast.AST) -> bool:
        return self._facts.call_kinds.get(id(node)) == frozenset({Effect.COLLECTS.name})

    def _leads_to(self, call: Event, event: Event) -> bool:
        """Whether an event affects the result of a call, directly or by way of a name."""
        above = self._above(call)
        if above is event.node:
            return True
        name = _name_taking(call, above)
        if name is None or not isinstance(event.node, ast.Call):
            return False
        statement = statement_of(call.unit, call.node)
        given = [*event.node.args, *(each.value for each in event.node.keywords)]
        return (
            _is_read(name, given)
            and _is_bound_once(name, statement, call)
            and event.node.lineno > (statement.end_lineno or 0)
            and always_follows(
                self._facts.conditions_of(event.unit, event.node), self._facts.conditions_of(call.unit, call.node)
            )
        )

    def _is_called_before(self, site: Site, event: Event) -> bool:
        """Whether an object is called in its function, or by a caller before it becomes part of the module."""
        return any(
            each.function is site.function
            or (each.function is event.function and each.node.lineno <= event.node.lineno)  # type: ignore[attr-defined]
            for each in self._facts.called.get(Made(site.key), {}).values()
        )


def _name_taking(call: Event, above: ast.AST | None) -> str | None:
    """The name of the list that receives the result of a call: by assignment, `+=`, `append` or `extend`."""
    if isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name):
        return above.targets[0].id
    if isinstance(above, ast.AugAssign) and isinstance(above.op, ast.Add) and isinstance(above.target, ast.Name):
        return above.target.id
    if (
        isinstance(above, ast.Call)
        and isinstance(above.func, ast.Attribute)
        and above.func.attr in _PUTTING_IN
        and isinstance(above.func.value, ast.Name)
        and isinstance(call.unit.parents.get(above), ast.Expr)
    ):
        return above.func.value.id
    return None


def _is_read(name: str, given: Iterable[ast.expr]) -> bool:
    """Whether a name is among the arguments, by itself or starred."""
    return any(text_of(each.value if isinstance(each, ast.Starred) else each) == name for each in given)


def _is_bound_once(name: str, statement: ast.stmt, call: Event) -> bool:
    """Whether a name has a single value throughout its function, apart from growth by `+=`."""
    scope = call.unit.tree if call.function is None else call.function.node
    stores = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == name and _binds(each)]
    grown = [each for each in stores if isinstance(call.unit.parents.get(each), ast.AugAssign)]
    return len(stores) - len(grown) == 1 and statement in ast.walk(scope)


def _binds(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)
