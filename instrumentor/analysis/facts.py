"""What the analysis has found out so far: tables that only grow, until nothing new is found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from instrumentor.analysis.values import (
    NOTHING,
    Atom,
    Box,
    Derived,
    Instance,
    Made,
    Pack,
    Parameter,
    Part,
    Scripted,
    SiteKey,
    Unwrapped,
    Value,
    Wrapper,
    join,
    root,
    strip,
    wrap,
)
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.blocks import Conditions
    from instrumentor.analysis.environment import Number
    from instrumentor.resolve.units import Function, Unit


K = TypeVar("K")
ANY_KEY = "*"


@dataclass
class Site:
    """A place where an object comes into being.

    Attributes:
        key: where.
        node: the call, or for `is_read` the expression that fetches an object nobody knows.
        unit: the file it stands in.
        function: the function it stands in; None at the top of a file or class.
        nature: what it makes.
        labels: the classes or functions called there.
        class_keys: the project's module classes called there.
        origins: the sites in the functions called there whose fresh object it hands on.
        arguments: the objects passed in.
        callee: for what an object gives that is called without being known, that object.
        is_copy: it makes a module if it is given one.
        is_read: it may give an object made elsewhere, which cannot be seen.
    """

    key: SiteKey
    node: ast.expr
    unit: Unit
    function: Function | None
    nature: Nature = Nature.NOT_MODULE
    labels: list[str] = field(default_factory=list)
    class_keys: set[str] = field(default_factory=set)
    origins: set[SiteKey] = field(default_factory=set)
    arguments: Value = NOTHING
    callee: Value = NOTHING
    is_copy: bool = False
    is_read: bool = False


@dataclass(frozen=True)
class Binding:
    """One target of one statement with what it may hold.

    Attributes:
        statement: the statement.
        target: the expression stored to; for a parameter's default the parameter's node.
        text: the target as people read it.
        value: what is stored.
        receiver: for attributes and subscripts, the object stored into.
        source: the expression the value comes from, where it is one.
        number: equal for stores of the very same object in one round of the loops and one call of the function around
            them; None where that is not known.
    """

    unit: Unit
    function: Function | None
    statement: ast.stmt
    target: ast.AST
    text: str
    value: Value
    receiver: Value = NOTHING
    source: ast.expr | None = None
    number: Number = None


@dataclass(frozen=True)
class Event:
    """Something that happens to an object at an expression.

    Attributes:
        is_sure: it happens to the object whenever the expression is evaluated, and not to another in its place.
    """

    unit: Unit
    function: Function | None
    node: ast.AST
    conditions: Conditions
    text: str = ""
    is_sure: bool = True


class Facts:
    """The tables. `version` changes whenever one of them grows.

    Attributes:
        sites: the places where objects come into being.
        bindings: every store, by the target's node and text.
        attributes: what an object's attribute of a name was ever given.
        contents: what a container was ever given, by key; `ANY_KEY` stands for keys that are not known.
        scattered: the containers whose elements may lie under other keys by now.
        stored_when: the conditions under which an object was put into a container after that was made.
        bound_arguments: what partial applications were given.
        scopes: what a name of a function or file was ever given, for the functions inside.
        shared: the names of a scope that other functions store to.
        stored_outside: the part of it that other functions stored, by `global` and `nonlocal`.
        returns: what functions return; their own parameters stand for themselves.
        yields: what generator functions yield.
        passed: what callers pass for parameters, defaults included.
        evidence: how objects are used.
        captured: the objects that something besides the value returned keeps hold of.
        dropped: the objects that the function that makes them does not always return; found anew in every round.
        proxied: the objects that the script itself puts under a proxy.
        hidden: the objects in plain containers that modules keep, which are no submodules of theirs.
        absorbed: where objects become part of modules.
        replaced: where objects get other parameters.
        calls: where each function is called.
        escaped: the functions that unseen code gets as values.
        called_unseen: the functions whose parameters may be given more than `passed` says.
        call_kinds: the effects of the library functions that a call may call, by the call's id.
    """

    def __init__(self) -> None:
        self.version = 0
        self._reached: dict[Value, Value] = {}
        self.sites: dict[SiteKey, Site] = {}
        self.bindings: dict[tuple[int, str], Binding] = {}
        self.attributes: dict[tuple[Atom, str], Value] = {}
        self.contents: dict[SiteKey, dict[str, Value]] = {}
        self.scattered: set[SiteKey] = set()
        self.stored_when: dict[tuple[SiteKey, Atom], set[Conditions]] = {}
        self.bound_arguments: dict[SiteKey, Arguments] = {}
        self.scopes: dict[tuple[str, str], Value] = {}
        self.shared: dict[str, set[str]] = {}
        self.stored_outside: dict[tuple[str, str], Value] = {}
        self.returns: dict[str, Value] = {}
        self.yields: dict[str, Value] = {}
        self.passed: dict[tuple[str, str], Value] = {}
        self.defaults: dict[tuple[str, str], Value] = {}
        self.evidence: dict[Atom, set[str]] = {}
        self.captured: set[Atom] = set()
        self.dropped: set[Atom] = set()
        self.proxied: set[Atom] = set()
        self.hidden: set[Atom] = set()
        self.absorbed: dict[Atom, dict[int, Event]] = {}
        self.replaced: dict[Atom, dict[int, Event]] = {}
        self.calls: dict[str, dict[int, Event]] = {}
        self.escaped: set[str] = set()
        self.called_unseen: set[str] = set()
        self.demanded_functions: dict[str, Function] = {}
        self.demanded_units: dict[str, Unit] = {}
        self.call_kinds: dict[int, set[str]] = {}

    def grow(self, table: dict[K, Value], key: K, value: Value) -> None:
        """Add to what a table says `key` may hold."""
        old = table.get(key)
        new = value if old is None else join((old, value))
        if new != old:
            table[key] = new
            self.version += 1

    def put(self, site: SiteKey, key: str, value: Value) -> None:
        """Let the container made at `site` hold one thing more under `key`."""
        before = self.version
        self.grow(self.contents.setdefault(site, {}), key, value)
        if self.version != before:
            self._reached.clear()

    def elements(self, site: SiteKey, key: str | None = None) -> Value:
        """What the container made at `site` may hold under `key`; under any key for None."""
        held = self.contents.get(site, {})
        if key is None or site in self.scattered:
            return join(held.values())
        return join([held[each] for each in (key, ANY_KEY) if each in held])

    def add(self, table: set[K], items: Iterable[K]) -> None:
        """Add to a set."""
        before = len(table)
        table.update(items)
        self.version += len(table) - before

    def note_evidence(self, atoms: Value, word: str) -> None:
        """Remember that objects were used as `word` says."""
        for atom in atoms:
            key = strip(atom)
            if isinstance(key, (Made, Parameter)):
                words = self.evidence.setdefault(key, set())
                if word not in words:
                    words.add(word)
                    self.version += 1

    def note_event(self, table: dict[Atom, dict[int, Event]], atoms: Iterable[Atom], event: Event) -> None:
        """Remember that something happens to objects."""
        for atom in atoms:
            key = strip(atom)
            if isinstance(key, (Made, Parameter)):
                events = table.setdefault(key, {})
                if id(event.node) not in events:
                    self.version += 1
                events[id(event.node)] = event  # the last visit has seen all that there is to see

    def note_shared(self, scope: str, name: str) -> None:
        """Remember that functions inside store to a name of a scope."""
        self.add(self.shared.setdefault(scope, set()), [name])

    def note_call(self, function: str, event: Event) -> None:
        """Remember that a function is called at an expression."""
        events = self.calls.setdefault(function, {})
        if id(event.node) not in events:
            events[id(event.node)] = event
            self.version += 1

    def bind(self, binding: Binding) -> None:
        """Remember a store; what it may store grows with each visit."""
        key = (id(binding.target), binding.text)
        old = self.bindings.get(key)
        if old is None:
            self.bindings[key] = binding
            self.version += 1
            return
        value = join((old.value, binding.value))
        receiver = join((old.receiver, binding.receiver))
        if (value, receiver) != (old.value, old.receiver):
            self.version += 1
        # The number is that of the last visit, which has seen all that there is to see.
        self.bindings[key] = replace(old, value=value, receiver=receiver, number=binding.number)

    def reach(self, value: Value) -> Value:
        """The objects in a value and in the tuples and containers it holds; containers' own atoms aside."""
        if not any(isinstance(atom, (Box, Pack)) for atom in value):
            return value
        known = self._reached.get(value)
        if known is None:
            known = self._reached[value] = self._reach(value)
        return known

    def _reach(self, value: Value) -> Value:
        found: set[Atom] = set()
        seen: set[Atom] = set()
        pending = list(value)
        while pending:
            atom = pending.pop()
            if atom in seen:
                continue
            seen.add(atom)
            if isinstance(atom, Pack):
                pending.extend(inner for item in atom.items for inner in item)
            elif isinstance(atom, Box):
                for held in self.contents.get(atom.site, {}).values():
                    pending.extend(held)
            else:
                found.add(atom)
        return frozenset(found)

    def passed_for(self, parameter: Parameter) -> Value:
        """What callers pass for a parameter, their own parameters looked up likewise; containers are kept as such.

        The parameter itself is among it where its callers do not tell all.
        """
        found: set[Atom] = set()
        seen: set[Atom] = {parameter}
        pending = [parameter]
        while pending:
            asked = pending.pop()
            passed = self.passed.get((asked.function, asked.name), NOTHING)
            if not passed or asked.function in self.called_unseen:
                found.add(asked)
            for atom in passed:
                if not isinstance(atom, Parameter):
                    found.add(atom)
                elif atom not in seen:
                    seen.add(atom)
                    pending.append(atom)
        return frozenset(found)

    def sources(self, value: Value) -> Value:
        """The value with each parameter replaced by what callers pass, as far as that is known."""
        found: set[Atom] = set()
        pending = list(value)
        seen: set[Atom] = set()
        while pending:
            atom = pending.pop()
            if atom in seen:
                continue
            seen.add(atom)
            base = root(atom)
            if not isinstance(base, Parameter):
                found.add(atom)
                continue
            passed = self.reach(self.passed.get((base.function, base.name), NOTHING))
            if base.function in self.called_unseen or (not passed and base.function in self.calls):
                found.add(atom)
            pending.extend(_in_place_of(atom, new) for new in passed)
        return frozenset(found)


def _in_place_of(atom: Atom, new: Atom) -> Atom:
    """`atom` with `new` where it has a parameter."""
    if isinstance(atom, Parameter):
        return new
    if not isinstance(root(new), (Made, Parameter, Instance)):
        return new
    if isinstance(atom, Part):
        return Part(root(new))
    if isinstance(atom, (Derived, Scripted)):
        return type(atom)(root(new))
    if isinstance(atom, Wrapper):
        return wrap(_in_place_of(atom.inner, new))
    return Unwrapped(strip(_in_place_of(atom.inner, new)), atom.is_sure) if isinstance(atom, Unwrapped) else new
