"""Queries about sites for the decisions: what they make, where it can be wrapped, what else holds it."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from instrumentor.analysis.blocks import (
    always_follows,
    is_in_loop,
    outermost_loop,
    statement_of,
)
from instrumentor.analysis.placement import Place, Placement, place
from instrumentor.analysis.spelling import text_of
from instrumentor.analysis.values import (
    NOTHING,
    Atom,
    Derived,
    Instance,
    Made,
    Pack,
    Parameter,
    SiteKey,
    Value,
    objects_in,
    root,
    strip,
    value,
)
from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import function_around
from instrumentor.resolve.nature import Nature
from instrumentor.settings import CONFIDENCES
from instrumentor.source.nodes import arguments_of, decorators_of, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.analysis.entries import Binding, Event, Site
    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import Function, Unit
    from instrumentor.settings import Confidence

# Names of things that are called and moved like models but are none.
_NO_MODEL_NAME = re.compile(r"loss|criterion|metric|crit\b|optim|schedul|token|transform|augment", re.IGNORECASE)


class SiteIndex:
    """Answers queries about the sites of one script from the finished facts."""

    def __init__(
        self, facts: Facts, hierarchy: Hierarchy, script: Unit, unreached: frozenset[str] = frozenset()
    ) -> None:
        self.facts = facts
        self.hierarchy = hierarchy
        self.script = script
        self._unreached = unreached
        self.own_sites = [site for site in facts.sites.values() if site.unit is script]
        self._site_at = {id(site.node): site for site in self.own_sites if not site.key.path}
        self._words = self._evidence()
        self._natures: dict[SiteKey, Nature] = {}
        self._unsettled: list[Site] = []
        self._confidences: dict[SiteKey, Confidence] = {}
        self._placements: dict[SiteKey, Placement | None] = {}
        self._callers: dict[SiteKey, list[Site]] = {}
        for site in facts.sites.values():
            if not self.is_unreached(site):
                for origin in site.origins:
                    self._callers.setdefault(origin, []).append(site)
        self._fresh_nodes: set[int] | None = None

    @cached_property
    def _captured(self) -> frozenset[Atom]:
        """The objects that something besides a returned value holds."""
        return self.facts.captured.objects(self.facts.contents.reach, self.facts.passed.get)

    def _evidence(self) -> dict[SiteKey, set[str]]:
        """How each site's object is used, directly and as an argument of functions."""
        found: dict[SiteKey, set[str]] = {}
        for atom, said in self.facts.evidence.items():
            sources = self.facts.passed.sources(value(atom))
            is_declared = catalogue.DECLARED in said
            if is_declared and isinstance(atom, Parameter) and self._may_get_others(atom, sources):
                is_declared = False
            words = said if is_declared else said - {catalogue.DECLARED}
            for source in sources:
                made = root(source) if isinstance(atom, Parameter) and strip(source) == root(source) else source
                if isinstance(made, Made):
                    found.setdefault(made.site, set()).update(words)
        self._add_training(found)
        return found

    def _add_training(self, found: dict[SiteKey, set[str]]) -> None:
        """Add evidence from backward passes: what computed their start is a loss if given outputs, else a model."""
        for key in [key for key, words in found.items() if catalogue.BACKWARD in words]:
            site = self.facts.sites[key]
            inputs = self.facts.passed.sources(site.arguments)
            is_loss = any(isinstance(atom, Derived) or self._is_output(atom) for atom in inputs - site.callee)
            for atom in self.facts.passed.sources(site.callee):
                if isinstance(atom, Made):
                    found.setdefault(atom.site, set()).add(catalogue.AS_LOSS if is_loss else catalogue.TRAINED)

    def _may_get_others(self, parameter: Parameter, sources: Value) -> bool:
        """Whether a parameter may get values meant for other parameters, so that its annotation is no evidence.

        That is so if some value is no module although the parameter is declared as one, or if a value comes from
        `*args` or `**kwargs`.
        """
        if any(isinstance(each, Made) and self.facts.sites[each.site].nature is Nature.NOT_MODULE for each in sources):
            return True
        seen, pending = {parameter}, [parameter]
        while pending:
            asked = pending.pop()
            passed = self.facts.contents.reach(self.facts.passed.get((asked.function, asked.name), NOTHING))
            above = {each for each in map(root, passed) if isinstance(each, Parameter)} - seen
            if any(map(self._is_of_several, above)):
                return True
            seen |= above
            pending.extend(above)
        return False

    def _is_of_several(self, parameter: Parameter) -> bool:
        """Whether a parameter is `*args` or `**kwargs`."""
        function = self.facts.demanded_functions.get(parameter.function)
        several = () if function is None else (function.node.args.vararg, function.node.args.kwarg)
        return any(each is not None and each.arg == parameter.name for each in several)

    def _is_output(self, atom: Atom) -> bool:
        return isinstance(atom, Made) and bool(self.facts.sites[atom.site].callee)

    def is_unreached(self, site: Site) -> bool:
        """Whether a site is in a function that nothing in the program calls."""
        return bool(self._unreached) and site.function is not None and site.function.outermost.key in self._unreached

    # ---- what a site makes ----

    def nature(self, site: Site) -> Nature:
        """The nature of a site's object, considering its later use; never UNKNOWN."""
        if site.key not in self._natures:
            is_first = not self._unsettled
            self._unsettled.append(site)
            self._natures[site.key] = Nature.NOT_MODULE  # the least value, to start the fixpoint iteration
            self._natures[site.key] = self._find_nature(site)
            if is_first:
                self._settle_natures()
        return self._natures[site.key]

    def _settle_natures(self) -> None:
        """Iterate the natures of mutually dependent sites to a fixpoint."""
        is_settled = len(self._unsettled) == 1
        while not is_settled:
            is_settled = True
            for site in self._unsettled:  # grows by the sites that are queried meanwhile
                found = self._find_nature(site)
                is_settled &= found is self._natures[site.key]
                self._natures[site.key] = found
        self._unsettled.clear()

    def _find_nature(self, site: Site) -> Nature:
        if site.nature is not Nature.UNKNOWN:
            return site.nature
        made_inside = [self.nature(self.facts.sites[key]) for key in site.origins if key in self.facts.sites]
        if Nature.MODULE in made_inside:
            return Nature.MODULE
        if site.is_copy and any(self.is_module(root(atom)) for atom in self._copied(site)):
            return Nature.MODULE
        if site.key.path and site.key._replace(path=()) in self.facts.sites and not site.origins:
            whole = self.facts.sites[site.key._replace(path=())]
            if whole.nature is not Nature.UNKNOWN:
                return Nature.NOT_MODULE
        if self._evidence_of(site) is not None:
            return Nature.MODULE
        return Nature.NO_PARAMS if catalogue.AS_LOSS in self._words.get(site.key, set()) else Nature.NOT_MODULE

    def _copied(self, site: Site) -> Value:
        return self.facts.passed.sources(frozenset(atom for atom in site.arguments if atom.is_object))

    def confidence(self, site: Site) -> Confidence:
        """How sure it is that a site makes a module, if its nature is that of one."""
        if site.nature is not Nature.UNKNOWN:
            return "certain"
        if site.is_copy:  # parts of modules need not be modules
            is_whole = any(self.is_module(strip(atom)) for atom in self._copied(site))
            return "certain" if is_whole else "likely"
        if site.key not in self._confidences:
            self._confidences[site.key] = "possible"  # the value for a site that depends on itself
            inside = [self.facts.sites[key] for key in site.origins if key in self.facts.sites]
            made = [self.confidence(each) for each in inside if self.nature(each) is Nature.MODULE]
            found = min(made, key=CONFIDENCES.index) if made else self._evidence_of(site)
            self._confidences[site.key] = found or "possible"
        return self._confidences[site.key]

    def _evidence_of(self, site: Site) -> Confidence | None:
        """How strongly the use of an object suggests that it is a module; None if it does not."""
        words = self._said_of(site)
        if words & {catalogue.WRAPPED, catalogue.TRAINED, catalogue.DECLARED} or words & catalogue.MODULE_EVIDENCE:
            return "likely"
        placement = self.placement(site)
        is_stateful = bool(words & catalogue.MOVES) and bool(words & catalogue.STATE)
        if not (is_stateful or catalogue.CALLED in words) or (
            placement is not None and _NO_MODEL_NAME.search(placement.text)
        ):
            return None
        if words & catalogue.WEAK_EVIDENCE - catalogue.MOVES:
            return "likely"
        return "possible" if words & catalogue.MOVES else None

    def _said_of(self, site: Site) -> set[str]:
        """How an object is used, also by code of other files that gets it from a function of the script."""
        said = set(self._words.get(site.key, ()))
        if site.unit is self.script:
            for caller in self.callers(site):
                if caller.unit is not self.script:
                    said |= self._words.get(caller.key, set())
        return said

    def is_only_declared(self, site: Site) -> bool:
        """Whether only an annotation says that an object is a module."""
        words = set(self._words.get(site.key, ()))
        for origin in site.origins:
            words |= self._words.get(origin, set())
        used = {catalogue.WRAPPED, catalogue.TRAINED, *catalogue.MODULE_EVIDENCE, *catalogue.WEAK_EVIDENCE}
        return catalogue.DECLARED in words and not words & used

    def is_module(self, atom: Atom) -> bool:
        """Whether an object is a module, with or without parameters."""
        if isinstance(atom, Made) and atom.site in self.facts.sites:
            return self.nature(self.facts.sites[atom.site]) in (Nature.MODULE, Nature.NO_PARAMS)
        return False

    # ---- where it is, and where it goes ----

    def placement(self, site: Site) -> Placement | None:
        """The placement of a site's proxy; None for an element of a tuple that is not unpacked."""
        if site.key not in self._placements:
            self._placements[site.key] = place(
                site.unit,
                self.facts,
                self.hierarchy,
                site.node,
                site.key.path,
                is_fresh=self._is_fresh,
                is_coroutine=self.is_coroutine(site),
            )
        return self._placements[site.key]

    def _is_fresh(self, node: ast.expr) -> bool:
        if self._fresh_nodes is None:
            self._fresh_nodes = {
                id(site.node)
                for site in self.facts.sites.values()
                if not site.is_read and not site.key.path and site.nature in (Nature.MODULE, Nature.UNKNOWN)
            }
        return id(node) in self._fresh_nodes

    def is_coroutine(self, site: Site) -> bool:
        """Whether a call returns only coroutines and is not awaited."""
        if site.is_own or isinstance(site.unit.parents.get(site.node), ast.Await):
            return False
        makers = [self.facts.sites[key].function for key in site.origins]
        return bool(makers) and all(each is not None and isinstance(each.node, ast.AsyncFunctionDef) for each in makers)

    def callers(self, site: Site) -> list[Site]:
        """The calls that return a site's object as their own."""
        return self._callers.get(site.key, [])

    def is_handed_out(self, site: Site) -> bool:
        """Whether a site's object leaves its function only as its return value."""
        function = site.function
        made = Made(site.key)
        if function is None or made in self._captured or self.facts.is_dropped(site):
            return False
        if is_in_loop(site.unit, site.node):
            return False  # only one of several objects is returned
        placement = self.placement(site)
        if placement is not None and placement.place is Place.INLINE and placement.is_argument:
            return False  # the callee may keep it
        if function.key in self.facts.escaped:
            return False
        return made in self._returned(function)

    def is_in_module_class(self, site: Site) -> bool:
        """Whether a site is in a module class, so that its object becomes part of a module.

        The exceptions are objects in plain lists, which are neither registered nor reached by recursion, and local
        objects of methods that no call of the module reaches.
        """
        made = Made(site.key)
        if made in self.facts.hidden and made not in self.facts.absorbed:
            return False
        node: ast.AST = site.node
        while node in site.unit.parents:
            inner, node = node, site.unit.parents[node]
            if not isinstance(node, ast.ClassDef) or not isinstance(inner, ast.stmt):
                continue  # decorators are outside the class
            if self.hierarchy.is_module(site.unit.class_of[node]):
                return not self._stays_in_method(site)
        return False

    def _stays_in_method(self, site: Site) -> bool:
        """Whether only a method's local names hold an object that it calls, and no module's call runs the method."""
        made, function = Made(site.key), site.function
        words = self._words.get(site.key, set())
        if function is None or not words & {catalogue.CALLED, *catalogue.MODULE_EVIDENCE}:
            return False
        if self.facts.absorbed.get(made) or self._is_run_by_module(function):
            return False
        holders = self.holders_of(made)
        return (
            bool(holders)
            and all(isinstance(each.target, ast.Name) and each.function is function for each in holders)
            and made not in self.facts.contents.reach(self.facts.returns.get(function.key, NOTHING))
        )

    def holders_of(self, made: Made) -> Sequence[Binding]:
        """The bindings of an object, or of something that stands for it."""
        return self._holders.get(made, ())

    @cached_property
    def _holders(self) -> dict[Atom, list[Binding]]:
        found: dict[Atom, list[Binding]] = {}
        for binding in self.facts.bindings.values():
            for atom in objects_in(binding.value):
                found.setdefault(atom, []).append(binding)
        return found

    def _is_run_by_module(self, function: Function) -> bool:
        """Whether calling or making a module reaches a function. The runtime then sees what it calls anyway."""
        seen: set[str] = set()
        pending = [function]
        while pending:
            each = pending.pop()
            if each.key in seen:
                continue
            seen.add(each.key)
            is_special = each.name == "forward" or each.name.startswith("__")
            if is_special and each.owner is not None and self.hierarchy.is_module(each.owner):
                return True
            calls = self.facts.calls.get(each.key, {}).values()
            pending.extend(call.function for call in calls if call.function is not None)
        return False

    def compiling_decorator(self, site: Site) -> str | None:
        """The compiling decorator of the code around a site; None if there is none."""
        for node in site.unit.enclosing(site.node):
            for decorator in decorators_of(node):
                found = self.hierarchy.resolve(site.unit, decorator)
                if isinstance(found, str) and catalogue.is_compiling_decorator(found):
                    return found
        return None

    def is_only_saved(self, site: Site) -> bool:
        """Whether a copy is made only to be saved in a checkpoint, by itself or in a container."""
        placement = self.placement(site)
        if not site.is_copy or placement is None:
            return False
        parents = site.unit.parents
        holder: ast.AST = placement.expression
        while isinstance(parents.get(holder), (ast.Dict, ast.List, ast.Tuple)):
            holder = parents[holder]
        statement = parents.get(holder)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return self._is_saved(site.unit, holder)
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or holder is placement.expression:
            return False
        scope = site.unit.tree if site.function is None else site.function.node
        first = outermost_loop(site.unit, statement) or statement
        loads = [
            node
            for node in walk(scope)
            if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load)
        ]
        # Loads before the assignment, and outside its loops, read an earlier value.
        later = [
            node
            for node in loads
            if node.lineno >= first.lineno or (function_around(site.unit, node) or site.unit.tree) is not scope
        ]
        return bool(later) and all(self._is_saved(site.unit, node) for node in later)

    def _is_saved(self, unit: Unit, node: ast.AST) -> bool:
        call = unit.parents.get(node)
        if not isinstance(call, ast.Call) or node not in call.args:
            return False
        found = self.hierarchy.resolve(unit, call.func)
        return isinstance(found, str) and catalogue.is_saving(found)

    def absorptions(self, site: Site) -> list[tuple[Event, ...]]:
        """Where a site's object becomes part of another module.

        Each element suffices: an event that happens in every run that makes the object, or all events if only they
        ever use it.
        """
        events = self.facts.absorbed.get(Made(site.key), {})
        certain = self._certain(site, events)
        is_all = not certain and bool(events) and self._is_never_used(site)
        return [*((each,) for each in certain), *([tuple(events.values())] if is_all else [])]

    def _is_never_used(self, site: Site) -> bool:
        """Whether a site's object is neither used as a module by itself nor given to anything that may do so."""
        made, words = Made(site.key), self._words.get(site.key, set())
        if words - {catalogue.DECLARED} or made in self.facts.called:
            return False
        if any(isinstance(each.target, ast.Name) for each in self.holders_of(made)):
            return False  # whoever reads the name may use it
        # What a function returns is another object to the analysis for each of its callers.
        is_returned = site.function is not None and made in map(strip, self._returned(site.function))
        return not is_returned and made not in self._known_outside

    def _returned(self, function: Function) -> Value:
        """What a function returns by itself or in a tuple."""
        returned = self.facts.returns.get(function.key, NOTHING)
        return returned.union(*(item for atom in returned if isinstance(atom, Pack) for item in atom.items))

    @cached_property
    def _known_outside(self) -> frozenset[Atom]:
        """The objects that unseen code gets, also from functions that it may call and from instances that it gets."""
        facts, reach = self.facts, self.facts.contents.reach
        given = [
            held
            for table in (facts.returns, facts.yields)
            for key, held in table.items()
            if key in facts.escaped or key in facts.called_unseen
        ]
        given += [
            held
            for (base, _), held in facts.attributes.items()
            if isinstance(base, Instance) and base.key in facts.opened
        ]
        return facts.captured.handed_over(reach, facts.passed.get).union(*map(reach, given))

    def certain_replacements(self, site: Site) -> list[Event]:
        """Where a site's object gets other parameters in every run that makes it, in the order of the text."""
        events = self._certain(site, self.facts.replaced.get(Made(site.key), {}))
        return sorted(events, key=lambda event: (event.node.lineno, event.node.col_offset))  # type: ignore[attr-defined]

    def is_called_before(self, site: Site, event: Event) -> bool:
        """Whether a site's object is called before an event, as far as the text of its function shows."""
        made, then = _start(site.node), _start(event.node)
        return any(
            each.unit is site.unit and each.function is site.function and made < _start(each.node) < then
            for each in self.facts.called.get(Made(site.key), {}).values()
        )

    def _certain(self, site: Site, events: dict[int, Event]) -> list[Event]:
        conditions = self.facts.conditions_of(site.unit, site.node)
        return [
            event
            for event in events.values()
            if event.is_sure
            and _ends_behind(event, site)
            and event.unit is site.unit
            and event.function is site.function
            and always_follows(self.facts.conditions_of(event.unit, event.node), conditions)
        ]

    def site_at(self, node: ast.AST) -> Site | None:
        """The site at a node; None if there is none."""
        return self._site_at.get(id(node))

    def absorbers(self, event: Event) -> list[Site]:
        """The known sites of the modules that an object becomes part of by an event."""
        site = self.site_at(event.node)
        if site is not None:
            # A function may put it into anything, and return something else.
            return [] if site.origins or site.nature is Nature.UNKNOWN else [site]
        atoms = self.facts.passed.sources(event.into)
        return [self.facts.sites[base.site] for atom in atoms if isinstance(base := root(atom), Made)]

    def is_made_elsewhere(self, event: Event) -> bool:
        """Whether another file makes and keeps the module that an object becomes part of."""
        return event.made_in not in (None, self.script.name) and self.site_at(event.node) is None

    def rebinds_argument(self, site: Site) -> bool:
        """Whether an unknown call's result replaces a module passed to it, as in `m = prepare(m, cfg)`.

        Such functions return the module or a wrapper of it, which the runtime sees by itself.
        """
        if site.is_read:
            return any(self.is_module(root(atom)) for atom in self._held_by(site))
        placement = self.placement(site)
        if (
            site.nature is not Nature.UNKNOWN
            or site.is_copy
            or not isinstance(site.node, ast.Call)
            or placement is None
        ):
            return False
        passed = arguments_of(site.node)
        if isinstance(site.node.func, ast.Attribute):
            passed.append(site.node.func.value)
        same = any(isinstance(each, (ast.Name, ast.Attribute)) and text_of(each) == placement.text for each in passed)
        return same and bool(self.modules_passed(site))

    def modules_passed(self, site: Site) -> Value:
        """The modules among the arguments of a site's call."""
        sources = self.facts.passed.sources(frozenset(atom for atom in site.arguments if atom.is_object))
        return frozenset(atom for atom in sources if self.is_module(root(atom)) and root(atom) != Made(site.key))

    def _held_by(self, site: Site) -> Value:
        """The modules among the object from which another is fetched and its arguments."""
        found: set[Atom] = set()
        for atom in self.facts.passed.sources(site.arguments):
            base = root(atom)
            found.add(base)
            if isinstance(base, Made) and base.site in self.facts.sites:
                found |= self.facts.sites[base.site].arguments
        return frozenset(atom for atom in found if self.is_module(root(atom)))

    def modules_fetched(self, site: Site) -> Value:
        """The modules that a fetched object may be."""
        return self._held_by(site) if site.is_read else self.modules_passed(site)


def is_usable(placement: Placement | None) -> bool:
    """Whether a proxy can be written there."""
    return placement is not None and placement.place in (Place.LINE, Place.INLINE)


def _start(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _ends_behind(event: Event, site: Site) -> bool:
    """Whether an event follows the making of an object in the text, so that it does not concern an earlier one."""
    statement, made = statement_of(event.unit, event.node), statement_of(site.unit, site.node)
    is_store = isinstance(event.node, (ast.Attribute, ast.Subscript))
    if statement is not made:
        last = statement if is_store else event.node
        ends = [(each.end_lineno, each.end_col_offset) for each in (last, site.node)]  # type: ignore[attr-defined]
        return bool(ends[0] >= ends[1])
    if is_store:  # complete at the end of the statement; but one of several stores may be of an earlier value
        return not isinstance(getattr(statement, "value", None), (ast.Tuple, ast.List))
    return event.node in site.unit.enclosing(site.node)
