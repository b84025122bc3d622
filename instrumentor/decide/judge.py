"""The verdict on each site: wrapped, covered by another proxy, or left alone."""

from __future__ import annotations

import ast
from dataclasses import replace
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.analysis.blocks import statement_of
from instrumentor.analysis.placement import Place, Placement, name_of, place_decorated
from instrumentor.analysis.sites import is_usable
from instrumentor.analysis.values import (
    NOTHING,
    Made,
    SiteKey,
    root,
    strip,
)
from instrumentor.decide.given_classes import proxies_itself
from instrumentor.resolve.classes import dotted_name
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.only_returned import function_returning, is_public
from instrumentor.settings import CONFIDENCES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from instrumentor.analysis.entries import Binding, Event, Site
    from instrumentor.analysis.sites import SiteIndex
    from instrumentor.decide.given_classes import GivenClass
    from instrumentor.decide.held_models import HeldModel
    from instrumentor.settings import Settings
    from instrumentor.source.suppressions import Suppressions


_WITHOUT_PROXY = frozenset({"temporary", "not-module", "no-params", "deselected", "suppressed", "unsure"})


class Fate(Enum):
    """The possible outcomes for a site."""

    WRAP = "wrap"
    HANDED_ON = "handed on"
    ALIAS = "alias"
    NOT_WRAPPED = "not wrapped"


class Verdict(NamedTuple):
    """The verdict on one site."""

    fate: Fate
    code: str
    reason: str
    placement: Placement | None = None
    # For HANDED_ON, the calls that wrap the object; for ALIAS, the sites that make it.
    others: tuple[SiteKey, ...] = ()
    # For an object that becomes part of another module: the sites that make that module.
    absorbers: tuple[SiteKey, ...] = ()


