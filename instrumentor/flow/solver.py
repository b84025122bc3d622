"""What each value of a program may be and call, by inclusion over the edges between values.

Every function is a summary of itself: what its parameters may be called with, and what its result may be. All of them
are found at once: what a value may be only grows, and passes on along the edges until nothing changes (Andersen,
"Program Analysis and Specialization for the C Programming Language", 1994), whatever the order. Two things keep that
small. Modules and unknown objects are told apart only by a few bits, and not passed into functions, since whoever makes
one is to wrap it. And attributes are told apart by name alone.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from instrumentor.code.method_names import CONTAINER_METHODS
from instrumentor.flow.kinds import PASSED_BITS, Edge, Kind, May, Thing
from instrumentor.flow.libraries import Gives, Libraries
from instrumentor.link.hierarchy import ClassAt, Hierarchy
from instrumentor.link.program import may_be_library
from instrumentor.resolve import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.code.facts import Call, FileFacts, ScopeFacts
    from instrumentor.flow.libraries import Behaviour
    from instrumentor.link.program import Program
    from instrumentor.resolve.knowledge import Knowledge

# Different things that a value may call; where there are more it may call anything.
_MAX_CALLABLES = 24
# Different instances that a value may be; where there are more it is one of those of which nothing is known.
_MAX_INSTANCES = 4
# How often something may be read of a library's thing, which by `node = node.parent` would go on forever.
_MAX_READ = 2
_OWN_NAMESPACES = frozenset({"builtins.globals", "builtins.locals", "builtins.vars", "builtins.__import__"})
_BY_CLASS = frozenset({"__init_subclass__", "__new__", "__class_getitem__", "__prepare__"})
_PROPERTIES = frozenset({"property", "cached_property", "lazyproperty", "lazy_property"})
# Ways by which something gets other names than its own.
_FAR = frozenset({Edge.BOX, Edge.UNBOX, Edge.PASS, Edge.RETURN, Edge.STORE})
_MAKERS = May.MAKER | May.MAKER_PASSED
_PASSED_UNKNOWN = May.PASSED | May.UNKNOWN
_MODULES = May.MADE | May.HOLDING


class Solver:
    """Finds what the values of a program may be.

    Attributes:
        program: the files.
        first_value: the number of each file's first value among all.
        may: what each value may be, as bits of `May`.
        callables: what values may call or be looked into, as numbers of `things`.
        things: those.
        edges: where each value goes, and how.
        hierarchy: the classes.
        maker_objects: calls that make objects of the classes that they are passed, as file and call.
        uses: values that a library takes for modules.
    """

    def __init__(self, program: Program, knowledge: Knowledge) -> None:
        self.program = program
        self._knowledge = knowledge
        self.libraries = Libraries(knowledge)
        self.first_value: list[int] = []
        self._first_scope: list[int] = []
        self._first_class: list[int] = []
        self.scopes: list[ScopeFacts] = []
        self.file_of_scope: list[int] = []
        self.classes: list[ClassAt] = []
        count = 0
        for file, facts in enumerate(program.facts):
            self.first_value.append(count)
            self._first_scope.append(len(self.scopes))
            self._first_class.append(len(self.classes))
            if facts is not None:
                count += len(facts.scope_of)
                self.scopes += facts.scopes
                self.file_of_scope += [file] * len(facts.scopes)
                self.classes += [ClassAt(file, each) for each in facts.classes]
        self.may = bytearray(count)
        self.edges: list[list[tuple[int, int]] | None] = [None] * count
        self.callables: dict[int, set[int]] = {}
        # Whether anyone asks what a value may call, and where that comes from.
        self._is_wanted = bytearray(count)
        self._sources: list[list[tuple[int, int]] | None] = [None] * count
        self._loaded: dict[int, list[int]] = {}
        self.things: list[Thing] = []
        self._number_of_thing: dict[Thing, int] = {}
        self._major: set[tuple[int, int]] = set()
        # Where things are that are not followed further.
        self._held_back: dict[int, list[tuple[int, int]]] = {}
        # What becomes of things that are not followed, where they are passed on.
        self._minor: dict[int, int] = {}
        self._loads: dict[int, list[tuple[int, str, int]]] = {}
        self._calls: dict[int, list[tuple[int, Call]]] = {}
        # What a value that is called is read from, by what name.
        self._read_from: dict[int, tuple[int, str]] = {}
        self._newly_wanted: list[int] = []
        self._wanted_first: list[int] = []
        self._new_bits: list[int] = []
        self._new_callables: list[tuple[int, int]] = []
        self._fields: dict[str, int] = {}
        self._field_stores: dict[int, list[tuple[int, int]]] = {}
        self._field_loads: dict[int, list[tuple[int, int]]] = {}
        self._own_fields: dict[tuple[int, str], int] = {}
        self._filled: set[int] = set()
        # The methods of each name, and the calls by that name of what is not known.
        self._methods: dict[str, list[int]] = {}
        self._scope_of_result: dict[int, int] = {}
        self._telling: dict[str, dict[int, None]] = {}
        self._calls_by_name: dict[str, dict[tuple[int, int], None]] = {}
        self._argument_hubs: dict[tuple[str, int | str], int] = {}
        self._seen_calls: set[tuple[int, int, int]] = set()
        self._method_cache: dict[tuple[int, str], list[tuple[int, int]]] = {}
        self.maker_objects: list[tuple[int, Call]] = []
        self.uses: list[int] = []
        self._noted: set[int] = set()
        self._fields_read_late: set[tuple[str, int]] = set()
        # Calls of functions that may turn out to return what they are passed.
        self._waiting: dict[int, list[tuple[int, Call, int]]] = {}
        self._keyed_reads: list[tuple[str, int, int]] = []
        self._unseen_calls: dict[int, list[int]] = {}
        self._handed_on: set[tuple[int, int]] = set()
        self._applies = False
        self.hierarchy = Hierarchy([], [], knowledge)

    def solve(self) -> None:
        """Find everything."""
        for file, facts in enumerate(self.program.facts):
            if facts is not None:
                self._take(file, facts)
        for file, facts in enumerate(self.program.facts):
            if facts is not None:
                self._take_fields(file, facts)
                self._take_names(file, facts)
                first = self.first_value[file]
                self._wanted_first += [first + base for cls in facts.classes for base in cls.bases if base]
                self._wanted_first += [first + each for _, classes in facts.declared for each in classes]
                self._wanted_first += [first + each for scope in facts.scopes for each in scope.decorated_by if each]
        for value in self._wanted_first:
            self.want(value)
        self._run()
        self.hierarchy = Hierarchy(
            self.classes, [self._bases(number) for number in range(len(self.classes))], self._knowledge
        )
        self._applies = True
        for number in range(len(self.classes)):
            if self.hierarchy.is_module(number):
                self._make_major(Kind.CLASS, number)
        self._note_callers()
        self._take_loads()
        for name, value, file in self._keyed_reads:
            self._read_field(name, value, file)
        self._pass_own_objects()
        self._take_declarations()
        for value in (*self._loads, *self._scope_of_result):
            self._note_bits(value, self.may[value])
        for value, held in list(self.callables.items()):
            if value in self._calls or value in self._loads or value in self._scope_of_result:
                self._new_callables += [(value, each) for each in held]
        self._run()

    # ---- the graph ----

    def _take(self, file: int, facts: FileFacts) -> None:
        first = self.first_value[file]
        edges = self.edges
        for pairs, kind in (
            (facts.copies, Edge.COPY),
            (facts.shared, Edge.SHARE),
            (facts.boxed, Edge.BOX),
            (facts.unboxed, Edge.UNBOX),
            (facts.computed, Edge.KEEP),
        ):
            for target, source in pairs:
                known = edges[first + source]
                if known is None:
                    edges[first + source] = [(first + target, kind)]
                else:
                    known.append((first + target, kind))
                if kind != Edge.KEEP:
                    self._note_source(first + source, first + target, kind)
        self._filled.update(first + container for container, _ in facts.boxed)
        imported = {value for value, _ in facts.imports}
        filled = {name for name in facts.filled if name in facts.top}
        own = {facts.top[name] for name in filled}
        for target, source in facts.copies:
            if target in own and source in imported:
                self._filled.add(first + source)
                self.edge(first + target, first + source, Edge.COPY)
        for out, base, names in facts.loads:
            self._loads.setdefault(first + base, []).append((first + out, names, file))
            self._loaded.setdefault(first + out, []).append(first + base)
            self._read_from[first + out] = (first + base, names)
            self.edge(first + base, first + out, Edge.KEEP)
        for call in facts.calls:
            self._calls.setdefault(first + call.callee, []).append((file, call))
            self.edge(first + call.callee, first + call.out, Edge.CALL)
            self._wanted_first.append(first + call.callee)
        self._take_scopes(file, facts)

    def _take_scopes(self, file: int, facts: FileFacts) -> None:
        first, first_scope = self.first_value[file], self._first_scope[file]
        for number, scope in enumerate(facts.scopes):
            if scope.kind in ("file", "class"):
                continue
            if scope.owner >= 0 and scope.kind == "function":
                self._methods.setdefault(scope.name, []).append(first_scope + number)
            if scope.result:
                self._scope_of_result[first + scope.result] = first_scope + number
            for _, value in (*self._passed(scope), *scope.named):
                self._add_bits(first + value, May.PASSED)
            for value in scope.rest:
                if value:
                    self._add_bits(first + value, May.PASSED)

    @staticmethod
    def _passed(scope: ScopeFacts) -> list[tuple[str, int]]:
        """The parameters that callers pass something for, but for the object at hand."""
        has_own = scope.owner >= 0 and scope.kind == "function" and "staticmethod" not in scope.decorators
        return scope.parameters[1:] if has_own else scope.parameters

    def _take_fields(self, file: int, facts: FileFacts) -> None:
        first = self.first_value[file]
        stored: set[str] = set()
        kept = [(name, value) for _, name, value in (*facts.stores, *facts.kept)]
        for name, value in kept:
            stored.add(name)
            self.edge(first + value, self._field(name), Edge.STORE)
            self.edge(first + value, self._own_field(file, name), Edge.KEEP)
            self.edge(first + value, self._own_field(file, name), Edge.STORE)
            self._field_stores.setdefault(self._field(name), []).append((file, first + value))
        for name, value in facts.keyed_reads:
            self._keyed_reads.append((f"**{name}", first + value, file))
        for name, value in facts.keyed:
            self.edge(first + value, self._field(f"**{name}"), Edge.STORE)
            self._field_stores.setdefault(self._field(f"**{name}"), []).append((file, first + value))

    def _take_names(self, file: int, facts: FileFacts) -> None:
        first = self.first_value[file]
        for value, number in facts.functions:
            self.add(first + value, Thing(Kind.FUNCTION, file, self._first_scope[file] + number))
        for number, cls in enumerate(facts.classes):
            self.add(first + cls.value, Thing(Kind.CLASS, file, self._first_class[file] + number))
        for value, dotted in facts.imports:
            self._import(file, first + value, dotted)
        for name, value in facts.unbound:
            self._take_unbound(file, facts, name, first + value)

    def _import(self, file: int, value: int, dotted: str) -> None:
        found = self.program.targets(file, dotted)
        for target, rest in found:
            self._look_up(target, rest, value, file)
        if not found or may_be_library(dotted):
            if dotted.startswith("."):
                self._add_bits(value, May.PASSED)
            else:
                self.add(value, Thing(Kind.LIBRARY, -1, name=dotted))

    def _take_unbound(self, file: int, facts: FileFacts, name: str, value: int) -> None:
        for star in facts.stars:
            found = self.program.targets(file, star)
            for target, rest in found:
                self._look_up(target, (*rest, name), value, file, is_guess=True)
            if not found and not star.startswith("."):
                dotted = self._knowledge.star_member(star, name)
                if dotted is not None:
                    self.add(value, Thing(Kind.LIBRARY, -1, name=dotted))
                elif not hasattr(builtins, name):
                    self.add(value, Thing(Kind.LIBRARY, -1, name=f"{star}.{name}"))
        if hasattr(builtins, name):
            self.add(value, Thing(Kind.LIBRARY, -1, name=f"builtins.{name}"))
        elif not facts.stars:
            self._add_bits(value, May.PASSED)

    def _look_up(
        self, file: int, names: tuple[str, ...], out: int, asking: int, *, is_guess: bool = False, depth: int = 12
    ) -> None:
        """Lead what a dotted name in a file stands for to a value."""
        if not names:
            self.add(out, Thing(Kind.FILE, file))
            return
        facts = self.program.facts[file]
        assert facts is not None
        name, *rest = names
        if name == "*":
            for each in facts.top:
                self._look_up(file, (each,), out, asking)
            return
        if name in facts.top:
            value = self.first_value[file] + facts.top[name]
            if rest:
                self._loads.setdefault(value, []).append((out, ".".join(rest), asking))
                self._loaded.setdefault(out, []).append(value)
                if self._is_wanted[out]:
                    self.want(value)
                for callee in self.callables.get(value, ()):
                    self._new_callables.append((value, callee))
            else:
                self.edge(value, out, Edge.IMPORT)
                if out in self._filled:  # another file's container, into which this one puts something
                    self.edge(out, value, Edge.STORE)
                self._add_bits(out, May.PASSED)
            return
        for target, inner in self.program.targets(file, f".{name}") if self._is_package(file) else ():
            if not inner:
                self._look_up(target, tuple(rest), out, asking)
                return
        self._look_up_by_star(file, names, out, asking, depth)
        if not is_guess:
            self._add_bits(out, May.PASSED)

    def _look_up_by_star(self, file: int, names: tuple[str, ...], out: int, asking: int, depth: int) -> None:
        """The same for a name that a file may import by a star."""
        facts = self.program.facts[file]
        assert facts is not None
        name, *rest = names
        for star in facts.stars if depth else ():
            for target, inner in self.program.targets(file, star):
                self._look_up(target, (*inner, *names), out, asking, is_guess=True, depth=depth - 1)
            if not star.startswith(".") and not self.program.targets(file, star):
                dotted = self._knowledge.star_member(star, name)
                if dotted is not None:
                    self.add(out, Thing(Kind.LIBRARY, -1, name=".".join((dotted, *rest))))

    def _is_package(self, file: int) -> bool:
        return self.program.paths[file].endswith("__init__.py")

    def _bases(self, number: int) -> list[int | str | None]:
        file, facts = self.classes[number]
        found: list[int | str | None] = []
        for base in facts.bases:
            things = list(self.things_of(self.first_value[file] + base))
            known = [each for each in things if each.kind in (Kind.CLASS, Kind.LIBRARY)]
            found += [each.number if each.kind == Kind.CLASS else each.name for each in known] or [None]
        return [each for each in found if each != number]

    def _pass_own_objects(self) -> None:
        """Give the methods of classes their objects."""
        for number, scope in enumerate(self.scopes):
            if scope.owner < 0 or scope.kind != "function" or not scope.parameters:
                continue
            if "staticmethod" in scope.decorators and scope.name != "__new__":
                continue
            file = self.file_of_scope[number]
            owner = self._first_class[file] + scope.owner
            value = self.first_value[file] + scope.parameters[0][1]
            if "classmethod" in scope.decorators or scope.name in _BY_CLASS:
                for each in (owner, *self.hierarchy.descendants(owner)):
                    self.add(value, Thing(Kind.CLASS, self.classes[each].file, each))
            else:
                self.add(value, Thing(Kind.INSTANCE, file, owner))

    def _related_files(self) -> dict[int, set[int]]:
        """For each file the others with classes above or below its own."""
        related: dict[int, set[int]] = {}
        for number, (file, _) in enumerate(self.classes):
            for each in self.hierarchy.ancestors(number)[1:]:
                other = self.classes[each].file
                if other != file:
                    related.setdefault(file, set()).add(other)
                    related.setdefault(other, set()).add(file)
        return related

    def _take_loads(self) -> None:
        """Lead what is stored in attributes to where these are read.

        Code of module classes reads what its own file stores, or one with a class above or below its own. Code outside
        of them reads what any file stores that it leads to.
        """
        related = self._related_files()
        for file, facts in enumerate(self.program.facts):
            if facts is None:
                continue
            first = self.first_value[file]
            inner = [self.is_inner(file, each) for each in range(len(facts.scopes))]
            for number, scope in enumerate(facts.scopes):
                if scope.result and not inner[number]:
                    self.want(first + scope.result)
            for out, _, names in facts.loads:
                name = names.rpartition(".")[2]
                if name not in self._fields:
                    continue
                if not inner[facts.scope_of[out]]:
                    field = self._fields[name]
                    self._field_loads.setdefault(field, []).append((first + out, file))
                    if self._is_wanted[first + out]:
                        self.want(field)
                self._read_own_fields(file, name, first + out, (file, *related.get(file, ())))
        for field in self._field_loads:
            self._new_callables += [(field, mark) for mark in self.callables.get(field, ())]
        if self.may[field] & _MAKERS:
            self._add_bits(out, May.MAKER_PASSED)

    def _read_own_fields(self, file: int, name: str, out: int, files: Iterable[int]) -> None:
        """Let a value be what some files store in an attribute."""
        for each in files:
            own = self._own_fields.get((each, name))
            if own is not None:
                if each == file:
                    self.edge(own, out, Edge.KEEP)
                self.edge(own, out, Edge.STORE)

    def _note_callers(self) -> None:
        """Follow functions everywhere that call what they are passed, or use it as modules are."""
        for file, facts in enumerate(self.program.facts):
            if facts is None:
                continue
            looked_at = {call.callee for call in facts.calls} | set(facts.used)
            for number, scope in enumerate(facts.scopes):
                values = {value for _, value in (*self._passed(scope), *scope.named)}
                if not looked_at.isdisjoint(values):
                    self._make_major_with_owner(self._first_scope[file] + number)

    def _take_declarations(self) -> None:
        """Believe annotations that name classes of modules."""
        for file, facts in enumerate(self.program.facts):
            if facts is None:
                continue
            first = self.first_value[file]
            results = {scope.result for scope in facts.scopes}
            for value, classes in facts.declared:
                if any(self._is_declared_module(thing) for each in classes for thing in self.things_of(first + each)):
                    self.uses.append(first + value)
                    if value in results:
                        self._add_bits(first + value, May.MADE)

    def _is_declared_module(self, thing: Thing) -> bool:
        if thing.kind == Kind.CLASS:
            return self.hierarchy.is_module(thing.number)
        is_library = thing.kind == Kind.LIBRARY
        return is_library and (
            self._knowledge.is_module_class(thing.name) or self._knowledge.takes_module(f"{thing.name}.fit")
        )

    def _field(self, name: str) -> int:
        if name not in self._fields:
            self._fields[name] = self._more()
        return self._fields[name]

    def _own_field(self, file: int, name: str) -> int:
        if (file, name) not in self._own_fields:
            self._own_fields[file, name] = self._more()
        return self._own_fields[file, name]

    def _more(self) -> int:
        self.may.append(0)
        self.edges.append(None)
        self._is_wanted.append(0)
        self._sources.append(None)
        return len(self.edges) - 1

    # ---- growth ----

    def edge(self, source: int, target: int, kind: int) -> None:
        """Let a value go on to another one."""
        known = self.edges[source]
        if known is None:
            self.edges[source] = [(target, kind)]
        else:
            known.append((target, kind))
        if self.may[source]:
            self._add_bits(target, PASSED_BITS[kind][self.may[source]])
        if kind in (Edge.CALL, Edge.KEEP):
            return
        self._note_source(source, target, kind)
        if self._is_wanted[target]:
            self.want(source)
            for each in tuple(self.callables.get(source, ())):
                self._hand_on(target, kind, each)

    def _note_source(self, source: int, target: int, kind: int) -> None:
        known = self._sources[target]
        if known is None:
            self._sources[target] = [(source, kind)]
        else:
            known.append((source, kind))

    def want(self, value: int) -> None:
        """Ask what a value may call: only for what is asked is that followed."""
        pending = [value]
        while pending:
            value = pending.pop()
            if self._is_wanted[value]:
                continue
            self._is_wanted[value] = 1
            pending += [source for source, _ in self._sources[value] or ()]
            pending += self._loaded.get(value, ())
            self._newly_wanted.append(value)

    def add(self, value: int, thing: Thing) -> None:
        """Say that a value may be something to be called or looked into."""
        number = self._number_of_thing.get(thing)
        if number is None:
            number = self._number_of_thing[thing] = len(self.things)
            self.things.append(thing)
            self._note_thing(number, thing)
        self._add_callable(value, number << 1)

    def _is_maker(self, thing: Thing) -> bool:
        """Whether something surely makes modules when it is called, and nothing else is to be known of it."""
        if not self._applies:
            return False
        if thing.kind == Kind.CLASS:
            return self.hierarchy.is_module(thing.number)
        if thing.kind == Kind.LIBRARY:
            behaviour = self.libraries.behaviour(thing.name)
            return behaviour.gives is Gives.MODULE and not behaviour.makes_objects
        if thing.kind in (Kind.FUNCTION, Kind.METHOD):
            file, result = self.file_of_scope[thing.number], self.scopes[thing.number].result
            return bool(result and self.may[self.first_value[file] + result] & May.MADE)
        return False

    def _note_thing(self, number: int, thing: Thing) -> None:
        """Follow a thing everywhere if calling it may make a module, and else by its names alone."""
        if thing.kind == Kind.LIBRARY:
            bits = self._bits_of_minor(thing.name)
            if bits >= 0:
                self._minor[number] = bits
        elif thing.kind == Kind.LIBRARY_OBJECT:
            if not self.libraries.has_known_methods(thing.name):
                self._minor[number] = 0 if catalogue.is_complete(thing.name) else May.PASSED
        elif thing.kind == Kind.FILE or (thing.kind, thing.number) not in self._major:
            self._minor[number] = May.PASSED

    def _make_major(self, kind: int, number: int) -> None:
        """From now on follow a class or function everywhere."""
        if (kind, number) in self._major:
            return
        self._major.add((kind, number))
        file = self.file_of_scope[number] if kind in (Kind.FUNCTION, Kind.METHOD) else self.classes[number].file
        thing = self._number_of_thing.get(Thing(kind, file, number))
        if thing is not None and self._minor.pop(thing, None) is not None:
            self._new_callables += [(value, mark) for value, mark in self._held_back.pop(thing, ())]

    def _make_major_with_owner(self, number: int) -> None:
        """The same for a function, and for the classes that have it as a method."""
        self._make_major(Kind.FUNCTION, number)
        self._make_major(Kind.METHOD, number)
        owner = self.scopes[number].owner
        if owner >= 0 and self._applies:
            cls = self._first_class[self.file_of_scope[number]] + owner
            for each in (cls, *self.hierarchy.descendants(cls)):
                self._make_major(Kind.CLASS, each)
                self._make_major(Kind.INSTANCE, each)

    def _hand_on(self, target: int, kind: int, mark: int) -> None:
        """Let what a value may call, with a mark whether it was passed to the function at hand, go along an edge."""
        if not self._is_wanted[target]:
            return
        if kind == Edge.PASS:
            mark |= 1
        elif kind == Edge.RETURN:
            if mark & 1:
                return
        elif kind in (Edge.STORE, Edge.SHARE, Edge.IMPORT):
            mark &= ~1
        if kind in _FAR and self._is_maker(self.things[mark >> 1]):
            # Which one it is does not matter where it is called by another name.
            self._add_bits(target, May.MAKER_PASSED if mark & 1 else May.MAKER)
            return
        minor = self._minor.get(mark >> 1, -1)
        if minor < 0 or kind in (Edge.COPY, Edge.SHARE, Edge.IMPORT):
            thing = self.things[mark >> 1]
            if minor < 0 or thing.kind != Kind.LIBRARY or thing.number == 0:
                self._add_callable(target, mark)
                return
        if minor > 0:
            self._add_bits(target, minor)

    def _bits_of_minor(self, name: str) -> int:
        """What becomes of a library's thing where it is passed on; -1 for what is followed.

        Of the thousands of names in libraries only those that make modules, or take some, are worth it.
        """
        behaviour = self.libraries.behaviour(name)
        if behaviour.gives is Gives.MODULE or behaviour.uses or behaviour.makes_objects:
            return -1
        return May.PASSED if behaviour.gives is Gives.UNKNOWN else 0

    def _add_bits(self, value: int, bits: int) -> None:
        known = self.may[value]
        if bits & ~known:
            self.may[value] = known | bits
            self._new_bits.append(value)

    def _add_callable(self, value: int, mark: int) -> None:
        held = self.callables.get(value)
        if held is None:
            held = self.callables[value] = set()
        elif mark in held:
            return
        if self.things[mark >> 1].kind == Kind.INSTANCE and len(held) >= _MAX_INSTANCES:
            self._add_bits(value, May.PASSED)
            return
        if len(held) >= _MAX_CALLABLES and self._applies and value not in self._field_loads:
            self._add_bits(value, May.ANY_CALLABLE)
            return
        held.add(mark)
        if mark >> 1 in self._minor:
            self._held_back.setdefault(mark >> 1, []).append((value, mark))
        self._new_callables.append((value, mark))

    def _run(self) -> None:
        edges, may = self.edges, self.may
        bits_pending, pending = self._new_bits, self._new_callables
        while bits_pending or pending or self._newly_wanted:
            self._pull()
            while bits_pending:
                value = bits_pending.pop()
                bits = may[value]
                for target, kind in edges[value] or ():
                    new = PASSED_BITS[kind][bits]
                    if new & ~may[target]:
                        may[target] |= new
                        bits_pending.append(target)
                if self._applies:
                    self._note_bits(value, bits)
            if pending:
                value, mark = pending.pop()
                for target, kind in edges[value] or ():
                    if kind != Edge.CALL and kind != Edge.KEEP:
                        self._hand_on(target, kind, mark)
                self._spread(value, mark >> 1, is_passed=mark & 1 == 1)

    def _pull(self) -> None:
        """Get what is asked for by now from where it comes from."""
        while self._newly_wanted:
            value = self._newly_wanted.pop()
            for source, kind in self._sources[value] or ():
                for mark in tuple(self.callables.get(source, ())):
                    self._hand_on(value, kind, mark)
            self._new_callables += [(value, mark) for mark in self.callables.get(value, ())]
            for base in self._loaded.get(value, ()):
                self._new_callables += [(base, mark) for mark in self.callables.get(base, ())]

    def _note_bits(self, value: int, bits: int) -> None:
        if bits & _MAKERS:
            for out in self._unseen_calls.get(value, ()):
                self._add_bits(out, May.MADE)
            for out, file in self._field_loads.get(value, ()):
                if any(self.leads(file, at) for at, _ in self._field_stores.get(value, ())):
                    self._add_bits(out, May.MAKER)
        if bits & May.MAKER and value in self._scope_of_result:
            self._tell(self._scope_of_result[value])
        if bits & _PASSED_UNKNOWN and value in self._waiting:
            for file, call, out in self._waiting.pop(value):
                self._hand_back(file, value, call, out)
        if bits & _MODULES and value in self._scope_of_result:
            self._tell(self._scope_of_result[value])
        if bits & _PASSED_UNKNOWN and value not in self._noted:
            self._noted.add(value)
            for out, name, _ in self._loads.get(value, ()):
                for file, call in self._calls.get(out, ()):
                    self._call_by_name(file, call, name)

    def _spread(self, value: int, number: int, *, is_passed: bool) -> None:
        thing = self.things[number]
        is_major = number not in self._minor
        for out, file in self._field_loads.get(value, ()) if is_major else ():
            if (thing.file < 0 or self.leads(file, thing.file)) and self._is_wanted[out]:
                self._add_callable(out, number << 1)
        for out, names, file in tuple(self._loads.get(value, ())):
            if self._is_wanted[out]:
                self._load(thing, names, out, file)
        if self._applies:
            for file, call in self._calls.get(value, ()):
                self._apply(file, call, thing, number)
            if value in self._scope_of_result and is_major and not is_passed:
                self._tell(self._scope_of_result[value])

    def leads(self, file: int, to: int) -> bool:
        """Whether a file's imports lead to another file, or it is that file."""
        return self.program.leads_to[file] >> to & 1 == 1

    # ---- attributes ----

    def _load(self, thing: Thing, names: str, out: int, file: int) -> None:
        """Lead what is read of something to a value."""
        if thing.kind == Kind.FILE:
            self._look_up(thing.file, tuple(names.split(".")), out, file)
        elif thing.kind == Kind.LIBRARY:
            if thing.number < _MAX_READ:
                self.add(out, Thing(Kind.LIBRARY, -1, thing.number + 1, f"{thing.name}.{names}"))
            else:  # as by `node = node.parent`
                self._add_bits(out, May.UNKNOWN)
        elif thing.kind == Kind.LIBRARY_OBJECT:
            self.add(out, Thing(Kind.LIBRARY, -1, _MAX_READ, f"{thing.name}.{names}"))
        elif self._applies and thing.kind in (Kind.CLASS, Kind.INSTANCE):
            self._load_member(thing, names.partition(".")[0], out)

    def _load_member(self, thing: Thing, name: str, out: int) -> None:
        number = thing.number
        is_instance = thing.kind == Kind.INSTANCE
        if name == "__class__":
            for each in (number, *self.hierarchy.descendants(number)) if is_instance else ():
                self.add(out, Thing(Kind.CLASS, self.classes[each].file, each))
            return
        found = self._methods_of(number, name)
        if name == "*":
            found = [
                (cls.file, scope)
                for each in self.hierarchy.ancestors(number)
                for cls in (self.classes[each],)
                for scope in cls.facts.methods.values()
            ]
        if not found:
            self._add_bits(out, May.PASSED)
        for file, scope_number in found:
            scope = self.scopes[self._first_scope[file] + scope_number]
            is_bound = is_instance if "classmethod" not in scope.decorators else True
            if "staticmethod" in scope.decorators:
                is_bound = False
            kind = Kind.METHOD if is_bound else Kind.FUNCTION
            self.add(out, Thing(kind, file, self._first_scope[file] + scope_number))
            if not _PROPERTIES.isdisjoint(scope.decorators):
                if scope.result:
                    self.edge(self.first_value[file] + scope.result, out, Edge.RETURN)
                self._add_bits(out, May.PASSED)

    def _methods_of(self, number: int, name: str) -> list[tuple[int, int]]:
        key = (number, name)
        if key not in self._method_cache:
            self._method_cache[key] = self.hierarchy.methods(number, name)
        return self._method_cache[key]

    # ---- calls ----

    def _apply(self, file: int, call: Call, thing: Thing, number: int) -> None:
        """Let a call call something."""
        first = self.first_value[file]
        key = (first + call.out, first + call.callee, number)
        if key in self._seen_calls:
            return
        self._seen_calls.add(key)
        if thing.file >= 0 and not self.leads(file, thing.file):
            return  # it came by way of a file that leads to both, where `_hand_back` looks after it
        out = first + call.out
        if thing.kind == Kind.CLASS:
            self._make(file, call, thing.number, out)
        elif thing.kind == Kind.LIBRARY:
            self._call_library(file, call, thing.name, out)
        elif thing.kind == Kind.INSTANCE:
            for at, scope in self._methods_of(thing.number, "__call__"):
                self._bind(file, call, self._first_scope[at] + scope, 1, out)
        elif thing.kind in (Kind.FUNCTION, Kind.METHOD):
            self._bind(file, call, thing.number, int(thing.kind == Kind.METHOD), out)

    def _make(self, file: int, call: Call, number: int, out: int) -> None:
        """Make an object of a class."""
        hierarchy = self.hierarchy
        if hierarchy.is_module(number):
            self._add_bits(out, May.MADE)
        elif hierarchy.is_unknown(number):
            self._add_bits(out, May.UNKNOWN)
        for base in hierarchy.library_bases(number):
            behaviour = self.libraries.behaviour(base)
            if behaviour.makes_objects:
                self.maker_objects.append((file, call))
                for each in call.given:
                    self.want(self.first_value[file] + each)
            if behaviour.uses:
                self._use_arguments(file, call)
            if self._knowledge.holding(base) is not None:
                self._add_bits(out, May.MADE)
        self.add(out, Thing(Kind.INSTANCE, self.classes[number].file, number))
        self._initialise(file, call, number, out)

    def _initialise(self, file: int, call: Call, number: int, out: int) -> None:
        """Pass what a class is called with to its initialiser."""
        hierarchy = self.hierarchy
        is_initialised = False
        for name in ("__init__", "__new__"):
            method = hierarchy.own_method(number, name)
            if method is not None:
                is_initialised = True
                self._bind(file, call, self._first_scope[method[0]] + method[1], 1, 0)
                scope = self.scopes[self._first_scope[method[0]] + method[1]]
                if name == "__new__" and scope.result:
                    self.edge(self.first_value[method[0]] + scope.result, out, Edge.RETURN)
        if not is_initialised:  # as of data classes: its arguments are its attributes
            first = self.first_value[file]
            for name, value in call.keywords:
                if value and name in self._fields:
                    self.edge(first + value, self._fields[name], Edge.STORE)
            for value in (*call.arguments, *call.starred, *call.packed):
                if value and "*" in self._fields:
                    self.edge(first + value, self._fields["*"], Edge.STORE)

    def _bind(self, file: int, call: Call, number: int, offset: int, out: int) -> None:
        """Pass arguments to parameters, and lead what a function gives to the call."""
        scope = self.scopes[number]
        at = self.file_of_scope[number]
        there = self.first_value[at]
        self._pass_arguments(file, call, number, offset)
        if out:
            if scope.result:
                self.edge(there + scope.result, out, Edge.RETURN)
                self._hand_back(file, there + scope.result, call, out)
            else:  # an abstract method, of which nobody knows what the classes below make of it
                self._add_bits(out, May.UNKNOWN)

    def _pass_arguments(self, file: int, call: Call, number: int, offset: int) -> None:
        scope = self.scopes[number]
        at = self.file_of_scope[number]
        first, there = self.first_value[file], self.first_value[at]
        parameters = scope.parameters[offset:]
        for index, value in enumerate(call.arguments):
            if value:
                target = parameters[index][1] if index < len(parameters) else scope.rest[0]
                self._pass(first + value, there, target)
        by_name = dict((*scope.parameters, *scope.named)) if call.keywords else {}
        for name, value in call.keywords:
            if value and name in by_name:
                self._pass(first + value, there, by_name[name])
            elif value:
                self.edge(first + value, self._field(f"**{name}"), Edge.STORE)
        for value in call.starred:
            if value:
                for _, target in parameters:
                    self._pass(first + value, there, target)
                self._pass(first + value, there, scope.rest[0])
        if any(call.packed):
            for name, target in (*parameters, *scope.named):
                self._read_field(f"**{name}", there + target, at)

    def _read_field(self, name: str, out: int, file: int) -> None:
        """Let a value be what is stored under a name."""
        if (name, out) in self._fields_read_late:
            return
        self._fields_read_late.add((name, out))
        field = self._field(name)
        self._field_loads.setdefault(field, []).append((out, file))
        self._loaded.setdefault(out, []).append(field)
        if self._is_wanted[out]:
            self.want(field)
        self._new_callables += [(field, mark) for mark in self.callables.get(field, ())]

    def _hand_back(self, file: int, result: int, call: Call, out: int) -> None:
        """Let a call give what it passes, or what calling that gives, if its function may return such a thing."""
        if not call.given:
            return
        bits = self.may[result]
        if bits & May.PASSED:
            self._give_passed(file, call, out)
        if bits & May.UNKNOWN:
            self._give_called(file, call, out)
        if bits & _PASSED_UNKNOWN != _PASSED_UNKNOWN:
            self._waiting.setdefault(result, []).append((file, call, out))

    def _give_passed(self, file: int, call: Call, out: int) -> None:
        for each in call.given:
            self.edge(self.first_value[file] + each, out, Edge.COPY)

    def _give_called(self, file: int, call: Call, out: int) -> None:
        if (file, call.out) not in self._handed_on:
            self._handed_on.add((file, call.out))
            for each in call.given:
                self._call_unseen(file, call, self.first_value[file] + each, out)

    def _pass(self, value: int, there: int, target: int) -> None:
        if target:
            self.edge(value, there + target, Edge.PASS)
            if there + target in self._filled:
                self.edge(there + target, value, Edge.PASS)

    def _call_library(self, file: int, call: Call, name: str, out: int) -> None:
        first = self.first_value[file]
        given = [first + each for each in call.given]
        if name in _OWN_NAMESPACES:
            self.add(out, Thing(Kind.FILE, file))
            if given:
                self._add_bits(out, May.UNKNOWN)
            return
        if name == "builtins.super":
            self._find_super(file, call, out)
            return
        if name == "builtins.type":
            for each in given:
                self._loads.setdefault(each, []).append((out, "__class__", file))
                self.want(each)
                for thing in tuple(self.things_of(each)):
                    self._load(thing, "__class__", out, file)
            return
        self._call_other(file, call, name, out)

    def _call_other(self, file: int, call: Call, name: str, out: int) -> None:
        """Let a call call a library's function of which the catalogue or its source tells what it does."""
        first = self.first_value[file]
        given = [first + each for each in call.given]
        behaviour = self.libraries.behaviour(name)
        if behaviour.gives is Gives.MODULE:
            self._add_bits(out, May.MADE)
        elif behaviour.gives is Gives.UNKNOWN:
            self._add_bits(out, May.UNKNOWN)
        if behaviour.is_instance:
            self.add(out, Thing(Kind.LIBRARY_OBJECT, -1, 0, name))
        if behaviour.makes_objects:
            self.maker_objects.append((file, call))
            for each in given:
                self.want(each)
        if behaviour.uses or self.libraries.behaviour(f"{name}.fit").uses:
            self._use_arguments(file, call)
        if behaviour.hands_back:
            self._give_handed(file, call, behaviour, out)

    def _give_handed(self, file: int, call: Call, behaviour: Behaviour, out: int) -> None:
        """Let a call give what it is passed, or what calling that gives."""
        first = self.first_value[file]
        given = [first + each for each in call.given]
        for name, value in call.keywords:
            if value:
                self.edge(first + value, self._field(f"**{name}"), Edge.STORE)
        if behaviour.builds:
            given = [first + each for each in call.arguments[:1] if each]
        for each in given:
            self.edge(each, out, Edge.COPY)
            if behaviour.calls:
                inner = self._more()
                self.edge(inner, out, Edge.BOX)
                self.edge(inner, out, Edge.COPY)
                self._call_unseen(file, call, each, inner)

    def _call_unseen(self, file: int, call: Call, callee: int, out: int) -> None:
        """Let a library call what it was passed, with what nobody sees."""
        first = self.first_value[file]
        unseen = type(call)(out - first, callee - first, [], [], [], [], call.scope, call.line, False, False)
        self.want(callee)
        self._unseen_calls.setdefault(callee, []).append(out)
        if self.may[callee] & _MAKERS:
            self._add_bits(out, May.MADE)
        self._calls.setdefault(callee, []).append((file, unseen))
        for mark in tuple(self.callables.get(callee, ())):
            self._apply(file, unseen, self.things[mark >> 1], mark >> 1)

    def _use_arguments(self, file: int, call: Call) -> None:
        first = self.first_value[file]
        self.uses += [first + each for each in call.given]

    def _find_super(self, file: int, call: Call, out: int) -> None:
        """The object at hand, of the class that code stands in."""
        facts = self.program.facts[file]
        assert facts is not None
        number = call.scope
        while number >= 0 and facts.scopes[number].owner < 0:
            number = facts.scopes[number].parent
        if number >= 0:
            own = self._first_class[file] + facts.scopes[number].owner
            above = self.hierarchy.ancestors(own)[1:]
            for each in above:
                self.add(out, Thing(Kind.INSTANCE, self.classes[each].file, each))
            if not above:
                self._add_bits(out, May.PASSED)

    # ---- calls of which only the name is known ----

    def _call_by_name(self, file: int, call: Call, name: str) -> None:
        """Let a call of a method, whoever's it is, call all of that name."""
        if name in CONTAINER_METHODS or name not in self._methods or name == "forward" or name.startswith("__"):
            return
        first = self.first_value[file]
        known = self._calls_by_name.setdefault(name, {})
        if (file, first + call.out) in known:
            return
        known[file, first + call.out] = None
        for number in self._telling.get(name, ()):
            self._connect(number, file, first + call.out)
        for index, value in enumerate(call.arguments):
            if value:
                self.edge(first + value, self._argument_hub(name, index), Edge.PASS)
        for keyword, value in call.keywords:
            if value:
                self.edge(first + value, self._argument_hub(name, keyword), Edge.PASS)

    def _argument_hub(self, name: str, place: int | str) -> int:
        """The value that stands for an argument of all methods of a name."""
        key = (name, place)
        if key not in self._argument_hubs:
            hub = self._argument_hubs[key] = self._more()
            for number in self._methods[name]:
                scope = self.scopes[number]
                parameters = self._passed(scope)
                there = self.first_value[self.file_of_scope[number]]
                if isinstance(place, int):
                    target = parameters[place][1] if place < len(parameters) else scope.rest[0]
                else:
                    target = dict((*parameters, *scope.named)).get(place, scope.rest[1])
                if target:
                    self.edge(hub, there + target, Edge.PASS)
        return self._argument_hubs[key]

    def _tell(self, number: int) -> None:
        """Let all calls by a method's name know that it gives something of interest."""
        self._make_major_with_owner(number)
        if self.scopes[number].owner < 0:
            return
        name = self.scopes[number].name
        telling = self._telling.setdefault(name, {})
        if number not in telling:
            telling[number] = None
            for file, out in self._calls_by_name.get(name, ()):
                self._connect(number, file, out)

    def _connect(self, number: int, file: int, out: int) -> None:
        at = self.file_of_scope[number]
        if self.leads(file, at):
            self.edge(self.first_value[at] + self.scopes[number].result, out, Edge.RETURN)

    # ---- answers ----

    def fields_read(self) -> dict[int, list[int]]:
        """The attributes of whatever object, as values, that values may be read from."""
        found: dict[int, list[int]] = {}
        for file, facts in enumerate(self.program.facts):
            for out, _, names in facts.loads if facts is not None else ():
                field = self._fields.get(names.rpartition(".")[2])
                if field is not None:
                    found.setdefault(self.first_value[file] + out, []).append(field)
        return found

    def stores_in(self, field: int) -> list[tuple[int, int]]:
        """What is stored in an attribute of whatever object: files with values."""
        return self._field_stores.get(field, [])

    def makers_named(self, name: str) -> Iterable[int]:
        """The files with a method of a name that may make a module."""
        for number in self._telling.get(name, ()):
            file = self.file_of_scope[number]
            if self.may[self.first_value[file] + self.scopes[number].result] & _MODULES:
                yield file

    def is_inner(self, file: int, scope: int) -> bool:
        """Whether code stands in a class of modules."""
        facts = self.program.facts[file]
        assert facts is not None
        while scope >= 0:
            owner = facts.scopes[scope].owner
            if owner >= 0 and self.hierarchy.is_module(self._first_class[file] + owner):
                return True
            scope = facts.scopes[scope].parent
        return False

    def things_of(self, value: int) -> Iterable[Thing]:
        """What a value may call or be looked into."""
        return (self.things[each >> 1] for each in self.callables.get(value, ()))

    def may_be_class_of_modules(self, value: int) -> bool:
        """Whether a value may be a class of modules, or something of which nobody knows what it is."""
        if self.may[value] & (_PASSED_UNKNOWN | May.ANY_CALLABLE | _MAKERS):
            return True
        for thing in self.things_of(value):
            if thing.kind == Kind.CLASS and self.hierarchy.is_module(thing.number):
                return True
            if thing.kind == Kind.LIBRARY and self.libraries.behaviour(thing.name).gives is not Gives.NOTHING:
                return True
            if thing.kind in (Kind.FUNCTION, Kind.METHOD):
                file, scope = self.file_of_scope[thing.number], self.scopes[thing.number]
                if scope.result and self.may[self.first_value[file] + scope.result] & (_MODULES | May.UNKNOWN):
                    return True
        return False

    def is_module_container(self, value: int) -> bool:
        """Whether a value is nothing but a container of PyTorch's, which registers what is put into it."""
        things = list(self.things_of(value))
        return bool(things) and all(
            each.kind == Kind.LIBRARY_OBJECT and catalogue.is_container(each.name) for each in things
        )
