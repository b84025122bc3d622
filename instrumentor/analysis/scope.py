"""The state of one visit: the scope, its environment, and the tables to add to."""

from __future__ import annotations

import builtins
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import is_dispatching, match_numbers, match_parameters, registered_with
from instrumentor.analysis.blocks import statement_of
from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.dropped import note_overwritten
from instrumentor.analysis.entries import Binding, Event, Site, scope_key
from instrumentor.analysis.environment import PARAMETER
from instrumentor.analysis.kinds import Kinds
from instrumentor.analysis.touched import ELEMENTS
from instrumentor.analysis.values import (
    FOREIGN,
    MAX_TUPLE_DEPTH,
    NOTHING,
    OPAQUE,
    Atom,
    Box,
    ClassRef,
    FunctionRef,
    Made,
    Named,
    Opaque,
    Pack,
    Parameter,
    SiteKey,
    UnitRef,
    Value,
    join,
    replace,
    tuple_depth,
    value,
)
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.unit import SCRIPT, Class, Function, Unit
from instrumentor.source.nodes import imported_names

# What most names of files stand for, wherever they are read.
_FIXED = (Opaque, FunctionRef, ClassRef, Named, UnitRef)

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.environment import Environment, Number, Path
    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import FunctionNode


# The attributes in which a function holds its parameters' defaults; `ANY_KEY` stands for a computed name.
_ATTRIBUTES_WITH_DEFAULTS = frozenset({"__defaults__", "__kwdefaults__", "__code__", ANY_KEY})
_ATTRIBUTES_WITH_CODE = frozenset({"__code__", ANY_KEY})
# The name under which a metaclass keeps the classes that are made with it. No script can spell it.
CREATED = "(classes)"
# The longest chain of files, each importing a variable from the next, that is followed.
MAX_HANDED_ON = 12


