"""Effects of calls on objects: creation, escape to unseen code, absorption into modules."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from instrumentor.analysis.blocks import always_follows
from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.entries import Giving
from instrumentor.analysis.running import let_others_run
from instrumentor.analysis.spelling import one_line, receiver_text
from instrumentor.analysis.values import (
    FOREIGN,
    NOTHING,
    PLAIN,
    AnyMethod,
    Atom,
    Box,
    ClassRef,
    FunctionRef,
    Instance,
    Made,
    Method,
    Pack,
    Parameter,
    Part,
    Partial,
    Value,
    derive,
    in_order,
    join,
    objects_in,
    root,
    strip,
)
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.entries import Event, Site
    from instrumentor.analysis.scope import Scope
    from instrumentor.analysis.tables import Marks, Table
    from instrumentor.resolve.unit import Class, Function


# Arguments that a library may call. Most arguments are none of these.
_MAY_BE_CALLED = frozenset({FunctionRef, Method, AnyMethod, Partial, Instance, Parameter})


class Effects:
    """Records what happens to objects, for one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.facts = scope.facts
        # The arguments of the call that was handled last.
        self._handed_over: Arguments | None = None
        self._absorbed: Arguments | None = None
        self._escaped: set[tuple[Marks[tuple[str, str]], tuple[str, str]]] = set()

    def make(self, node: ast.expr, nature: Nature, label: str, arguments: Arguments) -> Value:
        """A new object, made by the call `node`."""
        site = self.scope.site(node, nature, label)
        self.facts.grow_site(site, arguments=self.facts.contents.reach(arguments.all()))
        return site.value

    def make_unknown(
        self, node: ast.expr, arguments: Arguments, receiver: Value = NOTHING, label: str | None = None
    ) -> Value:
        """The result of a call that cannot be followed: an object whose nature only its later use reveals."""
        self.note_giving(node, label, arguments)
        self.hand_over(arguments)
        self.escape(receiver)
        if self._is_in_module:
            return derive(self.facts.contents.reach(join((arguments.all(), receiver))))
        if isinstance(self.scope.unit.parents.get(node), ast.Expr):
            return PLAIN
        site = self.scope.site(node, Nature.UNKNOWN, label or _callee_text(node))
        self.facts.grow_site(site, arguments=self.facts.contents.reach(join((arguments.all(), receiver))))
        return site.value

    def make_perhaps(self, node: ast.expr, label: str) -> Value:
        """The result of a call that keeps none of its arguments: a module only if its later use says so."""
        if self._is_in_module or isinstance(self.scope.unit.parents.get(node), ast.Expr):
            return NOTHING
        return self.scope.site(node, Nature.UNKNOWN, label).value

    @property
    def _is_in_module(self) -> bool:
        owner = self.scope.function.owner if self.scope.function is not None else None
        return owner is not None and self.scope.hierarchy.is_module(owner)

    def note_giving(self, node: ast.expr, label: str | None, arguments: Arguments) -> None:
        """Record the classes that a call passes to unseen code, which may instantiate them.

        Calls inside a module class are left out: what they make is the module's own affair.
        """
        reached = self.facts.contents.reach(arguments.all())
        held: Value = frozenset(atom for atom in reached if isinstance(atom, (ClassRef, Partial, Parameter)))
        if held and not self._is_in_module:
            known = self.facts.givings.get(id(node))
            callee = (label or _callee_text(node)) if known is None else known.callee
            held = held if known is None else join((known.held, held))
            self.facts.givings[id(node)] = Giving(self.scope.unit, node, callee, held)

    def hand_over(self, arguments: Arguments) -> None:
        """Let the arguments of a call escape to unseen code; done once, even if the call may have several callees."""
        if self._handed_over is not arguments:
            self._handed_over = arguments
            let_others_run(self.scope)
            self.facts.captured.hand_over(arguments.all())
            self.escape(arguments.all())

    def escape(self, held: Value) -> None:
        """Let functions, objects and containers escape to unseen code, which may call and change them."""
        for atom in in_order(self.facts.contents.reach(held)):
            self._escape(atom)
        for site in self.facts.contents.boxes(held):
            self.open_container(Box(site))

    def give_up(self, held: Value) -> None:
        """Let a value escape that is no longer tracked: it may reach unseen code."""
        self.facts.captured.hand_over(held)
        self.escape(held)

    def open_container(self, box: Box) -> None:
        """Record that unseen code may move and add elements of a container."""
        self.scope.scatter(box.site)
        self.scope.put(box.site, ANY_KEY, FOREIGN)

    def escape_callables(self, given: Iterable[Value]) -> None:
        """Record that a library may call, now or later, the functions and methods among its arguments."""
        for held in given:
            for atom in in_order([each for each in held if type(each) in _MAY_BE_CALLED]):
                if isinstance(atom, (FunctionRef, Method, AnyMethod, Partial)):
                    self._escape(atom)
                elif isinstance(atom, Instance):
                    self._call_instance_unseen(atom)
                elif isinstance(atom, Parameter) and self._is_first(self.facts.passed.callables_escape, atom):
                    self.escape_callables([self.facts.passed.defaults.get((atom.function, atom.name), NOTHING)])

    def escape_passed(self, function: Function, given: Mapping[str, Value]) -> None:
        """Let arguments escape for which the called function's parameters escape."""
        for name, held in given.items():
            key = function.key, name
            if key in self.facts.passed.escape:
                self.escape(held)
            elif key in self.facts.passed.callables_escape:
                self.escape_callables([held])

    def _escape(self, atom: Atom) -> None:
        whole = root(atom) if isinstance(atom, Part) else atom
        if isinstance(whole, Parameter):
            if self._is_first(self.facts.passed.escape, whole):
                self.escape(self.facts.passed.defaults.get((whole.function, whole.name), NOTHING))
            return
        while isinstance(atom, Partial):
            self.facts.captured.hand_over(self.facts.bound_arguments[atom.site].all())
            atom = atom.callee
        if isinstance(atom, FunctionRef):
            let_others_run(self.scope)
            self.facts.escaped.add(atom.key)
            self._call_unseen(atom.key)
        elif isinstance(atom, (Instance, Method, AnyMethod)):
            self._open_methods(atom)
        elif isinstance(atom, ClassRef):
            self._construct_unseen(atom)

    def _is_first(self, marks: Marks[tuple[str, str]], parameter: Parameter) -> bool:
        """Mark a parameter as escaping; whether that is new in this visit. Its default may contain the parameter."""
        key = parameter.function, parameter.name
        marks.add([key])
        is_first = (marks, key) not in self._escaped
        self._escaped.add((marks, key))
        return is_first

    def _call_unseen(self, key: str) -> None:
        self.facts.note_unseen_calls(key)
        function = self.scope.kinds.function_at(key)
        if function is not None:
            self.facts.demand(function)

    def _call_instance_unseen(self, atom: Instance) -> None:
        """Record that unseen code may call an instance. Classes of other files are left to the visible calls."""
        cls = self.scope.kinds.class_of(atom.key)
        if cls is not None and cls.unit.name in self.facts.whole_units:
            method = self.scope.hierarchy.method(cls, "__call__")
            if method is not None:
                self._call_unseen(method.key)

    def call_any_method(self, name: str) -> None:
        """Record a method call on an unknown receiver: it may be an instance that escaped."""
        for method in self.facts.methods_by_name.get(name, ()):
            self._call_unseen(method.key)

    def _construct_unseen(self, atom: ClassRef) -> None:
        cls = self.scope.kinds.class_of(atom.key)
        initialiser = None if cls is None else self.scope.hierarchy.method(cls, "__init__")
        if initialiser is not None:
            self._call_unseen(initialiser.key)

    def _open_methods(self, atom: Instance | Method | AnyMethod) -> None:
        receiver = atom if isinstance(atom, Instance) else atom.receiver
        if isinstance(receiver, Box):
            self.open_container(receiver)
        cls = self.scope.kinds.class_of(receiver.key) if isinstance(receiver, Instance) else None
        if cls is None:
            return
        self.scope.env.forget_objects()
        let_others_run(self.scope)
        hierarchy = self.scope.hierarchy
        for named in self._named(atom, cls):
            self.facts.escaped.add(named.key)
            self._call_unseen(named.key)
        descendants = self.scope.kinds.descendants(cls)
        if self.facts.opened.get(cls.key) == len(descendants):
            return
        self.facts.opened[cls.key] = len(descendants)
        for related in (*hierarchy.ancestors(cls), *descendants):
            if hierarchy.is_module(related):
                continue  # a mixin's `self` may be a module, and passing on a module opens none of its methods
            for method in related.methods.values():
                self._call_unseen(method.key)

    def _named(self, atom: Instance | Method | AnyMethod, cls: Class) -> list[Function]:
        """The methods that a value may be; none for an instance, as it is no method itself."""
        if isinstance(atom, Instance):
            return []
        names = [atom.name] if isinstance(atom, Method) else self.scope.kinds.methods_named(cls.key, atom.prefix)
        classes = (cls, *self.scope.kinds.descendants(cls))
        found = [self.scope.hierarchy.method(each, name) for each in classes for name in names]
        return list(dict.fromkeys(method for method in found if method is not None))

    def absorb_passed(self, arguments: Arguments, node: ast.expr, adopting: Atom) -> None:
        """Record that a call's arguments become part of its receiver; done once for all possible receivers."""
        held = self.facts.contents.reach(arguments.all())
        if not all(self.scope.kinds.is_without_parameters(atom) for atom in held if atom.is_object):
            self._fill(adopting)
        if self._absorbed is not arguments:
            self._absorbed = arguments
            self.absorb(arguments.each(), node, receiver_text(node), into=frozenset({adopting}))

    def note_receiver(self, name: str, arguments: Arguments, node: ast.expr, receiver: Value) -> None:
        """Record all possible receivers of the arguments just absorbed, and whether each takes modules in."""
        if self._absorbed is arguments:
            kinds = self.scope.kinds
            takes_in = partial(kinds.takes_in, name=name, is_sure=True)
            is_sure = kinds.is_sure_of(takes_in, kinds.things(receiver))
            self.absorb(arguments.each(), node, receiver_text(node), into=receiver, is_sure=is_sure)

    def absorb(
        self, given: Iterable[Value], node: ast.AST, text: str, *, into: Value = NOTHING, is_sure: bool = True
    ) -> None:
        """Record that values passed to what is made or changed at `node` become its submodules."""
        event = self.scope.event(node, text)._replace(into=into, is_sure=is_sure)
        for held in given:
            self.note(self.facts.absorbed, held, event)

    def absorb_stored(self, receiver: Value, held: Value, node: ast.AST, text: str) -> None:
        """Record that a value stored into an attribute becomes part of the object, if that is a module."""
        kinds = self.scope.kinds
        if any(kinds.registers(strip(atom)) for atom in receiver):
            is_sure = kinds.is_sure_of(partial(kinds.registers, is_sure=True), receiver)
            self.absorb([held], node, text, into=receiver, is_sure=is_sure)
            # What is unknown is usually a number.
            if any(isinstance(atom, Made) and kinds.nature(atom) is Nature.MODULE for atom in map(strip, held)):
                for atom in receiver:
                    self._fill(atom)

    def _fill(self, adopting: Atom) -> None:
        """Record that a module without parameters gets some, by being given a module that has them."""
        base = strip(adopting)
        if isinstance(base, Made) and self.scope.kinds.nature(base) is Nature.NO_PARAMS:
            self.facts.grow_site(self.facts.site_of(base), nature=Nature.MODULE)

    def note(self, table: Table[Atom, dict[int, Event]], held: Value, event: Event) -> None:
        """Record that something happens to the objects in a value."""
        if not held:
            return
        sure = self._sure_objects(held, event.node)
        self.facts.note_event(table, sure, event)
        self.facts.note_event(table, self.facts.contents.reach(held) - sure, event._replace(is_sure=False))

    def _sure_objects(self, held: Value, node: ast.AST) -> Value:
        """The objects that are surely in a value, or in its containers, whenever they were made."""
        sure: set[Atom] = set()
        seen: set[Atom] = set()
        pending = [held]
        while pending:
            here = pending.pop()
            objects = frozenset(strip(atom) for atom in here if atom.is_object)
            sure.update(atom for atom in objects if len(objects) == 1 or self._is_held_alone(atom, objects, node))
            for atom in here - seen:
                seen.add(atom)
                if isinstance(atom, Pack):
                    pending.extend(atom.items)
                elif isinstance(atom, Box):
                    for item in self.facts.contents.get(atom.site, {}).values():
                        inside = frozenset(each for each in item if each.is_object)
                        sure.update(strip(each) for each in inside if self._is_always_put(atom, strip(each)))
                        pending.append(item - inside)
        return frozenset(sure)

    def _is_held_alone(self, atom: Atom, objects: Value, node: ast.AST) -> bool:
        """Whether an object that several branches may make is held only by names whose value is `objects`."""
        site = self.facts.sites.peek(atom.site) if isinstance(atom, Made) else None
        if site is None or site.scope != self.scope.key or self.facts.is_dropped(site):
            return False
        env = self.scope.env
        holders = env.holding(atom)
        if not holders:
            return self._is_operand(site, node)
        # Names with equal sets of possible objects need not hold the same object. And an object that is also held
        # elsewhere may be the one passed.
        numbers = {env.numbers.get(path) for path in holders}
        is_one = len(holders) == 1 or (len(numbers) == 1 and None not in numbers)
        is_theirs = {path for each in objects for path in env.holding(each)} == set(holders)
        are_alike = all(objects_in(env.get(path) or NOTHING) == objects for path in holders)
        return is_one and is_theirs and are_alike and _is_bound(site)

    def _is_operand(self, site: Site, node: ast.AST) -> bool:
        """Whether an object is made in an operand of `node`, at most in a branch of a conditional expression.

        Methods called on it there may return it.
        """
        parents = site.unit.parents
        below: ast.AST = site.node
        above = parents.get(below)
        while isinstance(above, (ast.IfExp, ast.BoolOp, ast.keyword, ast.Attribute)) or (
            isinstance(above, ast.Call) and above.func is below
        ):
            below, above = above, parents.get(above)
        return above is node

    def _is_always_put(self, box: Box, atom: Atom) -> bool:
        """Whether an object was put into a container whenever it was made."""
        site = self.facts.sites.peek(atom.site) if isinstance(atom, Made) else None
        if site is None:
            return True
        stored = self.facts.contents.stored_when.get((box.site, atom))
        made = self.facts.conditions_of(site.unit, site.node)
        return stored is None or any(always_follows(each, made) for each in stored)


def _callee_text(node: ast.expr) -> str:
    return one_line(node.func if isinstance(node, ast.Call) else node)


def _is_bound(site: Site) -> bool:
    """Whether the statement that makes an object also binds it, possibly among alternatives.

    An object passed to a function does not count: the function may keep it.
    """
    parents = site.unit.parents
    node: ast.AST = site.node
    above = parents.get(node)
    while isinstance(above, (ast.IfExp, ast.BoolOp, ast.Attribute, ast.Await, ast.Tuple, ast.List)) or (
        isinstance(above, ast.Call) and above.func is node
    ):
        node, above = above, parents.get(above)
    return isinstance(above, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
