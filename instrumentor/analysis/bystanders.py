"""Functions of other files that unseen code may call, and whose stores and calls are all that matters.

Most of what a project passes to libraries deals with settings, files and data. It makes and uses no module, calls no
method of the script, and reads no name that holds an object of the script. The text of such a function is enough: it is
not visited. What it may store to is unknown from then on, and what it may call counts as called by unseen code.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.environment import ANY_ELEMENT
from instrumentor.analysis.kinds import Kinds
from instrumentor.analysis.touched import ANYTHING, ATTRIBUTES, attribute
from instrumentor.analysis.unseen_methods import note_instance
from instrumentor.analysis.values import FOREIGN, NOTHING, Instance
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.function_text_reader import text_of
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.units import Class, Function, Unit

if TYPE_CHECKING:
    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.function_text import FunctionText

    Meaning = Class | Function | Unit | str | None

# Effects of library functions that concern no object of the script.
_HARMLESS = frozenset(
    {Effect.READS, Effect.COLLECTS, Effect.BUILDS, Effect.IDENTITY, Effect.IDENTITY_TUPLE, Effect.COPIES}
)


class Bystanders:
    """Recognises such functions among those that unseen code may call, and records their effects."""

    def __init__(self, facts: Facts, hierarchy: Hierarchy) -> None:
        self._facts = facts
        self._hierarchy = hierarchy
        self._kinds = Kinds(facts, hierarchy, None)

    def has(self, function: Function) -> bool:
        """Whether only a function's possible stores and calls matter."""
        if function.parent is not None:
            return False  # it may use values of the enclosing function
        text = text_of(function)
        if text.is_open or any(map(self._facts.keeps_own, text.read)):
            return False
        meanings = self._meanings(function, text)
        for reference, meaning in zip(text.references, meanings, strict=True):
            if isinstance(meaning, Class) and self._hierarchy.is_module(meaning):
                return False
            if isinstance(meaning, str) and reference in text.called and not self._is_harmless(meaning):
                return False
        called = self._called(function, text, meanings)
        return not any(each.unit.name in self._facts.whole_units for each in called)

    def note(self, function: Function) -> None:
        """Record what such a function may store to and call."""
        text = text_of(function)
        self._note_stores(function, text)
        meanings = self._meanings(function, text)
        for meaning in meanings:
            if isinstance(meaning, Class):
                note_instance(self._facts, self._hierarchy, meaning)
        for each in self._called(function, text, meanings):
            self._facts.note_unseen_calls(each.key)
            self._facts.demand_unseen(each)

    def _called(self, function: Function, text: FunctionText, meanings: list[Meaning]) -> list[Function]:
        """The functions that it may call: by name, or as methods of its own object and of other objects."""
        found: list[Function | None] = []
        for meaning in meanings:
            if isinstance(meaning, Function):
                found.append(meaning)
            elif isinstance(meaning, Class):
                found += [self._hierarchy.method(meaning, name) for name in ("__new__", "__init__")]
        related = [] if function.owner is None else [function.owner, *self._kinds.descendants(function.owner)]
        for name in text.methods:
            if name != "__init__":
                found += [self._hierarchy.method(each, name) for each in related]
                found += self._facts.methods_by_name.get(name, ())
                found += self._facts.live_methods.get(name, {}).values()
        return [each for each in found if each is not None]

    def _meanings(self, function: Function, text: FunctionText) -> list[Meaning]:
        return [self._meaning(function.unit, reference) for reference in text.references]

    def _meaning(self, unit: Unit, reference: ast.expr) -> Meaning:
        """What a dotted name stands for; the class, if it is a member of one."""
        meaning = self._hierarchy.resolve(unit, reference)
        while meaning is None and isinstance(reference, ast.Attribute):
            reference = reference.value
            meaning = self._hierarchy.resolve(unit, reference)
        return meaning

    def _is_harmless(self, name: str) -> bool:
        """Whether a library function creates no module and has no other effect on one."""
        effect = self._hierarchy.knowledge.effect_of(name)
        if effect is not None:
            return effect in _HARMLESS
        return self._hierarchy.knowledge.nature_of_call(name) is not Nature.MODULE

    def _note_stores(self, function: Function, text: FunctionText) -> None:
        """Add the unknown value to everything that a function may store to."""
        facts = self._facts
        things = {ANYTHING, *map(attribute, text.stored)}
        things |= {("", ANY_ELEMENT)} if text.changes_elements else set()
        things |= {ATTRIBUTES} if text.sets_any else set()
        facts.touched.note(function.key, things)
        own = [] if function.owner is None else [Instance(function.owner.key)]
        for stored in text.stored:
            for base in (*own, *facts.instances_with.get(stored, ())):
                facts.grow(facts.attributes, (base, stored), FOREIGN)
        for base in own if text.sets_any else ():
            facts.grow(facts.attributes, (base, ANY_KEY), FOREIGN)
        for name in text.read if text.changes_elements else ():
            for site in facts.contents.boxes(facts.kept.get(name, NOTHING)):
                facts.contents.scattered.add([site])
                facts.contents.put(site, ANY_KEY, FOREIGN)
