"""Stores by assignments, loops, `with`, patterns and `del`."""

from __future__ import annotations

import ast
from types import MappingProxyType
from typing import TYPE_CHECKING

from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.declarations import note_declared_target
from instrumentor.analysis.environment import constant_key, join_environments, path_of
from instrumentor.analysis.spelling import starred_position, text_of
from instrumentor.analysis.touched import ELEMENTS
from instrumentor.analysis.values import (
    OPAQUE,
    PLAIN,
    Box,
    Instance,
    Made,
    Pack,
    Parameter,
    Part,
    Value,
    derive,
    join,
    strip,
    value,
)
from instrumentor.resolve import catalogue
from instrumentor.resolve.nature import Nature
from instrumentor.source.nodes import arguments_of, last_name, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from instrumentor.analysis.environment import Number
    from instrumentor.analysis.expressions import Evaluator

_OF_MODULES = catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE


class Stores:
    """Performs the stores of one scope."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.scope = evaluator.scope
        self.facts = evaluator.facts
        self.members = evaluator.members

    # ---- what is stored ----

    def _declares_module(self, statement: ast.stmt) -> bool:
        if not isinstance(statement, ast.AnnAssign):
            return False
        return self.scope.hierarchy.declaration(self.scope.unit, statement.annotation).is_module

    def _read(self, targets: Sequence[ast.expr], node: ast.expr, *, is_declared: bool) -> Value:
        """The value that an assignment stores. An object fetched from unseen code gets a site of its own."""
        held = self.evaluator.evaluate(node)
        return self._given(targets[0], node, held, is_declared=is_declared) if len(targets) == 1 else held

    def _given(self, target: ast.expr, node: ast.expr, held: Value, *, is_declared: bool = False) -> Value:
        """The value that a target gets. A fetched object gets a site of its own."""
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(node, ast.Tuple):
            pairs = dict(zip(node.elts, target.elts, strict=False))
            return self._elements_with(node, held, lambda each, item: self._given(pairs.get(each, each), each, item))
        if not isinstance(target, (ast.Name, ast.Attribute)):
            return held
        fetched = self._fetched_by(node)
        # Things that are moved are usually tensors.
        is_model = is_declared or fetched is node or last_name(target) in self.scope.unit.used_as_modules
        return self._with_site(fetched, held) if is_model else held

    def returned(self, node: ast.expr, held: Value) -> Value:
        """The value that a function of the script returns. A fetched object gets a site of its own."""
        if self.scope.unit.name not in self.facts.whole_units or self.scope.function is None:
            return held
        if isinstance(node, ast.Tuple):
            return self._elements_with(node, held, self.returned)
        return self._with_site(self._fetched_by(node), held)

    @staticmethod
    def _elements_with(node: ast.Tuple, held: Value, change: Callable[[ast.expr, Value], Value]) -> Value:
        """The value of a displayed tuple with its elements changed."""
        if any(not isinstance(atom, Pack) or len(atom.items) != len(node.elts) for atom in held):
            return held
        packs = (atom.items for atom in held if isinstance(atom, Pack))
        return frozenset(Pack(tuple(map(change, node.elts, items))) for items in packs)

    def _with_site(self, fetched: ast.expr, held: Value) -> Value:
        if not isinstance(fetched, (ast.Attribute, ast.Subscript)) or not self._is_fetched(fetched, held):
            return held
        return self._fetch(fetched, text_of(fetched), held, fetched)

    def _fetched_by(self, node: ast.expr) -> ast.expr:
        """The expression without identity methods: `x.net` for `x.net.to(1)`."""
        while (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in catalogue.IDENTITY_METHODS
        ):
            node = node.func.value
        return node

    def _fetch(self, node: ast.expr, label: str, held: Value, source: ast.expr) -> Value:
        """The value of an unknown object fetched from `source`, with a site for it."""
        site = self.scope.site(node, Nature.UNKNOWN, label)
        objects = frozenset(atom for atom in held if atom.is_object)
        self.facts.grow_site(site, arguments=join((objects, self._base(source))), is_read=True)
        return join((held, site.value))

    def _is_fetched(self, node: ast.expr, held: Value) -> bool:
        if not held or held <= PLAIN or not self.scope.kinds.is_nothing_known(held):
            return False
        base = node
        while isinstance(base, (ast.Attribute, ast.Subscript, ast.Call)):
            base = base.func if isinstance(base, ast.Call) else base.value
        # What belongs to a parameter or to `self` comes from the caller, who has it from a construction elsewhere.
        if not isinstance(base, ast.Name):
            return False
        holder = self.scope.lookup(base.id)
        return bool(holder) and not any(isinstance(strip(atom), (Parameter, Instance)) for atom in holder)

    def met(self, loop: ast.For | ast.AsyncFor, held: Value) -> Value:
        """The elements that a loop visits. An unknown model gets a site of its own."""
        elements = self.members.elements(held)
        target = loop.target
        if isinstance(loop, ast.AsyncFor) or not isinstance(target, ast.Name) or not _may_be_model(target.id, loop):
            return elements
        if any(isinstance(atom, Instance) for atom in held) or not self._is_fetched(loop.iter, elements):
            return elements
        return self._fetch(target, f"{text_of(loop.iter)}[*]", elements, loop.iter)

    def _base(self, node: ast.expr) -> Value:
        base = node
        while isinstance(base, (ast.Attribute, ast.Subscript)):
            base = base.value
        return frozenset(atom for atom in self.evaluator.evaluate(base) if isinstance(atom, (Made, Part)))

    # ---- where it is stored ----

    def assign(self, targets: Sequence[ast.expr], node: ast.expr, statement: ast.stmt) -> None:
        """Store the value of `node` in each target."""
        held = self._read(targets, node, is_declared=self._declares_module(statement))
        # Everything is read before anything is stored: `a, b = b, a`.
        numbers: dict[int, Number] = {}
        for target in targets:
            self._collect_numbers(target, node, numbers)
        for target in targets:
            self.store(target, held, statement, node, numbers)
            if isinstance(target, ast.Name):
                for attribute, (initial, number) in self.evaluator.numbering.initial_of(node).items():
                    self.scope.env.begin((target.id, attribute), initial, number)

    def _collect_numbers(self, target: ast.expr, node: ast.expr, numbers: dict[int, Number]) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for element, part in zip(target.elts, _aligned_parts(target, node), strict=False):
                self._collect_numbers(element, part, numbers)
        else:
            numbers[id(target)] = self.evaluator.numbering.of(node)

    def store(
        self,
        target: ast.expr,
        held: Value,
        statement: ast.stmt,
        source: ast.expr | None = None,
        numbers: Mapping[int, Number] = MappingProxyType({}),
    ) -> None:
        """Store a value in a target; the statement shows it as `source`."""
        if isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, held, statement, source, numbers)
            return
        if isinstance(target, ast.Starred):
            self.store(target.value, self.scope.box(target, held), statement)
            return
        number = numbers.get(id(target), ("stored", self.scope.locate(target)))
        receiver, is_kept = self.evaluator.store(target, held, number)
        note_declared_target(self.scope, target, statement, held, receiver)
        given, number = (held, number) if is_kept else (held | OPAQUE, None)
        self.scope.bind(statement, target, text_of(target), given, receiver=receiver, source=source, number=number)

    def store_element(self, target: ast.expr, held: Value, statement: ast.stmt) -> None:
        """Store an element of the iterable in the target of a loop."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for element, item in self.members.shared_out(held, target.elts):
                self.store_element(element, item, statement)
        elif isinstance(target, ast.Starred):
            self.evaluator.store(target.value, self.scope.box(target, held))
        else:
            number = ("stored", self.scope.locate(target))
            receiver, is_kept = self.evaluator.store(target, held, number)
            if is_kept and any(atom.is_object and not isinstance(strip(atom), Part) for atom in held):
                self.scope.bind(statement, target, text_of(target), held, receiver=receiver, number=number)

    def _unpack(
        self,
        target: ast.Tuple | ast.List,
        held: Value,
        statement: ast.stmt,
        source: ast.expr | None,
        numbers: Mapping[int, Number],
    ) -> None:
        parts = _aligned_parts(target, source)
        for position, (element, item) in enumerate(self.members.shared_out(held, target.elts)):
            self.store(element, item, statement, parts[position] if position < len(parts) else source, numbers)

    # ---- other stores ----

    def augment(self, node: ast.AugAssign) -> None:
        """Perform `+=` and the like. Lists grow in place; other objects are computed anew."""
        added = self.evaluator.evaluate(node.value)
        before = self.scope.kinds.things(self.evaluator.evaluate(node.target))
        self.evaluator.calls.effects.absorb_stored(before, added, node, text_of(node.target))
        result: list[Value] = []
        for atom in before:
            if isinstance(atom, Box):
                self.facts.touched.note(self.scope.key, {ELEMENTS})
                self.scope.put(atom.site, ANY_KEY, self.members.elements(added))
                self.scope.env.forget_elements()
                result.append(value(atom))
            elif isinstance(atom, Pack):
                result.append(self.scope.box(node, *atom.items, self.members.elements(added)))
            elif self.scope.kinds.is_module(strip(atom)):
                result.append(value(atom))
            elif isinstance(atom, Instance):
                result.append(join((value(atom), OPAQUE)))
            else:
                result.append(derive(join((value(atom), added))))
        self.evaluator.store(node.target, join(result))

    def delete(self, target: ast.expr) -> None:
        """Forget a deleted target. The remaining elements of a list move."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self.delete(element)
            return
        if isinstance(target, ast.Subscript):
            for atom in self.scope.kinds.things(self.evaluator.evaluate(target.value)):
                if isinstance(atom, Box):
                    self.scope.scatter(atom.site)
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            self.evaluator.calls.object_stores.note_touched(target)
        path = path_of(target)
        if path is not None:
            self.scope.env.forget(path)

    # ---- patterns ----

    def match(self, pattern: ast.pattern, held: Value) -> None:
        """Bind the names of a `case` pattern to the parts of the subject that they match."""
        if isinstance(pattern, (ast.MatchAs, ast.MatchStar)):
            self._match_name(pattern, held)
        elif isinstance(pattern, ast.MatchSequence):
            self._match_sequence(pattern, held)
        elif isinstance(pattern, ast.MatchMapping):
            self._match_mapping(pattern, held)
        elif isinstance(pattern, ast.MatchClass):
            for each in pattern.patterns:
                self.match(each, OPAQUE)
            for name, each in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
                self.match(each, join([self.members.attribute(atom, name) for atom in self.scope.kinds.things(held)]))
        elif isinstance(pattern, ast.MatchOr):
            before, ways = self.scope.env, []
            for each in pattern.patterns:
                self.scope.env = before.copy()
                self.match(each, held)
                ways.append(self.scope.env)
            self.scope.env = join_environments(ways) or before

    def _match_name(self, pattern: ast.MatchAs | ast.MatchStar, held: Value) -> None:
        if isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
            self.match(pattern.pattern, held)
        if pattern.name is not None:
            self.scope.assign(
                (pattern.name,), held if isinstance(pattern, ast.MatchAs) else self.scope.box(pattern, held)
            )

    def _match_sequence(self, pattern: ast.MatchSequence, held: Value) -> None:
        stars = [i for i, each in enumerate(pattern.patterns) if isinstance(each, ast.MatchStar)]
        for position, each in enumerate(pattern.patterns):
            if stars and position >= stars[0]:
                self.match(each, self.members.elements(held))
            else:
                self.match(each, self.members.unpacked(held, position, None if stars else len(pattern.patterns)))

    def _match_mapping(self, pattern: ast.MatchMapping, held: Value) -> None:
        for key, each in zip(pattern.keys, pattern.patterns, strict=True):
            known = self.scope.kinds.things(held) - PLAIN
            found = [
                self.facts.contents.elements(atom.site, constant_key(key)) if isinstance(atom, Box) else OPAQUE
                for atom in known
            ]
            self.match(each, join(found))
        if pattern.rest is not None:
            self.scope.assign((pattern.rest,), self.scope.box(pattern, self.members.elements(held)))


def _aligned_parts(target: ast.Tuple | ast.List, source: ast.expr | None) -> list[ast.expr]:
    """The elements of a display that the target's elements get, one each, up to the first star in either.

    Empty if the source is no display, or has another length.
    """
    parts = source.elts if isinstance(source, (ast.Tuple, ast.List)) else []
    starred = [starred_position(target.elts), starred_position(parts)]
    if starred == [None, None]:
        return parts if len(parts) == len(target.elts) else []
    return parts[: min(each for each in starred if each is not None)]


def _may_be_model(name: str, loop: ast.For) -> bool:
    """Whether a loop calls methods typical of models on a name, or passes the name on."""
    calls = [node for statement in loop.body for node in walk(statement) if isinstance(node, ast.Call)]
    methods = [call.func for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_MODULES]
    given = [each for call in calls for each in arguments_of(call)]
    used = [*given, *(method.value for method in methods)]
    return any(isinstance(each, ast.Name) and each.id == name for each in used)
