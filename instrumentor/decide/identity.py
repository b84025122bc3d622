"""Which places hold the same object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.blocks import COMPREHENSIONS, is_in_loop
from instrumentor.analysis.entries import scope_key
from instrumentor.analysis.environment import BEHIND_LOOPS, is_parameter
from instrumentor.analysis.values import (
    Atom,
    Box,
    ClassRef,
    FunctionRef,
    Instance,
    Made,
    Method,
    Pack,
    Plain,
    Unwrapped,
)
from instrumentor.source.nodes import LOOPS

if TYPE_CHECKING:
    import ast
    from collections.abc import Hashable

    from instrumentor.analysis.entries import Binding, Site
    from instrumentor.analysis.environment import Number
    from instrumentor.analysis.sites import SiteIndex
    from instrumentor.analysis.values import SiteKey
    from instrumentor.resolve.unit import Function, Unit

# The number of the object that a remembering function returns.
REMEMBERED = "remembered"
# Where a loop begins and ends.
_Span = tuple[tuple[int, int], tuple[int, int]]
_NO_OBJECTS = (Plain, Box, Pack, Instance, FunctionRef, ClassRef, Method)


class Identities:
    """Identifies the objects of a script: places with equal identities hold the same object.

    Where code runs repeatedly, this holds within each loop iteration and each call of the enclosing function.
    """

    def __init__(self, index: SiteIndex) -> None:
        self._index = index
        self._facts = index.facts
        self._units = index.hierarchy.project.units
        self._often: dict[str, bool] = {}
        self._asked: set[tuple[str, str]] = set()
        self._ends: dict[SiteKey, Site] = {}
        self._traces: dict[tuple[str, Number], tuple[str, Number]] = {}
        self._loops: dict[str, list[_Span]] = {}

    def objects_of(self, binding: Binding) -> list[Atom]:
        """The values of a binding that may be modules."""
        held = (
            atom.inner if isinstance(atom, Unwrapped) and atom.is_sure else atom
            for atom in self._facts.passed.sources(binding.value)
        )
        return [atom for atom in dict.fromkeys(held) if not isinstance(atom, _NO_OBJECTS)]

    def of_binding(self, binding: Binding) -> Hashable:
        """The identity of the object that a binding stores; None if it is not certain."""
        held = self.objects_of(binding)
        sites = {atom.site for atom in held if isinstance(atom, Made)}
        if len(sites) == 1 and all(isinstance(atom, Made) for atom in held):
            site = self._facts.sites[next(iter(sites))]
            if not self._is_repeated(site):
                return self.of_site(site)
        if binding.number is None or not any(atom.is_object or isinstance(atom, Unwrapped) for atom in held):
            return None
        return self._traced(scope_key(binding.unit, binding.function), binding.number)

    def of_site(self, site: Site) -> Hashable:
        """The identity of the object that a site makes; None if it may make more than one."""
        if self._is_repeated(site):
            return None
        site = self._sole_caller(site)
        number = ("made", site.key)
        if self._facts.made_only.get((site.scope, site.key)):
            return self._traced(site.scope, number)
        callee = self._facts.sole_callees.get((site.scope, number))
        # If the function may return another object, the call's number is not that of the site's object.
        if callee is None or self._facts.returns.get(callee) != frozenset(Made(origin) for origin in site.origins):
            return site.key
        traced = self._traced(site.scope, number)
        return site.key if traced == (site.scope, number) else traced

    def _sole_caller(self, site: Site) -> Site:
        """The outermost call that a site's object is returned to, while each call on the way is the only one."""
        passed = {site.key}
        while site.key not in self._ends:
            callers = self._index.callers(site)
            if len(callers) != 1 or callers[0].origins != {site.key}:
                break
            if callers[0].key in passed:
                return site  # mutual recursion: the result would depend on the starting point
            site = callers[0]
            passed.add(site.key)
        site = self._ends.get(site.key, site)
        self._ends.update(dict.fromkeys(passed, site))
        return site

    def _traced(self, scope: str, number: Number) -> tuple[str, Number]:
        """The number of an object at its source: in the caller that passes it, or the function that returns it.

        Follows functions that are called once, and parameters for which every call passes the same object.
        """
        found = scope, number
        passed: set[tuple[str, Number]] = set()
        while found not in self._traces:
            passed.add(found)
            before = self._passed(found[0], found[1][1]) if is_parameter(found[1]) else self._returned(*found)
            if before is None:
                break
            if before in passed:
                return before  # mutual recursion
            found = before
        found = self._traces.get(found, found)
        if not self._asked:  # otherwise a recursive function's own call may have been left out
            self._traces.update(dict.fromkeys(passed, found))
        return found

    def _passed(self, scope: str, name: str) -> tuple[str, Number] | None:
        """The object that calls pass for a parameter; None if they pass different ones or this is not certain.

        A parameter that is always passed the same object holds it in every call of the function.
        """
        passed = self._facts.passed_numbers.get((scope, name), {})
        key = (scope, name)
        if not passed or scope in self._facts.called_unseen or key in self._asked:
            return None
        self._asked.add(key)  # the function may pass its parameter to itself
        found = {None if number is None else self._lasting(caller, number) for caller, number in passed.values()}
        self._asked.discard(key)
        return found.pop() if len(found) == 1 else None

    def _lasting(self, scope: str, number: Number) -> tuple[str, Number] | None:
        """The source of the only object that a number stands for in the whole run; None if it may be several.

        A number in a loop or in a function that runs repeatedly stands for another object each time, unless every call
        passes the same one.
        """
        if is_parameter(number) and (passed := self._passed(scope, number[1])) is not None:
            return passed
        if self._is_remembering(self._facts.sole_callees.get((scope, number))):
            return self._traced(scope, number)
        is_often = self._runs_often(self._facts.demanded_functions.get(scope))
        return None if is_often or self._is_in_rounds(number) else self._traced(scope, number)

    def _is_in_rounds(self, number: Number) -> bool:
        """Whether a number is assigned in a loop, anew in each iteration."""
        if is_parameter(number):
            return False
        assert isinstance(number, tuple)
        # A joined value has the kind and place of its join; any other has its own.
        kind, place = number[0] if isinstance(number[0], tuple) else number[:2]
        loops = self._loops.get(place.unit)
        if loops is None:
            loops = self._loops[place.unit] = _find_loops(self._units[place.unit])
        start, end = (place.line, place.column), (place.end_line, place.end_column)
        around = [each for each in loops if each[0] <= start and end <= each[1]]
        return around != [(start, end)] if kind in BEHIND_LOOPS else bool(around)

    def _returned(self, scope: str, number: Number) -> tuple[str, Number] | None:
        """The number that a function returns on every path, if the given number is that of its only call's result.

        For a function that runs once and then returns the same object, any call's result will do.
        """
        callee = self._facts.sole_callees.get((scope, number))
        if callee is None or callee in self._facts.yields:
            return None
        if self._is_remembering(callee):
            return callee, REMEMBERED
        returned = set((self._facts.returned_numbers.get(callee) or {}).values())
        if len(returned) != 1 or None in returned or self._runs_often(self._facts.demanded_functions.get(callee)):
            return None
        return callee, returned.pop()

    def _is_remembering(self, function: str | None) -> bool:
        """Whether a function returns the same object to every caller; not if unseen code may call it."""
        return function in self._facts.remembering and function not in self._facts.called_unseen

    def _is_repeated(self, site: Site) -> bool:
        """Whether a site may be executed more than once in a run of the script."""
        return self._repeats(site.unit, site.node) or self._runs_often(site.function)

    def _repeats(self, unit: Unit, node: ast.AST) -> bool:
        return id(node) in self._facts.repeating or is_in_loop(unit, node)

    def _runs_often(self, function: Function | None) -> bool:
        if function is None:
            return False
        if function.key not in self._often:
            self._often[function.key] = True  # for recursive functions
            calls = list(self._facts.calls.get(function.key, {}).values())
            is_single = len(calls) == 1 and function.key not in self._facts.called_unseen
            self._often[function.key] = not (
                is_single
                and not self._repeats(calls[0].unit, calls[0].node)
                and not self._runs_often(calls[0].function)
            )
        return self._often[function.key]


def _find_loops(unit: Unit | None) -> list[_Span]:
    nodes = (node for node in (() if unit is None else unit.parents) if isinstance(node, (*LOOPS, *COMPREHENSIONS)))
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)) for node in nodes
    ]
