"""What a call gives, and what it does to the objects that it is given."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from instrumentor.analysis.blocks import always_follows
from instrumentor.analysis.environment import path_of
from instrumentor.analysis.facts import Binding
from instrumentor.analysis.values import (
    NOTHING,
    OPAQUE,
    Atom,
    Box,
    ClassRef,
    Derived,
    FunctionRef,
    Instance,
    Made,
    Method,
    Named,
    Pack,
    Parameter,
    Part,
    Partial,
    Scripted,
    Super,
    UnitRef,
    Value,
    Yielded,
    derive,
    is_object,
    join,
    pack,
    replace,
    root,
    strip,
    unwrap,
    value,
    wrap,
)
from instrumentor.resolve import catalogue
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.expressions import Evaluator
    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.units import Class, Function

_MODULE_KEYWORDS = ("model", "module", "models", "val")
# How many callables may lead to one another (`A.__call__ = A()` leads to itself); nested calls add up to more.
_MAX_DEPTH = 40
_FINDING_METHODS = frozenset({"get", "pop", "setdefault", "popitem", "popleft", "__getitem__"})
_STORING_METHODS = frozenset({"append", "add", "insert", "appendleft"})


@dataclass(frozen=True)
class Arguments:
    """What a call passes: by position, by name, and in starred containers."""

    positional: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    rest: Value = NOTHING

    def all(self) -> Value:
        """Whatever is passed."""
        return join([*self.positional, *self.keywords.values(), self.rest])

    def module(self) -> Value:
        """The argument that functions about modules take first."""
        if self.positional:
            return self.positional[0]
        return next((self.keywords[name] for name in _MODULE_KEYWORDS if name in self.keywords), self.rest)


class CallTransfer:
    """The calls of one evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._depth = 0
        self._effects: dict[Effect, Callable[[ast.Call, Arguments, str], Value]] = {
            Effect.IDENTITY: self._identity,
            Effect.PROXIES: self._proxies,
            Effect.IDENTITY_TUPLE: self._identity_tuple,
            Effect.REPLACES: self._replaces,
            Effect.WRAPS: self._wraps,
            Effect.WRAPS_EACH: self._wraps_each,
            Effect.WRAPS_FIRST: self._wraps_first,
            Effect.WRAPS_REPLACING: self._wraps_replacing,
            Effect.UNWRAPS: self._unwraps,
            Effect.COPIES: self._copies,
            Effect.DERIVES: self._derives,
            Effect.COLLECTS: self._collects,
            Effect.READS: self._reads,
            Effect.BUILDS: self._builds,
        }
        self._builtins: dict[str, Callable[[ast.Call, Arguments], Value]] = {
            "builtins.getattr": self._getattr,
            "builtins.setattr": self._setattr,
            "builtins.super": self._super,
            "builtins.map": self._map,
            "builtins.next": lambda _, arguments: self.evaluator.elements_of(arguments.module()),
        }

    @property
    def facts(self) -> Facts:
        """The tables."""
        return self.evaluator.facts

    def call(self, node: ast.Call) -> Value:
        """What a call gives."""
        evaluator = self.evaluator
        function = node.func
        if isinstance(function, ast.Attribute):
            receiver = evaluator.evaluate(function.value)
            arguments = self._arguments(node)
            held = evaluator.env.get(path) if (path := path_of(function)) is not None else None
            if held is None:
                self.facts.note_evidence(receiver, function.attr)
                results = [self.call_method(atom, function.attr, node, arguments) for atom in receiver]
                return join(results or [NOTHING])
        else:
            held = evaluator.evaluate(function)
            arguments = self._arguments(node)
        self.facts.note_evidence(held, catalogue.CALLED)
        return join([self.apply(atom, node, arguments) for atom in held] or [NOTHING])

    def _arguments(self, node: ast.Call) -> Arguments:
        evaluator = self.evaluator
        positional: list[Value] = []
        rest: list[Value] = []
        keywords: dict[str, Value] = {}
        for argument in node.args:
            held = evaluator.evaluate(argument)
            if isinstance(argument, ast.Starred):
                rest.append(evaluator.elements_of(held))
            else:
                positional.append(held)
        for keyword in node.keywords:
            held = evaluator.evaluate(keyword.value)
            if keyword.arg is None:
                rest.append(evaluator.elements_of(held))
            else:
                keywords[keyword.arg] = held
        return Arguments(tuple(positional), keywords, join(rest or [NOTHING]))

    # ---- what is called ----

    def apply(self, atom: Atom, node: ast.Call, arguments: Arguments) -> Value:
        """What calling one object gives."""
        if self._depth > _MAX_DEPTH:
            return OPAQUE
        self._depth += 1
        try:
            return self._apply(atom, node, arguments)
        finally:
            self._depth -= 1

    def _apply(self, atom: Atom, node: ast.Call, arguments: Arguments) -> Value:
        if isinstance(atom, Named):
            return self._library(atom.name, node, arguments)
        if isinstance(atom, ClassRef):
            return self._construct(atom, node, arguments)
        if isinstance(atom, FunctionRef):
            function = self.evaluator.function_at(atom.key)
            return OPAQUE if function is None else self._invoke_at(function, None, node, arguments)
        if isinstance(atom, Partial):
            return self.apply(atom.callee, node, arguments)
        if isinstance(atom, Method):
            return self.call_method(atom.receiver, atom.name, node, arguments)
        if isinstance(atom, Instance):
            return self.call_method(atom, "__call__", node, arguments)
        if isinstance(atom, (Derived, Scripted)):
            return value(Derived(root(atom)))
        if is_object(atom):
            return self._call_object(atom, node, arguments)
        return self._unknown(node, arguments)

    def _call_object(self, atom: Atom, node: ast.Call, arguments: Arguments) -> Value:
        """A module's forward pass; or, for an object that nobody knows, whatever it makes."""
        base = strip(atom)
        if not isinstance(base, Part):
            self._capture(value(atom))
        if isinstance(base, Parameter):
            passed = self.facts.sources(value(base))
            makers = [each for each in passed if isinstance(each, (ClassRef, FunctionRef, Named, Partial, Method))]
            if makers:
                return join([self.apply(each, node, arguments) for each in makers])
        if isinstance(base, Made) and self.evaluator.nature(base) is Nature.MODULE:
            self._capture(arguments.all())
            return value(Derived(root(atom)))
        if isinstance(base, Part):
            return value(Derived(root(atom)))
        return self._unknown(node, arguments, NOTHING if isinstance(base, Parameter) else value(atom))

    def call_method(self, atom: Atom, name: str, node: ast.Call, arguments: Arguments) -> Value:
        """What calling a method of one object gives."""
        if isinstance(atom, (Named, UnitRef)):
            held = self.evaluator.attribute_of(atom, name)
            return join([self.apply(each, node, arguments) for each in held] or [NOTHING])
        if isinstance(atom, ClassRef):
            return self._class_method(atom, name, node, arguments)
        if isinstance(atom, Instance):
            return self._instance_method(atom, name, node, arguments)
        if isinstance(atom, Super):
            return self._super_method(atom, name, node, arguments)
        if isinstance(atom, Box):
            return self._container_method(atom, name, node, arguments)
        if isinstance(atom, (Derived, Scripted)):
            self._capture(arguments.all())
            return value(Derived(root(atom)))
        if is_object(atom):
            return self._object_method(atom, name, node, arguments)
        return self._unknown(node, arguments)

    def _class_method(self, atom: ClassRef, name: str, node: ast.Call, arguments: Arguments) -> Value:
        cls = self.evaluator.class_of(atom.key)
        if cls is None:
            return OPAQUE
        method = self.evaluator.hierarchy.method(cls, name)
        if method is not None:
            return self._invoke_at(method, value(atom), node, arguments)
        held = self.evaluator.instance_attribute(Instance(atom.key), name)
        if held - OPAQUE:
            return join([self.apply(each, node, arguments) for each in held])
        if self.evaluator.hierarchy.is_module(cls) and name.startswith(("from_", "load")):
            return self._fresh(node, Nature.MODULE, f"{cls.node.name}.{name}", arguments)
        return self._unknown(node, arguments)

    def _instance_method(self, atom: Instance, name: str, node: ast.Call, arguments: Arguments) -> Value:
        hierarchy = self.evaluator.hierarchy
        cls = self.evaluator.class_of(atom.key)
        if cls is None:
            return OPAQUE
        methods = [hierarchy.method(each, name) for each in (cls, *hierarchy.descendants(cls))]
        known = list(dict.fromkeys(method for method in methods if method is not None))
        if known:
            return join([self._invoke_at(method, value(atom), node, arguments) for method in known])
        held = self.evaluator.instance_attribute(atom, name) - OPAQUE
        if held:
            return join([self.apply(each, node, arguments) for each in held])
        return self._unknown(node, arguments)

    def _super_method(self, atom: Super, name: str, node: ast.Call, arguments: Arguments) -> Value:
        cls = self.evaluator.class_of(atom.key)
        receiver = self.evaluator.lookup("self")
        if cls is None:
            return OPAQUE
        for above in self.evaluator.hierarchy.ancestors(cls)[1:]:
            if name in above.methods:
                return self._invoke_at(above.methods[name], receiver, node, arguments)
        if name == "__init__" and self.evaluator.hierarchy.is_module(cls):
            self._absorb(arguments.all(), node, cls.node.name)
            return OPAQUE
        return receiver if name in catalogue.IDENTITY_METHODS else self._unknown(node, arguments)

    def _container_method(self, atom: Box, name: str, node: ast.Call, arguments: Arguments) -> Value:
        evaluator = self.evaluator
        if name in _STORING_METHODS:
            held = arguments.positional[-1] if arguments.positional else NOTHING
            evaluator.put(atom, "*", held)
            self._bind_stored(node, held)
        elif name in {"extend", "extendleft", "update"}:
            evaluator.put(atom, "*", join([evaluator.elements_of(arguments.all()), *arguments.keywords.values()]))
        elif name in _FINDING_METHODS:
            key = _constant_key(node)
            default = arguments.positional[1] if len(arguments.positional) > 1 else NOTHING
            if name == "setdefault":
                evaluator.put(atom, key or "*", default)
            return join((evaluator.box_element(atom, key), default))
        elif name == "values" or name == "copy":
            return value(atom)
        elif name == "items":
            box = Box(evaluator.key(node))
            evaluator.put(box, "*", pack([OPAQUE, evaluator.box_element(atom, None)]))
            return value(box)
        return OPAQUE

    def _bind_stored(self, node: ast.Call, held: Value) -> None:
        assert isinstance(node.func, ast.Attribute)
        evaluator = self.evaluator
        if node.args and any(is_object(atom) for atom in held):
            text = f"{ast.unparse(node.func.value)}[-1]"
            statement = evaluator.statement(node)
            evaluator.facts.bind(
                Binding(
                    evaluator.unit, evaluator.function, statement, node.args[-1], text, held, NOTHING, node.args[-1]
                )
            )

    def _object_method(self, atom: Atom, name: str, node: ast.Call, arguments: Arguments) -> Value:
        evaluator = self.evaluator
        base = strip(atom)
        method = evaluator.method_of(base, name)
        if method is not None:
            return self._invoke_at(method, value(atom), node, arguments)
        nature = evaluator.nature(base) if isinstance(base, Made) else Nature.MODULE
        if isinstance(base, Made) and nature is not Nature.MODULE:
            labels = self.facts.sites[base.site].labels if base.site in self.facts.sites else []
            for label in labels:
                effect = catalogue.effect_of(f"{label}.{name}")
                if effect is not None:
                    return self._effects[effect](node, arguments, f"{label}.{name}")
        if name in catalogue.IDENTITY_METHODS:
            if name in catalogue.REPLACING_METHODS:
                self.facts.note_event(self.facts.replaced, [base], evaluator.event(node))
            return value(atom)
        if name in catalogue.SUBMODULE_METHODS:
            return value(Part(root(atom)))
        if name in catalogue.ADOPTING_METHODS and (nature is Nature.MODULE or isinstance(base, Part)):
            self._absorb(
                arguments.all(), node, ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            )
            return OPAQUE
        if name in catalogue.HARMLESS_METHODS:
            return value(Derived(root(atom)))
        held = self.facts.attributes.get((base, name), NOTHING)
        if held:
            return join([self.apply(each, node, arguments) for each in held])
        # A call of a part is mostly one of its tensor's or layer's own methods; the whole stays where it is.
        self._capture(arguments.all() if isinstance(base, Part) else join((value(atom), arguments.all())))
        if nature is Nature.MODULE and not isinstance(base, Parameter):
            return value(Derived(root(atom)))
        return self._unknown_method(atom, name, node, arguments)

    def _unknown_method(self, atom: Atom, name: str, node: ast.Call, arguments: Arguments) -> Value:
        base = strip(atom)
        if isinstance(base, Made) and base.site in self.facts.sites:
            site = self.facts.sites[base.site]
            natures = [catalogue.nature_of_call(f"{label}.{name}") for label in site.labels]
            if site.nature is Nature.NOT_MODULE and natures and max(natures) is Nature.NOT_MODULE:
                return self._fresh(node, Nature.NOT_MODULE, f"{site.labels[0]}.{name}", arguments)
        return self._unknown(node, arguments, value(atom))

    # ---- classes and functions of the project ----

    def _construct(self, atom: ClassRef, node: ast.Call, arguments: Arguments) -> Value:
        evaluator = self.evaluator
        cls = evaluator.class_of(atom.key)
        if cls is None:
            return OPAQUE
        nature = evaluator.hierarchy.nature(cls)
        initialiser = evaluator.hierarchy.method(cls, "__init__")
        if nature is Nature.NOT_MODULE:
            if initialiser is not None:
                self._pass(initialiser, value(Instance(cls.key)), node, arguments)
            else:
                self._fill_fields(cls, arguments)
            return value(Instance(cls.key))
        made = self._fresh(node, nature, cls.node.name, arguments)
        site = evaluator.site(node, nature, cls.node.name)
        if cls.key not in site.class_keys:
            site.class_keys.add(cls.key)
            self.facts.version += 1
        if initialiser is not None:
            self._pass(initialiser, made, node, arguments)
        else:
            self._absorb(arguments.all(), node, cls.node.name)
        return made

    def _fill_fields(self, cls: Class, arguments: Arguments) -> None:
        """A class without an initialiser of its own, such as a dataclass: its fields are what it is given."""
        names = [
            statement.target.id
            for statement in cls.node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]
        given = {**dict(zip(names, arguments.positional, strict=False)), **arguments.keywords}
        for name, held in given.items():
            self.facts.grow(self.facts.attributes, (Instance(cls.key), name), held)

    def invoke(self, function: Function, receiver: Value) -> Value:
        """What a property gives: like any attribute it hands on the object that its method returns."""
        self.evaluator.demand(function)
        self.facts.add(self.facts.called, [function.key])
        returned = self.facts.returns.get(function.key, NOTHING)
        self.facts.add(self.facts.captured, (strip(atom) for atom in self.facts.reach(returned)))
        return replace(returned, lambda atom: receiver if _is_first(function, atom) else None)

    def _invoke_at(self, function: Function, receiver: Value | None, node: ast.Call, arguments: Arguments) -> Value:
        """What a call of a project's function gives: its own objects as new ones, made here."""
        given = self._pass(function, receiver, node, arguments)
        returned = self.facts.returns.get(function.key, NOTHING)
        if isinstance(function.node, ast.AsyncFunctionDef) or not _is_generator(returned):
            return join([self._returned(function, atom, node, given, arguments) for atom in returned] or [NOTHING])
        return replace(returned, lambda atom: _given_for(function, atom, given))

    def _returned(
        self, function: Function, atom: Atom, node: ast.Call, given: dict[str, Value], arguments: Arguments
    ) -> Value:
        def change(path: tuple[int, ...]) -> Callable[[Atom], Value | None]:
            def changed(inner: Atom) -> Value | None:
                if isinstance(inner, Parameter) and inner.function == function.key:
                    return given.get(inner.name, OPAQUE)
                if isinstance(inner, Made):
                    return self._handed_on(function, inner, node, path, arguments)
                return None

            return changed

        if isinstance(atom, Pack):
            return value(Pack(tuple(replace(item, change((i,))) for i, item in enumerate(atom.items))))
        return replace(value(atom), change(()))

    def _handed_on(
        self, function: Function, made: Made, node: ast.Call, path: tuple[int, ...], arguments: Arguments
    ) -> Value | None:
        """A fresh object that a function returns, as the object that this call makes."""
        origin = self.facts.sites.get(made.site)
        if origin is None or origin.function is not function:
            return None
        site = self.evaluator.site(node, origin.nature, function.name, path)
        if made.site not in site.origins and made.site != site.key:
            site.origins.add(made.site)
            self.facts.version += 1
        if not origin.class_keys <= site.class_keys:
            site.class_keys |= origin.class_keys
            self.facts.version += 1
        site.is_copy |= origin.is_copy
        site.arguments = join((site.arguments, self.facts.reach(arguments.all())))
        return value(Made(site.key))

    def _pass(
        self, function: Function, receiver: Value | None, node: ast.Call, arguments: Arguments
    ) -> dict[str, Value]:
        """Hand a call's arguments to a function's parameters, and take over what it does with them."""
        self.evaluator.demand(function)
        self.facts.add(self.facts.called, [function.key])
        given = _match_parameters(function, receiver, arguments)
        for name, held in given.items():
            self.facts.grow(self.facts.passed, (function.key, name), held)
            self._take_over(Parameter(function.key, name), held, node)
        for name in _parameter_names(function):
            if name not in given and (function.key, name) in self.facts.defaults:
                given[name] = self.facts.defaults[function.key, name]
        self.evaluator.env.forget_objects()
        return given

    def _take_over(self, parameter: Parameter, held: Value, node: ast.Call) -> None:
        if parameter in self.facts.captured:
            self._capture(held)
        for table in (self.facts.absorbed, self.facts.replaced):
            certain = [each for each in table.get(parameter, {}).values() if always_follows(each.conditions, ())]
            if certain:
                event = self.evaluator.event(node, certain[0].text)
                self.facts.note_event(table, self.facts.reach(held), event)

    # ---- library functions ----

    def _library(self, name: str, node: ast.Call, arguments: Arguments) -> Value:
        name = catalogue.canonical_name(name)
        if name in self._builtins:
            return self._builtins[name](node, arguments)
        effect = catalogue.effect_of(name)
        if effect is not None:
            self.facts.call_kinds.setdefault(id(node), set()).add(effect.name)
            return self._effects[effect](node, arguments, name)
        nature = catalogue.nature_of_call(name)
        if nature is Nature.UNKNOWN:
            return self._unknown(node, arguments, label=name)
        if nature is Nature.NOT_MODULE:
            self._capture(arguments.all())
            self._escape(arguments)
            if name.startswith("builtins."):
                return derive(self.facts.reach(arguments.all()))
            return self._fresh(node, nature, name, arguments)
        if catalogue.is_container(name):
            nature = self._nature_of_container(arguments)
        self._absorb(arguments.all(), node, name)
        return self._fresh(node, nature, name, arguments)

    def _nature_of_container(self, arguments: Arguments) -> Nature:
        """A container is what it is made of; an empty one will be filled later."""
        held = self.facts.reach(arguments.all())
        natures = [self.evaluator.nature(atom) for atom in held if isinstance(atom, Made)]
        known = len(natures) == sum(not _is_plain(atom) for atom in held)
        if natures and known and max(natures) is Nature.NO_PARAMS:
            return Nature.NO_PARAMS
        # Nothing is known of the arguments in the first round of the analysis: claim no more than the least.
        return Nature.MODULE if held or not (arguments.positional or arguments.rest) else Nature.NO_PARAMS

    def _identity(self, _node: ast.Call, arguments: Arguments, name: str) -> Value:
        return arguments.all() if name == "typing.cast" else arguments.module()

    def _proxies(self, _node: ast.Call, arguments: Arguments, _name: str) -> Value:
        self.facts.add(self.facts.proxied, (strip(atom) for atom in arguments.module()))
        return arguments.module()

    def _identity_tuple(self, _node: ast.Call, arguments: Arguments, _name: str) -> Value:
        given = [
            *arguments.positional,
            *(held for key, held in arguments.keywords.items() if key.startswith(("model", "optim"))),
        ]
        return given[0] if len(given) == 1 else pack(given)

    def _replaces(self, node: ast.Call, arguments: Arguments, _name: str) -> Value:
        self.facts.note_event(self.facts.replaced, arguments.module(), self.evaluator.event(node))
        return arguments.module()

    def _wraps(self, node: ast.Call, arguments: Arguments, name: str) -> Value:
        inner = arguments.module()
        objects = frozenset(atom for atom in inner if is_object(atom))
        functions = frozenset(atom for atom in inner if isinstance(atom, (FunctionRef, Method, Named)))
        self.facts.note_evidence(objects, catalogue.WRAPPED)
        self.facts.call_kinds.setdefault(id(node), set()).add(Effect.WRAPS.name)
        if objects or functions:
            return frozenset(wrap(atom) for atom in objects) | functions
        if name == "torch.compile":
            return self._unknown(node, arguments, label=name)
        return self._fresh(node, Nature.MODULE, name, arguments)

    def _wraps_each(self, node: ast.Call, arguments: Arguments, _name: str) -> Value:
        self.facts.call_kinds.setdefault(id(node), set()).add(Effect.WRAPS.name)
        given = [self._wrapped_if_object(held) for held in arguments.positional]
        if arguments.rest:
            return OPAQUE
        return given[0] if len(given) == 1 else pack(given)

    def _wrapped_if_object(self, held: Value) -> Value:
        return frozenset(wrap(atom) if is_object(atom) else atom for atom in held)

    def _wraps_first(self, _node: ast.Call, arguments: Arguments, _name: str) -> Value:
        inner = arguments.keywords.get("model")
        if inner is None:
            inner = arguments.positional[1] if len(arguments.positional) > 1 else arguments.module()
        self.facts.note_evidence(inner, catalogue.WRAPPED)
        return pack([self._wrapped_if_object(inner), OPAQUE, OPAQUE, OPAQUE])

    def _wraps_replacing(self, node: ast.Call, arguments: Arguments, name: str) -> Value:
        self._absorb(arguments.module(), node, name)
        return self._fresh(node, Nature.MODULE, name, arguments)

    def _unwraps(self, _node: ast.Call, arguments: Arguments, _name: str) -> Value:
        return frozenset(unwrap(atom) if is_object(atom) else atom for atom in arguments.module())

    def _copies(self, node: ast.Call, arguments: Arguments, name: str) -> Value:
        original = arguments.module()
        if not name.startswith("copy."):
            return self._fresh(node, Nature.MODULE, name, arguments)
        if not any(is_object(atom) for atom in original):
            return derive(self.facts.reach(original))
        self._fresh(node, Nature.UNKNOWN, name, arguments)
        site = self.evaluator.site(node, Nature.UNKNOWN, name)
        site.is_copy = True
        for key in [key for atom in original if isinstance(strip(atom), Made) for key in self._class_keys(strip(atom))]:
            site.class_keys.add(key)
        return value(Made(site.key))

    def _class_keys(self, atom: Atom) -> set[str]:
        return (
            self.facts.sites[atom.site].class_keys
            if isinstance(atom, Made) and atom.site in self.facts.sites
            else set()
        )

    def _derives(self, _node: ast.Call, arguments: Arguments, _name: str) -> Value:
        inner = arguments.module()
        found = frozenset(Scripted(root(atom)) for atom in inner if is_object(atom))
        return found or frozenset(atom for atom in inner if isinstance(atom, FunctionRef)) or OPAQUE

    def _collects(self, node: ast.Call, arguments: Arguments, name: str) -> Value:
        evaluator = self.evaluator
        box = Box(evaluator.key(node))
        elements = [evaluator.elements_of(held) for held in arguments.positional]
        if name == "builtins.zip":
            evaluator.put(box, "*", pack(elements))
        elif name == "builtins.enumerate":
            evaluator.put(box, "*", pack([OPAQUE, *elements[:1]]))
        else:
            evaluator.put(box, "*", join([*elements, arguments.rest]))
        for key, held in arguments.keywords.items():
            evaluator.put(box, repr(key), held)
        return value(box)

    def _reads(self, _node: ast.Call, arguments: Arguments, _name: str) -> Value:
        return derive(self.facts.reach(arguments.all()))

    def _builds(self, _node: ast.Call, arguments: Arguments, _name: str) -> Value:
        return frozenset(Partial(atom) for atom in arguments.module()) or OPAQUE

    # ---- builtins that reach into objects ----

    def _getattr(self, node: ast.Call, arguments: Arguments) -> Value:
        if len(node.args) < 2 or not arguments.positional:
            return OPAQUE
        name = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
        default = arguments.positional[2] if len(arguments.positional) > 2 else NOTHING
        found: list[Value] = [default]
        for atom in arguments.positional[0]:
            if isinstance(atom, Named):
                found.append(value(Named(f"{atom.name}.{name if isinstance(name, str) else '*'}")))
            elif not isinstance(name, str):
                found.append(OPAQUE)
            elif name in catalogue.UNWRAPPING_ATTRIBUTES and is_object(atom):
                found.append(value(unwrap(atom)))
            else:
                found.append(self.evaluator.attribute_of(atom, name))
        return join(found)

    def _setattr(self, node: ast.Call, arguments: Arguments) -> Value:
        if len(arguments.positional) == 3:
            receiver, _, held = arguments.positional
            if any(isinstance(strip(atom), (Made, Part)) for atom in receiver):
                self._absorb(held, node, ast.unparse(node.args[0]))
            self._capture(held)
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else "*"
            for atom in receiver:
                self.facts.grow(self.facts.attributes, (strip(atom), str(name)), held)
        return OPAQUE

    def _super(self, _node: ast.Call, _arguments: Arguments) -> Value:
        function = self.evaluator.function
        return OPAQUE if function is None or function.owner is None else value(Super(function.owner.key))

    def _map(self, node: ast.Call, arguments: Arguments) -> Value:
        box = Box(self.evaluator.key(node))
        if arguments.positional:
            elements = tuple(self.evaluator.elements_of(held) for held in arguments.positional[1:])
            made = [self.apply(atom, node, Arguments(elements)) for atom in arguments.positional[0]]
            self.evaluator.put(box, "*", join(made or [NOTHING]))
        return value(box)

    # ---- what happens to objects ----

    def _fresh(self, node: ast.Call, nature: Nature, label: str, arguments: Arguments) -> Value:
        site = self.evaluator.site(node, nature, label)
        reached = join((site.arguments, self.facts.reach(arguments.all())))
        if reached != site.arguments:
            site.arguments = reached
            self.facts.version += 1
        return value(Made(site.key))

    def _unknown(
        self, node: ast.Call, arguments: Arguments, receiver: Value = NOTHING, label: str | None = None
    ) -> Value:
        """What a call gives that cannot be looked into: an object that its later use has to explain."""
        self._capture(arguments.all())
        self._escape(arguments)
        owner = self.evaluator.function.owner if self.evaluator.function is not None else None
        if owner is not None and self.evaluator.hierarchy.is_module(owner):
            return derive(self.facts.reach(join((arguments.all(), receiver))))
        if isinstance(self.evaluator.unit.parents.get(node), ast.Expr):
            return OPAQUE
        text = label or " ".join(ast.unparse(node.func).split())
        return self._fresh(
            node, Nature.UNKNOWN, text, Arguments((*arguments.positional, receiver), arguments.keywords, arguments.rest)
        )

    def _capture(self, held: Value) -> None:
        """Objects are known from now on to code that cannot be seen here."""
        self.facts.add(self.facts.captured, (root(atom) for atom in self.facts.reach(held)))

    def _escape(self, arguments: Arguments) -> None:
        """Functions handed to code that cannot be seen may be called there."""
        keys = [atom.key for atom in self.facts.reach(arguments.all()) if isinstance(atom, FunctionRef)]
        self.facts.add(self.facts.escaped, keys)
        for key in keys:
            function = self.evaluator.function_at(key)
            if function is not None:
                self.evaluator.demand(function)

    def _absorb(self, held: Value, node: ast.AST, text: str) -> None:
        """Objects become submodules of what is made or changed at `node`."""
        self.facts.note_event(self.facts.absorbed, self.facts.reach(held), self.evaluator.event(node, text))


