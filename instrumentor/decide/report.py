"""The decisions to report and the proxies to write, collected from the verdicts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from msgspec.structs import replace

from instrumentor.analysis.placement import Place, Placement, name_of
from instrumentor.analysis.spelling import one_of, text_of
from instrumentor.analysis.values import (
    Atom,
    Derived,
    Instance,
    Made,
    Part,
    Scripted,
    SiteKey,
    Unwrapped,
    Wrapper,
    in_order,
    root,
    strip,
)
from instrumentor.decide.identity import Identities
from instrumentor.decide.judge import Fate, Judge, Verdict
from instrumentor.decide.origins import Origins
from instrumentor.decide.plan import Wrap
from instrumentor.decision import Decision, Relation
from instrumentor.resolve import catalogue
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.unit import Class, Function
from instrumentor.settings import CONFIDENCES
from instrumentor.source.nodes import last_name

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Sequence, Set

    from instrumentor.analysis.entries import Binding, Site
    from instrumentor.analysis.sites import SiteIndex
    from instrumentor.decide.held_models import HeldModel
    from instrumentor.source.source_text import SourceText

# The expression that lists the members of a module container.
_CONTAINERS = {"torch.nn.ModuleList": "list({})", "torch.nn.ModuleDict": "list({}.values())"}


class Report:
    """Collects the proxies to write and the decisions to report."""

    def __init__(self, index: SiteIndex, judge: Judge, source: SourceText) -> None:
        self._index = index
        self._judge = judge
        self._source = source
        self._identities = Identities(index)
        self._origins = Origins(index)
        self._decisions: dict[Decision, Hashable] = {}
        self.wraps: dict[tuple[int, str], Wrap] = {}
        self.wrapped: set[SiteKey] = set()
        # An entry may have led to many files, whose bindings all are among the facts.
        self._own = [binding for binding in index.facts.bindings.values() if binding.unit is index.script]
        self._bindings: dict[ast.stmt, list[Binding]] = {}
        for binding in self._own:
            self._bindings.setdefault(binding.statement, []).append(binding)
        self._holders = self._find_holders()
        self._told: set[tuple[int, str]] = set()
        # The proxies at the end of initialisers.
        self._given_lines: dict[SiteKey, int] = {}
        self._ends: dict[SiteKey, SiteKey] = {}

    def decisions(self) -> tuple[Decision, ...]:
        """All decisions by position; their identities are numbered in that order."""
        ordered = sorted(self._decisions, key=lambda each: (each.line, each.column, each.target))
        names: dict[Hashable, str] = {}
        for decision in ordered:
            identity = self._decisions[decision]
            if identity is not None:
                names.setdefault(identity, f"#{len(names) + 1}")
        return tuple(replace(each, identity=names.get(self._decisions[each])) for each in ordered)

    def add_sites(self) -> None:
        """Add the decisions about the places where modules are made."""
        groups: dict[tuple[int, str], list[tuple[Site, Verdict]]] = {}
        rest: list[tuple[Site, Verdict]] = []
        for site in sorted(self._index.own_sites, key=lambda each: each.key):
            verdict = self._judge.verdict(site)
            if verdict.fate is Fate.WRAP and verdict.placement is not None:
                groups.setdefault(verdict.placement.group, []).append((site, verdict))
            elif self._index.nature(site) is not Nature.NOT_MODULE:
                rest.append((site, verdict))
        for group, members in groups.items():
            self._add_wrap(group, members)
        for site, verdict in rest:
            self._add_unwrapped(site, verdict)

    def add_given_classes(self) -> None:
        """Add the decisions about the script's classes that unseen code instantiates."""
        for given, verdict in self._judge.given:
            placement, origin = verdict.placement, self._origins.of_class(given.cls)
            statement = given.cls.node if placement is None else placement.statement
            if verdict.fate is Fate.WRAP and placement is not None:
                self.wraps[placement.group] = Wrap(placement, placement.name)
                self.wrapped.add(given.key)
                self._given_lines[given.key] = statement.lineno
            decision = Decision(
                "wrap" if verdict.fate is Fate.WRAP else "not wrapped",
                statement.lineno,
                self._column(statement),
                given.cls.node.name if placement is None else placement.text,
                given.cls.node.name,
                verdict.reason,
                verdict.code,
                confidence=given.confidence,
                class_names=origin.class_names,
                read_at=origin.read_at,
            )
            self._decisions.setdefault(decision, None)

    def add_held_models(self, models: Iterable[HeldModel]) -> None:
        """Add the decisions about the models that libraries make inside their own objects."""
        for held in models:
            verdict = self._judge.verdict_of_held(held)
            placement = held.place
            if verdict.fate is Fate.WRAP and placement is not None:
                self.wraps[placement.group] = Wrap(placement, placement.name)
            decision = Decision(
                "wrap" if verdict.fate is Fate.WRAP else "not wrapped",
                held.call.lineno if placement is None else placement.statement.lineno,
                self._column(held.call),
                f"{held.label}.{held.attribute}" if placement is None else placement.text,
                held.label,
                verdict.reason,
                verdict.code,
                confidence="likely",
                read_at="catalogue",
            )
            self._decisions.setdefault(decision, None)

    def _add_wrap(self, group: tuple[int, str], members: list[tuple[Site, Verdict]]) -> None:
        site, verdict = members[0]
        placement = verdict.placement
        assert placement is not None
        labels = [label for each, _ in members for label in each.labels]
        label = one_of(labels)
        makers = [each.rpartition(".")[2] for each in labels]
        # A class name says more than the functions that the object came through.
        classes = [each for each in makers if each[:1].isupper()]
        name = self._name_of_result(placement, members) or placement.name or one_of(classes or makers)
        self.wraps[group] = Wrap(placement, name)
        self.wrapped.update(each.key for each, _ in members)
        aliases = self._aliases({each.key for each, _ in members}, placement)
        self._tell(
            Decision(
                "wrap",
                placement.statement.lineno,
                self._column(placement.expression),
                placement.text,
                label,
                verdict.reason,
                verdict.code,
                aliases=aliases,
                confidence=min((self._index.confidence(each) for each, _ in members), key=CONFIDENCES.index),
            ),
            self._identity_at(placement, site) or (self._identities.of_site(site) if len(members) == 1 else None),
            [each for each, _ in members],
        )
        self._add_members(site, placement)

    def _name_of_result(self, placement: Placement, members: list[tuple[Site, Verdict]]) -> str:
        """The name to which a statement binds a nameless object, or one passed to a call that returns it."""
        if placement.name and not placement.is_argument:
            return ""
        made = {Made(site.key) for site, _ in members}
        names = [name_of(each.target) for each in self._bindings.get(placement.statement, ()) if each.value == made]
        return names[0] if len(names) == 1 else ""

    def _add_members(self, site: Site, placement: Placement) -> None:
        """Report the unbound modules that a module container is built from."""
        reader = _CONTAINERS.get(catalogue.canonical_name(site.labels[0])) if site.labels else None
        unbound = [self._index.facts.sites[atom.site] for atom in site.arguments if isinstance(atom, Made)]
        if (
            reader is None
            or placement.place is not Place.LINE
            or not any(self._is_absorbed_by(each, site) for each in unbound)
        ):
            return
        self._tell(
            Decision(
                "not wrapped",
                placement.statement.lineno,
                self._column(placement.expression),
                reader.format(placement.text),
                one_of(label for each in unbound for label in each.labels),
                f"submodules of {placement.text}, which recursion covers",
                "submodule",
            )
        )

    def _is_absorbed_by(self, site: Site, container: Site) -> bool:
        """Whether a site's object goes straight into a container."""
        is_absorbed = id(container.node) in self._index.facts.absorbed.get(Made(site.key), {})
        return is_absorbed and not self._index.holders_of(Made(site.key))

    def _identity_at(self, placement: Placement, site: Site) -> Hashable:
        """The identity of the object that a placement's statement binds, which may be the site's object."""
        for binding in self._bindings.get(placement.statement, ()):
            if binding.text == placement.text:
                is_bound = placement.place is Place.LINE or Made(site.key) in binding.value
                return self._identities.of_binding(binding) if is_bound else None
        return None

    def _aliases(self, keys: set[SiteKey], placement: Placement) -> tuple[tuple[str, int], ...]:
        """The bindings that hold only objects made at the given sites."""
        found = [
            (binding.text, binding.statement.lineno)
            for key in keys
            for binding, sites in self._holders.get(key, ())
            if sites <= keys and not (binding.statement is placement.statement and binding.text == placement.text)
        ]
        return tuple(sorted(dict.fromkeys(found), key=lambda alias: (alias[1], alias[0])))

    def _find_holders(self) -> dict[SiteKey, list[tuple[Binding, set[SiteKey]]]]:
        """For each site, the fully known bindings that may hold its object, each with the sites of all it may hold."""
        found: dict[SiteKey, list[tuple[Binding, set[SiteKey]]]] = {}
        for binding in self._own:
            held = [strip(atom) for atom in self._index.facts.passed.sources(binding.value) if atom.is_object]
            sites = {atom.site for atom in held if isinstance(atom, Made)}
            if sites and all(isinstance(atom, Made) for atom in held):
                for site in sites:
                    found.setdefault(site, []).append((binding, sites))
        return found

    def _add_unwrapped(self, site: Site, verdict: Verdict) -> None:
        placement = verdict.placement
        if placement is None or (self._is_part(site, verdict) and not self._is_bound(site, placement)):
            return  # a layer passed to another one is reported with that one
        decision = Decision(
            "not wrapped",
            placement.statement.lineno,
            self._column(placement.expression),
            placement.text,
            one_of(site.labels),
            verdict.reason,
            verdict.code,
            confidence=self._index.confidence(site) if verdict.code == "unsure" else "certain",
        )
        if verdict.fate is not Fate.NOT_WRAPPED:
            lines = sorted(self._cover_lines(verdict.others))
            if not lines or self._is_bound_by_statement(placement):
                return  # reported with the statement that binds it, like any other name of the object
            decision = replace(
                decision,
                verdict="merged",
                reason=f"{verdict.reason}, line {lines[0]}",
                wrapped_at=lines[0],
                relation="same",
                alternatives=tuple(lines[1:]),
            )
        self._tell(decision, self._identity_at(placement, site) or self._identities.of_site(site), [site])

    def _is_part(self, site: Site, verdict: Verdict) -> bool:
        return verdict.code in {"absorbed", "submodule"} or Made(site.key) in self._index.facts.absorbed

    def _is_bound_by_statement(self, placement: Placement) -> bool:
        return any(binding.text == placement.text for binding in self._bindings.get(placement.statement, ()))

    def _is_bound(self, site: Site, placement: Placement) -> bool:
        return any(Made(site.key) in binding.value for binding in self._bindings.get(placement.statement, ()))

    def add_bindings(self) -> None:
        """Add the decisions about statements that bind objects made elsewhere."""
        for binding in self._own:
            if (binding.statement.lineno, binding.text) not in self._told:
                self._add_binding(binding)

    def _add_binding(self, binding: Binding) -> None:
        facts = self._index.facts
        held = facts.passed.sources(binding.value)
        objects = [atom for atom in held if atom.is_object and self._index.is_module(root(atom))]
        in_module = self._index.hierarchy.is_in_module_class(binding.unit, binding.statement)
        if objects:
            if any(self._is_wrapped_by(binding, atom) for atom in objects):
                return
            whole = [atom for atom in objects if not isinstance(strip(atom), Part)]
            is_hidden = any(strip(atom) in facts.hidden and strip(atom) not in facts.absorbed for atom in whole)
            if in_module and not is_hidden:
                if self._stores_into_module(binding) and not _is_tensor(binding):
                    self._tell_binding(
                        binding, "submodule", "an attribute of a module: part of it, which recursion covers"
                    )
            elif not whole and not _is_tensor(binding) and not _reads(binding, catalogue.PLAIN_ATTRIBUTES):
                self._tell_binding(binding, "submodule", "taken from a module, all of whose parts recursion covers")
            elif whole:
                self._tell_merged(binding, whole)
        elif not in_module:
            self._add_other(binding, held)

    def _tell_merged(self, binding: Binding, objects: Sequence[Atom]) -> None:
        keys = [base.site for atom in objects if isinstance(base := root(atom), Made)]
        lines = sorted(self._cover_lines(keys))
        if not lines:
            verdicts = [verdict for _, verdict in self._verdicts_behind(sorted(keys))]
            refused = [verdict for verdict in verdicts if verdict.fate is Fate.NOT_WRAPPED]
            if refused:
                self._tell_binding(binding, refused[0].code, refused[0].reason)
            return
        lines = sorted({*lines, *self._cover_lines(self._absorbers(keys))})
        kinds = {type(atom) for atom in objects}
        relation: Relation = "unwrap" if Unwrapped in kinds else "wrapper" if Wrapper in kinds else "same"
        words = {
            "same": "another name of the object",
            "wrapper": "a wrapper of the object",
            "unwrap": "the object taken out of its wrapper, which is",
        }
        self._tell(
            Decision(
                "merged",
                binding.statement.lineno,
                self._column(binding.source or binding.target),
                binding.text,
                one_of(label for key in sorted(keys) for label in self._index.facts.sites[key].labels),
                f"{words[relation]} wrapped at line {' or '.join(map(str, lines))}",
                "merged",
                lines[0],
                relation,
                tuple(lines[1:]),
                confidence="certain" if self._is_all_covered(binding) else "likely",
            ),
            None if relation == "wrapper" else self._identities.of_binding(binding),
            [self._index.facts.sites[key] for key in sorted(keys)],
        )

    def _is_all_covered(self, binding: Binding) -> bool:
        """Whether every module that a binding may hold is known and under a proxy."""
        for atom in self._identities.objects_of(binding):
            base = strip(atom)
            if not isinstance(base, Made) or not self._is_covered(base.site, set()):
                return False
        return True

    def _is_covered(self, key: SiteKey, seen: set[SiteKey]) -> bool:
        """Whether a known proxy covers a site's object on every path."""
        site = self._index.facts.sites.get(key)
        if site is None or key in seen:
            return key in self._given_lines
        verdict = self._judge.verdict(site)
        if site.nature is Nature.NOT_MODULE or verdict.fate is Fate.WRAP:
            return True
        behind = (*verdict.others, *verdict.absorbers)
        return bool(behind) and all(self._is_covered(each, seen | {key}) for each in behind)

    def _add_other(self, binding: Binding, held: Collection[Atom]) -> None:
        """Report values that a reader may take for models."""
        for atom in in_order(held):
            if isinstance(atom, Scripted) and self._index.is_module(root(atom)):
                self._tell_binding(binding, "derived", "another view of a module's parameters, not a module to train")
                return
            if isinstance(atom, Instance) and binding.source is not None:
                cls = atom.key.partition(":")[2].partition("@")[0]
                self._tell_binding(binding, "not-module", f"an instance of {cls}, which is not an nn.Module", cls)
                return
            if isinstance(atom, Made) and self._is_worth_telling(atom):
                label = self._index.facts.sites[atom.site].labels[0]
                reason = "not a module, judging by its class and its use"
                self._tell_binding(binding, "not-module", reason, label)
                return

        if self._is_data_of_model(binding):
            self._tell_binding(binding, "not-module", "computed from a module, but not one itself")
        elif isinstance(binding.source, ast.Call):
            found = self._index.hierarchy.resolve(binding.unit, binding.source.func)
            if isinstance(found, (Class, Function)):
                self._tell_binding(binding, "not-module", "not a module, judging by the function called")

    def _is_worth_telling(self, made: Made) -> bool:
        """Whether a reader may wonder about a call's result: not for numbers, outputs and losses."""
        site = self._index.facts.sites[made.site]
        label = site.labels[0] if site.labels else ""
        if site.is_read or not label or "(" in label or self._index.hierarchy.knowledge.effect_of(label) is not None:
            return False
        if site.origins or label == "torch.load":
            return True
        is_class = label.rpartition(".")[2][:1].isupper()
        if site.nature is Nature.UNKNOWN or label.partition(".")[0] in {"torch", "numpy"}:
            return is_class
        return True

    def _is_data_of_model(self, binding: Binding) -> bool:
        """Whether a value is a module method's result, such as a state dict, or was computed by a temporary module."""
        derived = [atom for atom in self._index.facts.contents.reach(binding.value) if isinstance(atom, Derived)]
        bases = [base for atom in derived if isinstance(base := root(atom), Made) and self._index.is_module(base)]
        if not bases or binding.source is None:
            return False
        if any(self._judge.verdict(self._index.facts.sites[base.site]).code == "temporary" for base in bases):
            return True
        named = {node.attr for node in ast.walk(binding.source) if isinstance(node, ast.Attribute)}
        return bool(named & (catalogue.HARMLESS_METHODS | {"configure_optimizers"}))

    # ---- helpers ----

    def _tell(self, decision: Decision, identity: Hashable = None, sites: Sequence[Site] = ()) -> None:
        origin = self._origins.of(sites)
        decision = replace(decision, class_names=origin.class_names, read_at=origin.read_at)
        self._decisions.setdefault(decision, identity)
        self._told.add((decision.line, decision.target))

    def _tell_binding(self, binding: Binding, code: str, reason: str, label: str = "") -> None:
        self._tell(
            Decision(
                "not wrapped",
                binding.statement.lineno,
                self._column(binding.source or binding.target),
                binding.text,
                label
                or (last_name(binding.source.func) if isinstance(binding.source, ast.Call) else "")
                or text_of(binding.source or binding.target),
                reason,
                code,
            ),
            self._identities.of_binding(binding),
        )

    def _is_wrapped_by(self, binding: Binding, atom: Atom) -> bool:
        """Whether the statement that binds an object is the one that wraps it."""
        base = strip(atom)
        if not isinstance(base, Made) or atom is not base or base.site not in self._index.facts.sites:
            return False
        site = self._index.facts.sites[base.site]
        verdict = self._judge.verdict(site)
        placement = verdict.placement
        if verdict.fate is Fate.WRAP and placement is not None:
            if placement.place is Place.INLINE and placement.is_argument:
                return False  # the call returns its argument, under another name
            original = self._index.placement(site)
            places = [placement, original or placement]
            return any(binding.statement is each.statement and binding.text == each.text for each in places)
        return False

    def _cover_lines(self, keys: Iterable[SiteKey]) -> set[int]:
        """The lines of the proxies that cover objects made at the given sites."""
        behind = self._verdicts_behind(keys)
        lines = {self._given_lines[key] for _, verdict in behind for key in verdict.others if key in self._given_lines}
        return lines | {
            verdict.placement.statement.lineno
            for site, verdict in behind
            if verdict.fate is Fate.WRAP and verdict.placement is not None and site.unit is self._index.script
        }

    def _absorbers(self, keys: Iterable[SiteKey]) -> list[SiteKey]:
        """The sites of the modules that directly or indirectly absorb objects made at the given sites."""
        found: dict[SiteKey, None] = {}
        pending = list(keys)
        while pending:
            absorbers = [key for _, verdict in self._verdicts_behind(pending) for key in verdict.absorbers]
            pending = [key for key in absorbers if key not in found]
            found.update(dict.fromkeys(pending))
        return list(found)

    def _verdicts_behind(self, keys: Iterable[SiteKey]) -> list[tuple[Site, Verdict]]:
        """The verdicts on the given sites, and on the sites that these verdicts refer to."""
        found: dict[SiteKey, tuple[Site, Verdict]] = {}
        pending = list(keys)
        while pending:
            key = pending.pop()
            site = self._index.facts.sites.get(key)
            if site is not None and key not in found:
                found[key] = site, self._judge.verdict(site)
                pending.extend(map(self._end, found[key][1].others))
        return list(found.values())

    def _end(self, key: SiteKey) -> SiteKey:
        """The first site in the chain whose verdict does more than refer to a single other site."""
        passed: dict[SiteKey, None] = {}
        while key not in self._ends and key not in passed:
            passed[key] = None
            site = self._index.facts.sites.get(key)
            verdict = None if site is None else self._judge.verdict(site)
            if verdict is None or verdict.fate is not Fate.HANDED_ON or len(verdict.others) != 1:
                break
            if verdict.others[0] in self._given_lines:
                break
            key = verdict.others[0]
        found = self._ends.get(key, key)
        self._ends.update(dict.fromkeys(passed, found))
        return found

    def _stores_into_module(self, binding: Binding) -> bool:
        return binding.text.startswith("self.")

    def _column(self, node: ast.AST) -> int:
        return self._source.column(node.lineno, node.col_offset)  # type: ignore[attr-defined]


def _is_tensor(binding: Binding) -> bool:
    """Whether names say that a parameter is stored, as when tying weights, or an attribute that only tensors have."""
    if binding.text.rpartition(".")[2] in catalogue.TENSOR_ATTRIBUTES:
        return True
    return _reads(binding, catalogue.TENSOR_ATTRIBUTES)


def _reads(binding: Binding, names: Set[str]) -> bool:
    """Whether the stored value is read through an attribute with one of these names."""
    read = ast.walk(binding.source) if binding.source is not None else ()
    return any(isinstance(node, ast.Attribute) and node.attr in names for node in read)
