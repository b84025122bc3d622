"""What a call selects by its arguments: `build(nets, "Net")` where `build` is `getattr(module, name)()`."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.analysis.arguments import written_prefix
from instrumentor.analysis.values import (
    ClassRef,
    FunctionRef,
    Instance,
    Named,
    Partial,
    Plain,
    Value,
    in_order,
    join,
    value,
)
from instrumentor.resolve.nature import Nature
from instrumentor.source.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from instrumentor.analysis.entries import Site
    from instrumentor.analysis.members import Members
    from instrumentor.analysis.values import Atom
    from instrumentor.resolve.unit import Function


class Selection(NamedTuple):
    """The result of calling, in a function, a callee that one caller's arguments determine.

    Attributes:
        nature: the nature of the result.
        class_keys: the project's module classes that are instantiated.
        labels: the classes and functions that are called.
        others: the instances of classes that are no module classes.
    """

    nature: Nature
    class_keys: tuple[str, ...]
    labels: tuple[str, ...]
    others: Value


class Selector:
    """Finds what calls select by their arguments, for one scope."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._kinds = members.scope.kinds
        self._facts = members.facts
        self._hierarchy = members.scope.hierarchy

    def selection(self, function: Function, origin: Site, given: Mapping[str, Value]) -> Selection | None:
        """What a function makes at `origin` with the arguments `given`.

        None if the arguments do not determine the callee, or if not all of it is seen.
        """
        if not isinstance(origin.node, ast.Call) or origin.key.path:
            return None
        held = self._held(function, origin.node.func, given)
        if not held:
            return None
        natures, keys, labels, others = [], [], [], []
        for atom in in_order(held):
            if isinstance(atom, Plain):
                continue
            called = atom.callee if isinstance(atom, Partial) else atom
            nature = self._nature(called)
            if nature is None:
                return None
            natures.append(nature)
            if isinstance(called, ClassRef):
                labels.append(called.key.rpartition(":")[2])
                if nature is Nature.NOT_MODULE:
                    others.append(Instance(called.key))
                else:
                    keys.append(called.key)
            elif isinstance(called, Named):
                labels.append(called.name)
        return Selection(max(natures), tuple(keys), tuple(labels), value(*others)) if natures else None

    def _nature(self, called: Atom) -> Nature | None:
        """The nature of what calling something makes; None unless the result is a single new object."""
        if isinstance(called, ClassRef):
            cls = self._kinds.class_of(called.key)
            return None if cls is None else self._hierarchy.nature(cls)
        if isinstance(called, Named):
            knowledge = self._hierarchy.knowledge
            return None if knowledge.effect_of(called.name) is not None else knowledge.nature_of_call(called.name)
        if isinstance(called, FunctionRef):
            returned = self._facts.contents.reach(self._facts.returns.get(called.key) or frozenset())
            return None if any(atom.is_object for atom in returned) else Nature.NOT_MODULE
        return None

    def _held(self, function: Function, node: ast.expr, given: Mapping[str, Value], depth: int = 3) -> Value | None:
        """The value of an expression in a function for one caller; None if the arguments do not determine it."""
        if not depth:
            return None
        if isinstance(node, ast.Name):
            stores = _stores_to(function, node.id)
            if not stores:
                return given.get(node.id)
            is_sole = len(stores) == 1 and node.id not in function.parameters
            source = _source_of(function, stores[0]) if is_sole else None
            return None if source is None else self._held(function, source, given, depth - 1)
        if isinstance(node, ast.Attribute) and node.attr == "__new__":
            return self._held(function, node.value, given, depth)  # makes what calling the class makes
        if isinstance(node, ast.Attribute):
            return self._of_each(function, node.value, given, depth, partial(self._members.attribute, name=node.attr))
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            return self._of_each(function, node.value, given, depth, partial(self._members.element, node))
        if isinstance(node, ast.Call) and self._is_getattr(function, node):
            written = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
            name = written if isinstance(written, str) else None
            read = partial(self._members.under_name, name=name, prefix=written_prefix(node.args))
            return self._of_each(function, node.args[0], given, depth, read)
        return None

    def _is_getattr(self, function: Function, node: ast.Call) -> bool:
        """Whether a call is `getattr` without a default."""
        is_of_two = len(node.args) == len(("object", "name")) and not node.keywords
        return is_of_two and self._hierarchy.resolve(function.unit, node.func) == "builtins.getattr"

    def _of_each(
        self,
        function: Function,
        whole: ast.expr,
        given: Mapping[str, Value],
        depth: int,
        read: Callable[[Atom], Value],
    ) -> Value | None:
        """What `read` returns for the atoms of an expression's value for one caller."""
        held = self._held(function, whole, given, depth)
        if held is None:
            return None
        return join([read(atom) for atom in in_order(self._kinds.things(held))])


def _stores_to(function: Function, name: str) -> list[ast.Name]:
    """The stores to a name in a function, including nested functions."""
    return [
        node
        for node in walk(function.node)
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
    ]


def _source_of(function: Function, target: ast.Name) -> ast.expr | None:
    """The expression that a name is assigned; None if it is bound in another way."""
    statement = function.unit.parents.get(target)
    return statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
