"""Module classes passed to unseen code: the instances that it makes get their proxy in the class's initialiser."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.analysis.placement import Place, Placement
from instrumentor.analysis.values import Atom, ClassRef, Made, Partial, SiteKey
from instrumentor.decide.held_models import held_by
from instrumentor.resolve.bindings import function_around
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.nature import Nature
from instrumentor.source.nodes import positional_parameters, walk

if TYPE_CHECKING:
    from instrumentor.analysis.entries import Giving, Site
    from instrumentor.analysis.facts import Facts
    from instrumentor.analysis.values import Value
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import Class
    from instrumentor.settings import Confidence


class GivenClass(NamedTuple):
    """A module class that is passed to unseen code.

    Attributes:
        cls: the class.
        giving: the call that passes it.
        is_made: whether the catalogue says that the callee instantiates the classes it is passed.
        place: where its instances get their proxy, at the end of the class's own initialiser.
        obstacle: why they get none there, phrased to follow "and"; empty if they do.
        sites: where the script instantiates it, too; the initialiser's proxy covers these instances.
    """

    cls: Class
    giving: Giving
    is_made: bool
    place: Placement | None
    obstacle: str
    sites: frozenset[SiteKey]

    @property
    def confidence(self) -> Confidence:
        """How sure it is that there are such instances."""
        return "likely" if self.is_made else "possible"

    @property
    def key(self) -> SiteKey:
        """Identifies its instances, as a site's key identifies the objects made there."""
        node = self.cls.node
        return SiteKey(self.cls.unit.name, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)


def find_given_classes(facts: Facts, hierarchy: Hierarchy) -> dict[str, list[GivenClass]]:
    """The classes of modules with parameters that are passed to unseen code, by file name.

    They are in the order of the calls. If the callee only may instantiate a class, the class is left out unless its
    initialiser can take the proxy.
    """
    sites_of: dict[str, list[Site]] = {}
    for site in facts.sites.values():
        for key in site.class_keys:
            sites_of.setdefault(key, []).append(site)
    found: dict[str, GivenClass] = {}
    for giving in sorted(facts.givings.values(), key=lambda each: (each.unit.name, each.node.lineno, each.callee)):
        held = held_by(giving.unit, giving.node, facts, hierarchy)
        if held is not None and held.place is not None:
            continue  # its instances become part of that model
        is_made = hierarchy.knowledge.makes_objects(giving.callee)
        for key in sorted(_class_keys(facts, giving.held)):
            cls = hierarchy.project.class_at(key)
            if cls is None or hierarchy.nature(cls) is not Nature.MODULE:
                continue
            place = _place_in_initialiser(cls)
            sites = sites_of.get(key, [])
            obstacle = ""
            if not all(is_made and _makes_whole_model(site, cls, facts, hierarchy) for site in sites):
                obstacle = "other objects of the class have their proxies where they are created"
            elif hierarchy.descendants(cls):
                obstacle = "the class has subclasses, which finish their objects themselves"
            elif place is None:
                obstacle = "its class has no initialiser of its own to which a proxy could be added"
            is_better = key not in found or (is_made and not found[key].is_made)
            if is_better and (is_made or not obstacle):
                merged = frozenset(site.key for site in sites if not obstacle)
                found[key] = GivenClass(cls, giving, is_made, place, obstacle, merged)
    by_file: dict[str, list[GivenClass]] = {}
    for given in found.values():
        by_file.setdefault(given.cls.unit.name, []).append(given)
    return by_file


def _makes_whole_model(site: Site, cls: Class, facts: Facts, hierarchy: Hierarchy) -> bool:
    """Whether a site makes only instances of `cls`, in the class's own file, and not as parts of other modules."""
    owner = None if site.function is None else site.function.owner
    return (
        site.unit is cls.unit
        and site.class_keys == {cls.key}
        and not site.is_copy
        and Made(site.key) not in facts.absorbed
        and not (owner is not None and hierarchy.is_module(owner))
    )


def _place_in_initialiser(cls: Class) -> Placement | None:
    """The place after the last statement of a class's own initialiser; None if that may not be the last to run."""
    initialiser = cls.methods.get("__init__")
    node = None if initialiser is None else initialiser.node
    if not isinstance(node, ast.FunctionDef) or node.decorator_list:
        return None
    parameters = positional_parameters(node.args)
    own_nodes = [each for each in walk(node) if function_around(cls.unit, each) is node]
    if not parameters or any(_ends_or_rebinds(each, parameters[0].arg) for each in own_nodes):
        return None
    held = parameters[0]
    name = ast.Name(held.arg, ast.Store())
    name.lineno = name.end_lineno = held.lineno
    name.col_offset, name.end_col_offset = held.col_offset, held.col_offset + len(held.arg.encode())
    return Placement(Place.LINE, node.body[-1], name, name, held.arg, cls.node.name, can_inline=False)


def _ends_or_rebinds(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Return):
        return True
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)


def proxies_itself(cls: Class, hierarchy: Hierarchy) -> bool:
    """Whether a class's initialiser already calls a function that puts modules under a proxy."""
    initialiser = cls.methods.get("__init__")
    calls = [] if initialiser is None else [each for each in walk(initialiser.node) if isinstance(each, ast.Call)]
    named = [hierarchy.resolve(cls.unit, each.func) for each in calls]
    return any(isinstance(each, str) and hierarchy.knowledge.effect_of(each) is Effect.PROXIES for each in named)


def _class_keys(facts: Facts, held: Value) -> set[str]:
    """The classes in a value, including those inside partial applications and those passed by callers."""
    found: set[str] = set()
    for atom in facts.passed.sources(held):
        callee: Atom = atom
        while isinstance(callee, Partial):
            callee = callee.callee
        if isinstance(callee, ClassRef):
            found.add(callee.key)
    return found
