"""What an expression may evaluate to."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from instrumentor.analysis.blocks import conditions_of
from instrumentor.analysis.calls import CallTransfer
from instrumentor.analysis.environment import path_of
from instrumentor.analysis.facts import Binding, Event, Site
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
    Opaque,
    Pack,
    Parameter,
    Part,
    Scripted,
    SiteKey,
    UnitRef,
    Unwrapped,
    Value,
    Wrapper,
    Yielded,
    derive,
    is_object,
    join,
    pack,
    root,
    strip,
    unwrap,
    value,
)
from instrumentor.resolve import catalogue
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.units import Class, Function, Unit, imported_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.environment import Environment
    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.classes import Hierarchy

ANY_KEY = "*"


class Evaluator:
    """Evaluates the expressions of one function, or of the top of one file."""

    def __init__(
        self, facts: Facts, hierarchy: Hierarchy, unit: Unit, function: Function | None, env: Environment
    ) -> None:
        self.facts = facts
        self.hierarchy = hierarchy
        self.unit = unit
        self.function = function
        self.env = env
        self.globals: dict[str, str] = {}
        self.class_body: Class | None = None
        self.calls = CallTransfer(self)
        self._handlers: dict[type[ast.AST], Callable[..., Value]] = {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Call: self.calls.call,
            ast.Tuple: self._tuple,
            ast.List: self._display,
            ast.Set: self._display,
            ast.Dict: self._dict,
            ast.IfExp: self._if_expression,
            ast.BoolOp: self._bool_operation,
            ast.NamedExpr: self._named_expression,
            ast.Lambda: self._lambda,
            ast.ListComp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.DictComp: self._comprehension,
            ast.Await: self._inner,
            ast.Starred: self._inner,
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield_from,
            ast.Constant: self._constant,
        }

    def evaluate(self, node: ast.expr | None) -> Value:
        """What `node` may be; notes on the way what it does to objects."""
        if node is None:
            return OPAQUE
        handler = self._handlers.get(type(node))
        if handler is not None:
            return handler(node)
        return self._other(node)

    # ---- names ----

    def _name(self, node: ast.Name) -> Value:
        return self.lookup(node.id)

    def lookup(self, name: str) -> Value:
        """What a name holds here."""
        found = self.env.get(name)
        scope = self.scope_key
        outside = self.facts.stored_outside.get((scope, name), NOTHING)
        if found is not None:
            return join((found, outside)) if outside else found
        function = self.function.parent if self.function is not None else None
        while function is not None:
            held = self.facts.scopes.get((function.key, name))
            if held is not None:
                return held
            function = function.parent
        held = self.facts.scopes.get((self.unit.name, name))
        if held is not None:
            return held
        return self._static(self.unit, name) or (outside or OPAQUE)

    def _static(self, unit: Unit, name: str) -> Value:
        """What a name stands for that no statement seen so far has bound: an import, a definition, a builtin."""
        found = self.hierarchy.project.member(unit, name)
        if found is not None:
            return self.refer(found)
        return value(Named(f"builtins.{name}")) if hasattr(builtins, name) else NOTHING

    def refer(self, found: Class | Function | Unit | str | None) -> Value:
        """The value of what a name was resolved to."""
        if isinstance(found, Class):
            return value(ClassRef(found.key))
        if isinstance(found, Function):
            return value(FunctionRef(found.key))
        if isinstance(found, Unit):
            return value(UnitRef(found.name))
        return value(Named(found)) if found else OPAQUE

    @property
    def scope_key(self) -> str:
        """Under which key the facts keep this scope's names."""
        return self.unit.name if self.function is None else self.function.key

    def imported(self, statement: ast.Import | ast.ImportFrom) -> dict[str, Value]:
        """The names that an import binds, with their values."""
        found: dict[str, Value] = {}
        for name, dotted in imported_names(statement).items():
            if name != ANY_KEY:
                target = self.hierarchy.project.lookup(self.unit, dotted)
                found[name] = self.refer(target) if target is not None else self._imported_variable(dotted)
        return found

    def _imported_variable(self, dotted: str) -> Value:
        above, _, name = dotted.rpartition(".")
        target = self.hierarchy.project.lookup(self.unit, above or ".") if name else None
        if isinstance(target, Unit):
            return self._unit_variable(target, name)
        return OPAQUE

    def _unit_variable(self, unit: Unit, name: str) -> Value:
        if unit.name not in self.facts.demanded_units:
            self.facts.demanded_units[unit.name] = unit
            self.facts.version += 1
        return self.facts.scopes.get((unit.name, name), NOTHING)

    # ---- attributes and elements ----

    def _attribute(self, node: ast.Attribute) -> Value:
        receiver = self.evaluate(node.value)
        path = path_of(node)
        known = self.env.get(path) if path is not None else None
        if known is not None:
            return known
        return join([self.attribute_of(atom, node.attr) for atom in receiver] or [NOTHING])

    def attribute_of(self, atom: Atom, name: str) -> Value:
        """What reading an attribute of one object gives."""
        if isinstance(atom, Named):
            return self._library_member(atom.name, name)
        if isinstance(atom, UnitRef):
            return self._unit_member(atom, name)
        if isinstance(atom, ClassRef):
            return self._class_member(atom, name)
        if isinstance(atom, Instance):
            return self.instance_attribute(atom, name)
        if isinstance(atom, (Wrapper, Unwrapped)) and name in catalogue.UNWRAPPING_ATTRIBUTES:
            return value(unwrap(atom))
        if isinstance(atom, (Derived, Scripted)):
            return value(Derived(root(atom)))
        if is_object(atom):
            return self._object_attribute(atom, name)
        return OPAQUE

    def _library_member(self, library: str, name: str) -> Value:
        found = self.hierarchy.project.lookup(self.unit, f"{library}.{name}")
        return self.refer(found) if found is not None else value(Named(f"{library}.{name}"))

    def _unit_member(self, atom: UnitRef, name: str) -> Value:
        unit = self.hierarchy.project.units.get(atom.unit)
        if unit is None:
            return OPAQUE
        found = self.hierarchy.project.member(unit, name)
        return self.refer(found) if found is not None else self._unit_variable(unit, name)

    def _class_member(self, atom: ClassRef, name: str) -> Value:
        cls = self.class_of(atom.key)
        if cls is None:
            return OPAQUE
        return self.instance_attribute(Instance(atom.key), name)

    def instance_attribute(self, atom: Instance, name: str) -> Value:
        """What an attribute of a project's class holds, whichever of its methods set it."""
        cls = self.class_of(atom.key)
        if cls is None:
            return OPAQUE
        related = [*self.hierarchy.ancestors(cls), *self.hierarchy.descendants(cls)]
        held = [self.facts.attributes.get((Instance(each.key), name), NOTHING) for each in related]
        method = self.hierarchy.method(cls, name)
        if method is not None:
            if _is_property(method):
                return self.calls.invoke(method, value(atom))
            held.append(value(Method(atom, name)))
        found = join(held)
        if not found and any(base is None or self._is_foreign(base) for base in self.hierarchy.library_bases(cls)):
            return OPAQUE  # a base outside the project may have set it
        return found

    def _is_foreign(self, base: str) -> bool:
        return not base.startswith("builtins.")

    def _object_attribute(self, atom: Atom, name: str) -> Value:
        base = strip(atom)
        stored = self.facts.attributes.get((base, name), NOTHING)
        if isinstance(base, Parameter):
            method = self.method_of(base, name)
            if method is not None:
                return value(Method(base, name))
        if name in catalogue.UNWRAPPING_ATTRIBUTES and isinstance(base, Parameter) and not stored:
            return value(unwrap(atom))
        if isinstance(base, Made):
            nature = self.nature(base)
            if nature in (Nature.NOT_MODULE, Nature.UNKNOWN) and stored:
                return stored
        return join((stored, value(Part(root(atom)))))

    def method_of(self, base: Atom, name: str) -> Function | None:
        """The project's method that `base.name` is, where `base` is a project's module."""
        for cls in self.module_classes(base):
            method = self.hierarchy.method(cls, name)
            if method is not None:
                return method
        return None

    def module_classes(self, base: Atom) -> list[Class]:
        """The project's classes that a module may have."""
        if isinstance(base, Made):
            keys = self.facts.sites[base.site].class_keys if base.site in self.facts.sites else set()
            return [cls for key in sorted(keys) if (cls := self.class_of(key)) is not None]
        if isinstance(base, Parameter) and self.is_self(base) and self.function is not None:
            owner = self.function.owner
            return [owner] if owner is not None else []
        return []

    def is_self(self, base: Parameter) -> bool:
        """Whether a parameter is the `self` of a method."""
        function = self.facts.demanded_functions.get(base.function)
        if function is None or function.owner is None or isinstance(function.node, ast.Lambda):
            return False
        arguments = [*function.node.args.posonlyargs, *function.node.args.args]
        return bool(arguments) and arguments[0].arg == base.name and function.node.name in function.owner.methods

    def class_of(self, key: str) -> Class | None:
        """The class with a key."""
        unit = self.hierarchy.project.units.get(key.partition(":")[0])
        if unit is None:
            return None
        return unit.class_by_key.get(key)

    def function_at(self, key: str) -> Function | None:
        """The function with a key."""
        unit = self.hierarchy.project.units.get(key.partition(":")[0])
        if unit is None:
            return None
        return unit.function_by_key.get(key)

    def _subscript(self, node: ast.Subscript) -> Value:
        receiver = self.evaluate(node.value)
        self.evaluate(node.slice)
        path = path_of(node)
        known = self.env.get(path) if path is not None else None
        if known is not None:
            return known
        return join([self._element(atom, node.slice) for atom in receiver] or [NOTHING])

    def _element(self, atom: Atom, index: ast.expr) -> Value:
        if isinstance(atom, Pack):
            position = _constant_index(index)
            if position is not None and -len(atom.items) <= position < len(atom.items):
                return atom.items[position]
            return join(atom.items)
        if isinstance(atom, Box):
            return self.box_element(atom, repr(index.value) if isinstance(index, ast.Constant) else None)
        if isinstance(atom, Named):
            return value(Named(f"{atom.name.removesuffix('.__dict__')}.{ANY_KEY}"))
        if isinstance(atom, (Derived, Scripted)):
            return value(Derived(root(atom)))
        if is_object(atom):
            return value(Part(root(atom)))
        return OPAQUE

    def box_element(self, box: Box, key: str | None) -> Value:
        """What a container holds under a key; under any key for None."""
        keys = [key, ANY_KEY] if key is not None else [held for site, held in self.facts.contents if site == box.site]
        return join([self.facts.contents.get((box.site, each), NOTHING) for each in keys] or [NOTHING])

    def elements_of(self, held: Value) -> Value:
        """What iterating over a value gives."""
        found: list[Value] = []
        for atom in held:
            if isinstance(atom, Pack):
                found.extend(atom.items)
            elif isinstance(atom, Box):
                found.append(self.box_element(atom, None))
            elif isinstance(atom, Yielded):
                found.append(atom.items)
            elif isinstance(atom, (Derived, Scripted)):
                found.append(value(Derived(root(atom))))
            elif is_object(atom):
                found.append(value(Part(root(atom))))
            else:
                found.append(OPAQUE)
        return join(found or [NOTHING])

    # ---- displays ----

    def _tuple(self, node: ast.Tuple) -> Value:
        if any(isinstance(element, ast.Starred) for element in node.elts):
            return self._display(node)
        return pack([self.evaluate(element) for element in node.elts])

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        box = Box(self.key(node))
        for position, element in enumerate(node.elts):
            held = self.evaluate(element)
            if isinstance(element, ast.Starred):
                self.put(box, ANY_KEY, self.elements_of(held))
            else:
                self.put(box, repr(position), held)
        return value(box)

    def _dict(self, node: ast.Dict) -> Value:
        box = Box(self.key(node))
        for key, element in zip(node.keys, node.values, strict=True):
            held = self.evaluate(element)
            if key is None:
                self.put(box, ANY_KEY, self.elements_of(held))
                continue
            self.evaluate(key)
            self.put(box, repr(key.value) if isinstance(key, ast.Constant) else ANY_KEY, held)
            self._bind_element(node, key, element, held)
        return value(box)

    def _bind_element(self, node: ast.Dict, key: ast.expr, element: ast.expr, held: Value) -> None:
        if any(is_object(atom) for atom in held):
            statement = self.statement(node)
            holder = text_of(statement.targets[0]) if isinstance(statement, ast.Assign) else "{}"
            text = f"{holder}[{text_of(key)}]"
            self.facts.bind(Binding(self.unit, self.function, statement, element, text, held, NOTHING, element))

    def put(self, box: Box, key: str, held: Value) -> None:
        """Let a container hold one thing more."""
        self.facts.put(box.site, key, held)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        outer, self.env = self.env, self.env.copy()
        for generator in node.generators:
            self.bind_target(generator.target, self.elements_of(self.evaluate(generator.iter)), None)
            for condition in generator.ifs:
                self.evaluate(condition)
        if isinstance(node, ast.DictComp):
            self.evaluate(node.key)
            held = self.evaluate(node.value)
        else:
            held = self.evaluate(node.elt)
        self.env = outer
        box = Box(self.key(node))
        self.put(box, ANY_KEY, held)
        return value(box)

    def bind_target(self, target: ast.expr, held: Value, statement: ast.stmt | None) -> None:
        """Let the names in a loop's or comprehension's target hold a value."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for position, element in enumerate(target.elts):
                self.bind_target(element, self.unpacked(held, position, len(target.elts)), statement)
        elif isinstance(target, ast.Starred):
            self.bind_target(target.value, OPAQUE, statement)
        else:
            path = path_of(target)
            if path is not None:
                self.assign_path(path, held)
            else:
                for child in ast.iter_child_nodes(target):
                    if isinstance(child, ast.expr):
                        self.evaluate(child)

    def unpacked(self, held: Value, position: int, count: int) -> Value:
        """What one target of a tuple of targets gets."""
        found: list[Value] = []
        for atom in held:
            if isinstance(atom, Pack):
                found.append(atom.items[position] if len(atom.items) == count else join(atom.items))
            elif isinstance(atom, Box):
                found.append(self.box_element(atom, repr(position)))
            elif isinstance(atom, Made) and self.nature(atom) is Nature.UNKNOWN:
                found.append(value(self.element_site(atom, position)))
            else:
                found.append(self.elements_of(value(atom)))
        return join(found or [NOTHING])

    def element_site(self, made: Made, position: int) -> Made:
        """One element of the tuple that an unknown call may give."""
        whole = self.facts.sites[made.site]
        key = made.site._replace(path=(*made.site.path, position))
        if len(key.path) > 2:
            return made
        if key not in self.facts.sites:
            self.facts.sites[key] = Site(key, whole.node, whole.unit, whole.function, Nature.UNKNOWN, whole.labels)
            self.facts.version += 1
        site = self.facts.sites[key]
        site.arguments = join((site.arguments, whole.arguments))
        return Made(key)

    def assign_path(self, path: str, held: Value) -> None:
        """Let a path hold a value, here and for the functions inside."""
        self.env.assign(path, held)
        if "." not in path and "[" not in path:
            target = self.globals.get(path)
            if target is not None:
                self.facts.grow(self.facts.stored_outside, (target, path), held)
                self.facts.grow(self.facts.scopes, (target, path), held)
                self.facts.add(self.facts.captured, (strip(atom) for atom in held))
            elif self.class_body is None:
                self.facts.grow(self.facts.scopes, (self.scope_key, path), held)

    # ---- operators ----

    def _if_expression(self, node: ast.IfExp) -> Value:
        self.evaluate(node.test)
        return join((self.evaluate(node.body), self.evaluate(node.orelse)))

    def _bool_operation(self, node: ast.BoolOp) -> Value:
        return join([self.evaluate(operand) for operand in node.values])

    def _named_expression(self, node: ast.NamedExpr) -> Value:
        held = self.evaluate(node.value)
        self.assign_path(node.target.id, held)
        self.facts.bind(
            Binding(
                self.unit, self.function, self.statement(node), node.target, node.target.id, held, NOTHING, node.value
            )
        )
        return held

    def _lambda(self, node: ast.Lambda) -> Value:
        function = self.unit.function_of.get(node)
        if function is None:
            return OPAQUE
        self.bind_defaults(function)
        self.demand(function)
        return value(FunctionRef(function.key))

    def bind_defaults(self, function: Function) -> None:
        """Let parameters hold their defaults, which are evaluated where the function is defined."""
        declared = function.node.args
        positional = [*declared.posonlyargs, *declared.args]
        with_default = [
            *zip(positional[len(positional) - len(declared.defaults) :], declared.defaults, strict=True),
            *zip(declared.kwonlyargs, declared.kw_defaults, strict=True),
        ]
        for parameter, default in with_default:
            if default is None:
                continue
            held = self.evaluate(default)
            key = (function.key, parameter.arg)
            self.facts.grow(self.facts.defaults, key, held)
            self.facts.grow(self.facts.passed, key, held)
            statement = self.statement(function.node)
            self.facts.bind(
                Binding(self.unit, self.function, statement, parameter, parameter.arg, held, NOTHING, default)
            )

    def demand(self, function: Function) -> None:
        """See to it that a function is analysed."""
        if function.key not in self.facts.demanded_functions:
            self.facts.demanded_functions[function.key] = function
            self.facts.version += 1

    def _inner(self, node: ast.Await | ast.Starred) -> Value:
        return self.evaluate(node.value)

    def _yield(self, node: ast.Yield) -> Value:
        self._note_yield(self.evaluate(node.value))
        return OPAQUE

    def _yield_from(self, node: ast.YieldFrom) -> Value:
        self._note_yield(self.elements_of(self.evaluate(node.value)))
        return OPAQUE

    def _note_yield(self, held: Value) -> None:
        if self.function is not None:
            self.facts.add(self.facts.captured, (strip(atom) for atom in self.facts.reach(held)))
            self.facts.grow(self.facts.returns, self.function.key, value(Yielded(held)))

    def _constant(self, _node: ast.Constant) -> Value:
        return OPAQUE

    def _other(self, node: ast.expr) -> Value:
        """Arithmetic, comparisons, f-strings: whatever they give was computed from their operands."""
        held: list[Value] = []
        pending: list[ast.AST] = list(ast.iter_child_nodes(node))
        while pending:
            child = pending.pop(0)
            if isinstance(child, ast.expr):
                held.append(self.evaluate(child))
            elif isinstance(child, (ast.slice, ast.keyword)):
                pending.extend(ast.iter_child_nodes(child))
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            boxes = frozenset(atom for each in held for atom in each if isinstance(atom, (Box, Pack)))
            if boxes:
                return boxes
        if isinstance(node, ast.Slice):
            return OPAQUE
        return derive(join(held or [NOTHING]))

    # ---- sites ----

    def key(self, node: ast.AST, path: tuple[int, ...] = ()) -> SiteKey:
        """The key of what an expression makes."""
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        return SiteKey(self.unit.name, *place, path)

    def site(self, node: ast.expr, nature: Nature, label: str, path: tuple[int, ...] = ()) -> Site:
        """The site of an expression; what it makes is the most that any visit has said."""
        key = self.key(node, path)
        found = self.facts.sites.get(key)
        if found is None:
            found = self.facts.sites[key] = Site(key, node, self.unit, self.function)
            self.facts.version += 1
        if nature > found.nature:
            found.nature = nature
            self.facts.version += 1
        if label not in found.labels:
            found.labels.append(label)
        return found

    def nature(self, made: Made) -> Nature:
        """What a site is known to make, before its use is looked at."""
        site = self.facts.sites.get(made.site)
        return Nature.UNKNOWN if site is None else site.nature

    def event(self, node: ast.AST, text: str = "") -> Event:
        """Something that happens at `node`."""
        return Event(self.unit, self.function, node, conditions_of(self.unit, node), text)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that an expression is part of."""
        while not isinstance(node, ast.stmt):
            node = self.unit.parents[node]
        return node

    def is_nothing_known(self, held: Value) -> bool:
        """Whether a value is only what cannot be seen: no object of this program and nothing computed from one."""
        return all(
            isinstance(atom, Opaque)
            or (isinstance(atom, Part) and isinstance(root(atom), Made) and self._is_unknown(root(atom)))
            for atom in held
        )

    def _is_unknown(self, atom: Atom) -> bool:
        return isinstance(atom, Made) and self.nature(atom) in (Nature.UNKNOWN, Nature.NOT_MODULE)


def text_of(node: ast.AST) -> str:
    """An expression as people write it, on one line and without blanks in its indices."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and '"' not in node.value:
        return f'"{node.value}"'
    if isinstance(node, ast.Subscript):
        return f"{text_of(node.value)}[{text_of(node.slice)}]"
    if isinstance(node, ast.Tuple):
        return ",".join(text_of(element) for element in node.elts)
    if isinstance(node, ast.Attribute):
        return f"{text_of(node.value)}.{node.attr}"
    return " ".join(ast.unparse(node).split())


def _constant_index(index: ast.expr) -> int | None:
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
        inner = _constant_index(index.operand)
        return None if inner is None else -inner
    return index.value if isinstance(index, ast.Constant) and type(index.value) is int else None


def _is_property(method: Function) -> bool:
    node = method.node
    if isinstance(node, ast.Lambda):
        return False
    names = {name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "") for name in node.decorator_list}
    return bool(names & {"property", "cached_property"})
