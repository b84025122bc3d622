"""What calls return: selects the transfer function for each kind of callee."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import Arguments, is_property
from instrumentor.analysis.container_methods import ContainerMethods
from instrumentor.analysis.effects import Effects
from instrumentor.analysis.invocation import Invocation
from instrumentor.analysis.library_calls import LibraryCalls
from instrumentor.analysis.object_stores import ObjectStores
from instrumentor.analysis.running import let_anything_run, let_others_run
from instrumentor.analysis.scope import CREATED
from instrumentor.analysis.selected import Selector
from instrumentor.analysis.values import (
    FOREIGN,
    NOTHING,
    OPAQUE,
    PLAIN,
    AnyMethod,
    Atom,
    Box,
    ClassRef,
    Derived,
    Foreign,
    FunctionRef,
    Instance,
    Made,
    Method,
    Named,
    Pack,
    Parameter,
    Part,
    Partial,
    Plain,
    Scripted,
    Super,
    UnitRef,
    Value,
    Widened,
    in_order,
    join,
    known,
    root,
    strip,
    value,
)
from instrumentor.resolve import catalogue
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.classes import dotted_name
from instrumentor.resolve.nature import Nature
from instrumentor.source.nodes import positional_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.members import Members
    from instrumentor.analysis.scope import Scope
    from instrumentor.resolve.unit import Class, Function


# `list.append(models, model)`.
_UNBOUND_METHODS = (
    "builtins.list.",
    "builtins.dict.",
    "builtins.set.",
    "collections.deque.",
    "collections.OrderedDict.",
)

# A method with a computed name may be any of several. Each is followed if there are at most this many.
_MAX_METHODS = 8
_OF_ALL_MODULES = catalogue.IDENTITY_METHODS | catalogue.HARMLESS_METHODS


class Calls:
    """Evaluates the calls of one scope."""

    def __init__(self, scope: Scope, members: Members) -> None:
        self.scope = scope
        self.facts = scope.facts
        self.members = members
        self.effects = Effects(scope)
        self._invocation = Invocation(scope, self.effects, Selector(members))
        self._containers = ContainerMethods(scope, members, self.effects)
        self.object_stores = ObjectStores(scope, members, self.effects)
        self._library = LibraryCalls(scope, members, self.effects, self.object_stores)
        # Calls in progress, and results of completed ones, by object, method name and the id of the call.
        self._active: set[tuple[Atom, str, int]] = set()
        self._given: dict[tuple[Atom, str, int], tuple[Arguments, Value]] = {}

    def apply(self, atom: Atom, node: ast.expr, arguments: Arguments) -> Value:
        """What calling one object returns."""
        return self._once((atom, "", id(node)), arguments, lambda each: self._apply(each, node, arguments))

    def _once(self, key: tuple[Atom, str, int], arguments: Arguments, call: Callable[[Atom], Value]) -> Value:
        """What calling one object, or a method of it, returns; evaluated once, though several ways may lead to it.

        Args:
            key: the object, the method's name and the id of the call.
            arguments: the call's arguments, a new object for each evaluation of the call.
            call: calls one of the atoms that the object stands for.
        """
        given = self._given.get(key)
        if given is not None and given[0] is arguments:
            return given[1]
        if key in self._active:
            return NOTHING  # a recursive call returns what its other branches return
        self._active.add(key)
        try:
            found = join([call(each) for each in in_order(self.scope.kinds.stands_for(key[0]))])
        finally:
            self._active.discard(key)
        self._given[key] = arguments, found
        return found

    def _apply(self, atom: Atom, node: ast.expr, arguments: Arguments) -> Value:
        if isinstance(atom, Named):
            return self._call_named(atom, node, arguments)
        if isinstance(atom, ClassRef):
            return self._invocation.construct(atom, node, arguments)
        if isinstance(atom, FunctionRef):
            function = self.scope.kinds.function_at(atom.key)
            if function is not None and self.scope.hierarchy.is_factory(function):
                return self.effects.make(node, Nature.MODULE, dotted_name(function), arguments)
            return OPAQUE if function is None else self._invocation.invoke(function, None, node, arguments)
        if isinstance(atom, Partial):
            return self.apply(atom.callee, node, arguments.behind(self.facts.bound_arguments[atom.site]))
        if isinstance(atom, Method):
            return self.call_method(atom.receiver, atom.name, node, arguments)
        if isinstance(atom, AnyMethod):
            return self._call_computed_method(atom, node, arguments)
        if isinstance(atom, Instance):
            return self.call_method(atom, "__call__", node, arguments)
        if isinstance(atom, (Derived, Scripted)):
            self.effects.escape_callables(arguments.each())
            return value(Derived(root(atom)))
        if isinstance(atom, Plain):
            return NOTHING
        if atom.is_object:
            return self._call_object(atom, node, arguments)
        return self._call_unknown(atom, node, arguments)

    def _call_unknown(self, atom: Atom, node: ast.expr, arguments: Arguments) -> Value:
        let_anything_run(self.scope)  # the callee may be any function of the script
        self.effects.call_any_method("__call__")
        if isinstance(atom, Foreign):
            self.effects.hand_over(arguments)
            return value(atom)
        return self.effects.make_unknown(node, arguments)

    def _call_named(self, atom: Named, node: ast.expr, arguments: Arguments) -> Value:
        if atom.name in catalogue.MAPPING:
            elements = tuple(self.members.elements(held) for held in arguments.positional[1:])
            is_spread = atom.name != "builtins.map"
            given = Arguments(rest=self.members.elements(join(elements))) if is_spread else Arguments(elements)
            self.facts.repeating.add(id(node))
            with self.scope.putting_off():
                made = [self.apply(each, node, given) for each in arguments.at(0)]
            for each in arguments.at(0):
                if isinstance(each, FunctionRef):  # no proxy can be inserted at a call that returns them all
                    self.facts.captured.keep(self.facts.returns.get(each.key, NOTHING))
            return self.scope.box(node, *made)
        if atom.name == "builtins.type":
            if len(arguments.positional) == 1:
                return join([self.members.type_of(each) for each in arguments.at(0)])
            return self.effects.make_unknown(node, arguments, label="type")
        if atom.name in {"builtins.type.__new__", "abc.ABCMeta.__new__"}:
            return self._created(arguments)
        if atom.name == "builtins.object.__new__" and arguments.positional:
            classes = [each for each in in_order(arguments.at(0)) if isinstance(each, ClassRef)]
            if classes:
                return join([self._invocation.make_bare(each, node, arguments) for each in classes])
        if atom.name.startswith(_UNBOUND_METHODS) and not atom.name.endswith(".fromkeys") and arguments.positional:
            receiver, *passed = arguments.positional
            rest = replace(arguments, positional=tuple(passed), numbers={})
            name = atom.name.rpartition(".")[2]
            return join([self.call_method(each, name, node, rest) for each in receiver])
        return self._library.call(atom.name, node, arguments)

    def _call_object(self, atom: Atom, node: ast.expr, arguments: Arguments) -> Value:
        """A module's output; for an unknown object, whatever calling it makes."""
        base = strip(atom)
        own = self.scope.kinds.method_of(base, "__call__")
        if own is not None:
            return self._invocation.invoke(own, value(atom), node, arguments)
        self.effects.escape_callables(arguments.each())
        if isinstance(base, Part) and not self.scope.kinds.is_of_unknown(base):
            return value(Derived(root(atom)))
        let_others_run(self.scope)
        self.facts.captured.hand_over(value(atom))
        if isinstance(base, Made) and self.scope.kinds.nature(base) is Nature.MODULE:
            self.facts.captured.hand_over(arguments.all())
            return value(Derived(root(atom)))
        made = self.effects.make_unknown(node, arguments, NOTHING if isinstance(base, Parameter) else value(atom))
        for result in made:
            if isinstance(result, Made):
                self.facts.grow_site(self.facts.site_of(result), callee=value(base))
        return made

    # ---- methods ----

    def _call_computed_method(self, atom: AnyMethod, node: ast.expr, arguments: Arguments) -> Value:
        """What calling a method with a computed name returns; unknown if there are too many candidates."""
        names = self.scope.kinds.methods_named(atom.receiver.key, atom.prefix)
        if len(names) <= _MAX_METHODS:
            return join([self.call_method(atom.receiver, name, node, arguments) for name in names])
        self.effects.escape(value(atom))
        return self._call_unknown(atom, node, arguments)

    def call_methods(self, receiver: Value, name: str, node: ast.expr, arguments: Arguments) -> Value:
        """What calling a method returns, for all objects that a value may be."""
        found = join([self.call_method(atom, name, node, arguments) for atom in in_order(receiver)])
        if name in catalogue.ADOPTING_METHODS:
            self.effects.note_receiver(name, arguments, node, receiver)
        # If only some of the possible receivers are known objects, these count as arguments of the unknown result.
        objects = frozenset(atom for atom in receiver if atom.is_object)
        if objects and len(objects) < len(receiver):
            site = self.facts.sites.peek(self.scope.locate(node))
            if site is not None:
                self.facts.grow_site(site, arguments=objects)
        return found

    def call_method(self, atom: Atom, name: str, node: ast.expr, arguments: Arguments) -> Value:
        """What calling a method of one object returns."""
        return self._once(
            (atom, name, id(node)), arguments, lambda each: self._call_method(each, name, node, arguments)
        )

    def _call_method(self, atom: Atom, name: str, node: ast.expr, arguments: Arguments) -> Value:
        if isinstance(atom, (Named, UnitRef)) or name == "__class__":
            held = self.members.attribute(atom, name)
            return join([self.apply(each, node, arguments) for each in in_order(held)])
        if isinstance(atom, ClassRef):
            return self._class_method(atom, name, node, arguments)
        if isinstance(atom, Instance):
            return self._instance_method(atom, name, node, arguments)
        if isinstance(atom, Super):
            return self._super_method(atom, name, node, arguments)
        if isinstance(atom, (Box, Pack)):
            return self._containers.call(atom, name, node, arguments)
        if isinstance(atom, (Derived, Scripted)):
            self.facts.captured.hand_over(arguments.all())
            self.effects.escape_callables(arguments.each())
            return value(Derived(root(atom)))
        if isinstance(atom, Plain):
            return PLAIN
        if isinstance(atom, Foreign):
            self.effects.call_any_method(name)
            self.effects.hand_over(arguments)
            return value(atom)
        if atom.is_object:
            return self._object_method(atom, name, node, arguments)
        self.effects.call_any_method(name)
        return self.effects.make_unknown(node, arguments)

    def _class_method(self, atom: ClassRef, name: str, node: ast.expr, arguments: Arguments) -> Value:
        cls = self.scope.kinds.class_of(atom.key)
        if cls is None:
            return OPAQUE
        if name == "__subclasses__":
            return self.scope.box(node, frozenset(ClassRef(each.key) for each in self.scope.kinds.descendants(cls)))
        method = self.scope.hierarchy.method(cls, name)
        if method is not None:
            return self._invocation.invoke(method, value(atom), node, arguments)
        metaclass = self.scope.hierarchy.metaclass(cls)
        above = None if metaclass is None else self.scope.hierarchy.method(metaclass, name)
        if above is not None:
            return self._invocation.invoke_on_class(above, atom, node, arguments)
        held = self.members.class_attribute(atom, name)
        if known(held):
            return join([self.apply(each, node, arguments) for each in in_order(held)])
        if name == "__new__":
            return self._invocation.make_bare(atom, node, arguments)
        if self.scope.hierarchy.is_module(cls) and name.startswith(("from_", "load")):
            return self.effects.make(node, Nature.MODULE, f"{cls.node.name}.{name}", arguments)
        return self.effects.make_unknown(node, arguments)

    def _instance_method(self, atom: Instance, name: str, node: ast.expr, arguments: Arguments) -> Value:
        hierarchy = self.scope.hierarchy
        cls = self.scope.kinds.class_of(atom.key)
        if cls is None:
            return OPAQUE
        methods = [hierarchy.method(each, name) for each in (cls, *self.scope.kinds.descendants(cls))]
        found = [each for each in dict.fromkeys(methods) if each is not None and not is_property(each)]
        stored = known(self.members.instance_attribute(atom, name)) - {Method(atom, name)}
        if found or stored:
            self.facts.note_evidence(stored, catalogue.CALLED)
            called = [self._invocation.invoke(method, value(atom), node, arguments) for method in found]
            if not stored and all(map(_is_left_to_subclasses, found)):
                called.append(self.effects.make_perhaps(node, name))  # from subclasses that are not seen
            return join([*called, *(self.apply(each, node, arguments) for each in stored)])
        return self.effects.make_unknown(node, arguments, value(atom))

    def _super_method(self, atom: Super, name: str, node: ast.expr, arguments: Arguments) -> Value:
        cls = self.scope.kinds.class_of(atom.key)
        if cls is None:
            return OPAQUE
        receiver = self._own_receiver()
        methods = self._methods_above(cls, name)
        if methods:
            return join([self._invocation.invoke(method, receiver, node, arguments) for method in methods])
        if name in {"__call__", "__new__"} and self.scope.hierarchy.is_metaclass(cls):
            return self._instantiate_passed(node, arguments) if name == "__call__" else self._created(arguments)
        if name == "__init__" and self.scope.hierarchy.is_module(cls):
            self.effects.absorb(arguments.each(), node, cls.node.name)
            return PLAIN
        if name == "__new__" and not self.scope.hierarchy.is_module(cls):
            return value(Instance(cls.key))
        if name == "__setattr__" and len(arguments.positional) == len(("name", "value")):
            self.object_stores.set_attribute(receiver, None, arguments.positional[1], node, "self")
            return PLAIN
        if name in self.scope.hierarchy.knowledge.identity_methods:
            return receiver
        return self.effects.make_unknown(node, arguments)

    def _created(self, arguments: Arguments) -> Value:
        """What `type.__new__` gives: the classes that are made with a metaclass."""
        made_with = [each for each in self.scope.kinds.things(arguments.at(0)) if isinstance(each, ClassRef)]
        return join([self.facts.attributes.get((Instance(each.key), CREATED), NOTHING) for each in made_with])

    def _instantiate_passed(self, node: ast.expr, arguments: Arguments) -> Value:
        """What a metaclass's `__call__` gets from `type`: instances of the classes that are called."""
        function = self.scope.function
        names = [] if function is None else [Parameter(function.key, each) for each in function.parameters[:1]]
        passed = join(map(self.facts.passed.to, names))
        called = [each for each in in_order(passed) if isinstance(each, ClassRef)]
        classes = filter(None, (self.scope.kinds.class_of(each.key) for each in called))
        return join([self._invocation.instantiate(each, node, arguments) for each in classes])

    def _methods_above(self, cls: Class, name: str) -> list[Function]:
        """The methods that `super()` may find; bases of subclasses may precede those of the class itself."""
        found: list[Function] = []
        for each in (cls, *self.scope.kinds.descendants(cls)):
            order = self.scope.hierarchy.ancestors(each)
            above = islice(order, order.index(cls) + 1, None)
            method = next((other.methods[name] for other in above if name in other.methods), None)
            if method is not None and method not in found:
                found.append(method)
        return found

    def _own_receiver(self) -> Value:
        """The first parameter of the visited method, or of the method around the visited function."""
        function = self.scope.function
        while function is not None and function.owner is None:
            function = function.parent
        first = [] if function is None else positional_parameters(function.node.args)
        return self.scope.lookup(first[0].arg) if first else OPAQUE

    def _object_method(self, atom: Atom, name: str, node: ast.expr, arguments: Arguments) -> Value:
        scope = self.scope
        base = strip(atom)
        method = scope.kinds.method_of(base, name)
        if method is not None:
            return self._invocation.invoke(method, value(atom), node, arguments)
        self.effects.escape_callables(arguments.each())  # hooks, callbacks, `model.apply(initialise)`
        nature = scope.kinds.nature_of_object(base)
        if isinstance(base, Parameter) or nature is not Nature.MODULE:
            for label in scope.kinds.library_names(base) or scope.kinds.library_names_passed(base, name):
                effect = scope.hierarchy.knowledge.effect_of(f"{label}.{name}")
                # Methods of every module act on each of them: `torch.jit.script(model).eval()`.
                if effect is not None and not (effect is Effect.DERIVES and name in _OF_ALL_MODULES):
                    return self._library.apply(effect, node, arguments, f"{label}.{name}")
        if name in scope.hierarchy.knowledge.identity_methods:
            if name in catalogue.REPLACING_METHODS:
                self.facts.note_event(self.facts.replaced, [base], scope.event(node))
            return join((value(atom), *self._given_by_own_methods(base, name, node, arguments)))
        parts = self._parts(atom, name, node)
        if parts is not None:
            return parts
        if name in catalogue.ADOPTING_METHODS and scope.kinds.takes_in(base, name):
            self._adopt(atom, name, node, arguments)
            return value(atom)
        if name in catalogue.HARMLESS_METHODS:
            return value(Derived(root(atom)))
        held = self.facts.attributes.get((base, name), NOTHING)
        if held:
            self.facts.note_evidence(held, catalogue.CALLED)
            return join([self.apply(each, node, arguments) for each in in_order(held)])
        # A method called on a part is usually one of a tensor or layer. The whole does not escape.
        handed_over = arguments.all() if isinstance(base, Part) else join((value(atom), arguments.all()))
        self.facts.captured.hand_over(handed_over)
        if nature is Nature.MODULE and not isinstance(base, Parameter):
            return value(Derived(root(atom)))
        return self._unknown_method(atom, name, node, arguments)

    def _adopt(self, atom: Atom, name: str, node: ast.expr, arguments: Arguments) -> None:
        self.effects.absorb_passed(arguments, node, atom)
        if name in catalogue.NAMED_ADOPTING_METHODS:
            self.object_stores.forget_attributes()

    def _parts(self, atom: Atom, name: str, node: ast.expr) -> Value | None:
        """What a method that returns submodules gives; None for other methods."""
        part = value(Part(root(atom)))
        if name in catalogue.SUBMODULE_METHODS:
            return part
        if name in catalogue.ITERATING_METHODS:
            return self.scope.box(node, part)
        return self.scope.box(node, self.scope.pack(node, [PLAIN, part])) if name in catalogue.NAMING_METHODS else None

    def _given_by_own_methods(self, base: Atom, name: str, node: ast.expr, arguments: Arguments) -> list[Value]:
        """What identity methods return that classes of a parameter's objects define themselves.

        Such a method usually does something more, and returns the object too.
        """
        given: list[Value] = []
        for atom in (
            self.facts.passed.to(base) if isinstance(base, Parameter) and not self.scope.kinds.is_self(base) else ()
        ):
            if isinstance(atom, Widened) and atom.rank > 1:
                given.append(FOREIGN)  # the merged objects may include some of such a class
            method = self.scope.kinds.method_of(atom, name) if isinstance(atom, Made) else None
            if method is not None:
                held = self._invocation.invoke(method, value(atom), node, arguments)
                given.append(frozenset(each for each in held if each != atom and not isinstance(each, Plain)))
        return given

    def _unknown_method(self, atom: Atom, name: str, node: ast.expr, arguments: Arguments) -> Value:
        base = strip(atom)
        knowledge = self.scope.hierarchy.knowledge
        labels = self.scope.kinds.library_names(base)
        for label in labels:
            self._library.note_taken(f"{label}.{name}", arguments)
        if isinstance(base, Made):
            is_module = self.scope.kinds.nature(base) is not Nature.NOT_MODULE
        else:
            is_module = any(knowledge.nature_of_call(label) is not Nature.NOT_MODULE for label in labels)
        natures = [] if is_module else [knowledge.nature_of_call(f"{label}.{name}") for label in labels]
        if natures and max(natures) is Nature.NOT_MODULE:
            self.effects.escape(arguments.all())
            return self.effects.make(node, Nature.NOT_MODULE, f"{labels[0]}.{name}", arguments)
        self.effects.call_any_method(name)
        return self.effects.make_unknown(node, arguments, value(atom))


def _is_left_to_subclasses(method: Function) -> bool:
    """Whether a method is abstract: it only raises `NotImplementedError`, or is decorated as abstract and empty."""
    if not isinstance(method.node, ast.FunctionDef):
        return False
    body = [each for each in method.node.body if not isinstance(getattr(each, "value", None), ast.Constant)]
    if not body or isinstance(body[0], ast.Pass):
        return any("abstractmethod" in ast.unparse(each) for each in method.node.decorator_list)
    raised = body[0].exc if isinstance(body[0], ast.Raise) else None
    name = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(name, ast.Name) and name.id == "NotImplementedError"