class Scope:
    """One function, or the top level of one file, during a visit.

    Attributes:
        kinds: classifies objects.
        key: the key of this scope in the facts.
        globals: the names declared by `global` and `nonlocal`, with the keys of their scopes.
        class_body: the class whose body is visited; None outside of one.
        around_class: the environment before that body, or before the outermost enclosing one. Code nested in the body
            sees none of its names.
        outside: the names of enclosing scopes that the environment holds on entry, with the keys of their scopes.
        others: the names in both mappings, preceded by the keys of their scopes.
        is_apart: whether the visited code may run later than its position suggests, or under other names, as in a
            comprehension.
        begin: visits a scope at once if it was never visited.
        is_put_off: whether the visited code runs only on demand, as in a generator expression.
    """

    def __init__(
        self,
        facts: Facts,
        hierarchy: Hierarchy,
        unit: Unit,
        function: Function | None,
        env: Environment,
        begin: Callable[[Unit, Function | None], None],
    ) -> None:
        self.facts = facts
        self.hierarchy = hierarchy
        self.kinds = Kinds(facts, hierarchy, function)
        self.unit = unit
        self.function = function
        self.env = env
        self.key = scope_key(unit, function)
        self.globals: Mapping[str, str] = {}
        self.class_body: Class | None = None
        self.around_class = env
        self.outside: Mapping[str, str] = {}
        self.others: tuple[tuple[str, str], ...] = ()
        self.is_apart = False
        self.begin = begin
        self.is_put_off = False
        # How many of the steps met have been checked, and the number of unseen changes known at that time.
        self._asked = self._asked_of = 0
        self._unseen_steps: set[str] = set()

    # ---- names ----

    def lookup(self, name: str) -> Value:
        """The value of a name here."""
        found = self.env.held(name)
        if found is not None:
            return found
        outside = self.facts.stored_outside.get((self.key, name), NOTHING)
        function = self.function.parent if self.function is not None else None
        while function is not None:
            held = self.facts.scopes.get((function.key, name))
            if held is not None:
                return held
            function = function.parent
        return self._held_in(self.unit.name, name) or outside or self._unbound(name)

    def _unbound(self, name: str) -> Value:
        """The value of a name that no visit has seen bound. For names of the script, a later visit will find it.

        If another file's functions select callees from a table of that file, its top level is analysed.
        """
        is_seen = self.unit.name in self.facts.whole_units
        if not is_seen and self.function is not None and self.facts.outside.is_table_at_top(self.unit, name):
            return self.unit_variable(self.unit, name) or OPAQUE
        return NOTHING if is_seen and self.facts.outside.is_stored_at_top(self.unit, name) else OPAQUE

    # ---- names of enclosing scopes ----

    def enter(self, function: Function) -> None:
        """Set the names of enclosing scopes on entry: to their values at the calls, or else to all they ever have."""
        is_plain = self._is_plain(function)
        outside: dict[str, str] = {}
        for name, owner in self.names_outside(function).items():
            held = self._ever(owner, name)
            if held is not None:
                given = self.facts.given_outside.get((function.key, name), NOTHING) if is_plain else held
                outside[name] = owner
                self.env.assign((name,), given, (PARAMETER, name))
        self._see(outside, self.globals)

    def _see(self, outside: Mapping[str, str], declared: Mapping[str, str]) -> None:
        """Replace the visible names of enclosing scopes."""
        self.outside, self.globals = outside, declared
        self.others = tuple((owner, name) for name, owner in {**outside, **declared}.items())

    def names_outside(self, function: Function) -> Mapping[str, str]:
        """The names of enclosing scopes that a function or its callees read, with the scopes' keys."""
        needed = self.facts.needed_outside.get(function.key)
        names = self.facts.outside.of(function)
        return {**needed, **names} if needed else names

    def give_outside(self, function: Function, node: ast.expr) -> None:
        """Record the values of enclosing names at a call of a function."""
        if not self._is_plain(function):
            return
        for name, owner in self.names_outside(function).items():
            held, number = self._ever(owner, name), None
            if held is None:
                continue
            if self._is_in_order(name, owner):
                now = self.env.held(name)
                if now is not None:
                    held = now
                    number = self.env.number_at((name,), ("seen", self.locate(node), name))
            elif self._may_need(name, owner):
                self.facts.note_needed(self.key, name, owner)
                continue  # the next visit will have it
            self.facts.grow(self.facts.given_outside, (function.key, name), held)
            self.facts.note_passed(function.key, name, node, self.key, number)

    def _is_plain(self, function: Function) -> bool:
        """Whether all calls of a function are seen, so that they determine the enclosing names' values."""
        if not self.facts.outside.is_plain(function) or function.key in self.facts.called_unseen:
            return False
        return not self.hierarchy.is_factory(function)

    def _ever(self, owner: str, name: str) -> Value | None:
        """All values of a name of a scope; None if they cannot differ between calls."""
        held = self.facts.scopes.get((owner, name))
        if held is not None:
            for atom in held:
                if not isinstance(atom, _FIXED):
                    return held
        return None

    def _is_in_order(self, name: str, owner: str) -> bool:
        """Whether the environment has the current value of a scope's name."""
        is_held = owner == self.key or self._owner_outside(name) == owner
        return is_held and self.class_body is None and not self.is_apart

    def _owner_outside(self, name: str) -> str | None:
        """The key of the enclosing scope whose name the function holds on entry; None if it holds none of that name."""
        if self.env.trace is not None:
            self.env.trace.outside.add(name)
        return self.outside.get(name)

    def _may_need(self, name: str, owner: str) -> bool:
        """Whether the visited function could hold an enclosing name on entry that it did not request."""
        function = self.function
        if function is None or self._owner_outside(name) is not None or self.class_body is not None or self.is_apart:
            return False
        return self.facts.outside.is_lasting(function) and self.facts.outside.owner(function, name) == owner

    def _held_in(self, scope: str, name: str) -> Value:
        held = self.facts.scopes.get((scope, name))
        if held is not None:
            return held
        if scope != self.unit.name:
            return NOTHING
        if name in self.unit.imports and self.hierarchy.project.member(self.unit, name) is None:
            return self._imported_variable(self.unit, self.unit.imports[name])
        return self._starred_variable(self.unit, name) or self._static(self.unit, name)

    def _starred_variable(self, unit: Unit, name: str, depth: int = MAX_HANDED_ON) -> Value:
        project = self.hierarchy.project
        if not unit.stars or name in unit.imports or project.member(unit, name) is not None:
            return NOTHING
        held = (self._bound_variable(source, name, depth) for source in project.starred(unit, name))
        return next(filter(None, held), NOTHING)

    def _static(self, unit: Unit, name: str) -> Value:
        """The meaning of a name that no statement has bound so far: an import, a definition, a builtin."""
        known = self.facts.meanings.get((unit.name, name))
        if known is None:
            found = self.hierarchy.project.member(unit, name)
            builtin = value(Named(f"builtins.{name}")) if hasattr(builtins, name) else NOTHING
            known = self.facts.meanings[unit.name, name] = builtin if found is None else self.refer(found)
        return known

    def refer(self, found: Class | Function | Unit | str | None) -> Value:
        """The value of a resolved name."""
        if isinstance(found, Class):
            return value(ClassRef(found.key))
        if isinstance(found, Function):
            return self.dispatched(found) if is_dispatching(found) else value(FunctionRef(found.key))
        if isinstance(found, Unit):
            return value(UnitRef(found.name))
        return value(Named(found)) if found else OPAQUE

    def dispatched(self, function: Function) -> Value:
        """A dispatching function, and what it may call in its place; other files may register more."""
        registered = registered_with(function)
        for each in registered:
            self.facts.demand(each)
        return value(FunctionRef(function.key), *[FunctionRef(each.key) for each in registered]) | OPAQUE

    def imported(self, statement: ast.Import | ast.ImportFrom) -> dict[str, Value]:
        """The names that an import binds, with their values.

        Names that are never mentioned are not followed, as a package's `__init__.py` would lead to all of it. Imports
        at the top level of another file are not followed until requested, unless something else may bind the name too.
        The result is the same.
        """
        found: dict[str, Value] = {}
        is_own = self.unit.name == SCRIPT or self.function is not None
        asked = self.unit.names if is_own else self.unit.stored | self.unit.alternatives.keys()
        for name, dotted in imported_names(statement).items():
            if name in asked:
                target = self.hierarchy.project.lookup(self.unit, dotted)
                found[name] = self.refer(target) if target is not None else self._imported_variable(self.unit, dotted)
        return found

    def _imported_variable(self, unit: Unit, dotted: str, depth: int = MAX_HANDED_ON) -> Value:
        above, _, name = dotted.rpartition(".")
        target = self.hierarchy.project.lookup(unit, above or ".") if name else None
        if isinstance(target, Unit):
            return self.unit_variable(target, name, depth)
        return OPAQUE

    def unit_variable(self, unit: Unit, name: str, depth: int = MAX_HANDED_ON) -> Value:
        """The value of a variable of another file, unknown if nothing in that file binds it (module `__getattr__`).

        The top level of that file is analysed from now on.
        """
        held = self._bound_variable(unit, name, depth)
        return held if held or name in unit.stored else OPAQUE

    def _bound_variable(self, unit: Unit, name: str, depth: int) -> Value:
        self.begin_top(unit)
        held = self.facts.scopes.get((unit.name, name))
        if held is None and name in unit.imports and depth:
            return self._imported_variable(unit, unit.imports[name], depth - 1)
        if held is None and depth:
            return self._starred_variable(unit, name, depth - 1)
        return held or NOTHING

    def begin_top(self, unit: Unit) -> None:
        """Request the analysis of the top level of another file."""
        self.facts.demanded_units.setdefault(unit.name, unit)
        self.begin(unit, None)

    def assign(self, path: Path, held: Value, number: Number = None) -> None:
        """Set a path to a value, in the environment and for nested functions."""
        if self.env.get(path):
            note_overwritten(self.facts, self.key, self.env, path, held)
        self.env.assign(path, held, number)
        if len(path) == 1:
            name = path[0]
            target = self.globals.get(name)
            if target is not None:
                self.facts.note_shared(target, name)
                self.facts.touched.note(self.key, {(target, name)})
                kept = self.outliving(held, target)
                self.facts.grow(self.facts.stored_outside, (target, name), kept)
                self.facts.grow(self.facts.scopes, (target, name), kept)
                self.facts.captured.keep(held)
            elif self.class_body is None:
                self.facts.grow(self.facts.scopes, (self.key, name), held)

    def hold_anything(self, held: Value) -> None:
        """Add a value to all names of the scope, as unseen code may store it to any of them."""
        for path in self.env.paths():
            if len(path) == 1:
                self.env.may_hold(path[0], held)
                self.facts.grow(self.facts.scopes, (self.key, path[0]), held)

    def outliving(self, held: Value, owner: str = "") -> Value:
        """A value that may be read after the current call: parameters are joined with the values passed for them.

        Args:
            held: the value.
            owner: the key of the scope whose name holds it; empty if an object holds it.
        """
        ending: list[str] = []
        above = self.function
        while above is not None and above.key != owner:
            ending.append(above.key)
            above = above.parent
        if self.facts.functions_in(held).isdisjoint(ending):
            return held

        def from_any_call(atom: Atom) -> Value | None:
            if not isinstance(atom, Parameter) or atom.function not in ending:
                return None
            passed = self.facts.passed.to(atom)
            return join((passed, OPAQUE)) if atom.function in self.facts.called_unseen else passed

        return join((held, replace(held, from_any_call)))

    @contextmanager
    def putting_off(self) -> Iterator[None]:
        """Treat what is visited in the block as code that runs later, on demand."""
        outer, self.is_put_off = self.is_put_off, True
        yield
        self.is_put_off = outer

    def put(self, site: SiteKey, key: str, held: Value) -> None:
        """Add a value to the container made at `site`, under `key`."""
        node = None if self.function is None else self.function.node
        is_own = node is not None and site.unit == self.unit.name and _is_within(node, site)
        if not is_own:
            self.facts.captured.keep(held)
        self.facts.contents.put(site, key, held if is_own else self.outliving(held))

    def keep_attribute(self, base: Atom, name: str, held: Value) -> None:
        """Add a value to an attribute of an object."""
        kept = self.outliving(held)
        self.facts.grow(self.facts.attributes, (base, name), kept)
        if isinstance(base, FunctionRef) and name in _ATTRIBUTES_WITH_DEFAULTS:
            self._change_defaults(base, kept)
            if name in _ATTRIBUTES_WITH_CODE:
                self.facts.grow(self.facts.returns, base.key, FOREIGN)
                self.facts.note_given(self.facts.returned_numbers, base.key, self.unit.tree, None)

    def _change_defaults(self, changed: FunctionRef, held: Value) -> None:
        """Add the values in `held` to the defaults of a function's parameters."""
        function = self.kinds.function_at(changed.key)
        self.facts.note_unseen_calls(changed.key)
        for name in () if function is None else function.parameters:
            self.facts.grow(self.facts.passed.defaults, (changed.key, name), self.facts.contents.reach(held) | OPAQUE)

    def bind(
        self,
        statement: ast.stmt,
        target: ast.AST,
        text: str,
        held: Value,
        *,
        receiver: Value = NOTHING,
        source: ast.expr | None = None,
        number: Number = None,
    ) -> None:
        """Record a store, for the decisions."""
        self.facts.bind(Binding(self.unit, self.function, statement, target, text, held, receiver, source, number))

    def number_at(self, path: Path, node: ast.AST) -> Number:
        """The number of the object that a path holds where `node` reads it; None if this scope does not set it."""
        if self.env.get(path) is None:
            return None
        return self.env.number_at(path, ("seen", self.locate(node)))

    def numbers_given(self, function: Function, receiver: Value | None, arguments: Arguments) -> dict[str, Number]:
        """The object number of each parameter in a call, from the arguments or from defaults set in this scope."""
        given: dict[str, Number] = {}
        declared = function.node.args
        is_as_written = function.key not in self.facts.called_unseen
        if (declared.defaults or declared.kw_defaults) and not arguments.rest and is_as_written:
            numbers = {name: self.env.number((default_name(function, name),)) for name in function.parameters}
            given = {name: number for name, number in numbers.items() if number is not None}
            for name in match_parameters(function, receiver, arguments) if given else ():
                given.pop(name, None)
        return {**given, **match_numbers(function, receiver, arguments)}

    def declare(self, name: str, scope: str) -> None:
        """Bind a name to that of another scope, as `global` and `nonlocal` do."""
        self._see(self.outside, {**self.globals, name: scope})
        if self.outside.get(name) == scope:
            return
        # If only one branch stores it, it still holds its earlier value after the join.
        self.env.rebind(name, self._held_in(scope, name))

    def unseen_steps(self) -> AbstractSet[str]:
        """The attributes and elements, of those met in the visit, that functions may change without a visible call."""
        touched = self.facts.touched
        if self._asked_of != touched.unseen_count:
            self._asked, self._asked_of = 0, touched.unseen_count
        met = self.env.steps_met()
        if self._asked < len(met):
            self._unseen_steps.update(step for step in islice(met, self._asked, None) if touched.is_unseen(("", step)))
            self._asked = len(met)
        # Steps that this statement stored to are checked again, so that its own record depends on the answers.
        own = self.env.trace.steps if self.env.trace is not None else ()
        return self._unseen_steps.union(step for step in own if touched.is_unseen(("", step)))

    # ---- sites ----

    def locate(self, node: ast.AST, path: tuple[int, ...] = ()) -> SiteKey:
        """The site key of an expression."""
        found = self.facts.places.get(node)
        if found is None:
            place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
            found = self.facts.places[node] = SiteKey(self.unit.name, *place)
        return found._replace(path=path) if path else found

    def site(
        self, node: ast.expr, nature: Nature, label: str, path: tuple[int, ...] = (), *, is_own: bool = True
    ) -> Site:
        """The site of an expression; `is_own` if that makes the object itself."""
        key = self.locate(node, path)
        found = self.facts.sites.peek(key) or Site(key, node, self.unit, self.function)
        self.facts.grow_site(found, nature=nature, labels=[label], is_own=is_own)
        return found

    def element_site(self, made: Made, position: int) -> Made:
        """One element of the tuple that an unknown call may return."""
        whole = self.facts.sites[made.site]
        key = made.site._replace(path=(*made.site.path, position))
        if len(key.path) > 2:
            return made
        site = self.facts.sites.peek(key) or Site(key, whole.node, whole.unit, whole.function)
        self.facts.grow_site(site, nature=Nature.UNKNOWN, labels=whole.labels, arguments=self.facts.arguments_of(whole))
        return Made(key)

    def event(self, node: ast.AST, text: str = "") -> Event:
        """An event at `node`."""
        return Event(self.unit, self.function, node, text)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that contains an expression."""
        return statement_of(self.unit, node)

    def box(self, node: ast.AST, *held: Value) -> Value:
        """The container that an expression makes, with elements under unknown keys."""
        site = self.locate(node)
        for each in held:
            self.facts.contents.put(site, ANY_KEY, each)
        return value(Box(site))

    def pack(self, node: ast.AST, items: Sequence[Value]) -> Value:
        """The tuple that an expression makes. If it is nested too deeply, its structure is lost."""
        elements = (*items,)
        return self.box(node, *elements) if tuple_depth(elements) > MAX_TUPLE_DEPTH else value(Pack(elements))

    def scatter(self, site: SiteKey) -> None:
        """Record that the elements of a container may move to other keys."""
        self.facts.touched.note(self.key, {ELEMENTS})
        self.facts.contents.scattered.add([site])
        self.env.forget_elements()


def default_name(function: Function, parameter: str) -> str:
    """The name under which a scope holds the default of a function it defines. No script can spell it."""
    return f"{function.key}({parameter}=)"


def _is_within(node: FunctionNode, site: SiteKey) -> bool:
    """Whether an object is made in a function's own text."""
    return node.lineno <= site.line and site.end_line <= (node.end_lineno or node.lineno)
