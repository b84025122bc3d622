"""What calls do to objects: make them, hand them to code that cannot be seen, put them into modules."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.values import (
    NOTHING,
    PLAIN,
    Box,
    FunctionRef,
    Instance,
    Made,
    Method,
    Value,
    derive,
    join,
    root,
    value,
)
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.scope import Scope


class Effects:
    """Notes what happens to objects, for one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.facts = scope.facts

    def make(self, node: ast.expr, nature: Nature, label: str, arguments: Arguments) -> Value:
        """A new object, made by the call `node`."""
        site = self.scope.site(node, nature, label)
        reached = join((site.arguments, self.facts.reach(arguments.all())))
        if reached != site.arguments:
            site.arguments = reached
            self.facts.version += 1
        return value(Made(site.key))

    def make_unknown(
        self, node: ast.expr, arguments: Arguments, receiver: Value = NOTHING, label: str | None = None
    ) -> Value:
        """What a call gives that cannot be looked into: an object that its later use has to explain."""
        given = join((arguments.all(), receiver))
        self.capture(arguments.all())
        self.escape(given)
        owner = self.scope.function.owner if self.scope.function is not None else None
        if owner is not None and self.scope.hierarchy.is_module(owner):
            return derive(self.facts.reach(given))
        if isinstance(self.scope.unit.parents.get(node), ast.Expr):
            return PLAIN
        text = label or " ".join(ast.unparse(node.func if isinstance(node, ast.Call) else node).split())
        made = self.make(node, Nature.UNKNOWN, text, arguments)
        if receiver:
            site = self.scope.site(node, Nature.UNKNOWN, text)
            site.arguments = join((site.arguments, self.facts.reach(receiver)))
        return made

    def capture(self, held: Value) -> None:
        """Objects are known from now on to code that cannot be seen here."""
        self.facts.add(self.facts.captured, (root(atom) for atom in self.facts.reach(held)))

    def escape(self, held: Value) -> None:
        """Functions, objects and containers handed to code that cannot be seen may be called and changed there."""
        reached = self.facts.reach(held)
        for atom in reached:
            if isinstance(atom, FunctionRef):
                self.facts.add(self.facts.escaped, [atom.key])
                self._call_unseen(atom.key)
            elif isinstance(atom, (Instance, Method)):
                self._open_methods(atom)
        for atom in held:
            if isinstance(atom, Box):
                self.scope.scatter(atom.site)

    def _call_unseen(self, key: str) -> None:
        self.facts.add(self.facts.called_unseen, [key])
        function = self.scope.function_at(key)
        if function is not None:
            self.scope.demand(function)

    def _open_methods(self, atom: Instance | Method) -> None:
        receiver = atom.receiver if isinstance(atom, Method) else atom
        cls = self.scope.class_of(receiver.key) if isinstance(receiver, Instance) else None
        if cls is None:
            return
        self.scope.env.forget_objects()
        for above in (*self.scope.hierarchy.ancestors(cls), *self.scope.hierarchy.descendants(cls)):
            for method in above.methods.values():
                self._call_unseen(method.key)

    def absorb(self, held: Value, node: ast.AST, text: str) -> None:
        """Objects become submodules of what is made or changed at `node`."""
        self.facts.note_event(self.facts.absorbed, self.facts.reach(held), self.scope.event(node, text))
