"""What callers pass for the parameters of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.tables import Marks, Table
from instrumentor.analysis.values import (
    NOTHING,
    Atom,
    Derived,
    Instance,
    Made,
    Parameter,
    Part,
    Scripted,
    Unwrapped,
    Value,
    Wrapper,
    join,
    root,
    strip,
    wrap,
)

if TYPE_CHECKING:
    from instrumentor.analysis.contents import Contents
    from instrumentor.analysis.entries import Event
    from instrumentor.analysis.tables import Visits


class Passed(Table[tuple[str, str], Value]):
    """What calls pass, by the function's key and the parameter's name, the defaults that they leave to stand included.

    Attributes:
        ever: the parameters that any call passes.
        defaults: what parameters hold that a caller does not pass.
        escape: the parameters that code which cannot be seen may get, to change them and to call them.
        callables_escape: those that it may get to call them.
    """

    def __init__(
        self, visits: Visits, contents: Contents, calls: Table[str, dict[int, Event]], called_unseen: Marks[str]
    ) -> None:
        super().__init__(visits)
        self.ever: Marks[tuple[str, str]] = Marks(visits)
        self.defaults: Table[tuple[str, str], Value] = Table(visits)
        self.escape: Marks[tuple[str, str]] = Marks(visits)
        self.callables_escape: Marks[tuple[str, str]] = Marks(visits)
        self._contents = contents
        self._calls = calls
        self._called_unseen = called_unseen
        self._put: dict[tuple[Atom, Value], tuple[Value, Value]] = {}

    def to(self, parameter: Parameter) -> Value:
        """What callers pass for a parameter, their own parameters looked up likewise; containers are kept as such.

        The parameter itself is among it where its callers do not tell all.
        """
        found: set[Atom] = set()
        seen: set[Atom] = {parameter}
        pending = [parameter]
        while pending:
            asked = pending.pop()
            passed = self._given_for(asked)
            if not passed or asked.function in self._called_unseen:
                found.add(asked)
            for atom in passed:
                if not isinstance(atom, Parameter):
                    found.add(atom)
                elif atom not in seen:
                    seen.add(atom)
                    pending.append(atom)
        return frozenset(found)

    def _given_for(self, parameter: Parameter) -> Value:
        """What callers pass for a parameter; its default too where there are others, or none."""
        key = parameter.function, parameter.name
        passed = self.get(key, NOTHING)
        if passed and parameter.function not in self._called_unseen:
            return passed
        return join((passed, self.defaults.get(key, NOTHING)))

    def sources(self, value: Value) -> Value:
        """The value with each parameter replaced by what callers pass, as far as that is known."""
        found: set[Atom] = set()
        seen: set[Atom] = set(value)
        pending = list(value)
        while pending:
            atom = pending.pop()
            base = root(atom)
            if not isinstance(base, Parameter):
                found.add(atom)
                continue
            passed = self._contents.reach(self._given_for(base))
            if base.function in self._called_unseen or (not passed and base.function in self._calls):
                found.add(atom)
            ends, others = self._put_in_place(atom, passed)
            found.update(ends)
            pending.extend(others - seen)
            seen.update(others)
        return frozenset(found)

    def _put_in_place(self, atom: Atom, passed: Value) -> tuple[Value, Value]:
        """An atom with each of the things passed where it has a parameter: those without, and those with another."""
        known = self._put.get((atom, passed))
        if known is None:
            replaced = {_in_place_of(atom, new) for new in passed}
            others = frozenset(each for each in replaced if isinstance(root(each), Parameter))
            known = self._put[atom, passed] = frozenset(replaced - others), others
        return known


def _in_place_of(atom: Atom, new: Atom) -> Atom:
    """`atom` with `new` where it has a parameter."""
    if isinstance(atom, Parameter):
        return new
    if not isinstance(root(new), (Made, Parameter, Instance)):
        return new
    if isinstance(atom, Part):
        return Part(root(new))
    if isinstance(atom, (Derived, Scripted)):
        return type(atom)(root(new))
    if isinstance(atom, Wrapper):
        return wrap(_in_place_of(atom.inner, new))
    return Unwrapped(strip(_in_place_of(atom.inner, new)), atom.is_sure) if isinstance(atom, Unwrapped) else new
