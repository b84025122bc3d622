"""Stores into the attributes and elements of objects."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.environment import ANY_ELEMENT, constant_key, path_of
from instrumentor.analysis.spelling import text_of
from instrumentor.analysis.touched import ATTRIBUTES, ELEMENTS, attribute
from instrumentor.analysis.values import (
    FOREIGN,
    OPAQUE,
    PLAIN,
    Atom,
    Box,
    ClassRef,
    Instance,
    Opaque,
    Pack,
    Value,
    strip,
)

if TYPE_CHECKING:
    from instrumentor.analysis.effects import Effects
    from instrumentor.analysis.environment import Number
    from instrumentor.analysis.members import Members
    from instrumentor.analysis.scope import Scope


class ObjectStores:
    """Performs the stores into objects, for one scope."""

    def __init__(self, scope: Scope, members: Members, effects: Effects) -> None:
        self._scope = scope
        self._members = members
        self._effects = effects

    def store(self, target: ast.Attribute | ast.Subscript, receiver: Value, held: Value, number: Number) -> bool:
        """Store a value into the object of a target; whether reading the target gives it back.

        Args:
            target: the target.
            receiver: the possible objects.
            held: the value.
            number: the object number of the value; None if unknown.
        """
        if not self._is_own(target.value):
            self.note_touched(target)
        is_kept = not self._is_intercepted(target, receiver, held)
        stored = held if is_kept else held | OPAQUE
        self._store_into(target, receiver, stored)
        path = path_of(target)
        if path is not None and is_kept:
            self._scope.assign(path, held, number)
        else:
            if path is not None:
                self._scope.env.forget(path)
            self._scope.env.may_store(_step(target), stored)
        return is_kept

    def forget_attributes(self) -> None:
        """Invalidate all attributes, as any of them may have changed."""
        self._scope.facts.touched.note(self._scope.key, {ATTRIBUTES})
        self._scope.env.forget_objects()

    def set_attribute(self, receiver: Value, name: str | None, held: Value, node: ast.expr, text: str) -> None:
        """Store a value into an attribute by name, as `setattr` does.

        Args:
            receiver: the possible objects.
            name: the attribute's name; None if it is computed.
            held: the value.
            node: the node that performs the store.
            text: the object as users read it.
        """
        facts = self._scope.facts
        self._effects.absorb_stored(receiver, held, node, text)
        facts.captured.hand_over(held)
        stored = held
        if name is None:
            # Any attribute may hold the value. Storing all its atoms would put everything into all of them.
            self._effects.escape(held)
            stored = FOREIGN
        function = self._scope.function
        # In `__setattr__`, the value comes from an intercepted store, which has kept it under its name already.
        is_known = name is None and function is not None and function.name == "__setattr__"
        for atom in () if is_known else receiver:
            base = Instance(atom.key) if isinstance(atom, ClassRef) else strip(atom)
            self._scope.keep_attribute(base, ANY_KEY if name is None else name, stored)
        facts.touched.note(self._scope.key, {ATTRIBUTES if name is None else attribute(name)})
        self._scope.env.forget_objects()

    def set_global(self, name: str | None, held: Value) -> None:
        """Store a value into a name of the file, or into any for None, as `globals()["name"] = ...` does."""
        scope = self._scope
        if scope.function is None and scope.class_body is None:
            if name is not None:
                scope.assign((name,), held)
            else:
                scope.hold_anything(held)
            return
        unit = scope.unit.name
        for each in sorted(scope.unit.stored) if name is None else (name,):
            scope.facts.note_shared(unit, each)
            scope.facts.touched.note(scope.key, {(unit, each)})
            scope.facts.grow(scope.facts.stored_outside, (unit, each), scope.outliving(held, unit))
            scope.facts.grow(scope.facts.scopes, (unit, each), scope.outliving(held, unit))
            if scope.env.held(each) is not None:
                scope.env.may_hold(each, held)
        scope.facts.captured.keep(held)

    def note_touched(self, target: ast.Attribute | ast.Subscript) -> None:
        """Add to the mod set what a store, or `del`, may change."""
        # `holder.__dict__["net"] = net` changes an attribute.
        things = {attribute(target.attr)} if isinstance(target, ast.Attribute) else {ELEMENTS, ATTRIBUTES}
        is_plain = isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)
        self._scope.facts.touched.note(self._scope.key, things - {ATTRIBUTES} if is_plain else things)

    def _is_own(self, receiver: ast.expr) -> bool:
        """Whether a store goes into `self` in its initialiser, when the object has no alias yet."""
        function = self._scope.function
        is_initialiser = function is not None and function.owner is not None and function.name == "__init__"
        return is_initialiser and isinstance(receiver, ast.Name) and receiver.id == "self"

    def _is_intercepted(self, target: ast.Attribute | ast.Subscript, receiver: Value, held: Value) -> bool:
        """Whether a property, `__setattr__` or `__setitem__` may make a read give something else than was stored.

        Such a method gets the value as its last argument.
        """
        hierarchy = self._scope.hierarchy
        names = {"__setitem__"} if isinstance(target, ast.Subscript) else {"__setattr__", target.attr}
        for atom in receiver:
            cls = self._scope.kinds.class_of(atom.key) if isinstance(atom, Instance) else None
            if cls is not None:
                related = [cls, *self._scope.kinds.descendants(cls)]
                methods = [method for each in related for name in names if (method := hierarchy.method(each, name))]
                if isinstance(target, ast.Attribute):
                    methods += self._members.descriptor_methods(cls, target.attr, "__set__")
                for method in methods:
                    for name in method.parameters[1:][-1:]:
                        self._scope.facts.grow(self._scope.facts.passed, (method.key, name), held)
                    self._scope.facts.demand(method)
                    self._scope.facts.note_unseen_calls(method.key)
                if methods:
                    return True
        return False

    def _store_into(self, target: ast.Attribute | ast.Subscript, receiver: Value, held: Value) -> None:
        name = target.attr if isinstance(target, ast.Attribute) else None
        self._scope.facts.captured.keep(held)
        if any(self._scope.kinds.registers(strip(atom)) for atom in receiver):
            stored = frozenset(each for each in held if not isinstance(each, (Box, Pack)))
            # Only modules themselves are registered. The elements of a plain list are hidden from the module.
            self._effects.absorb_stored(receiver, stored, target, text_of(target.value))
            self._scope.facts.hidden.update(self._scope.facts.contents.reach(held - stored))
        if not all(isinstance(strip(atom), (Instance, ClassRef, Box)) for atom in receiver):
            # A library object may call the value, and modules call what they hold out of sight.
            self._effects.escape_callables([held])
        for atom in receiver:
            base = strip(atom)
            if isinstance(atom, Box) and isinstance(target, ast.Subscript):
                self._store_element_of(atom, target, held)
            elif name is not None and isinstance(atom, ClassRef):
                self._scope.keep_attribute(Instance(atom.key), name, held)
            elif name is not None:
                self._scope.keep_attribute(base, name, held)
                self._keep_containers(base, name, held)
                self._call_setter(atom, name, held)

    def _keep_containers(self, module: Atom, name: str, held: Value) -> None:
        """Make plain containers in an attribute visible to all methods of the class; other values are opaque."""
        others = held - PLAIN
        kept = frozenset(each if isinstance(each, (Box, Pack)) else Opaque() for each in others)
        for cls in self._scope.kinds.module_classes(module) if kept else ():
            self._scope.keep_attribute(Instance(cls.key), name, kept)

    def _store_element_of(self, box: Box, target: ast.Subscript, held: Value) -> None:
        if isinstance(target.slice, ast.Slice):
            self._scope.scatter(box.site)
            self._scope.put(box.site, ANY_KEY, self._members.elements(held))
        else:
            self._scope.put(box.site, constant_key(target.slice) or ANY_KEY, held)

    def _call_setter(self, atom: Atom, name: str, held: Value) -> None:
        cls = self._scope.kinds.class_of(atom.key) if isinstance(atom, Instance) else None
        setter = None if cls is None else self._scope.hierarchy.method(cls, f"{name}.setter")
        if setter is not None:
            self._scope.facts.demand(setter)
            names = [each.arg for each in setter.node.args.args]
            if len(names) == 2:
                self._scope.facts.grow(self._scope.facts.passed, (setter.key, names[1]), held)


def _step(target: ast.Attribute | ast.Subscript) -> str:
    """The last step of the paths that a store may affect."""
    if isinstance(target, ast.Attribute):
        return f".{target.attr}"
    key = constant_key(target.slice)
    return ANY_ELEMENT if key is None else f"[{key}]"
