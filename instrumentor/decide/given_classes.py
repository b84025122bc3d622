"""Classes of modules that code out of sight is given: what it makes of them gets its proxy in their initialisers."""

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
    from instrumentor.resolve.units import Class
    from instrumentor.settings import Confidence


class GivenClass(NamedTuple):
    """A class of modules that code which cannot be seen is given.

    Attributes:
        cls: the class.
        giving: the call that hands it over.
        is_made: the catalogue knows that what is called makes objects of the classes it gets.
        place: where its objects get their proxy, at the end of its own initialiser.
        obstacle: why they get none there, in words that follow "and"; empty where they do.
        sites: where the script makes objects of it, too: the initialiser's proxy is theirs as well.
    """

    cls: Class
    giving: Giving
    is_made: bool
    place: Placement | None
    obstacle: str
    sites: frozenset[SiteKey]

    @property
    def confidence(self) -> Confidence:
        """How sure it is that there are such objects."""
        return "likely" if self.is_made else "possible"

    @property
    def key(self) -> SiteKey:
        """Names the objects made of it, as a site's key names what the site makes."""
        node = self.cls.node
        return SiteKey(self.cls.unit.name, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)


def find_given_classes(facts: Facts, hierarchy: Hierarchy) -> dict[str, list[GivenClass]]:
    """The classes of modules with parameters that are handed to code which cannot be seen, by the names of their files.

    They come in the order of the calls; of what merely may make objects of them, those aside for which nothing can be
    done.
    """
    sites_of: dict[str, list[Site]] = {}
    for site in facts.sites.values():
        for key in site.class_keys:
            sites_of.setdefault(key, []).append(site)
    found: dict[str, GivenClass] = {}
    for giving in sorted(facts.givings.values(), key=lambda each: (each.unit.name, each.node.lineno, each.callee)):
        held = held_by(giving.unit, giving.node, facts, hierarchy)
        if held is not None and held.place is not None:
            continue  # what is made of it is part of that model
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
    """Whether a site makes objects of nothing but a class of its own file, and no parts of other modules."""
    owner = None if site.function is None else site.function.owner
    return (
        site.unit is cls.unit
        and site.class_keys == {cls.key}
        and not site.is_copy
        and Made(site.key) not in facts.absorbed
        and not (owner is not None and hierarchy.is_module(owner))
    )


def _place_in_initialiser(cls: Class) -> Placement | None:
    """Behind the last statement of a class's own initialiser; None where that may not be the last to run."""
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
    """Whether something in a class's initialiser puts it, or what it makes, under a proxy already."""
    initialiser = cls.methods.get("__init__")
    calls = [] if initialiser is None else [each for each in walk(initialiser.node) if isinstance(each, ast.Call)]
    named = [hierarchy.resolve(cls.unit, each.func) for each in calls]
    return any(isinstance(each, str) and hierarchy.knowledge.effect_of(each) is Effect.PROXIES for each in named)


def _class_keys(facts: Facts, held: Value) -> set[str]:
    """The classes in a value, those behind partial applications and parameters included."""
    found: set[str] = set()
    for atom in facts.passed.sources(held):
        callee: Atom = atom
        while isinstance(callee, Partial):
            callee = callee.callee
        if isinstance(callee, ClassRef):
            found.add(callee.key)
    return found
