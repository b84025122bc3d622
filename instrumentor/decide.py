"""Sites to decisions, each with its reason."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, NamedTuple

from instrumentor.analysis.blocks import statement_of
from instrumentor.analysis.expressions import text_of
from instrumentor.analysis.placement import Place, Placement, name_of
from instrumentor.analysis.sites import is_usable
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
    is_object,
    root,
    strip,
)
from instrumentor.resolve import catalogue
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.units import Class, Function

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from instrumentor.analysis.facts import Binding, Event, Site
    from instrumentor.analysis.sites import SiteIndex
    from instrumentor.settings import Settings
    from instrumentor.source_text import SourceText
    from instrumentor.suppressions import Suppressions

Verdict = Literal["wrap", "merged", "not wrapped"]
Relation = Literal["same", "wrapper", "unwrap"]


@dataclass(frozen=True)
class Decision:
    """What happens to one place where a module object comes into being or is bound again.

    Attributes:
        verdict: whether a proxy goes here.
        line: first line of the statement, from 1, in the original.
        column: column of the construction, from 0, in characters.
        target: what holds the object as the script spells it: `model`, `self.net`, `arg0`, `arg:network`,
            `nets["gen"]`, `ensemble[*]`, `return`.
        object: the class or factory as resolved (`torch.nn.Linear`), or as written where it cannot be resolved.
        reason: why, in plain words.
        reason_code: why, as a word: `constructed`, `copied` or `used-as-module` for wraps; `merged`; for the rest one
            of `submodule`, `no-params`, `not-module`, `temporary`, `derived`, `absorbed`, `returned`, `proxied`,
            `deselected`, `suppressed`.
        wrapped_at: for `merged`, the line of the site whose proxy covers this object.
        relation: for `merged`, how this object relates to the proxied one.
        aliases: later names of the same object, each with the line that binds it.
    """

    verdict: Verdict
    line: int
    column: int
    target: str
    object: str
    reason: str
    reason_code: str
    wrapped_at: int | None = None
    relation: Relation | None = None
    aliases: tuple[tuple[str, int], ...] = ()


class Wrap(NamedTuple):
    """One proxy to be written.

    Attributes:
        placement: where.
        name: what the object is called in the trace.
    """

    placement: Placement
    name: str


@dataclass(frozen=True)
class Plan:
    """All that was decided about one script."""

    decisions: tuple[Decision, ...]
    wraps: tuple[Wrap, ...]


class _Fate(Enum):
    WRAP = "wrap"
    HANDED_ON = "handed on"
    ALIAS = "alias"
    NOT_WRAPPED = "not wrapped"


class _Verdict(NamedTuple):
    """What becomes of one site."""

    fate: _Fate
    code: str
    reason: str
    placement: Placement | None = None
    # For HANDED_ON the calls that wrap the object; for ALIAS the sites whose object it is.
    others: tuple[SiteKey, ...] = ()


def decide(index: SiteIndex, settings: Settings, source: SourceText, suppressions: Suppressions) -> Plan:
    """Judge every site of a script.

    Args:
        index: the analysed script.
        settings: says which bindings are selected and which skipped.
        source: turns the positions of the analysis into columns.
        suppressions: the lines that the script itself excludes.
    """
    judge = _Judge(index, settings, suppressions)
    report = _Report(index, judge, source)
    report.add_sites()
    report.add_bindings()
    decisions = sorted(report.decisions, key=lambda each: (each.line, each.column, each.target))
    return Plan(tuple(dict.fromkeys(decisions)), tuple(report.wraps.values()))


class _Judge:
    """Decides what becomes of each site, on demand and once."""

    def __init__(self, index: SiteIndex, settings: Settings, suppressions: Suppressions) -> None:
        self.index = index
        self._settings = settings
        self._suppressions = suppressions
        self._verdicts: dict[SiteKey, _Verdict] = {}
        self._wrapped_inside = self._find_wrapped_inside()

    def verdict(self, site: Site) -> _Verdict:
        """What becomes of a site."""
        if site.key not in self._verdicts:
            # What a site that depends on itself, as in a recursive function, counts as.
            self._verdicts[site.key] = _Verdict(
                _Fate.NOT_WRAPPED, "returned", "returned by a function that calls itself"
            )
            self._verdicts[site.key] = self._find_verdict(site)
        return self._verdicts[site.key]

    def _find_verdict(self, site: Site) -> _Verdict:
        placement = self.index.placement(site)
        found = self._not_a_root(site, placement) or self._covered_elsewhere(site, placement)
        if found is not None:
            return found
        placement = self._final_placement(site, placement)
        if placement is None or not is_usable(placement):
            return _not_wrapped("temporary", "used once in its expression and dropped, never trained", placement)
        return self._deselected(placement) or _Verdict(_Fate.WRAP, *self._why(site), placement)

    def _not_a_root(self, site: Site, placement: Placement | None) -> _Verdict | None:
        nature = self.index.nature(site)
        if nature is Nature.NOT_MODULE:
            return _not_wrapped("not-module", "no module as far as its class and its use can tell", placement)
        if placement is not None and self._suppressions.covers(placement.statement):
            return _not_wrapped("suppressed", "excluded by a `# instrument: skip` comment", placement)
        if Made(site.key) in self.index.facts.proxied:
            return _not_wrapped("proxied", "the script itself puts it under a proxy", placement)
        if self.index.is_in_module_class(site):
            return _not_wrapped(
                "submodule", "made in the class of a module: part of that module, which recursion covers", placement
            )
        compiler = self.index.compiling_decorator(site)
        if compiler is not None:
            return _not_wrapped(
                "derived", f"inside a function that {compiler} compiles, where no proxy can stand", placement
            )
        if nature is Nature.NO_PARAMS:
            return _not_wrapped("no-params", "a module without parameters: no state to watch", placement)
        return self._absorbed(site, placement)

    def _absorbed(self, site: Site, placement: Placement | None) -> _Verdict | None:
        for event in self.index.certain_absorptions(site):
            absorber = self.index.site_at(event.node)
            if absorber is not None and absorber is not site:
                verdict = self.verdict(absorber)
                if verdict.fate is _Fate.NOT_WRAPPED and verdict.code in {"temporary", "not-module", "no-params"}:
                    continue
            return _absorbed_by(event, placement)
        return None

    def _covered_elsewhere(self, site: Site, placement: Placement | None) -> _Verdict | None:
        if self.index.rebinds_argument(site):
            modules = self.index.modules_fetched(site)
            keys = tuple(sorted(base.site for atom in modules if isinstance(base := root(atom), Made)))
            return _Verdict(_Fate.ALIAS, "merged", "the object it was given, or a wrapper of it", placement, keys)
        own_origins = [key for key in sorted(site.origins) if key in self._wrapped_inside]
        if own_origins:
            return _Verdict(
                _Fate.ALIAS, "merged", "made and wrapped in the function called", placement, tuple(own_origins)
            )
        if site.key in self._wrapped_inside or not self.index.is_handed_out(site):
            return None
        callers = tuple(caller.key for caller in self.index.callers(site))
        if callers:
            return _Verdict(_Fate.HANDED_ON, "merged", "returned to where it is wrapped", placement, callers)
        return _not_wrapped("returned", "returned to callers outside this file, where it is wrapped", placement)

    def _final_placement(self, site: Site, placement: Placement | None) -> Placement | None:
        """Where the proxy goes; behind the last call that gives the object other parameters, where there is one."""
        if placement is None or placement.place is Place.RETURNED:
            placement = self._place_at_binding(site) or _inline_if_returned(placement)
        elif placement.place is Place.DISCARDED:
            placement = self._place_if_kept(site, placement)
        replacements = self.index.certain_replacements(site)
        if placement is not None and replacements:
            return self._place_behind(replacements[-1], placement)
        return placement

    def _place_at_binding(self, site: Site) -> Placement | None:
        """Behind the first statement that binds an object which stands nowhere on its own."""
        for binding in self.index.facts.bindings.values():
            same_scope = binding.unit is site.unit and binding.function is site.function
            if same_scope and Made(site.key) in binding.value and _is_simple(binding):
                return _line_after(binding, site.node)
        return None

    def _place_if_kept(self, site: Site, placement: Placement) -> Placement | None:
        """Around the expression, if something holds the object although the expression does not show it."""
        kept = any(Made(site.key) in map(strip, binding.value) for binding in self.index.facts.bindings.values())
        return replace(placement, place=Place.INLINE) if kept and placement.can_inline else placement

    def _place_behind(self, event: Event, placement: Placement) -> Placement:
        statement = statement_of(self.index.script, event.node)
        if statement is placement.statement:
            return placement
        target = placement.target
        for binding in self.index.facts.bindings.values():
            if binding.statement is statement and _is_simple(binding):
                return _line_after(binding, placement.expression)
        if target is None or placement.place is not Place.LINE:
            return placement
        return replace(placement, statement=statement, can_inline=False)

    def _deselected(self, placement: Placement) -> _Verdict | None:
        names = (placement.text, name_of(placement.target) if placement.target is not None else placement.text)
        if self._settings.select and not _matches(names, self._settings.select):
            return _not_wrapped(
                "deselected", f"not among the selected names ({', '.join(self._settings.select)})", placement
            )
        if _matches(names, self._settings.skip):
            return _not_wrapped("deselected", f"among the names to skip ({', '.join(self._settings.skip)})", placement)
        return None

    def _why(self, site: Site) -> tuple[str, str]:
        if site.is_copy:
            return "copied", "a copy with parameters of its own"
        if site.nature is Nature.UNKNOWN:
            return "used-as-module", "its class cannot be seen, but it is used as a module"
        if site.origins:
            return "constructed", "a new module, made in the function called"
        return "constructed", "a new module"

    # ---- functions that make objects ----

    def _find_wrapped_inside(self) -> set[SiteKey]:
        """The returned objects that are wrapped where they are made, since their callers cannot, or too late.

        One call may hand on what was made at several places; it must wrap all of them or none.
        """
        inside: set[SiteKey] = set()
        while True:
            more = {key for site in self.index.own_sites if site.origins for key in self._forced(site, inside)} - inside
            more |= {
                site.key for site in self.index.own_sites if site.key not in inside and self._is_for_hidden_caller(site)
            }
            if not more:
                return inside
            inside |= more

    def _forced(self, caller: Site, inside: set[SiteKey]) -> set[SiteKey]:
        origins = [self.index.facts.sites[key] for key in caller.origins if key in self.index.facts.sites]
        own = [origin for origin in origins if origin.unit is self.index.script]
        placement = self.index.placement(caller)
        forced = (
            placement is None
            or placement.place is Place.DISCARDED
            or any(origin.key in inside or not self.index.is_handed_out(origin) for origin in own)
        )
        if not forced or self.index.is_in_module_class(caller):
            return set()
        return {origin.key for origin in own if not self.index.is_in_module_class(origin)}

    def _is_for_hidden_caller(self, site: Site) -> bool:
        """Whether a method's fresh object goes to a base class that cannot be seen."""
        function = site.function
        if function is None or function.owner is None or self.index.callers(site):
            return False
        if function.owner.methods.get(function.name) is not function:
            return False
        bases = self.index.hierarchy.library_bases(function.owner)
        return any(base is None or not base.startswith("builtins.") for base in bases)


