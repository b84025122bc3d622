"""The contents of objects: attributes, elements, and the results of iterating and unpacking."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import is_property
from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.environment import constant_key
from instrumentor.analysis.running import let_others_run
from instrumentor.analysis.spelling import starred_position
from instrumentor.analysis.values import (
    NOTHING,
    OPAQUE,
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
    Plain,
    Scripted,
    UnitRef,
    Unwrapped,
    Value,
    Wrapper,
    join,
    known,
    member,
    replace,
    root,
    strip,
    unwrap,
    value,
)
from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import stores
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.unit import Class, Function

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from instrumentor.analysis.scope import Scope

# If a parameter may be more containers than this, its elements are parts of the argument as a whole. Builders in model
# zoos get so many arguments that each element would otherwise be everything.
_MAX_THINGS = 8

_VALUE_OF_MEMBER = frozenset({"value", "_value_"})  # of an enumeration


class Members:
    """Reads the contents of objects, for one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.facts = scope.facts

    # ---- attributes ----

    def attribute(self, atom: Atom, name: str) -> Value:
        """The value of an attribute of one object."""
        if name == "__class__":
            return self.type_of(atom)
        if name == "__dict__" and not isinstance(atom, (Named, UnitRef)):
            return OPAQUE
        if isinstance(atom, Named):
            return self._library_member(atom.name, name)
        if isinstance(atom, UnitRef):
            return self._unit_member(atom, name)
        if isinstance(atom, ClassRef):
            return self.class_attribute(atom, name)
        if isinstance(atom, Instance):
            return self.instance_attribute(atom, name)
        if isinstance(atom, FunctionRef):
            return self._stored(atom, name) or OPAQUE
        if isinstance(atom, (Box, Pack)):
            return value(Method(atom, name))
        if isinstance(atom, (Wrapper, Unwrapped)) and name in catalogue.UNWRAPPING_ATTRIBUTES:
            return value(unwrap(atom))
        if isinstance(atom, (Derived, Scripted)):
            return value(Derived(root(atom)))
        if atom.is_object:
            return self._object_attribute(atom, name)
        return _of_unknown(atom)

    def type_of(self, atom: Atom) -> Value:
        """The classes that an object may have. `type(model)(config)` calls one to make another object."""
        return join([self._classes_of(strip(each)) for each in self.scope.kinds.stands_for(atom)])

    def _classes_of(self, base: Atom) -> Value:
        if isinstance(base, Made):
            site = self.facts.sites.get(base.site)
            labels = [] if site is None else site.labels
            is_class = self.scope.hierarchy.knowledge.is_module_class
            from_libraries = [Named(label) for label in labels if is_class(label)]
            from_project = [ClassRef(cls.key) for cls in self.scope.kinds.module_classes(base)]
            return frozenset([*from_project, *from_libraries]) or OPAQUE
        if isinstance(base, Parameter) and not self.scope.kinds.is_self(base):
            passed = [strip(each) for each in self.facts.passed.to(base)]
            is_seen = passed and len(passed) <= _MAX_THINGS and not any(isinstance(each, Parameter) for each in passed)
            return join(self._classes_of(each) for each in passed) if is_seen else OPAQUE
        own = self.scope.kinds.module_classes(base)
        if isinstance(base, Instance):
            cls = self.scope.kinds.class_of(base.key)
            own = [] if cls is None else [cls]
        known_classes = [each for cls in own for each in (cls, *self.scope.kinds.descendants(cls))]
        if not known_classes or len(known_classes) > _MAX_THINGS:
            return OPAQUE
        return frozenset(ClassRef(cls.key) for cls in known_classes)

    def _stored(self, base: Atom, name: str) -> Value:
        """The values stored in an attribute, including those stored under a computed name."""
        found = self.facts.attributes.get((base, name), NOTHING)
        anything = self.facts.attributes.get((base, ANY_KEY))
        return found if anything is None else join((found, anything))

    def _library_member(self, library: str, name: str) -> Value:
        found = self.scope.hierarchy.project.lookup(self.scope.unit, f"{library}.{name}")
        return member(library, name) if found is None or isinstance(found, str) else self.scope.refer(found)

    def _unit_member(self, atom: UnitRef, name: str) -> Value:
        unit = self.scope.hierarchy.project.units.get(atom.unit)
        if unit is None:
            return OPAQUE
        if name == "__dict__":
            return value(atom)
        found = self.scope.hierarchy.project.member(unit, name)
        return self.scope.refer(found) if found is not None else self.scope.unit_variable(unit, name)

    def under_name(self, atom: Atom, name: str | None, prefix: str) -> Value:
        """The result of `getattr` on an object; for a computed name, `name` is None and `prefix` its known beginning.

        For a computed name, only callables are listed.
        """
        if isinstance(atom, Named):
            return member(atom.name, ANY_KEY if name is None else name)
        if name is not None:
            is_unwrapped = name in catalogue.UNWRAPPING_ATTRIBUTES and atom.is_object
            return value(unwrap(atom)) if is_unwrapped else self.attribute(atom, name)
        if isinstance(atom, UnitRef):
            return self.any_of_unit(atom)
        if isinstance(atom, (ClassRef, Instance)):
            return value(AnyMethod(Instance(atom.key), prefix)) | OPAQUE
        return OPAQUE

    def any_of_unit(self, atom: UnitRef) -> Value:
        """What a file of the project holds under a computed name: any of its functions and classes."""
        unit = self.scope.hierarchy.project.units.get(atom.unit)
        if unit is None:
            return OPAQUE
        project = self.scope.hierarchy.project
        callables = [project.member(unit, name) for name in project.names(unit)]
        self.facts.found_by_any_name.update(each.key for each in callables if isinstance(each, Function))
        return join([self.scope.refer(each) for each in callables if isinstance(each, (Function, Class))]) or OPAQUE

    def class_attribute(self, atom: ClassRef, name: str) -> Value:
        """The value of an attribute of a class of the project itself."""
        cls = self.scope.kinds.class_of(atom.key)
        if cls is not None and name in self.scope.hierarchy.enumerated(cls):
            return value(Instance(atom.key))
        found = self.instance_attribute(Instance(atom.key), name)
        metaclass = None if known(found) or cls is None else self.scope.hierarchy.metaclass(cls)
        above = NOTHING if metaclass is None else self.instance_attribute(Instance(metaclass.key), name)
        return above if known(above) else found | above

    def instance_attribute(self, atom: Instance, name: str) -> Value:
        """The value of an attribute of a class of the project, set by any of its methods."""
        hierarchy = self.scope.hierarchy
        cls = self.scope.kinds.class_of(atom.key)
        if cls is None:
            return OPAQUE
        related = [*hierarchy.ancestors(cls), *self.scope.kinds.descendants(cls)]
        names = [name, *(hierarchy.enumerated(cls) if name in _VALUE_OF_MEMBER else ())]
        held = [self._stored(Instance(each.key), stored) for each in related for stored in names]
        method = hierarchy.method(cls, name)
        if method is not None:
            if is_property(method):
                return self.property_value(method, value(atom))
            held.append(value(Method(atom, name)))
        held += [self._got(each, atom) for each in join(held)]
        found = join(held) or self._in_other_bodies(related, name)
        if not found and (fallback := hierarchy.method(cls, "__getattr__")) is not None:
            return self.property_value(fallback, value(atom))
        if not found and any(base is None or not base.startswith("builtins.") for base in hierarchy.library_bases(cls)):
            return OPAQUE  # a base outside the project may have set it
        return found

    def _in_other_bodies(self, related: Sequence[Class], name: str) -> Value:
        """What the bodies of other files' classes bind a name to. The top level of these files is analysed from now on.

        Further files may fill a table in it, so it is unknown as long as nothing is seen.
        """
        others = [each for each in related if each.unit.name not in self.facts.whole_units and _has_value(each, name)]
        for each in others:
            self.scope.begin_top(each.unit)
        return join([self._stored(Instance(each.key), name) for each in others]) or (OPAQUE if others else NOTHING)

    def _got(self, atom: Atom, receiver: Instance) -> Value:
        """The result of a class attribute's `__get__` for an instance; nothing if it is no descriptor."""
        cls = self.scope.kinds.class_of(atom.key) if isinstance(atom, Instance) else None
        method = None if cls is None else self.scope.hierarchy.method(cls, "__get__")
        if method is None:
            return NOTHING
        self._pass_instance(method, receiver)
        return self.property_value(method, value(atom))

    def descriptor_methods(self, cls: Class, name: str, special: str) -> list[Function]:
        """The methods named `special` of the descriptors that a class has under a name."""
        related = [*self.scope.hierarchy.ancestors(cls), *self.scope.kinds.descendants(cls)]
        kept = [atom for each in related for atom in self._stored(Instance(each.key), name)]
        classes = [self.scope.kinds.class_of(atom.key) for atom in kept if isinstance(atom, Instance)]
        methods = [self.scope.hierarchy.method(each, special) for each in classes if each is not None]
        return [method for method in methods if method is not None]

    def _pass_instance(self, method: Function, instance: Instance) -> None:
        names = method.parameters[1:2]
        for name in names:
            self.facts.grow(self.facts.passed, (method.key, name), value(instance))

    def property_value(self, function: Function, receiver: Value) -> Value:
        """The value of a property: its method's return value, with the receiver in place of `self`."""
        self.facts.demand(function)
        self.facts.note_unseen_calls(function.key)  # every read calls it
        let_others_run(self.scope)
        returned = self.facts.returns.get(function.key, NOTHING)
        self.facts.captured.keep(returned)
        first = function.parameters[:1]

        def is_self(atom: Atom) -> bool:
            return isinstance(atom, Parameter) and atom.function == function.key and first == (atom.name,)

        return replace(returned, lambda atom: receiver if is_self(atom) else None)

    def _object_attribute(self, atom: Atom, name: str) -> Value:
        base = strip(atom)
        stored = self._stored(base, name)
        if isinstance(base, Parameter):
            method = self.scope.kinds.method_of(base, name)
            if method is not None:
                return value(Method(base, name))
        if name in catalogue.UNWRAPPING_ATTRIBUTES and isinstance(base, Parameter) and not stored:
            return value(unwrap(atom))
        if isinstance(base, Made):
            nature = self.scope.kinds.nature(base)
            if nature in (Nature.NOT_MODULE, Nature.UNKNOWN) and stored:
                return stored
        anywhere = join((stored, self._containers(base, name)))
        if anywhere and all(isinstance(each, (Box, Pack)) for each in anywhere):
            return anywhere  # elements of a module's plain containers are not its parts
        containers = frozenset(each for each in anywhere if isinstance(each, (Box, Pack)))
        return join((stored, containers, value(Part(root(atom)))))

    def _containers(self, module: Atom, name: str) -> Value:
        """The plain containers that the methods or the body of a module's class store in an attribute."""
        hierarchy = self.scope.hierarchy
        classes = [each for cls in self.scope.kinds.module_classes(module) for each in hierarchy.ancestors(cls)]
        held = join([self._stored(Instance(cls.key), name) for cls in classes])
        return held if any(isinstance(each, (Box, Pack)) for each in held) else NOTHING

    # ---- elements ----

    def element(self, node: ast.Subscript, atom: Atom) -> Value:
        """The value of a subscript `node`, an index or a slice, of one object."""
        if isinstance(node.slice, ast.Slice):
            return self._slice(node, atom)
        if isinstance(atom, Pack):
            position = constant_position(node.slice)
            if position is not None and -len(atom.items) <= position < len(atom.items):
                return atom.items[position]
            return join(atom.items)
        if isinstance(atom, Box):
            return self.facts.contents.elements(atom.site, self._key(atom, node.slice))
        if self._is_generic(atom):
            return value(atom)
        if (member_of := self._member_of(atom)) is not None:
            return value(member_of)
        if isinstance(atom, Named):
            return member(atom.name.removesuffix(".__dict__"), ANY_KEY)
        if isinstance(atom, UnitRef):
            return self.any_of_unit(atom)
        if isinstance(atom, (Derived, Scripted)):
            return value(Derived(root(atom)))
        if atom.is_object:
            return value(Part(root(atom)))
        return _of_unknown(atom)

    def _is_generic(self, atom: Atom) -> bool:
        """Whether something is a generic class, of which an index such as `Net[int]` gives the class itself."""
        cls = self.scope.kinds.class_of(atom.key) if isinstance(atom, ClassRef) else None
        return cls is not None and self.scope.hierarchy.is_generic(cls)

    def _member_of(self, atom: Atom) -> Instance | None:
        """Any member of an enumeration; None for anything else."""
        cls = self.scope.kinds.class_of(atom.key) if isinstance(atom, ClassRef) else None
        return Instance(cls.key) if cls is not None and self.scope.hierarchy.enumerated(cls) else None

    def _key(self, box: Box, index: ast.expr) -> str | None:
        """The key of an index. A negative one is converted if the container has a fixed length."""
        position = constant_position(index)
        keys = self.facts.contents.get(box.site, {})
        if position is not None and position < 0 and set(keys) == {repr(i) for i in range(len(keys))}:
            return repr(position + len(keys))
        return constant_key(index)

    def _slice(self, node: ast.Subscript, atom: Atom) -> Value:
        if isinstance(atom, Pack):
            return self.scope.box(node, *atom.items)
        if isinstance(atom, Box):
            return self.scope.box(node, self.facts.contents.elements(atom.site))
        if isinstance(atom, (Derived, Scripted)):
            return value(Derived(root(atom)))
        return value(Part(root(atom))) if atom.is_object else _of_unknown(atom)

    def _reached(self, held: Value) -> Iterable[Atom]:
        """The atoms whose contents are read. A parameter stands for its arguments, unless there are too many."""
        if not any(type(atom) is Parameter for atom in held):
            return held
        meant = ((atom, self.scope.kinds.stands_for(atom)) for atom in held)
        return [each for atom, things in meant for each in (things if len(things) <= _MAX_THINGS else [atom])]

    def elements(self, held: Value) -> Value:
        """The elements that iterating over a value gives."""
        found: list[Value] = []
        for atom in self._reached(held):
            if isinstance(atom, Pack):
                found.extend(atom.items)
            elif isinstance(atom, Box):
                found.append(self.facts.contents.elements(atom.site))
            elif isinstance(atom, (Derived, Scripted)):
                found.append(value(Derived(root(atom))))
            elif atom.is_object:
                found.append(value(Part(root(atom))))
            elif (member_of := self._member_of(atom)) is not None:
                found.append(value(member_of))
            else:
                found.append(_of_unknown(atom))
        return join(found)

    def shared_out(self, held: Value, targets: Sequence[ast.expr]) -> Iterator[tuple[ast.expr, Value]]:
        """The targets of a tuple with the values that unpacking gives them; for a starred target, its elements."""
        starred = starred_position(targets)
        for position, target in enumerate(targets):
            if starred is None or position < starred:
                yield target, self.unpacked(held, position, len(targets) if starred is None else None)
            else:
                yield target, self.elements(held)

    def unpacked(self, held: Value, position: int, count: int | None) -> Value:
        """The value of one of `count` targets in an unpacking; `count` is None if a starred target follows.

        Tuples of other lengths are ignored, unless there are no others.
        """
        found: list[Value] = []
        reached = self._reached(held)
        fits = {len(atom.items) for atom in reached if isinstance(atom, Pack)}
        fits = {length for length in fits if (length > position if count is None else length == count)} or fits
        for atom in reached:
            if isinstance(atom, Pack):
                if len(atom.items) in fits:
                    is_known = count in (None, len(atom.items)) and position < len(atom.items)
                    found.append(atom.items[position] if is_known else join(atom.items))
            elif isinstance(atom, Box):
                found.append(self.facts.contents.elements(atom.site, repr(position)))
            elif isinstance(atom, Made) and self.scope.kinds.nature(atom) is Nature.UNKNOWN:
                found.append(value(self.scope.element_site(atom, position)))
            else:
                found.append(self.elements(value(atom)))
        return join(found)

    def concatenation(self, node: ast.expr, operands: list[Value]) -> Value:
        """The result of `+` or `*` on containers; nothing if no operand is one."""
        if len(operands) == 2 and all(len(each) == 1 for each in operands):
            (left,), (right,) = operands
            if isinstance(left, Pack) and isinstance(right, Pack):
                return self.scope.pack(node, [*left.items, *right.items])
        if not any(isinstance(atom, (Box, Pack)) for held in operands for atom in held):
            return NOTHING
        return self.scope.box(node, *(self.elements(known(held)) for held in operands))


def _has_value(cls: Class, name: str) -> bool:
    """Whether a class body gives a name a value other than a number, a string or None."""
    stored = [pair for statement in cls.node.body for pair in stores(statement)]
    values = [held for target, held in stored if isinstance(target, ast.Name) and target.id == name]
    return any(not isinstance(held, ast.Constant) for held in values)


def _of_unknown(atom: Atom) -> Value:
    """The contents of something unknown, or of something that surely is no module."""
    return value(atom) if isinstance(atom, (Plain, Foreign)) else OPAQUE


def constant_position(index: ast.expr) -> int | None:
    """A constant index, possibly negative; None for other indexes."""
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
        inner = constant_position(index.operand)
        return None if inner is None else -inner
    return index.value if isinstance(index, ast.Constant) and type(index.value) is int else None
