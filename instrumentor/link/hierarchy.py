"""Which classes are above and below each other, where their methods are, and which are classes of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.code.facts import ClassFacts
    from instrumentor.resolve.knowledge import Knowledge


class ClassAt(NamedTuple):
    """A class with the number of its file."""

    file: int
    facts: ClassFacts


class Hierarchy:
    """Answers about classes, by their numbers.

    Args:
        classes: all of them.
        bases: what the bases of each may be: numbers of classes, names of libraries' classes, None for what is not
            known.
        knowledge: what is known of libraries.
    """

    def __init__(
        self, classes: Sequence[ClassAt], bases: Sequence[Sequence[int | str | None]], knowledge: Knowledge
    ) -> None:
        self._classes = classes
        self._bases = bases
        self._knowledge = knowledge
        self._above: dict[int, tuple[int, ...]] = {}
        self._below: dict[int, list[int]] = {}
        for number in range(len(classes)):
            for above in self.ancestors(number)[1:]:
                self._below.setdefault(above, []).append(number)
        self._modules: dict[int, bool] = {}

    def ancestors(self, number: int) -> tuple[int, ...]:
        """A class and those above it, nearer ones first."""
        if number not in self._above:
            found = {number: None}
            pending = [number]
            while pending:
                for base in self._bases[pending.pop(0)]:
                    if isinstance(base, int) and base not in found:
                        found[base] = None
                        pending.append(base)
            self._above[number] = tuple(found)
        return self._above[number]

    def descendants(self, number: int) -> Sequence[int]:
        """The classes below a class."""
        return self._below.get(number, ())

    def library_bases(self, number: int) -> list[str]:
        """The libraries' classes above a class, as far as they are known."""
        return [base for each in self.ancestors(number) for base in self._bases[each] if isinstance(base, str)]

    def is_module(self, number: int) -> bool:
        """Whether a class may be one of modules."""
        if number not in self._modules:
            above = self.ancestors(number)
            bases = [base for each in above for base in self._bases[each] if not isinstance(base, int)]
            natures = {Nature.UNKNOWN if base is None else self._knowledge.nature_of_base(base) for base in bases}
            is_known = Nature.MODULE in natures or Nature.NO_PARAMS in natures
            has_forward = any("forward" in self._classes[each].facts.methods for each in above)
            self._modules[number] = is_known or (Nature.UNKNOWN in natures and has_forward)
        return self._modules[number]

    def is_unknown(self, number: int) -> bool:
        """Whether something above a class is not known."""
        above = self.ancestors(number)
        bases = [base for each in above for base in self._bases[each] if not isinstance(base, int)]
        return any(base is None or self._knowledge.nature_of_base(base) is Nature.UNKNOWN for base in bases)

    def methods(self, number: int, name: str) -> list[tuple[int, int]]:
        """The methods of a name that an instance of a class, or of one below it, may have: files with scopes."""
        found = []
        for each in self.ancestors(number):
            if name in self._classes[each].facts.methods:
                found.append(each)
                break
        # A class below may have it from another one above that.
        for below in self.descendants(number):
            found += [each for each in self.ancestors(below) if name in self._classes[each].facts.methods]
        return [(self._classes[each].file, self._classes[each].facts.methods[name]) for each in dict.fromkeys(found)]

    def own_method(self, number: int, name: str) -> tuple[int, int] | None:
        """The method that an instance of exactly this class has."""
        for each in self.ancestors(number):
            if name in self._classes[each].facts.methods:
                return self._classes[each].file, self._classes[each].facts.methods[name]
        return None
