"""Calls of library functions, as the catalogue describes them, and of builtins that access objects."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar

from instrumentor.analysis.arguments import Arguments, written_arguments, written_prefix
from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.running import let_anything_run
from instrumentor.analysis.spelling import text_of
from instrumentor.analysis.values import (
    NOTHING,
    OPAQUE,
    PLAIN,
    Atom,
    Box,
    Foreign,
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
    Value,
    derive,
    join,
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

    from instrumentor.analysis.effects import Effects
    from instrumentor.analysis.members import Members
    from instrumentor.analysis.object_stores import ObjectStores
    from instrumentor.analysis.scope import Scope


_OF_NO_MODULES = catalogue.PLAIN_ATTRIBUTES | catalogue.TENSOR_ATTRIBUTES
_RUNNING_TEXT = frozenset({"builtins.exec", "builtins.eval"})
_ZIPPING = frozenset({"builtins.zip", "itertools.zip_longest"})
# Effects of functions that may call their arguments: `sorted(models, key=f)`.
_CALLING = frozenset({Effect.COLLECTS, Effect.READS, Effect.IDENTITY_TUPLE, Effect.WRAPS_FIRST})


class LibraryCalls:
    """Evaluates calls of functions whose code is not analysed, for one scope."""

    def __init__(self, scope: Scope, members: Members, effects: Effects, object_stores: ObjectStores) -> None:
        self.scope = scope
        self.facts = scope.facts
        self.members = members
        self.effects = effects
        self.object_stores = object_stores

    def call(self, name: str, node: ast.expr, arguments: Arguments) -> Value:
        """The result of calling the library's function or class `name`."""
        knowledge = self.scope.hierarchy.knowledge
        full_name, name = name, catalogue.canonical_name(name)
        builtin = self._BUILTINS.get(name)
        if builtin is not None:
            return builtin(self, node, arguments)
        if name in _RUNNING_TEXT:
            let_anything_run(self.scope)
            if name == "builtins.exec":
                self.object_stores.set_global(None, OPAQUE)
        self.note_taken(full_name, arguments)
        effect = knowledge.effect_of(full_name)
        if effect is not None:
            return self.apply(effect, node, arguments, name)
        passed = knowledge.passes_on(full_name)
        if passed is not None:
            position = len(arguments.positional) if passed.position is None else passed.position
            return arguments.at(position, passed.name)
        nature = knowledge.nature_of_call(full_name)
        if nature is Nature.UNKNOWN:
            # With a computed name the callee may be anything, so its text serves as the label.
            return self.effects.make_unknown(node, arguments, label=None if ANY_KEY in name else name)
        if nature is Nature.NOT_MODULE:
            self.facts.captured.hand_over(arguments.all())
            self.effects.escape(arguments.all())
            if name.startswith("builtins."):
                return derive(self.facts.contents.reach(arguments.all()))
            self.effects.note_giving(node, name, arguments)
            return self.effects.make(node, nature, name, arguments)
        self.effects.escape_callables(arguments.each())
        if knowledge.makes_objects(name):
            self.effects.note_giving(node, name, arguments)
        if catalogue.is_container(name):
            nature = self._nature_of_container(node, arguments)
        self.effects.absorb(arguments.each(), node, name)
        return self.effects.make(node, nature, name, arguments)

    def note_taken(self, name: str, arguments: Arguments) -> None:
        """Record that an argument is a module, if the library function `name` accepts only modules."""
        if self.scope.hierarchy.knowledge.uses_arguments(name):
            self.facts.note_evidence(self.facts.contents.reach(arguments.all()), catalogue.WRAPPED)
        if self.scope.hierarchy.knowledge.takes_module(name):
            self.facts.note_evidence(self.facts.contents.reach(arguments.module()), catalogue.WRAPPED)

    def apply(self, effect: Effect, node: ast.expr, arguments: Arguments, name: str) -> Value:
        """The result of a function with a known effect."""
        self.facts.note_effect(node, effect.name)
        if effect in _CALLING:
            self.effects.escape_callables(arguments.each())
        return self._EFFECTS[effect](self, node, arguments, name)

    def _nature_of_container(self, node: ast.expr, arguments: Arguments) -> Nature:
        """The nature of a module container: that of its elements. An empty one is to be filled later."""
        is_bare = not (arguments.positional or arguments.keywords or arguments.rest)
        if is_bare or (not arguments.keywords and all(map(_is_empty_display, written_arguments(node)))):
            return Nature.MODULE
        held = self.facts.contents.reach(arguments.all())
        natures = [self.scope.kinds.nature(atom) for atom in held if isinstance(atom, Made)]
        is_known = len(natures) == sum(not _is_plain(atom) or isinstance(atom, Foreign) for atom in held)
        if natures and is_known and max(natures) is Nature.NO_PARAMS:
            return Nature.NO_PARAMS
        # In the first round, nothing is known of the arguments. Start from the least nature.
        return Nature.MODULE if held else Nature.NO_PARAMS

    # ---- effects ----

    def _identity(self, _node: ast.expr, arguments: Arguments, name: str) -> Value:
        return arguments.at(1, "val") if name == "typing.cast" else arguments.module()

    def _proxies(self, _node: ast.expr, arguments: Arguments, _name: str) -> Value:
        self.facts.proxied.update(strip(atom) for atom in arguments.module())
        return arguments.module()

    def _identity_tuple(self, node: ast.expr, arguments: Arguments, _name: str) -> Value:
        given = [
            *arguments.positional,
            *(held for key, held in arguments.keywords.items() if key.startswith(("model", "optim"))),
        ]
        return given[0] if len(given) == 1 else self.scope.pack(node, given)

    def _replaces(self, node: ast.expr, arguments: Arguments, _name: str) -> Value:
        self.effects.note(self.facts.replaced, arguments.module(), self.scope.event(node))
        return arguments.module()

    def _wraps(self, node: ast.expr, arguments: Arguments, name: str) -> Value:
        inner = arguments.module()
        if inner <= PLAIN and arguments.positional:
            return NOTHING  # the argument is unknown so far, except for a default such as None
        objects = frozenset(atom for atom in inner if atom.is_object)
        functions = frozenset(atom for atom in inner if isinstance(atom, (FunctionRef, Method, Named)))
        self.facts.note_evidence(objects, catalogue.WRAPPED)
        if objects or functions:
            return frozenset(wrap(atom) for atom in objects) | functions
        if name == "torch.compile":
            return self.effects.make_unknown(node, arguments, label=name)
        return self.effects.make(node, Nature.MODULE, name, arguments)

    def _wraps_each(self, node: ast.expr, arguments: Arguments, _name: str) -> Value:
        self.facts.note_effect(node, Effect.WRAPS.name)
        given = [_wrapped_if_object(held) for held in arguments.positional]
        if arguments.rest:
            return OPAQUE
        return given[0] if len(given) == 1 else self.scope.pack(node, given)

    def _wraps_first(self, node: ast.expr, arguments: Arguments, _name: str) -> Value:
        inner = arguments.keywords.get("model")
        if inner is None:
            inner = arguments.positional[1] if len(arguments.positional) > 1 else arguments.module()
        self.facts.note_evidence(inner, catalogue.WRAPPED)
        return self.scope.pack(node, [_wrapped_if_object(inner), OPAQUE, OPAQUE, OPAQUE])

    def _wraps_replacing(self, node: ast.expr, arguments: Arguments, name: str) -> Value:
        self.effects.absorb([arguments.module()], node, name)
        return self.effects.make(node, Nature.MODULE, name, arguments)

    def _unwraps(self, _node: ast.expr, arguments: Arguments, _name: str) -> Value:
        return frozenset(unwrap(atom) if atom.is_object else atom for atom in arguments.module())

    def _copies(self, node: ast.expr, arguments: Arguments, name: str) -> Value:
        original = arguments.module()
        if not name.startswith("copy."):
            return self.effects.make(node, Nature.MODULE, name, arguments)
        if _is_setting(node) and all(isinstance(atom, Part) for atom in original):
            return derive(original)
        copies: list[Value] = []
        for atom in original:
            for each in self.scope.kinds.stands_for(atom):
                if isinstance(each, Box):
                    copies.append(self._copied_container(node, each, is_deep=name == "copy.deepcopy"))
                elif isinstance(each, Instance):
                    # A deep copy has modules of its own, which no call shows.
                    self.effects.escape(value(each))
                    copies.append(OPAQUE if name == "copy.deepcopy" else value(each))
                elif not each.is_object:
                    copies.append(derive(value(each)))
        if any(atom.is_object for atom in original):
            copies.append(self._copied_object(node, original, arguments, name))
        return join(copies)

    def _copied_container(self, node: ast.expr, box: Box, *, is_deep: bool) -> Value:
        held = self.facts.contents.elements(box.site)
        return self.scope.box(node, OPAQUE if is_deep else held)

    def _copied_object(self, node: ast.expr, original: Value, arguments: Arguments, name: str) -> Value:
        self.effects.make(node, Nature.UNKNOWN, name, arguments)
        site = self.scope.site(node, Nature.UNKNOWN, name)
        self.facts.grow_site(site, is_copy=True)
        for atom in original:
            base = strip(atom)
            if isinstance(base, Made) and base.site in self.facts.sites:
                self.facts.grow_site(site, class_keys=self.facts.sites[base.site].class_keys)
        return site.value

    def _derives(self, node: ast.expr, arguments: Arguments, name: str) -> Value:
        inner = arguments.module()
        found = frozenset(Scripted(root(atom)) for atom in inner if atom.is_object)
        if found:
            return found | self.effects.make_perhaps(node, name)
        functions = frozenset(atom for atom in inner if isinstance(atom, FunctionRef))
        return functions or OPAQUE | self.effects.make_perhaps(node, name)

    def _collects(self, node: ast.expr, arguments: Arguments, name: str) -> Value:
        members = self.members
        given = arguments.positional
        if name == "builtins.filter":
            given = given[1:]
        elements = [members.elements(held) for held in given]
        if name in _ZIPPING and arguments.rest:
            zipped = self.scope.box(node, self.members.elements(arguments.rest), *elements)
            return self.scope.box(node, zipped)  # the inner tuples are not distinguished from their elements
        if name in _ZIPPING:
            return self.scope.box(node, self.scope.pack(node, elements))
        if name == "builtins.enumerate":
            return self.scope.box(node, self.scope.pack(node, [PLAIN, *elements[:1]]))
        if name in {"builtins.dict", "collections.OrderedDict"}:
            elements = [self._values_of_pairs(held) for held in elements]
        (box,) = self.scope.box(node, *elements, *([arguments.rest] if arguments.rest else []))
        assert isinstance(box, Box)
        for key, held in arguments.keywords.items():
            self.facts.contents.put(box.site, repr(key), held)
        return value(box)

    def _values_of_pairs(self, held: Value) -> Value:
        """The values of a dict that is made from another dict or from pairs."""
        return join(
            self.members.unpacked(value(atom), 1, 2) if isinstance(atom, (Pack, Box)) else value(atom) for atom in held
        )

    def _reads(self, _node: ast.expr, arguments: Arguments, _name: str) -> Value:
        return derive(self.facts.contents.reach(arguments.all()))

    def _builds(self, node: ast.expr, arguments: Arguments, _name: str) -> Value:
        """The result of `functools.partial`."""
        callees, bound = arguments.at(0), Arguments(arguments.positional[1:], arguments.keywords, arguments.rest)
        site = self.scope.locate(node)
        old = self.facts.bound_arguments.peek(site)
        new = bound if old is None else old.joined(bound)
        if new != old:
            self.facts.bound_arguments[site] = new
        return frozenset(atom if _is_bound_at(atom, site) else Partial(atom, site) for atom in callees) or OPAQUE

    # ---- builtins that reach into objects ----

    def _vars(self, _node: ast.expr, arguments: Arguments) -> Value:
        """The result of `vars`. Without an argument it is unknown."""
        self.effects.escape(arguments.all())
        return join([self.members.attribute(atom, "__dict__") for atom in arguments.at(0)]) or OPAQUE

    def _getattr(self, node: ast.expr, arguments: Arguments) -> Value:
        if len(arguments.positional) < len(("object", "name")):
            return OPAQUE
        name = _written_name(node, arguments)
        found: list[Value] = [arguments.positional[2] if len(arguments.positional) > 2 else NOTHING]
        prefix = written_prefix(written_arguments(node))
        for given in arguments.positional[0]:
            found.extend(self.members.under_name(atom, name, prefix) for atom in self.scope.kinds.stands_for(given))
        return join(found)

    def _setattr(self, node: ast.expr, arguments: Arguments) -> Value:
        if len(arguments.positional) == len(("object", "name", "value")):
            receiver, _, held = arguments.positional
            things = frozenset(each for atom in receiver for each in self.scope.kinds.stands_for(atom))
            text = next(map(text_of, written_arguments(node)), "")
            self.object_stores.set_attribute(things, _written_name(node, arguments), held, node, text)
        return PLAIN

    def _delattr(self, _node: ast.expr, _arguments: Arguments) -> Value:
        self.object_stores.forget_attributes()
        return PLAIN

    def _shuffle(self, _node: ast.expr, arguments: Arguments) -> Value:
        for given in arguments.at(0):
            for atom in self.scope.kinds.stands_for(given):
                if isinstance(atom, Box):
                    self.scope.scatter(atom.site)
        return PLAIN

    def _super(self, _node: ast.expr, _arguments: Arguments) -> Value:
        function = self.scope.function
        while function is not None and function.owner is None:
            function = function.parent
        return OPAQUE if function is None or function.owner is None else value(Super(function.owner.key))

    def _next(self, _node: ast.expr, arguments: Arguments) -> Value:
        return join((self.members.elements(arguments.at(0)), arguments.at(1)))

    def _choice(self, _node: ast.expr, arguments: Arguments) -> Value:
        return self.members.elements(arguments.at(0))

    def _import(self, node: ast.expr, arguments: Arguments) -> Value:
        """The result of `importlib.import_module`: a file of the project or a library; any, if the name is computed."""
        written = next(iter(written_arguments(node)), None)
        name = written.value if isinstance(written, ast.Constant) and isinstance(written.value, str) else ""
        if not name or name.startswith(".") or len(arguments.positional) > 1:
            return value(Named(catalogue.ANY_LIBRARY))
        found = self.scope.hierarchy.project.lookup(self.scope.unit, name)
        return value(Named(name)) if found is None or isinstance(found, str) else self.scope.refer(found)

    def _sample(self, node: ast.expr, arguments: Arguments) -> Value:
        return self.scope.box(node, self.members.elements(arguments.at(0)))

    def _from_keys(self, node: ast.expr, arguments: Arguments) -> Value:
        return self.scope.box(node, arguments.at(1) or PLAIN)

    _EFFECTS: ClassVar[dict[Effect, Callable[[LibraryCalls, ast.expr, Arguments, str], Value]]] = {
        Effect.IDENTITY: _identity,
        Effect.PROXIES: _proxies,
        Effect.IDENTITY_TUPLE: _identity_tuple,
        Effect.REPLACES: _replaces,
        Effect.WRAPS: _wraps,
        Effect.WRAPS_EACH: _wraps_each,
        Effect.WRAPS_FIRST: _wraps_first,
        Effect.WRAPS_REPLACING: _wraps_replacing,
        Effect.UNWRAPS: _unwraps,
        Effect.COPIES: _copies,
        Effect.DERIVES: _derives,
        Effect.COLLECTS: _collects,
        Effect.READS: _reads,
        Effect.BUILDS: _builds,
    }
    _BUILTINS: ClassVar[dict[str, Callable[[LibraryCalls, ast.expr, Arguments], Value]]] = {
        "builtins.vars": _vars,
        "builtins.getattr": _getattr,
        "builtins.setattr": _setattr,
        "builtins.delattr": _delattr,
        "builtins.object.__setattr__": _setattr,
        "builtins.object.__delattr__": _delattr,
        "builtins.super": _super,
        "builtins.next": _next,
        "builtins.__import__": _import,
        "importlib.import_module": _import,
        "importlib.util.module_from_spec": _import,
        "imp.load_source": _import,
        "builtins.dict.fromkeys": _from_keys,
        "random.shuffle": _shuffle,
        "random.choice": _choice,
        "random.choices": _sample,
        "random.sample": _sample,
    }


def _written_name(node: ast.expr, arguments: Arguments) -> str | None:
    """The constant attribute name in a call's text; None if it is computed or bound elsewhere."""
    written = written_arguments(node)
    name = written[1] if len(written) == len(arguments.positional) else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def _is_setting(node: ast.expr) -> bool:
    """Whether a call's argument is an attribute such as `model.config`, which is no submodule."""
    written = next(iter(written_arguments(node)), None)
    return isinstance(written, ast.Attribute) and written.attr in _OF_NO_MODULES


def _is_empty_display(node: ast.expr) -> bool:
    """Whether an expression is `[]`, `()` or `{}`."""
    return not (node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [node]))


def _wrapped_if_object(held: Value) -> Value:
    return frozenset(wrap(atom) if atom.is_object else atom for atom in held)


def _is_bound_at(atom: Atom, site: object) -> bool:
    while isinstance(atom, Partial):
        if atom.site == site:
            return True
        atom = atom.callee
    return False


def _is_plain(atom: Atom) -> bool:
    return not isinstance(root(atom), (Made, Parameter, Instance))