class Judge:
    """Computes the verdict on each site, once and on demand."""

    def __init__(
        self,
        index: SiteIndex,
        settings: Settings,
        suppressions: Suppressions,
        elsewhere: Mapping[SiteKey, str],
        given: Sequence[GivenClass],
        *,
        is_alone: bool,
        called: frozenset[str] | None = None,
    ) -> None:
        self.index = index
        self._elsewhere = elsewhere
        self._is_alone = is_alone
        self._settings = settings
        self._called = called
        self._factories: set[SiteKey] = set()
        self._suppressions = suppressions
        self._verdicts: dict[SiteKey, Verdict] = {}
        self.given = [(each, self._judge_given(each)) for each in given]
        # The sites whose objects get their proxy in their class's initialiser.
        self._merged = {
            key: each.key for each, verdict in self.given if verdict.fate is Fate.WRAP for key in each.sites
        }
        self._kept_elsewhere = self._find_kept_elsewhere() if is_alone else set()
        self._wrapped_inside = self._find_wrapped_inside()

    def verdict(self, site: Site) -> Verdict:
        """The verdict on a site."""
        if site.key not in self._verdicts:
            # The verdict on a site that depends on itself, as in a recursive function.
            self._verdicts[site.key] = Verdict(Fate.NOT_WRAPPED, "returned", "returned by a function that calls itself")
            self._verdicts[site.key] = self._find_verdict(site)
        return self._verdicts[site.key]

    def _find_verdict(self, site: Site) -> Verdict:
        placement = self.index.placement(site)
        if site.key in self._merged:
            reason = "proxied by its class's own initialiser"
            return Verdict(Fate.ALIAS, "merged", reason, placement, (self._merged[site.key],))
        if self.index.is_unreached(site) and self.index.nature(site) is not Nature.NOT_MODULE:
            return _not_wrapped("unreached", "created in a function that nothing in the program calls", placement)
        found = self._no_model(site, placement) or self._wrapped_when_made(site, placement)
        found = found or self._absorbed(site, placement) or self._covered_elsewhere(site, placement)
        if found is not None:
            return found
        if self.index.is_only_saved(site):
            return _not_wrapped("temporary", "a copy that is only saved, never trained", placement)
        placement = self._final_placement(site, placement)
        if placement is None or not is_usable(placement):
            if placement is not None and self._is_kept(site):
                return _not_wrapped(
                    "out-of-sight", "created inside an f-string, where no proxy can be added", placement
                )
            return _not_wrapped("temporary", "used once in its expression and dropped, never trained", placement)
        refused = self._deselected(site, placement) or self._unsure(site, placement)
        if site.key in self._factories and site.function is not None and placement.target is None:
            placement = replace(placement, name=site.function.name)
        return refused or Verdict(Fate.WRAP, *self._why(site), placement)

    def _judge_given(self, given: GivenClass) -> Verdict:
        """The verdict on the instances that unseen code makes of a class."""
        place, head = given.place, given.cls.node
        if any(map(self._suppressions.covers, (head, *([] if place is None else [place.statement])))):
            return _not_wrapped("suppressed", "excluded by a `# instrument: skip` comment", place)
        if proxies_itself(given.cls, self.index.hierarchy):
            return _not_wrapped("proxied", "the script itself proxies it", place)
        maker = f"{given.giving.callee}, {self._line_of(given)}"
        if place is None or given.obstacle:
            return _not_wrapped(
                "out-of-sight", f"created from its class by {maker}, out of sight, and {given.obstacle}", None
            )
        refused = self._left_out((place.text, head.name), (dotted_name(given.cls),), place)
        if refused is not None:
            return refused
        if CONFIDENCES.index(given.confidence) > CONFIDENCES.index(self._settings.min_confidence):
            how = "creates" if given.is_made else "may create"
            return _not_wrapped(
                "unsure",
                f"{maker}, receives the class and {how} objects of it out of sight"
                f" (--min-confidence {given.confidence} wraps them)",
                place,
            )
        return Verdict(Fate.WRAP, "constructed", f"a new module, created from its class by {maker}", place)

    def verdict_of_held(self, held: HeldModel) -> Verdict:
        """The verdict on a model that a library makes inside its own object."""
        place = held.place
        if place is None:
            return _not_wrapped(
                "out-of-sight", f"{held.label} creates it, and no name holds that object before the model is used", None
            )
        if self._suppressions.covers(place.statement):
            return _not_wrapped("suppressed", "excluded by a `# instrument: skip` comment", place)
        refused = self._left_out((place.text, place.name), (held.label,), place)
        if refused is not None:
            return refused
        if self._settings.min_confidence == "certain":
            reason = f"that {held.label} creates it is known only by name (--min-confidence likely wraps it)"
            return _not_wrapped("unsure", reason, place)
        return Verdict(Fate.WRAP, "constructed", f"a new module, created by {held.label}", place)

    def _line_of(self, given: GivenClass) -> str:
        file, line = given.giving.unit.name, f"line {given.giving.node.lineno}"
        return line if given.giving.unit is self.index.script else f"{file or 'the script'}, {line}"

    def _no_model(self, site: Site, placement: Placement | None) -> Verdict | None:
        nature = self.index.nature(site)
        if nature is Nature.NOT_MODULE:
            return _not_wrapped("not-module", "not a module, judging by its class and its use", placement)
        is_own = site.unit is self.index.script
        if is_own and placement is not None and self._suppressions.covers(placement.statement):
            return _not_wrapped("suppressed", "excluded by a `# instrument: skip` comment", placement)
        if Made(site.key) in self.index.facts.proxied:
            return _not_wrapped("proxied", "the script itself proxies it", placement)
        if self.index.is_in_module_class(site):
            return _not_wrapped(
                "submodule", "created in the class of a module: part of that module, which recursion covers", placement
            )
        compiler = self.index.compiling_decorator(site)
        if compiler is not None:
            return _not_wrapped(
                "derived", f"inside a function that {compiler} compiles, where no proxy can be added", placement
            )
        if nature is Nature.NO_PARAMS:
            return _not_wrapped("no-params", "a module without parameters: no state to watch", placement)
        return None

    def _wrapped_when_made(self, site: Site, placement: Placement | None) -> Verdict | None:
        """The verdict on a call whose result is already wrapped inside the function called."""
        inside = tuple(key for key in sorted(site.origins) if key in self._wrapped_inside)
        if site.is_own or not inside or any(map(self._is_only_known_here, site.origins)):
            return None
        return Verdict(Fate.ALIAS, "merged", "created and wrapped in the function called", placement, inside)

    def _is_only_known_here(self, origin: SiteKey) -> bool:
        """Whether only its use by the caller shows that a function's result is a module."""
        site = self.index.facts.sites.get(origin)
        return site is not None and site.nature is Nature.UNKNOWN and self.index.nature(site) is Nature.NOT_MODULE

    def _absorbed(self, site: Site, placement: Placement | None) -> Verdict | None:
        for events in self.index.absorptions(site):
            if any(self.index.is_called_before(site, each) for each in events):
                continue  # its earlier calls would be missing from the trace
            if self._is_alone and any(map(self.index.is_made_elsewhere, events)):
                continue  # no proxy is put there
            absorbers = [each for event in events for each in self.index.absorbers(event) if each is not site]
            verdicts = [self.verdict(each) for each in absorbers]
            if any(each.fate is Fate.NOT_WRAPPED and each.code in _WITHOUT_PROXY for each in verdicts):
                continue
            return _absorbed_by(events[0], placement)._replace(absorbers=tuple(each.key for each in absorbers))
        return None

    def _covered_elsewhere(self, site: Site, placement: Placement | None) -> Verdict | None:
        if site.key in self._elsewhere:
            return _not_wrapped("returned", f"returned to where it is wrapped, {self._elsewhere[site.key]}", placement)
        if self.index.rebinds_argument(site):
            modules = self.index.modules_fetched(site)
            keys = tuple(sorted(base.site for atom in modules if isinstance(base := root(atom), Made)))
            return Verdict(Fate.ALIAS, "merged", "the object it was given, or a wrapper of it", placement, keys)
        if site.key in self._wrapped_inside or not self._is_handed_out(site):
            return None
        callers = tuple(caller.key for caller in self.index.callers(site))
        if callers:
            return Verdict(Fate.HANDED_ON, "merged", "returned to where it is wrapped", placement, callers)
        return _not_wrapped("returned", "returned to callers outside this file, where it is wrapped", placement)

    def _is_handed_out(self, site: Site) -> bool:
        """Whether an object is returned by its function, and nothing needs its proxy before that."""
        if self.index.is_handed_out(site):
            return True
        function = site.function
        facts = self.index.facts
        if self._settings.wrap_factories == "never" and function is not None and is_public(site.unit, function.node):
            # Callers wrap its result, including those that get the function from a registry.
            return function_returning(site.unit, site.node, None) is function.node
        if function is None or site.key.path or function.key in facts.escaped or facts.is_dropped(site):
            return False
        # If it is returned directly, only its own class has seen it, whatever that passes on.
        resolve = partial(self.index.hierarchy.resolve, site.unit)
        return function_returning(site.unit, site.node, resolve) is function.node

    def _final_placement(self, site: Site, placement: Placement | None) -> Placement | None:
        """Where the proxy goes; after the last call that replaces the object's parameters, if there is one."""
        if placement is None or placement.place is Place.RETURNED:
            placement = self._place_at_binding(site) or _inline_if_returned(placement)
        elif placement.place is Place.DISCARDED:
            placement = self._place_if_kept(site, placement)
        replacements = self.index.certain_replacements(site)
        if placement is not None and replacements:
            return self._place_behind(replacements[-1], Made(site.key), placement)
        return placement

    def _place_at_binding(self, site: Site) -> Placement | None:
        """The place after the first statement that binds an object whose expression has no place of its own."""
        is_coroutine = self.index.is_coroutine(site)
        for binding in self.index.holders_of(Made(site.key)):
            same_scope = binding.unit is site.unit and binding.function is site.function
            if is_coroutine and not isinstance(binding.source, ast.Await):
                continue
            if same_scope and Made(site.key) in binding.value and _is_simple(binding):
                return _line_after(binding, site.node)
        return None

    def _place_if_kept(self, site: Site, placement: Placement) -> Placement | None:
        """The place after the definition that it decorates, or around the expression if something holds the object."""
        decorated = place_decorated(site.unit, placement)
        if decorated is not None:
            return decorated
        return replace(placement, place=Place.INLINE) if placement.can_inline and self._is_kept(site) else placement

    def _is_kept(self, site: Site) -> bool:
        """Whether some statement stores a site's object."""
        return bool(self.index.holders_of(Made(site.key)))

    def _place_behind(self, event: Event, made: Made, placement: Placement) -> Placement:
        statement = statement_of(event.unit, event.node)
        if statement is placement.statement:
            return placement
        target = placement.target
        for binding in self.index.holders_of(made):
            if binding.statement is statement and _is_simple(binding):
                return _line_after(binding, placement.expression)
        if target is None or placement.place is not Place.LINE:
            return placement
        return replace(placement, statement=statement, can_inline=False, is_each=False)

    def _deselected(self, site: Site, placement: Placement) -> Verdict | None:
        names = (placement.text, name_of(placement.target) if placement.target is not None else placement.text)
        return self._left_out(names, tuple(site.labels), placement)

    def _left_out(self, names: tuple[str, ...], labels: tuple[str, ...], placement: Placement) -> Verdict | None:
        if self._settings.select and not _matches(names, self._settings.select):
            return _not_wrapped(
                "deselected", f"not among the selected names ({', '.join(self._settings.select)})", placement
            )
        if _matches((*names, *labels), self._settings.skip):
            return _not_wrapped("deselected", f"among the names to skip ({', '.join(self._settings.skip)})", placement)
        return None

    def _unsure(self, site: Site, placement: Placement) -> Verdict | None:
        confidence, wanted = self.index.confidence(site), self._settings.min_confidence
        if CONFIDENCES.index(confidence) <= CONFIDENCES.index(wanted):
            return None
        how = "an annotation" if self.index.is_only_declared(site) else "its use"
        return _not_wrapped(
            "unsure",
            f"its class is unknown, and {how} makes it only {confidence} that it is a module"
            f" (--min-confidence {confidence} wraps it)",
            placement,
        )

    def _why(self, site: Site) -> tuple[str, str]:
        if site.key in self._factories:
            return "factory", "a new module, wrapped where the function returns it"
        if site.is_copy:
            return "copied", "a copy with parameters of its own"
        if site.nature is Nature.UNKNOWN and self.index.is_only_declared(site):
            return "declared", "its class is unknown, but it is declared as a module"
        if site.nature is Nature.UNKNOWN:
            return "used-as-module", "its class is unknown, but it is used as a module"
        if site.origins:
            return "constructed", "a new module, created in the function called"
        return "constructed", "a new module"

    # ---- functions that make objects ----

    def _find_wrapped_inside(self) -> set[SiteKey]:
        """The returned objects that are wrapped where they are made, because their callers cannot or are too late.

        A call may return objects made at several places; it must wrap all of them or none.
        """
        inside: set[SiteKey] = set()
        while True:
            more = {
                key
                for site in self.index.own_sites
                if site.origins and not self.index.is_unreached(site)
                for key in self._forced(site, inside)
            } - inside
            more |= {
                site.key
                for site in self.index.own_sites
                if site.key not in inside and (site.key in self._kept_elsewhere or self._is_for_hidden_caller(site))
            }
            more |= self._find_factories() - inside
            more |= {site.key for site in self.index.own_sites if self._hands_on(site, inside)} - inside
            if not more:
                return inside
            inside |= more

    def _find_factories(self) -> set[SiteKey]:
        """The objects that public functions of this file only return, and wrap themselves."""
        if not self._factories and self._wraps_factories:
            self._factories.update(each.key for each in self.index.own_sites if self._is_of_factory(each))
        return self._factories

    @property
    def _wraps_factories(self) -> bool:
        rule = self._settings.wrap_factories
        return rule == "always" or (rule == "auto" and self._called is not None)

    def _is_of_factory(self, site: Site) -> bool:
        """Whether an object is wrapped where a public function returns it, by the rule for factories."""
        function = site.function
        if function is None or not is_public(site.unit, function.node):
            return False
        if not self._is_handed_out(site):
            # A decorator may pass the function on, and then its callers cannot be seen.
            is_decorated = not isinstance(function.node, ast.Lambda) and bool(function.node.decorator_list)
            is_registered = is_decorated and function.key in self.index.facts.escaped
            return is_registered and function_returning(site.unit, site.node, None) is function.node
        if self._settings.wrap_factories == "always":
            return True
        is_called = self._called is not None and function.name in self._called
        return not is_called and not self.index.callers(site)

    def _find_kept_elsewhere(self) -> set[SiteKey]:
        """The objects that functions of this file return to calls in unchanged files that keep them."""
        facts = self.index.facts
        stores = [each for each in facts.bindings.values() if isinstance(each.target, (ast.Attribute, ast.Subscript))]
        stored = {strip(atom) for each in stores for atom in each.value}
        others = [site for site in facts.sites.values() if site.unit is not self.index.script and site.origins]
        kept = [site for site in others if Made(site.key) in stored or not self._is_given_on(site)]
        return {origin for site in kept for origin in site.origins}

    def _is_given_on(self, site: Site) -> bool:
        """Whether the enclosing function of a call in another file returns the call's result."""
        facts = self.index.facts
        returned = NOTHING if site.function is None else facts.returns.get(site.function.key, NOTHING)
        return Made(site.key) in facts.contents.reach(returned)

    def _forced(self, caller: Site, inside: set[SiteKey]) -> set[SiteKey]:
        origins = [self.index.facts.sites[key] for key in caller.origins if key in self.index.facts.sites]
        own = [origin for origin in origins if origin.unit is self.index.script]
        placement = self.index.placement(caller)
        forced = (
            placement is None
            or placement.place is Place.DISCARDED
            or any(
                origin.key in inside or not self._is_handed_out(origin)
                for origin in own
                if not self._is_only_known_here(origin.key)
            )
        )
        if not forced or self.index.is_in_module_class(caller):
            return set()
        return {origin.key for origin in own if not self.index.is_in_module_class(origin)}

    def _hands_on(self, site: Site, inside: set[SiteKey]) -> bool:
        """Whether a call's result is already wrapped in the function called, so that further callers get it wrapped."""
        return not inside.isdisjoint(site.origins) and not self.index.is_in_module_class(site)

    def _is_for_hidden_caller(self, site: Site) -> bool:
        """Whether a method's new object goes to an unseen base class."""
        function = site.function
        if function is None or function.owner is None or self.index.callers(site):
            return False
        if function.owner.methods.get(function.name) is not function:
            return False
        bases = self.index.hierarchy.library_bases(function.owner)
        return any(base is None or not base.startswith("builtins.") for base in bases)


