"""Which objects something besides the value returned keeps hold of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.values import NOTHING, Atom, Parameter, Value, root, strip

if TYPE_CHECKING:
    from collections.abc import Callable


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

    def objects(
        self, reach: Callable[[Value], Value], passed: Callable[[tuple[str, str]], Value | None]
    ) -> frozenset[Atom]:
        """The objects, those among them that are passed for parameters of functions which keep them.

        Args:
            reach: what lies in a value and in its containers.
            passed: what callers pass for a parameter, which is given with its function's key before its name.
        """
        found = {strip(atom) for held in self._kept for atom in reach(held)}
        found.update(root(atom) for held in self._handed_over for atom in reach(held))
        pending = [atom for atom in found if isinstance(atom, Parameter)]
        while pending:
            parameter = pending.pop()
            given = passed((parameter.function, parameter.name)) or NOTHING
            new = {root(atom) for atom in reach(given)} - found
            found |= new
            pending.extend(atom for atom in new if isinstance(atom, Parameter))
        return frozenset(found)
