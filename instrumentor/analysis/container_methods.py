"""What methods of lists, dicts and other containers return, and how they change the contents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import written_arguments
from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.environment import constant_key
from instrumentor.analysis.spelling import receiver_text
from instrumentor.analysis.touched import ELEMENTS
from instrumentor.analysis.values import FOREIGN, NOTHING, PLAIN, Box, Pack, Value, join, strip, value

if TYPE_CHECKING:
    import ast

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.effects import Effects
    from instrumentor.analysis.members import Members
    from instrumentor.analysis.scope import Scope

# Methods that return one element. Generators count as containers of what they yield, so resuming one belongs here.
_FINDING_METHODS = frozenset(
    {"get", "pop", "setdefault", "popitem", "popleft", "__getitem__", "__next__", "send", "throw", "__missing__"}
)
_STORING_METHODS = frozenset({"append", "add", "insert", "appendleft", "__setitem__"})
_EXTENDING_METHODS = frozenset({"extend", "extendleft", "update", "__init__", "__iadd__", "__ior__"})
# Methods that return a new container of the same elements and the arguments' elements.
_COPYING_METHODS = frozenset(
    {"copy", "union", "intersection", "difference", "symmetric_difference", "__add__", "__or__"}
)
# After one of these, an element may be under another key.
_SCATTERING_METHODS = frozenset(
    {
        "insert", "pop", "popleft", "popitem", "appendleft", "extendleft", "remove", "reverse", "sort", "rotate",
        "clear", "__delitem__", "__init__",
    }
)  # fmt: skip
# Methods that change nothing, or remove elements without moving the others.
_READING_METHODS = frozenset(
    {
        "count", "index", "keys", "values", "items", "discard", "close", "move_to_end", "most_common", "issubset",
        "issuperset", "isdisjoint", "intersection_update", "difference_update", "__len__", "__contains__", "__iter__",
        "__eq__", "__ne__", "__repr__", "__str__", "__reversed__",
    }
)  # fmt: skip
_KNOWN_METHODS = (
    _FINDING_METHODS | _STORING_METHODS | _EXTENDING_METHODS | _COPYING_METHODS | _SCATTERING_METHODS | _READING_METHODS
)


class ContainerMethods:
    """Evaluates the calls of container methods in one scope."""

    def __init__(self, scope: Scope, members: Members, effects: Effects) -> None:
        self.scope = scope
        self.facts = scope.facts
        self.members = members
        self.effects = effects

    def call(self, atom: Box | Pack, name: str, node: ast.expr, arguments: Arguments) -> Value:
        """What a method of a container returns. Its changes to the contents are recorded."""
        if isinstance(atom, Pack):
            return join(atom.items) if name == "__getitem__" else PLAIN
        if name not in _KNOWN_METHODS:
            self.effects.open_container(atom)
            return FOREIGN
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
            self._bind_stored(node, held, arguments)
        elif name in _EXTENDING_METHODS:
            added = self.members.elements(arguments.all())
            # A dict takes pairs apart; whether the container is a dict is not known here.
            is_paired = any(isinstance(each, Pack) and len(each.items) == len(("key", "value")) for each in added)
            self.scope.put(
                atom.site, ANY_KEY, join([added, *arguments.keywords.values(), FOREIGN if is_paired else added])
            )
            return value(atom) if name.startswith("__") else PLAIN
        elif name in _FINDING_METHODS:
            return self._found_in(atom, name, node, arguments)
        elif name in _COPYING_METHODS:
            held = self.facts.contents.elements(atom.site)
            return self.scope.box(node, held, *map(self.members.elements, arguments.each()))
        elif name in {"values", "__iter__", "__reversed__"}:
            return self.scope.box(node, self.facts.contents.elements(atom.site))
        elif name == "items":
            return self.scope.box(node, self.scope.pack(node, [PLAIN, self.facts.contents.elements(atom.site)]))
        return PLAIN

    def _found_in(self, atom: Box, name: str, node: ast.expr, arguments: Arguments) -> Value:
        written = written_arguments(node)
        # If a partial application has bound arguments, the first one in the text is not the key.
        is_all = written and len(written) == len(arguments.positional)
        key = constant_key(written[0]) if is_all else None
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
        conditions = self.facts.conditions_of(self.scope.unit, node)
        for atom in held:
            self.facts.contents.note_conditions(box.site, strip(atom), conditions)

    def _bind_stored(self, node: ast.expr, held: Value, arguments: Arguments) -> None:
        """Record the binding of a stored element, if the text names the container and all arguments."""
        written = written_arguments(node)
        text = receiver_text(node)
        if text and len(written) == len(arguments.positional) > 0 and any(atom.is_object for atom in held):
            self.scope.bind(self.scope.statement(node), written[-1], f"{text}[-1]", held, source=written[-1])
