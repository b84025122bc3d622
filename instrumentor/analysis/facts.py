"""The facts of the analysis: tables that grow monotonically until a fixpoint."""

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
    Atom,
    Made,
    Parameter,
    SiteKey,
    Value,
    bare_objects,
    functions_in,
    grown,
    join,
    let_go,
    strip,
)
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.unit import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.entries import Binding, Event, Giving, Site
    from instrumentor.analysis.environment import Number
    from instrumentor.resolve.unit import Class, Function, Unit


K = TypeVar("K")
Display = ast.List | ast.Tuple | ast.Set | ast.Dict


class Elements(NamedTuple):
    """The elements of a display.

    Attributes:
        positions: the index of each element.
        first_starred: the index of the first starred element; None if there is none.
    """

    positions: dict[ast.AST, int]
    first_starred: int | None


class Facts:
    """The tables.

    A visit of a scope depends on the entries that it reads in a `Table` or `Marks`: when one changes, the scopes
    that read it are visited again. The other tables are only written during visits.

    Attributes:
        visits: which scopes are due.
        places: the keys of the objects made by expressions, as far as they were requested.
        sites: the sites, by key.
        bindings: every store, by the target's node and text.
        attributes: all values stored in an attribute, by object and attribute name.
        contents: the contents of containers.
        bound_arguments: the arguments of partial applications.
        scopes: all values of a name of a function or file, for nested functions.
        shared: the names of a scope that other functions store to.
        touched: the mod sets of functions.
        stored_outside: the part of `scopes` that other functions stored, by `global` and `nonlocal`.
        returns: the return values of functions. A function's own parameters stand for themselves.
        returned_numbers: the object number of the value of each `return`, in the function's own numbering.
        yielded_numbers: likewise for each `yield`.
        initial: the attributes that an initialiser leaves holding arguments, with the parameters' names.
        passed_numbers: the object number that each call passes for a parameter, with the scope of the caller.
        sole_callees: the function that a call calls, if it is the only candidate, by scope and number of its result.
        made_only: whether the object made at a call is all that the call may return, by scope and site.
        remembering: the functions that run once and return the same object to every caller.
        yields: the values that generator functions yield.
        passed: the values passed for parameters.
        evidence: how objects are used.
        declared: the library classes that annotations give for the objects of a site.
        captured: the objects held by something other than the returned value; read after the fixpoint.
        dropped: by scope, the objects that it makes and does not always return; computed afresh in each visit.
        proxied: the objects that the script itself puts under a proxy.
        hidden: the objects in plain containers of modules, which are not submodules.
        absorbed: where objects become part of modules.
        replaced: where objects get other parameters.
        called: where objects are called, or passed to a function that calls them.
        calls: where each function is called.
        repeating: the ids of calls that call an argument repeatedly.
        let_go: the atoms lost when values were widened, which the visit lets escape.
        escaped: the functions that unseen code gets as values.
        found_by_any_name: the functions of files from which something is read under a computed name.
        givings: the calls that pass classes to unseen code, by the call's id; read after the fixpoint.
        constructed: the classes of other files that have instances.
        opened: the classes whose methods unseen code may call, with their number of subclasses at that time.
        called_unseen: the functions whose parameters may get more than `passed` says.
        methods_by_name: the methods of the script's classes.
        demanded_functions: the functions to analyse, by key.
        demanded_units: the files whose top level is to be analysed, by name.
        whole_units: the files whose functions are all analysed, called or not.
        call_kinds: the effects of the library functions that a call may call, by the call's id.
        outside: the names of enclosing scopes that functions read.
        given_outside: the values of these names at the calls of a function that only plain calls reach, by function and
            name.
        needed_outside: by function, the enclosing names that its callees read, with the keys of their scopes.
        meanings: what names of files that no statement binds stand for, as far as they were requested.
        descendants: the subclasses of the classes that were requested, in the files read so far.
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
        self.whole_units: set[str] = {SCRIPT}
        self.contents = Contents(visits, self.whole_units)
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
        self.opened: dict[str, int] = {}
        self.called_unseen: Marks[str] = Marks(visits)
        self.passed = Passed(visits, self.contents, self.calls, self.called_unseen)
        self.methods_by_name: dict[str, list[Function]] = {}
        self.demanded_functions: dict[str, Function] = {}
        self.demanded_units: dict[str, Unit] = {}
        self.call_kinds: dict[int, frozenset[str]] = {}
        self._sole_kinds: dict[str, frozenset[str]] = {}
        self.outside = OutsideNames()
        self.given_outside: Table[tuple[str, str], Value] = Table(visits)
        self.needed_outside: Table[str, dict[str, str]] = Table(visits)
        self.meanings: dict[tuple[str, str], Value] = {}
        self.descendants: Table[Class, list[Class]] = Table(visits)

    @contextmanager
    def visiting(self, scope: str) -> Iterator[None]:
        """Attribute reads and drops in the block to a scope."""
        self.dropped[scope] = set()
        outer, self._events = self._events, {}
        with self.visits.of(scope):
            yield
            self._keep_events()
        self._events = outer

    def take_apart(self) -> None:
        """Release everything. The facts contain reference cycles, which only the garbage collector would free."""
        self.visits.forget_readers()
        vars(self).clear()

    def _tell_again(self, tell: Callable[..., None], *told: object) -> None:
        """Register a call of a method of the facts, to be repeated when the current statement is replayed."""
        if self.visits.current is not None:
            self.visits.current.tell_again(tell, *told)

    def conditions_of(self, unit: Unit, node: ast.AST) -> Conditions:
        """The conditions under which `node` runs, given that its function runs."""
        found = self._conditions.get(node)
        if found is None:
            found = self._conditions[node] = self._blocks.conditions_of(unit, node)
        return found

    def elements_of(self, display: Display) -> Elements:
        """The positions of the elements in a list, tuple, set or dict display."""
        found = self._elements.get(display)
        if found is None:
            nodes = display.values if isinstance(display, ast.Dict) else display.elts
            starred = (position for position, each in enumerate(nodes) if isinstance(each, ast.Starred))
            positions: dict[ast.AST, int] = {each: position for position, each in enumerate(nodes)}
            found = self._elements[display] = Elements(positions, next(starred, None))
        return found

    def grow(self, table: Table[K, Value], key: K, value: Value) -> None:
        """Add a value to the entry of `key` in a table."""
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
        """Add to what is known of a site. Its nature is the greatest that any visit has found."""
        is_new = self.sites.peek(site.key) is not site
        new_labels = [label for label in labels if label not in site.labels]
        is_grown = not site.class_keys.issuperset(class_keys) or not site.origins.issuperset(origins)
        if is_new or nature > site.nature or new_labels or is_grown:
            site.nature = max(site.nature, nature)
            # The callees of a call come in hash order, which differs between runs.
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
        # The rest is only read after the fixpoint.
        site.callee = join((site.callee, callee))
        site.is_read |= is_read
        site.is_own |= is_own

    def arguments_of(self, site: Site) -> Value:
        """The objects passed where an object is made."""
        self._arguments.note_read(site.key)
        return site.arguments

    def note_evidence(self, atoms: Value, word: str) -> None:
        """Record a use of objects, named by `word`."""
        for atom in atoms:
            key = strip(atom)
            if isinstance(key, (Made, Parameter)):
                self.evidence.setdefault(key, set()).add(word)

    def note_declared(self, atoms: Value, names: Sequence[str]) -> None:
        """Record the library classes that an annotation of objects names."""
        for key in map(strip, atoms):
            if isinstance(key, Made):
                old = self.declared.peek(key.site) or ()
                new = tuple(dict.fromkeys((*old, *names)))
                if new != old:
                    self.declared[key.site] = new

    def note_event(self, table: Table[Atom, dict[int, Event]], atoms: Iterable[Atom], event: Event) -> None:
        """Record that something happens to objects."""
        objects = bare_objects(atoms)
        if objects:
            self._tell_again(Facts.note_event, table, objects, event)
        for key in objects:
            self._events[table, key, id(event.node)] = event

    def _keep_events(self) -> None:
        """Store the last version of each event in the visit, as that is based on the most complete facts.

        An event may become sure as more facts are found, and doubtful again, but never sure a second time. This ensures
        termination.
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
        """The site of an object, without registering a dependency. Not for facts about it that may still grow."""
        site = self.sites.peek(made.site)
        assert site is not None
        return site

    def note_dropped(self, atoms: Iterable[Atom]) -> None:
        """Record that the visited scope drops objects of its own."""
        assert self.visits.current is not None
        dropped = frozenset(atoms)
        if dropped:
            self._tell_again(Facts.note_dropped, dropped)
            self.dropped[self.visits.current.scope].update(dropped)

    def is_dropped(self, site: Site) -> bool:
        """Whether the scope that makes an object drops it in some run."""
        if self.visits.current is not None:
            self.visits.current.forgo()  # drops are computed afresh in each visit
        return not site.value.isdisjoint(self.dropped.get(site.scope, ()))

    def demand(self, function: Function) -> None:
        """Request the analysis of a function."""
        self.demanded_functions.setdefault(function.key, function)

    def note_shared(self, scope: str, name: str) -> None:
        """Record that nested functions store to a name of a scope."""
        known = self.shared.kept(scope, set)
        if name not in known:
            known.add(name)
            self.shared.note_changed(scope)

    def note_unseen_calls(self, function: str) -> None:
        """Record that unseen code may call a function, at any time and with any arguments."""
        self.called_unseen.add([function])
        self.touched.note_running_unseen(function)

    def note_needed(self, function: str, name: str, owner: str) -> None:
        """Record that a callee of `function` reads a name of a scope around `function`."""
        known = self.needed_outside.kept(function, dict)
        if name not in known:
            known[name] = owner
            self.needed_outside.note_changed(function)

    def note_given(self, table: Table[str, dict[int, Number]], function: str, node: ast.AST, number: Number) -> None:
        """Record the object number of a `return` or `yield`. The last visit counts: its facts are the most complete."""
        self._tell_again(Facts.note_given, table, function, node, number)
        known = table.kept(function, dict)
        if id(node) not in known or known[id(node)] != number:
            known[id(node)] = number
            table.note_changed(function)

    def note_passed(self, function: str, name: str, node: ast.AST, scope: str, number: Number) -> None:
        """Record the object number that a call passes for a parameter."""
        self._tell_again(Facts.note_passed, function, name, node, scope, number)
        self.passed_numbers.setdefault((function, name), {})[id(node)] = scope, number

    def number_passed(self, function: str, name: str, node: ast.AST, scope: str) -> Number:
        """The object number that a call in a scope passes for a parameter; None if unknown."""
        caller, number = self.passed_numbers.get((function, name), {}).get(id(node), (scope, None))
        return number if caller == scope else None

    def note_sole_callee(self, scope: str, number: Number, function: Function | None) -> None:
        """Record the only function that a call with this result may call; None if there may be others."""
        self._tell_again(Facts.note_sole_callee, scope, number, function)
        if function is not None:
            self.sole_callees[scope, number] = function.key
        else:
            self.sole_callees.pop((scope, number), None)

    def note_given_by_call(self, scope: str, site: SiteKey, held: Value) -> None:
        """Record whether the object made at a call is all that the call may return."""
        self._tell_again(Facts.note_given_by_call, scope, site, held)
        self.made_only[scope, site] = held == frozenset({Made(site)})

    def note_effect(self, call: ast.expr, effect: str) -> None:
        """Record that a call may call a library function with an effect."""
        # Nearly every call has one effect. Calls with the same one share a set.
        sole = self._sole_kinds.get(effect)
        if sole is None:
            sole = self._sole_kinds[effect] = frozenset({effect})
        known = self.call_kinds.get(id(call))
        self.call_kinds[id(call)] = sole if known is None or known == sole else known | sole

    def note_call(self, function: str, event: Event) -> None:
        """Record a call of a function."""
        events = self.calls.kept(function, dict)
        if id(event.node) not in events:
            events[id(event.node)] = event
            self.calls.note_changed(function)

    def bind(self, binding: Binding) -> None:
        """Record a store. Its value grows with each visit."""
        self._tell_again(Facts.bind, binding)
        key = (id(binding.target), binding.text)
        old = self.bindings.get(key)
        if old is not None:
            value = join((old.value, binding.value))
            receiver = join((old.receiver, binding.receiver))
            if value is old.value and receiver is old.receiver and binding.number == old.number:
                return
            # The number of the last visit counts, as its facts are the most complete.
            binding = old._replace(value=value, receiver=receiver, number=binding.number)
        self.bindings[key] = binding

    def functions_in(self, value: Value) -> frozenset[str]:
        """The keys of the functions whose parameters occur in a value, at any depth."""
        known = self._functions_in.get(value)
        if known is None:
            known = self._functions_in[value] = functions_in(value)
        return known