class _Report:
    """Gathers what is written and what is told to the user."""

    def __init__(self, index: SiteIndex, judge: _Judge, source: SourceText) -> None:
        self._index = index
        self._judge = judge
        self._source = source
        self.decisions: list[Decision] = []
        self.wraps: dict[tuple[int, str], Wrap] = {}
        self._told: set[tuple[int, str]] = set()

    def add_sites(self) -> None:
        """Add the decisions about the places where modules are made."""
        groups: dict[tuple[int, str], list[tuple[Site, _Verdict]]] = {}
        rest: list[tuple[Site, _Verdict]] = []
        for site in sorted(self._index.own_sites, key=lambda each: each.key):
            verdict = self._judge.verdict(site)
            if verdict.fate is _Fate.WRAP and verdict.placement is not None:
                groups.setdefault(verdict.placement.group, []).append((site, verdict))
            elif self._index.nature(site) is not Nature.NOT_MODULE:
                rest.append((site, verdict))
        for group, members in groups.items():
            self._add_wrap(group, members)
        for site, verdict in rest:
            self._add_unwrapped(site, verdict)

    def _add_wrap(self, group: tuple[int, str], members: list[tuple[Site, _Verdict]]) -> None:
        _site, verdict = members[0]
        placement = verdict.placement
        assert placement is not None
        label = " or ".join(dict.fromkeys(label for each, _ in members for label in each.labels))
        name = placement.name or label.rpartition(".")[2]
        self.wraps[group] = Wrap(placement, name)
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
            )
        )

    def _aliases(self, keys: set[SiteKey], placement: Placement) -> tuple[tuple[str, int], ...]:
        found: list[tuple[str, int]] = []
        for binding in self._index.facts.bindings.values():
            if binding.unit is not self._index.script:
                continue
            held = self._index.facts.sources(binding.value)
            is_same = any(isinstance(base := strip(atom), Made) and base.site in keys for atom in held)
            own = binding.statement is placement.statement and binding.text == placement.text
            if is_same and not own:
                found.append((binding.text, binding.statement.lineno))
        return tuple(sorted(dict.fromkeys(found), key=lambda alias: (alias[1], alias[0])))

    def _add_unwrapped(self, site: Site, verdict: _Verdict) -> None:
        placement = verdict.placement
        if placement is None or (self._is_part(site, verdict) and not self._is_bound(site, placement)):
            return  # a layer among the arguments of another is that one's business
        line = placement.statement.lineno
        text = placement.text
        label = " or ".join(site.labels)
        if verdict.fate is _Fate.NOT_WRAPPED:
            self._tell(
                Decision(
                    "not wrapped", line, self._column(placement.expression), text, label, verdict.reason, verdict.code
                )
            )
            return
        lines = sorted(self._cover_lines(verdict.others))
        if not lines or self._is_bound_by_statement(placement):
            return  # told with the statement that binds it, as any other name of the object
        self._tell(
            Decision(
                "merged",
                line,
                self._column(placement.expression),
                text,
                label,
                f"{verdict.reason}, line {lines[0]}",
                "merged",
                lines[0],
                "same",
            )
        )

    def _is_part(self, site: Site, verdict: _Verdict) -> bool:
        return verdict.code in {"absorbed", "submodule"} or Made(site.key) in self._index.facts.absorbed

    def _is_bound_by_statement(self, placement: Placement) -> bool:
        return any(
            binding.statement is placement.statement and binding.text == placement.text
            for binding in self._index.facts.bindings.values()
        )

    def _is_bound(self, site: Site, placement: Placement) -> bool:
        return any(
            binding.statement is placement.statement and Made(site.key) in binding.value
            for binding in self._index.facts.bindings.values()
        )

    def add_bindings(self) -> None:
        """Add the decisions about statements that bind objects made elsewhere."""
        for binding in self._index.facts.bindings.values():
            if binding.unit is self._index.script and (binding.statement.lineno, binding.text) not in self._told:
                self._add_binding(binding)

    def _add_binding(self, binding: Binding) -> None:
        facts = self._index.facts
        held = facts.sources(binding.value)
        objects = [atom for atom in held if is_object(atom) and self._index.is_module(root(atom))]
        in_module = self._is_in_module_class(binding)
        if objects:
            if any(self._is_wrapped_by(binding, atom) for atom in objects):
                return
            whole = [atom for atom in objects if not isinstance(strip(atom), Part)]
            if in_module:
                if self._stores_into_module(binding) and not _is_tensor(binding):
                    self._tell_binding(
                        binding, "submodule", "an attribute of a module: part of it, which recursion covers"
                    )
            elif not whole and not _is_tensor(binding):
                self._tell_binding(binding, "submodule", "part of a module that is covered by recursion")
            elif whole:
                self._tell_merged(binding, whole)
        elif not in_module:
            self._add_other(binding, held)

    def _tell_merged(self, binding: Binding, objects: Sequence[Atom]) -> None:
        keys = [base.site for atom in objects if isinstance(base := root(atom), Made)]
        lines = sorted(self._cover_lines(keys))
        if not lines:
            verdicts = [self._judge.verdict(self._index.facts.sites[key]) for key in sorted(keys)]
            refused = [verdict for verdict in verdicts if verdict.fate is _Fate.NOT_WRAPPED]
            if refused:
                self._tell_binding(binding, refused[0].code, refused[0].reason)
            return
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
                " or ".join(
                    dict.fromkeys(label for key in sorted(keys) for label in self._index.facts.sites[key].labels)
                ),
                f"{words[relation]} wrapped at line {lines[0]}",
                "merged",
                lines[0],
                relation,
            )
        )

    def _add_other(self, binding: Binding, held: Iterable[Atom]) -> None:
        """Tell about values that a reader may take for models."""
        for atom in sorted(held, key=repr):
            if isinstance(atom, Scripted) and self._index.is_module(root(atom)):
                self._tell_binding(binding, "derived", "another view of a module's parameters, no module to train")
                return
            if isinstance(atom, Instance) and binding.source is not None:
                cls = atom.key.partition(":")[2].partition("@")[0]
                self._tell_binding(binding, "not-module", f"an instance of {cls}, which is no nn.Module", cls)
                return
            if isinstance(atom, Made) and self._is_worth_telling(atom):
                label = self._index.facts.sites[atom.site].labels[0]
                reason = "no module as far as its class and its use can tell"
                self._tell_binding(binding, "not-module", reason, label)
                return

        if self._is_data_of_model(binding):
            self._tell_binding(binding, "not-module", "computed from a module, none itself")
        elif isinstance(binding.source, ast.Call):
            found = self._index.hierarchy.resolve(binding.unit, binding.source.func)
            if isinstance(found, (Class, Function)):
                self._tell_binding(binding, "not-module", "no module as far as the function called can tell")

    def _is_worth_telling(self, made: Made) -> bool:
        """Whether a reader may wonder about what a call gave: not about numbers, outputs and losses."""
        site = self._index.facts.sites[made.site]
        label = site.labels[0] if site.labels else ""
        if site.is_read or not label or "(" in label or catalogue.effect_of(label) is not None:
            return False
        if site.origins or label == "torch.load":
            return True
        is_class = label.rpartition(".")[2][:1].isupper()
        if site.nature is Nature.UNKNOWN or label.partition(".")[0] in {"torch", "numpy"}:
            return is_class
        return True

    def _is_data_of_model(self, binding: Binding) -> bool:
        """Whether a value holds what methods of a module gave, such as a state dict, or what a dropped one computed."""
        derived = [atom for atom in self._index.facts.reach(binding.value) if isinstance(atom, Derived)]
        bases = [base for atom in derived if isinstance(base := root(atom), Made) and self._index.is_module(base)]
        if not bases or binding.source is None:
            return False
        if any(self._judge.verdict(self._index.facts.sites[base.site]).code == "temporary" for base in bases):
            return True
        named = {node.attr for node in ast.walk(binding.source) if isinstance(node, ast.Attribute)}
        return bool(named & (catalogue.HARMLESS_METHODS | {"configure_optimizers"}))

    # ---- helpers ----

    def _tell(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self._told.add((decision.line, decision.target))

    def _tell_binding(self, binding: Binding, code: str, reason: str, label: str = "") -> None:
        self._tell(
            Decision(
                "not wrapped",
                binding.statement.lineno,
                self._column(binding.source or binding.target),
                binding.text,
                label or _called_name(binding.source) or text_of(binding.source or binding.target),
                reason,
                code,
            )
        )

    def _is_wrapped_by(self, binding: Binding, atom: Atom) -> bool:
        """Whether the statement that binds an object is the one that wraps it."""
        base = strip(atom)
        if not isinstance(base, Made) or atom is not base or base.site not in self._index.facts.sites:
            return False
        site = self._index.facts.sites[base.site]
        verdict = self._judge.verdict(site)
        placement = verdict.placement
        if verdict.fate is _Fate.WRAP and placement is not None:
            if placement.place is Place.INLINE and placement.text.startswith("arg"):
                return False  # what the call gives back is another name of its argument
            original = self._index.placement(site)
            statements = [placement.statement, original.statement if original is not None else None]
            return binding.statement in statements
        return False

    def _cover_lines(self, keys: Iterable[SiteKey]) -> set[int]:
        """The lines of the proxies that cover what was made at some sites."""
        found: set[int] = set()
        seen: set[SiteKey] = set()
        pending = list(keys)
        while pending:
            key = pending.pop()
            site = self._index.facts.sites.get(key)
            if key in seen or site is None:
                continue
            seen.add(key)
            verdict = self._judge.verdict(site)
            if verdict.fate is _Fate.WRAP and verdict.placement is not None and site.unit is self._index.script:
                found.add(verdict.placement.statement.lineno)
            pending.extend(verdict.others)
        return found

    def _is_in_module_class(self, binding: Binding) -> bool:
        node: ast.AST | None = binding.statement
        parents = binding.unit.parents
        while node is not None:
            if isinstance(node, ast.ClassDef) and self._index.hierarchy.is_module(binding.unit.class_of[node]):
                return True
            node = parents.get(node)
        return False

    def _stores_into_module(self, binding: Binding) -> bool:
        return binding.text.startswith("self.")

    def _column(self, node: ast.AST) -> int:
        return self._source.column(node.lineno, node.col_offset)  # type: ignore[attr-defined]


def _not_wrapped(code: str, reason: str, placement: Placement | None) -> _Verdict:
    return _Verdict(_Fate.NOT_WRAPPED, code, reason, placement)


def _absorbed_by(event: Event, placement: Placement | None) -> _Verdict:
    if isinstance(event.node, (ast.Attribute, ast.Subscript)):
        return _not_wrapped("submodule", f"becomes part of {event.text}, which recursion covers", placement)
    where = f"{event.text}, line {event.node.lineno}" if event.text else f"line {event.node.lineno}"  # type: ignore[attr-defined]
    return _not_wrapped(
        "absorbed", f"becomes part of the module made of it ({where}), which recursion covers", placement
    )


def _inline_if_returned(placement: Placement | None) -> Placement | None:
    return None if placement is None else replace(placement, place=Place.INLINE)


def _line_after(binding: Binding, expression: ast.expr) -> Placement:
    assert isinstance(binding.target, ast.expr)
    name = name_of(binding.target)
    return Placement(Place.LINE, binding.statement, expression, binding.target, binding.text, name, can_inline=False)


def _is_simple(binding: Binding) -> bool:
    """Whether a line behind a statement can bind its target once more."""
    return isinstance(binding.target, ast.Name) and isinstance(binding.statement, (ast.Assign, ast.AnnAssign))


def _called_name(source: ast.expr | None) -> str:
    if not isinstance(source, ast.Call):
        return ""
    return source.func.attr if isinstance(source.func, ast.Attribute) else getattr(source.func, "id", "")


def _is_tensor(binding: Binding) -> bool:
    """Whether a target's name says that a parameter is stored, as where weights are tied."""
    return binding.text.rpartition(".")[2] in {"weight", "bias", "data", "grad", "requires_grad"}


def _matches(names: tuple[str, ...], globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for name in names for glob in globs)