def _constant_key(node: ast.Call) -> str | None:
    return repr(node.args[0].value) if node.args and isinstance(node.args[0], ast.Constant) else None


def _is_plain(atom: Atom) -> bool:
    return not isinstance(root(atom), (Made, Parameter, Instance))


def _given_for(function: Function, atom: Atom, given: dict[str, Value]) -> Value | None:
    return given.get(atom.name) if isinstance(atom, Parameter) and atom.function == function.key else None


def _is_first(function: Function, atom: Atom) -> bool:
    names = _parameter_names(function)
    return isinstance(atom, Parameter) and atom.function == function.key and names[:1] == [atom.name]


def _is_generator(returned: Value) -> bool:
    return any(isinstance(atom, Yielded) for atom in returned)


def _parameter_names(function: Function) -> list[str]:
    arguments = function.node.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _decorators(function: Function) -> set[str]:
    if isinstance(function.node, ast.Lambda):
        return set()
    return {node.id for node in function.node.decorator_list if isinstance(node, ast.Name)}


def _match_parameters(function: Function, receiver: Value | None, arguments: Arguments) -> dict[str, Value]:
    """What each parameter of a function gets, by name; defaults aside."""
    declared = function.node.args
    names = [each.arg for each in (*declared.posonlyargs, *declared.args)]
    given: dict[str, Value] = {}
    is_static = "staticmethod" in _decorators(function)
    if receiver is not None and not is_static and names and function.owner is not None:
        # `Class.method(instance)` passes the instance itself; a class as receiver is the first argument of
        # class methods only.
        is_class = all(isinstance(atom, ClassRef) for atom in receiver)
        if not is_class or "classmethod" in _decorators(function):
            given[names.pop(0)] = receiver
    given.update(zip(names, arguments.positional, strict=False))
    over = arguments.positional[len(names) :]
    if declared.vararg is not None and (over or arguments.rest):
        given[declared.vararg.arg] = join([*over, arguments.rest])
    known = {*names, *(each.arg for each in declared.kwonlyargs)}
    for name, held in arguments.keywords.items():
        if name in known:
            given[name] = held
        elif declared.kwarg is not None:
            given[declared.kwarg.arg] = join((given.get(declared.kwarg.arg, NOTHING), held))
    if arguments.rest:
        for name in known - given.keys():
            given[name] = arguments.rest
    return given
