"""What the analysis has found out so far: tables that only grow, until nothing new is found."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from instrumentor.analysis.blocks import Blocks, Conditions
from instrumentor.analysis.captured import Captured
from instrumentor.analysis.contents import Contents
from instrumentor.analysis.outside import OutsideNames
from instrumentor.analysis.passed import Passed
from instrumentor.analysis.tables import Marks, Readers, Table, Visits
from instrumentor.analysis.touched import Touched
from instrumentor.analysis.values import (
    NOTHING,
    AnyMethod,
    Atom,
    ClassRef,
    FunctionRef,
    Instance,
    Made,
    Method,
    Parameter,
    Partial,
    SiteKey,
    Value,
    Widened,
    bare_objects,
    functions_in,
    grown,
    join,
    let_go,
    strip,
)
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.units import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.entries import Binding, Event, Giving, Site
    from instrumentor.analysis.environment import Number
    from instrumentor.resolve.units import Class, Function, Unit


K = TypeVar("K")
Display = ast.List | ast.Tuple | ast.Set | ast.Dict


class Elements(NamedTuple):
    """The elements of a display.

    Attributes:
        positions: where each of them stands.
        first_starred: where the first one stands that is unpacked; None where none is.
    """

    positions: dict[ast.AST, int]
    first_starred: int | None


class Facts:
    """The tables.

    What a visit of a scope reads of those that are a `Table` or `Marks` is what it depends on: whenever an entry
    changes, the scopes that read it are due for another visit. The others are only written during visits.

    Attributes:
        visits: which scopes are due.
        places: the keys of what expressions make, as far as they were asked for.
        sites: the places where objects come into being.
        bindings: every store, by the target's node and text.
        attributes: what an object's attribute of a name was ever given.
        contents: what containers hold.
        bound_arguments: what partial applications were given.
        scopes: what a name of a function or file was ever given, for the functions inside.
        shared: the names of a scope that other functions store to.
        touched: what functions may change outside of themselves.
        stored_outside: the part of it that other functions stored, by `global` and `nonlocal`.
        returns: what functions return; their own parameters stand for themselves.
        returned_numbers: which object each `return` of a function gives, by the number that it has in the function.
        yielded_numbers: likewise for each `yield`.
        initial: the attributes that an initialiser leaves holding what it is passed, with its parameters' names.
        passed_numbers: which object each call passes for a parameter, by the caller's scope and its number there.
        sole_callees: the function that a call calls, where it calls no other, by the number of what the call gives.
        made_only: whether a call gives nothing but the object that is made there, by the scope and the call's place.
        remembering: the functions that run once and give each caller the very object that they gave the first.
        yields: what generator functions yield.
        passed: what callers pass for parameters.
        evidence: how objects are used.
        captured: the objects that something besides the value returned keeps hold of; asked for when all is found out.
        dropped: the objects that the scope that makes them does not always return, by scope; found anew in each visit.
        proxied: the objects that the script itself puts under a proxy.
        hidden: the objects in plain containers that modules keep, which are no submodules of theirs.
        absorbed: where objects become part of modules.
        replaced: where objects get other parameters.
        called: where objects are called, or passed to a function that calls them.
        calls: where each function is called.
        repeating: the ids of the calls that call what they are given again and again.
        let_go: what is held by values that grew too large to tell it apart, for the visit to escape.
        escaped: the functions that unseen code gets as values.
        found_by_any_name: the functions of files of which something is read under a computed name.
        givings: the calls that hand classes to unseen code, by the call's id; asked for when all is found out.
        constructed: the classes of other files of which there are instances.
        live_methods: the methods of these, by name and by their keys.
        instances_with: the classes, as their instances, that an attribute of a name is known of.
        kept: what is kept under a name, in an attribute of whatever or at the top of another file.
        opened: the classes whose methods unseen code may call, with how many classes were below them then.
        called_unseen: the functions whose parameters may be given more than `passed` says.
        methods_by_name: the methods of the script's classes.
        demanded_functions: the functions to analyse, by key.
        unseen_functions: the functions of other files that are to be analysed if it matters what they do, by key.
        demanded_units: the files whose tops are to be analysed, by name.
        whole_units: the files of which every function is analysed, called or not.
        call_kinds: the effects of the library functions that a call may call, by the call's id.
        outside: which names of the scopes around them functions read.
        given_outside: what these hold where a function is called that only plain calls reach, by function and name.
        needed_outside: the names of the scopes around a function that the functions it calls read, with these scopes.
        meanings: what names of files stand for that no statement binds, as far as that was asked for.
        descendants: the classes below those that were asked for, in the files read so far.
    """

    def __init__(self) -> None:
        self.visits = visits = Visits()
        self._conditions: dict[ast.AST, Conditions] = {}
        self._blocks = Blocks()
        self._elements: dict[ast.expr, Elements] = {}
        self._functions_in: dict[Value, frozenset[str]] = {}
        self.places: dict[ast.AST, SiteKey] = {}
        self.sites: Table[SiteKey, Site] = Table(visits)
        self._arguments: Readers[SiteKey] = Readers(visits)
        self.bindings: dict[tuple[int, str], Binding] = {}
        self.attributes: Table[tuple[Atom, str], Value] = Table(visits)
        self.contents = Contents(visits)
        self.bound_arguments: Table[SiteKey, Arguments] = Table(visits)
        self.scopes: Table[tuple[str, str], Value] = Table(visits)
        self.shared: Table[str, set[str]] = Table(visits)
        self.touched = Touched(visits)
        self.stored_outside: Table[tuple[str, str], Value] = Table(visits)
        self.returns: Table[str, Value] = Table(visits)
        self.returned_numbers: Table[str, dict[int, Number]] = Table(visits)
        self.yielded_numbers: Table[str, dict[int, Number]] = Table(visits)
        self.initial: Table[str, dict[str, str]] = Table(visits)
        self.passed_numbers: dict[tuple[str, str], dict[int, tuple[str, Number]]] = {}
        self.sole_callees: dict[tuple[str, Number], str] = {}
        self.made_only: dict[tuple[str, SiteKey], bool] = {}
        self.remembering: set[str] = set()
        self.yields: Table[str, Value] = Table(visits)
        self.evidence: dict[Atom, set[str]] = {}
        self.declared: Table[SiteKey, tuple[str, ...]] = Table(visits)
        self.captured = Captured()
        self.dropped: dict[str, set[Atom]] = {}
        self.proxied: set[Atom] = set()
        self.hidden: set[Atom] = set()
        self.absorbed: Table[Atom, dict[int, Event]] = Table(visits)
        self.replaced: Table[Atom, dict[int, Event]] = Table(visits)
        self.called: Table[Atom, dict[int, Event]] = Table(visits)
        self.repeating: set[int] = set()
        self.calls: Table[str, dict[int, Event]] = Table(visits)
        self._events: dict[tuple[Table[Atom, dict[int, Event]], Atom, int], Event] = {}
        self._doubtful: set[tuple[Table[Atom, dict[int, Event]], Atom, int]] = set()
        self.escaped: set[str] = set()
        self.found_by_any_name: set[str] = set()
        self.givings: dict[int, Giving] = {}
        self.let_go = self.contents.let_go
        self.constructed: set[str] = set()
        self.live_methods: Table[str, dict[str, Function]] = Table(visits)
        self.kept: Table[str, Value] = Table(visits)
        self.instances_with: Table[str, dict[Instance, None]] = Table(visits)
        self.opened: dict[str, int] = {}
        self.called_unseen: Marks[str] = Marks(visits)
        self.passed = Passed(visits, self.contents, self.calls, self.called_unseen)
        self.methods_by_name: dict[str, list[Function]] = {}
        self.demanded_functions: dict[str, Function] = {}
        self.unseen_functions: dict[str, Function] = {}
        self.demanded_units: dict[str, Unit] = {}
        self.whole_units: set[str] = {SCRIPT}
        self.call_kinds: dict[int, frozenset[str]] = {}
        self._sole_kinds: dict[str, frozenset[str]] = {}
        self.outside = OutsideNames()
        self.given_outside: Table[tuple[str, str], Value] = Table(visits)
        self.needed_outside: Table[str, dict[str, str]] = Table(visits)
        self.meanings: dict[tuple[str, str], Value] = {}
        self.descendants: Table[Class, list[Class]] = Table(visits)

    @contextmanager
    def visiting(self, scope: str) -> Iterator[None]:
        """Take what is read and dropped on the way as read and dropped by a scope."""
        self.dropped[scope] = set()
        outer, self._events = self._events, {}
        with self.visits.of(scope):
            yield
            self._keep_events()
        self._events = outer

    def take_apart(self) -> None:
        """Let go of everything: what is known refers to itself in circles, which only the collector would undo."""
        self.visits.forget_readers()
        vars(self).clear()

    def _tell_again(self, tell: Callable[..., None], *told: object) -> None:
        """Have a method of the facts be told something again."""
        if self.visits.current is not None:
            self.visits.current.tell_again(tell, *told)

    def conditions_of(self, unit: Unit, node: ast.AST) -> Conditions:
        """The conditions under which `node` runs once its function does."""
        found = self._conditions.get(node)
        if found is None:
            found = self._conditions[node] = self._blocks.conditions_of(unit, node)
        return found

    def elements_of(self, display: Display) -> Elements:
        """Where the elements of a list, tuple, set or dict stand that is displayed."""
        found = self._elements.get(display)
        if found is None:
            nodes = display.values if isinstance(display, ast.Dict) else display.elts
            starred = (position for position, each in enumerate(nodes) if isinstance(each, ast.Starred))
            positions: dict[ast.AST, int] = {each: position for position, each in enumerate(nodes)}
            found = self._elements[display] = Elements(positions, next(starred, None))
        return found

    def grow(self, table: Table[K, Value], key: K, value: Value) -> None:
        """Add to what a table says `key` may hold."""
        old = table.peek(key)
        new = grown(old, value)
        if new is not old and new != old:
            table[key] = new
        if lost := let_go(old, value, new):
            self.let_go.update(lost)

    def grow_site(
        self,
        site: Site,
        *,
        nature: Nature = Nature.NOT_MODULE,
        labels: Iterable[str] = (),
        class_keys: Iterable[str] = (),
        origins: Iterable[SiteKey] = (),
        arguments: Value = NOTHING,
        callee: Value = NOTHING,
        is_copy: bool = False,
        is_read: bool = False,
        is_own: bool = False,
    ) -> None:
        """Add to what is known of a site; what it makes is the most that any visit has said."""
        is_new = self.sites.peek(site.key) is not site
        new_labels = [label for label in labels if label not in site.labels]
        is_grown = not site.class_keys.issuperset(class_keys) or not site.origins.issuperset(origins)
        if is_new or nature > site.nature or new_labels or is_grown:
            site.nature = max(site.nature, nature)
            # What is called may be several things, which come in the order of their hashes: another one in each run.
            site.labels = sorted((*site.labels, *new_labels))
            site.class_keys.update(class_keys)
            site.origins.update(origins)
            self.sites[site.key] = site
        if is_copy and not site.is_copy:
            site.is_copy = True
            self.sites.note_changed(site.key)
        given = join((site.arguments, arguments))
        if given != site.arguments:
            site.arguments = given
            self._arguments.note_changed(site.key)
        # What follows is asked for when all is found out.
        site.callee = join((site.callee, callee))
        site.is_read |= is_read
        site.is_own |= is_own

    def arguments_of(self, site: Site) -> Value:
        """The objects passed in where an object is made."""
        self._arguments.note_read(site.key)
        return site.arguments

    def note_evidence(self, atoms: Value, word: str) -> None:
        """Remember that objects were used as `word` says."""
        for atom in atoms:
            key = strip(atom)
            if isinstance(key, (Made, Parameter)):
                self.evidence.setdefault(key, set()).add(word)

    def note_declared(self, atoms: Value, names: Sequence[str]) -> None:
        """Remember the library's classes that an annotation names of which objects are."""
        for key in map(strip, atoms):
            if isinstance(key, Made):
                old = self.declared.peek(key.site) or ()
                new = tuple(dict.fromkeys((*old, *names)))
                if new != old:
                    self.declared[key.site] = new

    def note_event(self, table: Table[Atom, dict[int, Event]], atoms: Iterable[Atom], event: Event) -> None:
        """Remember that something happens to objects."""
        objects = bare_objects(atoms)
        if objects:
            self._tell_again(Facts.note_event, table, objects, event)
        for key in objects:
            self._events[table, key, id(event.node)] = event

    def _keep_events(self) -> None:
        """Take over what the visit said last of each event: that has seen all that there is to see.

        Events may become sure as more is found out, and doubtful again, but not sure once more: visits come to an end.
        """
        for (table, key, node), event in self._events.items():
            events = table.kept(key, dict)
            old = events.get(node)
            is_doubtful = (table, key, node) in self._doubtful
            if old is not None and old.is_sure and not event.is_sure:
                self._doubtful.add((table, key, node))
            events[node] = event._replace(is_sure=event.is_sure and not is_doubtful)
            if old is None or old.is_sure != events[node].is_sure:
                table.note_changed(key)
        self._events.clear()

    def site_of(self, made: Made) -> Site:
        """Where an object is made; what may still become known of it is not to be asked for."""
        site = self.sites.peek(made.site)
        assert site is not None
        return site

    def note_dropped(self, atoms: Iterable[Atom]) -> None:
        """Remember that the scope visited lets go of objects of its own."""
        assert self.visits.current is not None
        dropped = frozenset(atoms)
        if dropped:
            self._tell_again(Facts.note_dropped, dropped)
            self.dropped[self.visits.current.scope].update(dropped)

    def is_dropped(self, site: Site) -> bool:
        """Whether the scope that makes an object lets go of it, in some run at least."""
        if self.visits.current is not None:
            self.visits.current.forgo()  # what is dropped is found anew in each visit
        return not site.value.isdisjoint(self.dropped.get(site.scope, ()))

    def demand(self, function: Function) -> None:
        """See to it that a function is analysed."""
        self.demanded_functions.setdefault(function.key, function)

    def demand_unseen(self, function: Function) -> None:
        """See to it that a function is analysed which unseen code may call; one of another file, if that matters."""
        is_own = function.unit.name in self.whole_units
        (self.demanded_functions if is_own else self.unseen_functions).setdefault(function.key, function)

    def note_kept(self, name: str, held: Value) -> None:
        """Remember what is kept under a name that functions of other files may read."""
        old = self.kept.peek(name)
        new = grown(old, held)
        if new != old:
            self.kept[name] = new

    def keeps_own(self, name: str) -> bool:
        """Whether something is kept under a name that the script makes or defines, or that holds such a thing."""
        held = self.kept.get(name, NOTHING)
        return any(map(self._is_own, self.contents.reach(held))) or any(
            site.unit in self.whole_units for site in self.contents.boxes(held)
        )

    def note_attribute(self, base: Atom, name: str, held: Value) -> None:
        """Remember what is kept in an attribute."""
        self.grow(self.attributes, (base, name), held)
        self.note_kept(name, held)
        if isinstance(base, Instance):
            known = self.instances_with.kept(name, dict)
            if base not in known:
                known[base] = None
                self.instances_with.note_changed(name)

    def _is_own(self, atom: Atom) -> bool:
        if isinstance(atom, (Method, AnyMethod)):
            return self._is_own(atom.receiver)
        bare = strip(atom)
        if isinstance(bare, (Made, Partial)):
            return bare.site.unit in self.whole_units
        if isinstance(bare, (ClassRef, FunctionRef, Instance)):
            return bare.key.partition(":")[0] in self.whole_units
        return isinstance(bare, Widened)

    def note_shared(self, scope: str, name: str) -> None:
        """Remember that functions inside store to a name of a scope."""
        known = self.shared.kept(scope, set)
        if name not in known:
            known.add(name)
            self.shared.note_changed(scope)

    def note_unseen_calls(self, function: str) -> None:
        """Remember that code that cannot be seen may call a function, with whatever and whenever."""
        self.called_unseen.add([function])
        self.touched.note_running_unseen(function)

    def note_needed(self, function: str, name: str, owner: str) -> None:
        """Remember that a function which `function` calls reads a name of a scope around it."""
        known = self.needed_outside.kept(function, dict)
        if name not in known:
            known[name] = owner
            self.needed_outside.note_changed(function)

    def note_given(self, table: Table[str, dict[int, Number]], function: str, node: ast.AST, number: Number) -> None:
        """Remember which object a `return` or `yield` gives; the last visit has seen all that there is to see."""
        self._tell_again(Facts.note_given, table, function, node, number)
        known = table.kept(function, dict)
        if id(node) not in known or known[id(node)] != number:
            known[id(node)] = number
            table.note_changed(function)

    def note_passed(self, function: str, name: str, node: ast.AST, scope: str, number: Number) -> None:
        """Remember which object a call passes for a parameter."""
        self._tell_again(Facts.note_passed, function, name, node, scope, number)
        self.passed_numbers.setdefault((function, name), {})[id(node)] = scope, number

    def number_passed(self, function: str, name: str, node: ast.AST, scope: str) -> Number:
        """Which object a call in a scope passes for a parameter, by its number there."""
        caller, number = self.passed_numbers.get((function, name), {}).get(id(node), (scope, None))
        return number if caller == scope else None

    def note_sole_callee(self, scope: str, number: Number, function: Function | None) -> None:
        """Remember which function a call calls that gives the object of a number; None where it may call others."""
        self._tell_again(Facts.note_sole_callee, scope, number, function)
        if function is not None:
            self.sole_callees[scope, number] = function.key
        else:
            self.sole_callees.pop((scope, number), None)

    def note_given_by_call(self, scope: str, site: SiteKey, held: Value) -> None:
        """Remember whether a call gives nothing but the object that is made there."""
        self._tell_again(Facts.note_given_by_call, scope, site, held)
        self.made_only[scope, site] = held == frozenset({Made(site)})

    def note_effect(self, call: ast.expr, effect: str) -> None:
        """Remember that a call may call a library function with an effect."""
        # Nearly every call has one effect, and shares its set with all others that have the same.
        sole = self._sole_kinds.get(effect)
        if sole is None:
            sole = self._sole_kinds[effect] = frozenset({effect})
        known = self.call_kinds.get(id(call))
        self.call_kinds[id(call)] = sole if known is None or known == sole else known | sole

    def note_call(self, function: str, event: Event) -> None:
        """Remember that a function is called at an expression."""
        events = self.calls.kept(function, dict)
        if id(event.node) not in events:
            events[id(event.node)] = event
            self.calls.note_changed(function)

    def bind(self, binding: Binding) -> None:
        """Remember a store; what it may store grows with each visit."""
        self._tell_again(Facts.bind, binding)
        key = (id(binding.target), binding.text)
        old = self.bindings.get(key)
        if old is not None:
            value = join((old.value, binding.value))
            receiver = join((old.receiver, binding.receiver))
            if value is old.value and receiver is old.receiver and binding.number == old.number:
                return
            # The number is that of the last visit, which has seen all that there is to see.
            binding = old._replace(value=value, receiver=receiver, number=binding.number)
        self.bindings[key] = binding

    def functions_in(self, value: Value) -> frozenset[str]:
        """The keys of the functions of which a value has parameters, at any depth."""
        known = self._functions_in.get(value)
        if known is None:
            known = self._functions_in[value] = functions_in(value)
        return known
