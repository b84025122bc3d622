"""What the methods of lists, dicts and other containers give, and do to what lies in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import written_arguments
from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.environment import constant_key
from instrumentor.analysis.spelling import receiver_text
from instrumentor.analysis.touched import ELEMENTS
from instrumentor.analysis.values import NOTHING, PLAIN, Box, Pack, Value, join, strip, value

if TYPE_CHECKING:
    import ast

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.effects import Effects
    from instrumentor.analysis.members import Members
    from instrumentor.analysis.scope import Scope

_FINDING_METHODS = frozenset({"get", "pop", "setdefault", "popitem", "popleft", "__getitem__"})
_STORING_METHODS = frozenset({"append", "add", "insert", "appendleft", "__setitem__"})
_EXTENDING_METHODS = frozenset({"extend", "extendleft", "update"})
# After these an element may lie under another key.
_SCATTERING_METHODS = frozenset(
    {"insert", "pop", "popleft", "popitem", "appendleft", "extendleft", "remove", "reverse", "sort", "rotate", "clear"}
)


class ContainerMethods:
    """Calls the methods of containers, for one scope."""

    def __init__(self, scope: Scope, members: Members, effects: Effects) -> None:
        self.scope = scope
        self.facts = scope.facts
        self.members = members
        self.effects = effects

    def call(self, atom: Box | Pack, name: str, node: ast.expr, arguments: Arguments) -> Value:
        if isinstance(atom, Pack):
            return PLAIN  # `count` and `index`
        if name in _SCATTERING_METHODS:
            self.scope.scatter(atom.site)
        if name == "sort":
            self.effects.escape_callables(arguments.each())
        if name in _STORING_METHODS | _EXTENDING_METHODS | {"setdefault"}:
            self.facts.touched.note(self.scope.key, {ELEMENTS})
            self.scope.env.forget_elements()
        if name in _STORING_METHODS:
            held = arguments.positional[-1] if arguments.positional else arguments.rest
            self.scope.put(atom.site, ANY_KEY, held)
            self._note_conditions(atom, node, held)
            self._bind_stored(node, held)
        elif name in _EXTENDING_METHODS:
            added = [self.members.elements(arguments.all()), *arguments.keywords.values()]
            self.scope.put(atom.site, ANY_KEY, join(added))
        elif name in _FINDING_METHODS:
            return self._found_in(atom, name, node, arguments)
        elif name == "copy":
            return self.scope.box(node, self.facts.contents.elements(atom.site))
        elif name == "values":
            return value(atom)
        elif name == "items":
            return self.scope.box(node, self.scope.pack(node, [PLAIN, self.facts.contents.elements(atom.site)]))
        return PLAIN

    def _found_in(self, atom: Box, name: str, node: ast.expr, arguments: Arguments) -> Value:
        key = next((constant_key(index) for index in written_arguments(node)[:1]), None)
        found = self.facts.contents.elements(atom.site, key)
        if name == "popitem":
            return self.scope.pack(node, [PLAIN, found])
        default = arguments.positional[1] if len(arguments.positional) > 1 else NOTHING
        if name == "setdefault":
            self.scope.put(atom.site, key or ANY_KEY, default)
        elif name == "get" and not default:
            default = PLAIN
        return join((found, default))

    def _note_conditions(self, box: Box, node: ast.expr, held: Value) -> None:
        event = self.scope.event(node)
        for atom in held:
            self.facts.contents.note_conditions(box.site, strip(atom), event.conditions)

    def _bind_stored(self, node: ast.expr, held: Value) -> None:
        written = written_arguments(node)
        if written and any(atom.is_object for atom in held):
            text = f"{receiver_text(node)}[-1]"
            self.scope.bind(self.scope.statement(node), written[-1], text, held, source=written[-1])
