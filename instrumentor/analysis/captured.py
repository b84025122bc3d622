"""Which objects something besides the value returned keeps hold of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.values import NOTHING, Atom, Parameter, Value, root, strip

if TYPE_CHECKING:
    from instrumentor.analysis.facts import Facts


class Captured:
    """What is kept, as it is found during the visits; what lies in it is asked for when all is found out."""

    def __init__(self) -> None:
        self._kept: set[Value] = set()
        self._handed_over: set[Value] = set()

    def keep(self, held: Value) -> None:
        """Remember that something keeps the objects in a value and in its containers."""
        self._kept.add(held)

    def hand_over(self, held: Value) -> None:
        """Remember that code which cannot be seen gets a value: what its objects are part of is known there, too."""
        self._handed_over.add(held)

    def objects(self, facts: Facts) -> frozenset[Atom]:
        """The objects, those among them that are passed for parameters of functions which keep them."""
        found = {strip(atom) for held in self._kept for atom in facts.reach(held)}
        found.update(root(atom) for held in self._handed_over for atom in facts.reach(held))
        pending = [atom for atom in found if isinstance(atom, Parameter)]
        while pending:
            parameter = pending.pop()
            passed = facts.passed.get((parameter.function, parameter.name), NOTHING)
            new = {root(atom) for atom in facts.reach(passed)} - found
            found |= new
            pending.extend(atom for atom in new if isinstance(atom, Parameter))
        return frozenset(found)
