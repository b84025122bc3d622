"""Which objects are held by something other than the returned value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.values import NOTHING, Atom, Parameter, Value, root, strip

if TYPE_CHECKING:
    from collections.abc import Callable

    _Reach = Callable[[Value], Value]
    _Passed = Callable[[tuple[str, str]], Value | None]


class Captured:
    """What is captured, as recorded during visits. What these values reach is computed after the fixpoint."""

    def __init__(self) -> None:
        self._kept: set[Value] = set()
        self._handed_over: set[Value] = set()

    def keep(self, held: Value) -> None:
        """Record that something holds the objects in a value and in its containers."""
        self._kept.add(held)

    def hand_over(self, held: Value) -> None:
        """Record that unseen code gets a value. It then also knows the modules of which its objects are parts."""
        self._handed_over.add(held)

    def objects(self, reach: _Reach, passed: _Passed) -> frozenset[Atom]:
        """The captured objects, including those passed for parameters that are captured.

        Args:
            reach: the objects in a value and in its containers.
            passed: the values that callers pass for a parameter, given as its function's key and its name.
        """
        kept = {strip(atom) for held in self._kept for atom in reach(held)}
        return _with_passed(kept | self._known_outside(reach), reach, passed)

    def handed_over(self, reach: _Reach, passed: _Passed) -> frozenset[Atom]:
        """Those of the objects that unseen code gets."""
        return _with_passed(self._known_outside(reach), reach, passed)

    def _known_outside(self, reach: _Reach) -> set[Atom]:
        return {root(atom) for held in self._handed_over for atom in reach(held)}


def _with_passed(found: set[Atom], reach: _Reach, passed: _Passed) -> frozenset[Atom]:
    pending = [atom for atom in found if isinstance(atom, Parameter)]
    while pending:
        parameter = pending.pop()
        given = passed((parameter.function, parameter.name)) or NOTHING
        new = {root(atom) for atom in reach(given)} - found
        found |= new
        pending.extend(atom for atom in new if isinstance(atom, Parameter))
    return frozenset(found)