def _not_wrapped(code: str, reason: str, placement: Placement | None) -> Verdict:
    return Verdict(Fate.NOT_WRAPPED, code, reason, placement)


def _absorbed_by(event: Event, placement: Placement | None) -> Verdict:
    if isinstance(event.node, (ast.Attribute, ast.Subscript)):
        return _not_wrapped("submodule", f"becomes part of {event.text}, which recursion covers", placement)
    where = f"{event.text}, line {event.node.lineno}" if event.text else f"line {event.node.lineno}"  # type: ignore[attr-defined]
    return _not_wrapped(
        "absorbed", f"becomes part of the module built from it ({where}), which recursion covers", placement
    )


def _inline_if_returned(placement: Placement | None) -> Placement | None:
    return None if placement is None else replace(placement, place=Place.INLINE)


def _line_after(binding: Binding, expression: ast.expr) -> Placement:
    assert isinstance(binding.target, ast.expr)
    name = name_of(binding.target)
    return Placement(Place.LINE, binding.statement, expression, binding.target, binding.text, name, can_inline=False)


def _is_simple(binding: Binding) -> bool:
    """Whether a line after a statement can rebind its target."""
    return isinstance(binding.target, ast.Name) and isinstance(binding.statement, (ast.Assign, ast.AnnAssign))


def _matches(names: tuple[str, ...], globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for name in names for glob in globs)
