"""Calls of the project's own classes and functions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import Arguments, match_parameters
from instrumentor.analysis.blocks import always_follows
from instrumentor.analysis.running import let_run
from instrumentor.analysis.spelling import receiver_text
from instrumentor.analysis.unseen_methods import note_instance
from instrumentor.analysis.values import (
    NOTHING,
    OPAQUE,
    Atom,
    ClassRef,
    Derived,
    Instance,
    Made,
    Pack,
    Parameter,
    Plain,
    Scripted,
    Value,
    join,
    pack,
    replace,
    value,
)
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from instrumentor.analysis.effects import Effects
    from instrumentor.analysis.entries import Event
    from instrumentor.analysis.scope import Scope
    from instrumentor.analysis.selected import Selector
    from instrumentor.resolve.unit import Class, Function


class Invocation:
    """Evaluates calls of what the project defines, for one scope: applies function summaries to arguments."""

    def __init__(self, scope: Scope, effects: Effects, selector: Selector) -> None:
        self.scope = scope
        self.facts = scope.facts
        self.effects = effects
        self._selector = selector

    def construct(self, atom: ClassRef, node: ast.expr, arguments: Arguments) -> Value:
        """The result of calling a class of the project."""
        cls = self.scope.kinds.class_of(atom.key)
        if cls is None:
            return OPAQUE
        metaclass = self.scope.hierarchy.metaclass(cls)
        call = None if metaclass is None else self.scope.hierarchy.method(metaclass, "__call__")
        if call is None:
            return self.instantiate(cls, node, arguments)
        made = self.invoke_on_class(call, atom, node, arguments)
        return frozenset(each for each in made if not isinstance(each, Instance) or each.key == cls.key)

    def instantiate(self, cls: Class, node: ast.expr, arguments: Arguments) -> Value:
        """The result of `type.__call__` for a class of the project."""
        hierarchy = self.scope.hierarchy
        note_instance(self.facts, hierarchy, cls)
        nature = hierarchy.nature(cls)
        initialiser = hierarchy.method(cls, "__init__")
        bases = filter(None, hierarchy.library_bases(cls))
        maker = next((base for base in bases if hierarchy.knowledge.makes_objects(base)), None)
        if maker is not None or nature is Nature.UNKNOWN:
            self.effects.note_giving(node, maker, arguments)
        if nature is Nature.NOT_MODULE:
            if initialiser is not None:
                self._pass(initialiser, value(Instance(cls.key)), node, arguments)
            else:
                self._fill_fields(cls, arguments)
            creator = hierarchy.method(cls, "__new__")
            created = NOTHING if creator is None else self.invoke(creator, value(ClassRef(cls.key)), node, arguments)
            return value(Instance(cls.key)) | created
        made = self.effects.make(node, nature, cls.node.name, arguments)
        site = self.scope.site(node, nature, cls.node.name)
        self.facts.grow_site(site, class_keys=[cls.key])
        if initialiser is not None:
            self._pass(initialiser, made, node, arguments)
        else:
            self.effects.absorb(arguments.each(), node, cls.node.name)
        return made

    def make_bare(self, atom: ClassRef, node: ast.expr, arguments: Arguments) -> Value:
        """The result of the inherited `__new__` of a class of the project: an object before its initialiser runs."""
        cls = self.scope.kinds.class_of(atom.key)
        if cls is None:
            return OPAQUE
        note_instance(self.facts, self.scope.hierarchy, cls)
        nature = self.scope.hierarchy.nature(cls)
        if nature is Nature.NOT_MODULE:
            return value(Instance(cls.key))
        made = self.effects.make(node, nature, cls.node.name, arguments)
        self.facts.grow_site(self.scope.site(node, nature, cls.node.name), class_keys=[cls.key])
        return made

    def _fill_fields(self, cls: Class, arguments: Arguments) -> None:
        """Store the arguments in the fields of a class without an initialiser of its own, such as a dataclass."""
        names = [
            statement.target.id
            for above in reversed(self.scope.hierarchy.ancestors(cls))
            for statement in above.node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]
        given = {**dict(zip(dict.fromkeys(names), arguments.positional, strict=False)), **arguments.keywords}
        for name, held in given.items():
            self.scope.keep_attribute(Instance(cls.key), name, held)
        if arguments.rest:
            for name in names:
                self.scope.keep_attribute(Instance(cls.key), name, arguments.rest)

    def invoke_on_class(self, function: Function, cls: ClassRef, node: ast.expr, arguments: Arguments) -> Value:
        """The result of calling a method of a class's metaclass."""
        return self.invoke(function, None, node, arguments.behind(Arguments((value(cls),))))

    def invoke(self, function: Function, receiver: Value | None, node: ast.expr, arguments: Arguments) -> Value:
        """The result of calling a function of the project. Objects that it makes become objects of this call site."""
        given = self._pass(function, receiver, node, arguments)
        returned = self.facts.returns.get(function.key, NOTHING)
        yielded = self.facts.yields.get(function.key)
        if yielded is not None:
            return self.scope.box(node, replace(yielded, lambda atom: _given_for(function, atom, given)))
        is_awaited = isinstance(self.scope.unit.parents.get(node), ast.Await)
        if isinstance(function.node, ast.AsyncFunctionDef) and not is_awaited:
            self.facts.captured.keep(returned)  # no proxy can wrap a coroutine
        return join([self._returned(function, atom, node, given, arguments) for atom in returned])

    def _returned(
        self, function: Function, atom: Atom, node: ast.expr, given: dict[str, Value], arguments: Arguments
    ) -> Value:
        starred = {each.arg for each in (function.node.args.vararg, function.node.args.kwarg) if each is not None}

        def given_back(whole: Atom, path: tuple[int, ...]) -> Value:
            # A value computed from an object of the function does not return the object.
            is_computed = isinstance(whole, (Derived, Scripted))

            def changed(inner: Atom) -> Value | None:
                if isinstance(inner, Parameter) and inner.function == function.key:
                    return given.get(inner.name, NOTHING if inner.name in starred else OPAQUE)
                if isinstance(inner, Made) and not is_computed:
                    return self._handed_on(function, inner, node, path, given, arguments)
                return None

            return replace(value(whole), changed)

        if isinstance(atom, Pack):
            return pack(join([given_back(each, (i,)) for each in item]) for i, item in enumerate(atom.items))
        return given_back(atom, ())

    def _handed_on(
        self,
        function: Function,
        made: Made,
        node: ast.expr,
        path: tuple[int, ...],
        given: dict[str, Value],
        arguments: Arguments,
    ) -> Value | None:
        """The object of this call site for a new object that the function returns."""
        origin = self.facts.sites.get(made.site)
        if origin is None or origin.function is not function:
            return None
        selected = self._selector.selection(function, origin, given)
        if selected is not None and selected.nature is Nature.NOT_MODULE:
            return selected.others | self.effects.make(node, Nature.NOT_MODULE, function.name, arguments)
        nature, keys = (
            (origin.nature, origin.class_keys) if selected is None else (selected.nature, selected.class_keys)
        )
        site = self.scope.site(node, nature, function.name, path, is_own=False)
        self.facts.grow_site(
            site,
            class_keys=keys,
            origins=[made.site] if made.site != site.key else [],
            arguments=self.facts.contents.reach(arguments.all()),
            is_copy=origin.is_copy,
        )
        return site.value

    def _pass(
        self, function: Function, receiver: Value | None, node: ast.expr, arguments: Arguments
    ) -> dict[str, Value]:
        """Pass a call's arguments to a function's parameters, and apply the function's effects to them."""
        self.facts.demand(function)
        self.facts.note_call(function.key, self.scope.event(node))
        given = match_parameters(function, receiver, arguments)
        for name, held in given.items():
            self.facts.grow(self.facts.passed, (function.key, name), held)
            self._take_over(function, Parameter(function.key, name), held, node)
        self.effects.escape_passed(function, given)
        numbers = self.scope.numbers_given(function, receiver, arguments)
        for name in function.parameters:
            default = (
                self.facts.passed.defaults.get((function.key, name)) if name not in given or arguments.rest else None
            )
            if default is not None:
                self.facts.grow(self.facts.passed, (function.key, name), default)
                given.setdefault(name, default)
            if name in numbers or any(not isinstance(atom, Plain) for atom in given.get(name, OPAQUE)):
                self.facts.note_passed(function.key, name, node, self.scope.key, numbers.get(name))
        self.scope.give_outside(function, node)
        self.scope.begin(function.unit, function)
        let_run(self.scope, function)
        return given

    def _take_over(self, function: Function, parameter: Parameter, held: Value, node: ast.expr) -> None:
        for table in (self.facts.absorbed, self.facts.replaced):
            events = table.get(parameter, {}).values()
            certain = [each for each in events if each.is_sure and self._is_unconditional(each)]
            if certain:
                event = self.scope.event(node, _seen_from_outside(certain[0].text, function, node))
                self.effects.note(table, held, event._replace(made_in=_file_of_maker(certain[0])))
        if self.facts.called.get(parameter):
            self.facts.note_event(self.facts.called, held, self.scope.event(node))

    def _is_unconditional(self, event: Event) -> bool:
        """Whether an event happens in every call of its function."""
        return always_follows(self.facts.conditions_of(event.unit, event.node), ())


def _seen_from_outside(text: str, function: Function, node: ast.expr) -> str:
    """The text of something that a method accesses by `self`, as its caller would write it."""
    if text.partition(".")[0] != "self" or function.owner is None:
        return text
    receiver = receiver_text(node)
    if receiver == "super()":
        return text
    return function.owner.name if function.name == "__init__" else text.replace("self", receiver or "self", 1)


def _file_of_maker(event: Event) -> str | None:
    """The file that makes the module which an object becomes part of; None for a store, which names its receiver."""
    is_stored = isinstance(event.node, (ast.Attribute, ast.Subscript))
    return event.made_in if is_stored or event.made_in is not None else event.unit.name


def _given_for(function: Function, atom: Atom, given: dict[str, Value]) -> Value | None:
    return given.get(atom.name) if isinstance(atom, Parameter) and atom.function == function.key else None
