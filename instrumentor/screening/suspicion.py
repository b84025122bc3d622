"""What other files, of which only outlines are known, may change about the verdicts on a script's objects."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.values import Instance, Made, Named, Parameter, Value, Widened, root
from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import annotations_of
from instrumentor.resolve.function_outline import EVIDENCE, is_evidence
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.outline import OutlinedUnit
from instrumentor.resolve.unit import Class
from instrumentor.screening.given import METHODS_OF_VALUES
from instrumentor.screening.neighbours import is_of_neighbour
from instrumentor.source.nodes import arguments_of, walk

if TYPE_CHECKING:
    from instrumentor.analysis.entries import Site
    from instrumentor.analysis.facts import Facts
    from instrumentor.analysis.sites import SiteIndex
    from instrumentor.decide.judge import Judge
    from instrumentor.screening.neighbours import NeighbourProject

# What is recorded of an object that is used or declared as a module.
_SHOWN = EVIDENCE | {catalogue.WRAPPED, catalogue.DECLARED, catalogue.TRAINED}


class Suspicion:
    """What the code of other files may change about the verdicts on a script's sites.

    Args:
        project: the script with its neighbours.
        facts: the result of the analysis.
        index: the script's sites.
        judge: the verdicts on these.
    """

    def __init__(self, project: NeighbourProject, facts: Facts, index: SiteIndex, judge: Judge) -> None:
        self._neighbours = project.neighbours
        self._script = project.script
        self._hierarchy = index.hierarchy
        self._facts = facts
        self._index = index
        self._judge = judge
        # The objects that would be modules if some code used them as such.
        self._unexplained = [
            site
            for site in index.own_sites
            if site.nature is Nature.UNKNOWN and judge.verdict(site).code == "not-module"
        ]

    @property
    def may_change(self) -> bool:
        """Whether some object may become one to wrap."""
        if not self._neighbours.has_any:
            return False
        return (
            self._has_lost_names
            or any(map(self._may_be_kept_inside, self._index.own_sites))
            or any(map(self._is_maker_handed_out, self._index.own_sites))
            or any(is_of_neighbour(given.giving.callee) for given, _ in self._judge.given)
            or (bool(self._unexplained) and self._may_explain())
        )

    @property
    def _has_lost_names(self) -> bool:
        """Whether some value got so large that the names in it, which may be those of makers, are no longer known."""
        tables = self._facts.returns, self._facts.scopes, self._facts.attributes, self._facts.passed
        return any(isinstance(atom, Widened) for table in tables for held in table.values() for atom in held)

    def _may_be_kept_inside(self, site: Site) -> bool:
        """Whether a function hands out a module of another file, whose code may have kept it before."""
        return self._judge.verdict(site).code == "returned" and _is_of_neighbour(site)

    def _is_maker_handed_out(self, site: Site) -> bool:
        """Whether a function of another file gives something that is called in place, such as a class from a table.

        What an attribute keeps is taken for an activation or another function of tensors.
        """
        made = Made(site.key)
        if catalogue.CALLED not in self._facts.evidence.get(made, ()) or not self._may_be_maker(made):
            return False
        return not any(isinstance(each.target, ast.Attribute) for each in self._index.holders_of(made))

    def _may_explain(self) -> bool:
        """Whether other files may show an unexplained object to be a module."""
        return (
            any(map(self._is_copy_of_theirs, self._unexplained))
            or any(map(self._is_called_without_name, self._unexplained))
            or any(map(self._is_of_making_method, self._unexplained))
            or self._is_used_elsewhere()
            or any(map(self._is_kept_for_inherited_use, self._script.class_of.values()))
        )

    def _is_copy_of_theirs(self, site: Site) -> bool:
        """Whether an object is a copy of something that an object of another file holds."""
        sources = [self._facts.sites.get(base.site) for base in map(root, site.arguments) if isinstance(base, Made)]
        return site.is_copy and any(each is not None and _is_of_neighbour(each) for each in sources)

    def _is_called_without_name(self, site: Site) -> bool:
        """Whether the callee is a variable or an expression, which may hold a maker of another file."""
        bases = [root(atom) for atom in site.callee]
        if any(isinstance(base, Made) and self._may_be_maker(base) for base in bases):
            return True
        if any(isinstance(base, Parameter) and self._may_hold_maker(base) for base in bases):
            return True
        if not all(isinstance(base, (Made, Parameter)) for base in bases):
            return True
        function = site.node.func if isinstance(site.node, ast.Call) else None
        if bases or function is None or isinstance(function, ast.Attribute):
            return False
        return not isinstance(function, ast.Name) or self._hierarchy.resolve(self._script, function) is None

    def _may_hold_maker(self, parameter: Parameter) -> bool:
        """Whether another file may pass a maker for a parameter, or defines what calling the method's object does."""
        function = self._facts.demanded_functions.get(parameter.function)
        if function is None:
            return True
        if function.owner is not None and parameter.name in function.positional[:1]:
            called = self._neighbours.hierarchy.method(function.owner, "__call__")
            return called is not None and self._neighbours.given.by(called) is Nature.MODULE
        return function.key in self._facts.escaped

    def _may_be_maker(self, made: Made) -> bool:
        """Whether an object got from another file may be a class or function that makes a module when it is called."""
        site = self._facts.sites.get(made.site)
        for label in filter(is_of_neighbour, [] if site is None else site.labels):
            meaning = self._neighbours.meaning(label)
            if isinstance(meaning, Class):
                meaning = self._neighbours.hierarchy.method(meaning, "__call__")
                if meaning is not None and self._neighbours.given.by(meaning) is Nature.MODULE:
                    return True
            else:
                return True
        return False

    def _is_of_making_method(self, site: Site) -> bool:
        """Whether a method is called that another file may define to make a module, or store as a maker."""
        function = site.node.func if isinstance(site.node, ast.Call) else None
        name = function.attr if isinstance(function, ast.Attribute) else ""
        if not name or name in METHODS_OF_VALUES:
            return False
        units = [unit for unit in self._neighbours.units if isinstance(unit, OutlinedUnit)]
        named = [each for unit in units for each in unit.function_by_key.values() if each.name == name]
        return any(name in unit.outline.stored for unit in units) or any(
            self._neighbours.given.by(each) is Nature.MODULE for each in named
        )

    def _is_used_elsewhere(self) -> bool:
        """Whether an unexplained object may be used as a module by way of something that other files get or keep.

        It may be kept by an object of another file, held by an instance that unseen code gets, or returned by a
        function that it may call. And something, there or in the script, must use such a thing as a module.
        """
        facts = self._facts
        is_used_there = self._neighbours.has_met_use
        theirs = list(filter(_is_of_neighbour, self._index.own_sites))
        is_used = is_used_there or any(not _SHOWN.isdisjoint(facts.evidence.get(Made(site.key), ())) for site in theirs)
        if not is_used and not any(map(self._shows_module, self._script.parents)):
            return False
        held: list[Value | None] = [site.arguments for site in theirs]
        kinds = (Made, Named, Instance) if is_used_there else (Made, Named)
        held += [each for (holder, _), each in facts.attributes.items() if isinstance(holder, kinds)]
        held += [facts.returns.peek(key) for key in facts.escaped] if is_used_there else []
        unexplained = frozenset(Made(site.key) for site in self._unexplained)
        return any(each and not unexplained.isdisjoint(facts.contents.reach(each)) for each in held)

    def _shows_module(self, node: ast.AST) -> bool:
        """Whether a node of the script uses something as a module, or declares it as one."""
        declare = self._hierarchy.declaration
        return is_evidence(node, self._script) or any(
            declare(self._script, each).is_module for each in annotations_of(node)
        )

    def _is_kept_for_inherited_use(self, cls: Class) -> bool:
        """Whether a class inherits methods that use something as a module, and may hold an unexplained object."""
        if self._hierarchy.is_module(cls) or not self._inherits_use(cls):
            return False
        held = [each for (holder, _), each in self._facts.attributes.items() if holder == Instance(cls.key)]
        unexplained = {Made(site.key) for site in self._unexplained}
        if any(not unexplained.isdisjoint(self._facts.contents.reach(each)) for each in held):
            return True
        calls = [node for node in self._script.parents if isinstance(node, ast.Call)]
        return any(self._hands_over(call) for call in calls if self._makes(call, cls))

    def _inherits_use(self, cls: Class) -> bool:
        neighbours = self._neighbours
        above = [each.unit for each in neighbours.hierarchy.ancestors(cls) if isinstance(each.unit, OutlinedUnit)]
        return any(
            each.outline.uses_modules or neighbours.given.declares_modules(each, each.outline.top) for each in above
        )

    def _makes(self, call: ast.Call, cls: Class) -> bool:
        """Whether a call makes an instance of a class, or initialises it by `super()`."""
        function = call.func
        if self._hierarchy.resolve(self._script, function) is cls:
            return True
        return (
            isinstance(function, ast.Attribute)
            and function.attr == "__init__"
            and self._script.class_around(call) is cls
        )

    def _hands_over(self, call: ast.Call) -> bool:
        """Whether an argument of a call mentions an unexplained object."""
        mentioned = [node for argument in arguments_of(call) for node in walk(argument)]
        made = {id(site.node) for site in self._unexplained}
        names = {each.text for site in self._unexplained for each in self._index.holders_of(Made(site.key))}
        return any(id(node) in made or (isinstance(node, ast.Name) and node.id in names) for node in mentioned)


def _is_of_neighbour(site: Site) -> bool:
    return any(map(is_of_neighbour, site.labels))
