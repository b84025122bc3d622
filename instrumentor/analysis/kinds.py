"""What abstract objects are: their classes, their functions, modules or not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.values import (
    PLAIN,
    Atom,
    Derived,
    Made,
    Opaque,
    Parameter,
    Part,
    Plain,
    Scripted,
    SiteKey,
    Value,
    strip,
)
from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import declared_parameter
from instrumentor.resolve.nature import Nature
from instrumentor.source.nodes import positional_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import Class, Function


class Kinds:
    """Classifies objects, as seen in one function or, for None, at the top level of a file."""

    def __init__(self, facts: Facts, hierarchy: Hierarchy, function: Function | None) -> None:
        self.facts = facts
        self.hierarchy = hierarchy
        self.function = function

    def class_of(self, key: str) -> Class | None:
        """The class with a key; None if there is none."""
        return self.hierarchy.project.class_at(key)

    def function_at(self, key: str) -> Function | None:
        """The function with a key; None if there is none."""
        unit = self.hierarchy.project.units.get(key.partition(":")[0])
        return None if unit is None else unit.function_by_key.get(key)

    def descendants(self, cls: Class) -> list[Class]:
        """The subclasses of a class in the files read so far."""
        found = self.hierarchy.descendants(cls)
        self.facts.descendants.kept(cls, lambda: found)
        self.facts.descendants.note_read(cls)
        return found

    def methods_named(self, key: str, prefix: str) -> list[str]:
        """The names of a class's methods that begin with `prefix`, without special methods."""
        names = {name for each in self._related(key) for name in each.methods if not name.startswith("__")}
        return sorted(name for name in names if name.startswith(prefix))

    def _related(self, key: str) -> list[Class]:
        """A class with its ancestors and descendants."""
        cls = self.class_of(key)
        return [] if cls is None else [*self.hierarchy.ancestors(cls), *self.descendants(cls)]

    def method_of(self, base: Atom, name: str) -> Function | None:
        """The project's method `base.name`, if `base` is a module of a project's class."""
        for cls in self.module_classes(base):
            method = self.hierarchy.method(cls, name)
            if method is not None:
                return method
        return None

    def module_classes(self, base: Atom) -> list[Class]:
        """The project's classes that a module may have."""
        if isinstance(base, Made):
            site = self.facts.sites.get(base.site)
            keys = site.class_keys if site is not None else set()
            return [cls for key in sorted(keys) if (cls := self.class_of(key)) is not None]
        if isinstance(base, Parameter) and self.is_self(base) and self.function is not None:
            owner = self.function.owner
            return [owner] if owner is not None else []
        return []

    def is_self(self, base: Parameter) -> bool:
        """Whether a parameter is the `self` of a method."""
        function = self.facts.demanded_functions.get(base.function)
        if function is None or function.owner is None or isinstance(function.node, ast.Lambda):
            return False
        arguments = positional_parameters(function.node.args)
        return bool(arguments) and arguments[0].arg == base.name and function.node.name in function.owner.methods

    def takes_in(self, base: Atom, name: str, *, is_sure: bool = False) -> bool:
        """Whether a method such as `append` makes submodules of its arguments.

        Args:
            base: the receiver.
            name: the method, which is not defined by a class of the project.
            is_sure: whether this must hold for all values of a parameter, rather than for any.
        """
        if isinstance(base, Parameter) and not self.is_self(base):
            found = [self._takes_in_as_passed(atom, name) for atom in self._passed_to(base)]
            return all(found) if is_sure else any(found)
        if not self.is_module(base) or name in catalogue.NAMED_ADOPTING_METHODS:
            return self.is_module(base)
        if isinstance(base, Part):
            return name != "update"  # averages of models have this method too
        if isinstance(base, Made) and any(map(catalogue.is_container, self._labels(base.site))):
            return True
        bases = [each for cls in self.module_classes(base) for each in self.hierarchy.library_bases(cls)]
        return any(each is None or catalogue.is_container(each) for each in bases)

    def _takes_in_as_passed(self, atom: Atom, name: str) -> bool:
        """The same for a value passed for a parameter, without wrappers."""
        if isinstance(atom, Parameter):
            return name == "add_module"  # only modules have this method
        return self.method_of(atom, name) is None and self.takes_in(atom, name)

    def registers(self, base: Atom, *, is_sure: bool = False) -> bool:
        """Whether storing a value into an attribute of an object makes it a submodule.

        Args:
            base: the object.
            is_sure: whether this must hold for all values of a parameter, rather than for any.
        """
        if not isinstance(base, Parameter) or self.is_self(base):
            return self.is_module(base)
        found = [self.is_module(atom) for atom in self._passed_to(base)]
        return bool(found) and all(found) if is_sure else any(found)

    def _passed_to(self, parameter: Parameter) -> list[Atom]:
        """The values passed for a parameter, without wrappers, and without None, numbers and the like."""
        return [strip(atom) for atom in self.facts.passed.to(parameter) if not isinstance(atom, Plain)]

    def library_names(self, base: Atom) -> list[str]:
        """The library names of an object's makers, and of the classes that its annotation names."""
        if isinstance(base, Made):
            return sorted(self._library_names_at(base.site, frozenset()))
        if not isinstance(base, Parameter) or (function := self.function_at(base.function)) is None:
            return []
        declared = declared_parameter(function.node, base.name)
        if declared is None or declared.annotation is None:
            return []
        return [*self.hierarchy.declaration(function.unit, declared.annotation).names]

    def _library_names_at(self, key: SiteKey, seen: frozenset[SiteKey]) -> set[str]:
        """The names of a site's makers and declared classes. For origins in functions, those common to all."""
        site = self.facts.sites.get(key)
        if site is None or key in seen:
            return set()
        made = [self._library_names_at(each, seen | {key}) for each in site.origins]
        return {*site.labels, *self.facts.declared.get(key, ()), *(set.intersection(*made) if made else ())}

    def library_names_passed(self, base: Atom, method: str) -> list[str]:
        """The library names common to everything that callers pass for a parameter, for a call of `method` on it.

        Empty if no library class is known for the effect of such a method.
        """
        if not isinstance(base, Parameter) or not catalogue.is_method_with_effect(method):
            return []
        passed = [atom for atom in self.facts.passed.to(base) if not isinstance(atom, Plain)]
        names = [set(self.library_names(atom)) if isinstance(atom, Made) else set() for atom in passed]
        return sorted(set.intersection(*names)) if names else []

    def _labels(self, key: SiteKey) -> set[str]:
        """The labels of a site and, transitively, of its origins."""
        found: set[str] = set()
        pending, seen = [key], {key}
        while pending:
            site = self.facts.sites.get(pending.pop())
            if site is not None:
                found.update(site.labels)
                pending.extend(site.origins - seen)
                seen |= site.origins
        return found

    def is_module(self, base: Atom) -> bool:
        """Whether an object is known to be a module, as a parameter is in its class's own methods."""
        if isinstance(base, Part):
            return True
        if isinstance(base, Made):
            return self.nature(base) in (Nature.MODULE, Nature.NO_PARAMS)
        if isinstance(base, Parameter) and self.is_self(base) and self.function is not None:
            owner = self.function.owner
            return owner is not None and self.hierarchy.is_module(owner)
        return False

    def is_sure_of(self, takes: Callable[[Atom], bool], receiver: Value) -> bool:
        """Whether every possible receiver takes modules in, as `takes` decides. None counts: it has no attributes."""
        return all(isinstance(atom, Plain) or takes(strip(atom)) for atom in receiver)

    def stands_for(self, atom: Atom) -> list[Atom]:
        """The atoms that reading or calling `atom` may reach.

        A parameter stands for the containers, instances and functions that callers pass, and for itself if a caller may
        pass a module. If callers pass only None, numbers and the like, it stands for these.
        """
        if not isinstance(atom, Parameter):
            return [atom]
        passed = self.facts.passed.to(atom)
        if passed and passed <= PLAIN:
            return [*passed]
        others = [each for each in passed if not each.is_object and not isinstance(each, (Opaque, Derived, Scripted))]
        is_other = others and not any(each.is_object or type(each) is Opaque for each in passed)
        return others if is_other else [*others, atom]

    def things(self, held: Value) -> Value:
        """The atoms that reading from a value may reach."""
        if not any(type(atom) is Parameter for atom in held):
            return held  # the common case
        return frozenset(each for atom in held for each in self.stands_for(atom))

    def is_without_parameters(self, atom: Atom) -> bool:
        """Whether an object surely has no parameters: it is a module without any, or no module."""
        return isinstance(atom, Made) and self.nature(atom) in (Nature.NO_PARAMS, Nature.NOT_MODULE)

    def nature(self, made: Made) -> Nature:
        """The nature of a site's object, before its use is considered."""
        site = self.facts.sites.get(made.site)
        return Nature.UNKNOWN if site is None else site.nature

    def nature_of_object(self, base: Atom) -> Nature:
        """The nature of any object. A parameter counts as a module, as that is what most queries are about."""
        if isinstance(base, Made):
            return self.nature(base)
        return Nature.UNKNOWN if isinstance(base, Part) and self.is_of_unknown(base) else Nature.MODULE

    def is_nothing_known(self, held: Value) -> bool:
        """Whether a value is unseen: it is no object of the program and not computed from one."""
        return all(
            isinstance(atom, Opaque)
            or (isinstance(atom, Part) and isinstance(atom.root, Made) and self.is_of_unknown(atom))
            for atom in held
        )

    def is_of_unknown(self, part: Part) -> bool:
        """Whether the whole of a part may be no module, so that its parts may be functions and classes too."""
        whole = part.root
        if isinstance(whole, Parameter):
            return not self.is_self(whole)
        return isinstance(whole, Made) and self.nature(whole) in (Nature.UNKNOWN, Nature.NOT_MODULE)
