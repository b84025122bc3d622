"""What calling something of an installed package gives, by a light reading of its source.

A function gives what its return statements give: what they call is followed, through other modules too, with the
arguments that it is called with (`build_model_with_cfg(ResNet, ...)` calls its first parameter). Order and
branches are not looked at: every return and every value that a name may hold counts. Where the returns tell
nothing, the function's annotations do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.installed import (
    ClassDefinition,
    Definition,
    External,
    FunctionDefinition,
    InstalledPackages,
    Module,
    VariableDefinition,
)
from instrumentor.resolve.module_facts import (
    Call,
    Choice,
    Element,
    Expression,
    FunctionFacts,
    Imported,
    Items,
    Member,
    Name,
    Nothing,
    Number,
    Other,
    Table,
    Text,
)
from instrumentor.resolve.module_reader import read_expression
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from instrumentor.resolve.knowledge import Knowledge

# How many calls may lead to one another, how many expressions are read for one question, and how many alternatives
# are told apart.
_MAX_CALLS = 14
_MAX_STEPS = 5_000
_MAX_VALUES = 24
# How many rows of a table of names are looked up: they are of one kind.
_MAX_ROWS = 2
_HANDING_ON = (Effect.IDENTITY, Effect.COPIES, Effect.WRAPS, Effect.WRAPS_REPLACING, Effect.REPLACES)
_OPTIONAL = frozenset({"typing.Optional", "typing.Union", "typing.Annotated", "typing.Final", "typing.ClassVar"})
_TUPLES = frozenset({"typing.Tuple", "builtins.tuple"})
_TYPES = frozenset({"typing.Type", "builtins.type"})
_MODULE_KEYWORDS = ("model", "module")
_SAMES = frozenset({"typing.Self", "typing_extensions.Self"})


@dataclass(frozen=True)
class Value:
    """One thing that an expression may give."""


@dataclass(frozen=True)
class Fresh(Value):
    """A new object of a class.

    Attributes:
        name: the class, under the module that defines it; the name called where the class is not seen.
        nature: what it is.
        place: where that was read (`timm/models/resnet.py:350`); empty for what the catalogue knows.
        is_annotated: only an annotation says so.
        cls: the class, where it was read.
    """

    name: str
    nature: Nature
    place: str = ""
    is_annotated: bool = False
    cls: ClassDefinition | None = field(default=None, compare=False)
    arguments: tuple[_Lazy, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Argument(Value):
    """What the caller passes as one parameter."""

    position: int | None
    name: str


@dataclass(frozen=True)
class Wrapped(Value):
    """An object that holds the caller's argument and stands for it."""

    inner: Argument


@dataclass(frozen=True)
class Several(Value):
    """A tuple of known length."""

    items: tuple[frozenset[Value], ...]


@dataclass(frozen=True)
class Unseen(Value):
    """Something that the source does not tell."""


@dataclass(frozen=True)
class _Defined(Value):
    """A module, class, function or name itself."""

    definition: Definition


@dataclass(frozen=True)
class _Method(Value):
    """A method with what it was taken from."""

    function: FunctionDefinition
    receiver: Value


@dataclass(frozen=True)
class _Partial(Value):
    """A function with some of its arguments given."""

    callee: Value
    arguments: _Arguments = field(compare=False, repr=False)


@dataclass(frozen=True)
class _Same(Value):
    """A method that returns its object."""

    receiver: Value


@dataclass(frozen=True)
class _Above(Value):
    """What `super()` gives."""

    cls: ClassDefinition
    receiver: Value


@dataclass(frozen=True)
class _Word(Value):
    """A string."""

    text: str


@dataclass(frozen=True)
class _Collection(Value):
    """A container, any of whose values may be meant."""

    values: frozenset[Value]


Values = frozenset[Value]


class _Lazy:
    """A value that is found out when it is asked for: most arguments never are."""

    def __init__(self, find: Callable[[], Values]) -> None:
        self._find: Callable[[], Values] | None = find
        self._values: Values = frozenset()

    def __call__(self) -> Values:
        """The value."""
        if self._find is not None:
            find, self._find = self._find, None  # one that leads to itself is nothing yet
            self._values = find()
        return self._values


@dataclass(frozen=True)
class _Arguments:
    """What a call passes."""

    positional: tuple[_Lazy, ...]
    keywords: dict[str, _Lazy]

    def first(self) -> Values:
        """The argument that functions about modules take first."""
        if self.positional:
            return self.positional[0]()
        return next((self.keywords[name]() for name in _MODULE_KEYWORDS if name in self.keywords), _NOTHING)

    def with_more(self, more: _Arguments | None) -> _Arguments:
        """These arguments, and those of a later call."""
        if more is None:
            return self
        return _Arguments((*self.positional, *more.positional), {**self.keywords, **more.keywords})


_UNSEEN: Values = frozenset({Unseen()})
_NOTHING: Values = frozenset()


@dataclass(eq=False)
class _Frame:
    """One call of a function, or the top of a module."""

    module: Module
    function: FunctionDefinition | None = None
    parameters: dict[str, _Lazy] = field(default_factory=dict)
    busy: frozenset[str] = frozenset()
    names: dict[str, Values] = field(default_factory=dict)


class CallReader:
    """Reads what calls give."""

    def __init__(self, packages: InstalledPackages, knowledge: Knowledge) -> None:
        self._packages = packages
        self._knowledge = knowledge
        self._returned: dict[str, Values | None] = {}
        self._natures: dict[str, Nature] = {}
        self._variables: dict[tuple[str, str], Values] = {}
        self._steps = 0

    def returned(self, dotted: str) -> Values | None:
        """What calling the thing with an absolute dotted name gives, for any arguments.

        Returns:
            `Fresh`, `Argument`, `Wrapped`, `Several` and `Unseen` values; empty for what returns nothing of its own,
            None where no source tells what the name is.
        """
        if dotted not in self._returned:
            self._returned[dotted] = None  # what a name that leads to itself counts as
            # A question may come up while another is answered; its steps are that one's.
            outer, self._steps = self._steps, 0
            self._returned[dotted] = self._read(dotted)
            self._steps += outer
        return self._returned[dotted]

    def _read(self, dotted: str) -> Values | None:
        definition = self._packages.lookup(dotted)
        if definition is None or isinstance(definition, External):
            return None
        frame = _Frame(definition if isinstance(definition, Module) else definition.module)
        callees = self._defined(definition)
        if isinstance(definition, (FunctionDefinition, VariableDefinition)) and definition.owner is not None:
            # A class method makes an instance of the class that it is called on, not of the one that has it.
            above, _, name = dotted.rpartition(".")
            owner = self._packages.lookup(above)
            if isinstance(owner, ClassDefinition):
                callees = self._class_attribute(owner, name, _Defined(owner), frame)
        values = self._join(self._call(each, None, frame) for each in callees)
        return frozenset(Unseen() if isinstance(each, (_Word, _Defined, _Method)) else each for each in values)

    def class_nature(self, cls: ClassDefinition) -> Nature:
        """What the instances of a class are; UNKNOWN where one of its bases is not seen."""
        key = cls.dotted
        if key not in self._natures:
            self._natures[key] = Nature.MODULE  # what a recursive mention of the class counts as
            self._natures[key] = self._find_nature(cls)
        return self._natures[key]

    def _find_nature(self, cls: ClassDefinition) -> Nature:
        ancestors = self._packages.ancestors(cls)
        own = [each for each in ancestors if isinstance(each, ClassDefinition)]
        best = max(
            (self._knowledge.nature_of_base(each.dotted) for each in ancestors if isinstance(each, External)),
            default=Nature.NOT_MODULE,
        )
        if best is not Nature.NO_PARAMS:
            return best
        if any(each.facts.holds for each in own) or not any("forward" in each.facts.methods for each in own):
            return Nature.MODULE
        if any(self._made_in(each, maker) is Nature.MODULE for each in own for maker in each.facts.makers):
            return Nature.MODULE
        called = [self._made_in(each, maker) for each in own for maker in each.facts.called_makers]
        return Nature.MODULE if Nature.UNKNOWN in called else best

    def _made_in(self, cls: ClassDefinition, maker: Expression) -> Nature:
        """What a call in a class makes that its instances keep."""
        found = self._packages.resolve(cls.module, maker.dotted) if isinstance(maker, Name) else None
        if isinstance(found, ClassDefinition):
            return self.class_nature(found)
        if isinstance(found, External):
            if found.dotted == "torch.nn.Parameter":
                return Nature.MODULE
            if self._knowledge.effect_of(found.dotted) in _HANDING_ON:
                return Nature.UNKNOWN
            return self._knowledge.nature_of_call(found.dotted)
        return Nature.UNKNOWN

    # ---- calls ----

    def _call(self, callee: Value, arguments: _Arguments | None, frame: _Frame) -> Values:
        """What a call gives; `arguments` is None for any."""
        if isinstance(callee, _Method):
            return self._call_function(callee.function, callee.receiver, arguments, frame)
        if isinstance(callee, _Partial):
            return self._call(callee.callee, callee.arguments.with_more(arguments), frame)
        if isinstance(callee, _Same):
            return frozenset({callee.receiver})
        if not isinstance(callee, _Defined):
            return _UNSEEN
        definition = callee.definition
        if isinstance(definition, ClassDefinition):
            return frozenset({self._instance(definition, arguments)})
        if isinstance(definition, FunctionDefinition):
            return self._call_function(definition, None, arguments, frame)
        return self._call_external(definition, arguments) if isinstance(definition, External) else _UNSEEN

    def _instance(self, cls: ClassDefinition, arguments: _Arguments | None) -> Fresh:
        given = () if arguments is None else (*arguments.positional, *arguments.keywords.values())
        return Fresh(cls.dotted, self.class_nature(cls), cls.place, cls=cls, arguments=given)

    def _call_external(self, definition: External, arguments: _Arguments | None) -> Values:
        effect = self._knowledge.effect_of(definition.dotted)
        if effect is None:
            nature = self._knowledge.nature_of_call(definition.dotted)
            return _UNSEEN if nature is Nature.UNKNOWN else frozenset({Fresh(definition.dotted, nature)})
        first = _NOTHING if arguments is None else arguments.first()
        if effect is Effect.BUILDS and arguments is not None:
            bound = _Arguments(arguments.positional[1:], arguments.keywords)
            return frozenset(_Partial(each, bound) for each in first) or _UNSEEN
        if effect in (Effect.IDENTITY, Effect.PROXIES, Effect.REPLACES):
            return first or _UNSEEN
        if effect is Effect.WRAPS:
            return frozenset(Wrapped(each) if isinstance(each, Argument) else each for each in first) or _UNSEEN
        if effect is Effect.COPIES and first and not any(isinstance(each, Argument) for each in first):
            return first
        if effect is Effect.COLLECTS:
            return frozenset({_Collection(self._join(self._elements(each, None) for each in first))})
        return frozenset({Fresh(definition.dotted, Nature.NOT_MODULE)}) if effect is Effect.READS else _UNSEEN

    def _call_function(
        self, function: FunctionDefinition, receiver: Value | None, arguments: _Arguments | None, frame: _Frame
    ) -> Values:
        facts = function.facts
        key = function.place
        if key in frame.busy:
            return _NOTHING
        if len(frame.busy) >= _MAX_CALLS:
            return _UNSEEN
        if facts.kind == "generator":
            return frozenset({Fresh(function.name, Nature.NOT_MODULE)})
        inner = _Frame(function.module, function, _bind(facts, receiver, arguments), frame.busy | {key})
        values = self._join(self._evaluate(each, inner) for each in facts.returns)
        if not facts.returns and function.owner is not None:
            values = _UNSEEN  # nothing but an error to raise: those below it give something
        made = {each for each in values if isinstance(each, Fresh) and each.nature is Nature.MODULE}
        if facts.returned is not None and (len(made) > 1 or not any(_is_telling(each) for each in values)):
            said = self._annotated(facts.returned, inner)
            # Of many classes the one that is promised, where it is one of them.
            return said if said and (not made or said <= made) else values
        return values

    def _elements(self, value: Value, index: int | None) -> Values:
        if isinstance(value, Several):
            if index is not None and index < len(value.items):
                return value.items[index]
            return self._join(value.items)
        if isinstance(value, _Collection):
            return value.values or _UNSEEN  # an empty one is filled later
        if isinstance(value, _Defined) and isinstance(value.definition, ClassDefinition):
            return frozenset({value})  # Generic[T]
        if isinstance(value, Fresh) and value.cls is not None and value.nature is Nature.NOT_MODULE:
            return self._named_in(value) or _UNSEEN
        return _UNSEEN

    def _named_in(self, table: Fresh) -> Values:
        """The classes of the table's package that the strings it was made of name.

        Packages that load their modules late keep the names of classes in tables, and look a name up in the package
        when it is asked for (transformers' `MODEL_MAPPING`).
        """
        assert table.cls is not None
        package = table.cls.module.name.partition(".")[0]
        found: set[Value] = set()
        for argument in table.arguments:
            words = [word for word in _words(argument()) if word.isidentifier() and word[:1].isupper()]
            for word in words[:_MAX_ROWS]:
                definition = self._packages.lookup(f"{package}.{word}")
                if isinstance(definition, ClassDefinition):
                    found.add(_Defined(definition))
        return frozenset(found)

    # ---- expressions ----

    def _evaluate(self, expression: Expression, frame: _Frame) -> Values:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            return _UNSEEN
        if isinstance(expression, Name):
            return self._name(expression, frame)
        if isinstance(expression, Call):
            return self._evaluate_call(expression, frame)
        if isinstance(expression, Member):
            return self._join(
                self._attribute(each, expression.name, frame) for each in self._evaluate(expression.of, frame)
            )
        if isinstance(expression, Items):
            return frozenset({Several(tuple(self._evaluate(each, frame) for each in expression.items))})
        if isinstance(expression, Table):
            return frozenset({_Collection(self._join(self._evaluate(each, frame) for each in expression.values))})
        if isinstance(expression, Choice):
            return self._join(self._evaluate(each, frame) for each in expression.choices)
        if isinstance(expression, Element):
            index = expression.index[0].number if _is_number(expression.index) else None
            return self._join(self._elements(each, index) for each in self._evaluate(expression.of, frame))
        if isinstance(expression, Text):
            return frozenset({_Word(expression.text)})
        return _NOTHING if isinstance(expression, (Nothing, Number)) else _UNSEEN

    def _name(self, expression: Name, frame: _Frame) -> Values:
        first, *rest = expression.dotted.split(".")
        values = self._first_name(first, frame)
        for part in rest:
            values = self._join(self._attribute(each, part, frame) for each in values)
        return values

    def _first_name(self, name: str, frame: _Frame) -> Values:
        if name not in frame.names:
            frame.names[name] = frame.parameters[name]() if name in frame.parameters else _NOTHING
            found = [frame.names[name]]
            variables = frame.function.facts.variables.get(name, []) if frame.function is not None else []
            for each in variables:
                if isinstance(each, Imported):
                    found.append(self._defined(self._packages.imported(frame.module, each.dotted)))
                else:
                    found.append(self._evaluate(each, frame))
            if not variables and name not in frame.parameters:
                found.append(self._defined(self._packages.resolve(frame.module, name)))
            frame.names[name] = self._join(found)
        return frame.names[name]

    def _defined(self, definition: Definition | None) -> Values:
        """What a definition is worth; a variable is what was assigned to it."""
        if definition is None:
            return _UNSEEN
        if not isinstance(definition, VariableDefinition):
            return frozenset({_Defined(definition)})
        key = (definition.module.name, definition.place)
        if key not in self._variables:
            self._variables[key] = _NOTHING
            self._variables[key] = self._evaluate(definition.value, _Frame(definition.module))
        return self._variables[key]

    def _evaluate_call(self, call: Call, frame: _Frame) -> Values:
        if call.function == Name("super"):
            return self._super(frame)
        callees = self._evaluate(call.function, frame)
        arguments = _Arguments(
            tuple(self._later(each, frame) for each in call.arguments),
            {name: self._later(each, frame) for name, each in call.keywords.items()},
        )
        return self._join(self._call(each, arguments, frame) for each in callees)

    def _later(self, expression: Expression, frame: _Frame) -> _Lazy:
        return _Lazy(lambda: self._evaluate(expression, frame))

    def _super(self, frame: _Frame) -> Values:
        function = frame.function
        if function is None or function.owner is None or not function.facts.parameters:
            return _UNSEEN
        receivers = self._parameter(function.facts.parameters[0], frame)
        return frozenset(_Above(function.owner, each) for each in receivers)

    def _parameter(self, name: str, frame: _Frame) -> Values:
        return frame.parameters[name]() if name in frame.parameters else _NOTHING

    def _attribute(self, value: Value, name: str, frame: _Frame) -> Values:
        if isinstance(value, _Defined):
            definition = value.definition
            if isinstance(definition, ClassDefinition):
                return self._class_attribute(definition, name, value, frame)
            return self._defined(self._packages.member(definition, name))
        if isinstance(value, _Above):
            for base in self._packages.ancestors(value.cls)[1:]:
                if isinstance(base, ClassDefinition) and name in base.facts.methods:
                    return self._class_attribute(base, name, value.receiver, frame)
            return _UNSEEN
        if isinstance(value, Fresh):
            return self._object_attribute(value, name, frame)
        if isinstance(value, (Argument, Wrapped)) and name in self._knowledge.identity_methods:
            return frozenset({_Same(value)})
        return _UNSEEN

    def _object_attribute(self, value: Fresh, name: str, frame: _Frame) -> Values:
        if value.cls is not None:
            found = self._class_attribute(value.cls, name, value, frame)
            if found != _UNSEEN:
                return found
        if value.nature in (Nature.MODULE, Nature.NO_PARAMS) and name in self._knowledge.identity_methods:
            return frozenset({_Same(value)})
        return _UNSEEN

    def _class_attribute(self, cls: ClassDefinition, name: str, receiver: Value, frame: _Frame) -> Values:
        found = self._packages.class_member(cls, name)
        if isinstance(found, FunctionDefinition):
            if found.facts.kind == "property":
                return self._call_function(found, receiver, None, frame)
            return frozenset({_Method(found, receiver)})
        return self._defined(found)

    # ---- annotations ----

    def _annotated(self, annotation: Expression, frame: _Frame) -> Values:
        """What an annotation says of what is returned; empty where it says nothing of use."""
        if isinstance(annotation, Text):
            return self._annotated(_parsed(annotation.text), frame)
        if isinstance(annotation, Choice):
            return self._join(self._annotated(each, frame) for each in annotation.choices)
        if isinstance(annotation, Element):
            return self._annotated_element(annotation, frame)
        if not isinstance(annotation, Name):
            return _NOTHING
        definition = self._packages.resolve(frame.module, annotation.dotted)
        if isinstance(definition, ClassDefinition):
            return frozenset({Fresh(definition.dotted, self.class_nature(definition), definition.place, True)})
        if isinstance(definition, VariableDefinition):
            return self._type_variable(definition, annotation, frame)
        if not isinstance(definition, External):
            return _NOTHING
        name = definition.dotted
        if name in _SAMES:
            first = frame.function.facts.parameters[:1] if frame.function is not None else []
            receivers = [each for parameter in first for each in self._parameter(parameter, frame)]
            return self._join(self._made_by(each, frame) for each in receivers)
        if self._knowledge.is_module_class(name):
            return frozenset({Fresh(name, Nature.MODULE, frame.function.place if frame.function else "", True)})
        if name in {"typing.Any", "builtins.object"} or self._knowledge.nature_of_call(name) is Nature.UNKNOWN:
            return _NOTHING
        return frozenset({Fresh(name, Nature.NOT_MODULE, is_annotated=True)})

    def _annotated_element(self, annotation: Element, frame: _Frame) -> Values:
        base = self._origin(annotation.of, frame)
        if base in _OPTIONAL:
            return self._join(self._annotated(each, frame) for each in annotation.index)
        if base in _TUPLES:
            items = tuple(self._annotated(each, frame) or _UNSEEN for each in annotation.index)
            return frozenset({Several(items)})
        return self._annotated(annotation.of, frame) if base else _NOTHING

    def _origin(self, expression: Expression, frame: _Frame) -> str:
        found = self._packages.resolve(frame.module, expression.dotted) if isinstance(expression, Name) else None
        return found.dotted if isinstance(found, (External, ClassDefinition)) else ""

    def _type_variable(self, definition: VariableDefinition, annotation: Name, frame: _Frame) -> Values:
        """A type variable stands for what the parameters that mention it were given."""
        if not isinstance(definition.value, Call):
            is_alias = isinstance(definition.value, (Name, Element, Choice)) and definition.value != annotation
            inner = _Frame(definition.module, frame.function, frame.parameters, frame.busy | {definition.place})
            is_new = definition.place not in frame.busy
            return self._annotated(definition.value, inner) if is_alias and is_new else _NOTHING
        function = frame.function
        found: list[Values] = []
        for name, said in function.facts.annotations.items() if function is not None else ():
            for each in self._parameter(name, frame):
                if said == annotation:
                    found.append(frozenset({each}))
                elif self._mentions_type(said, annotation, frame):
                    found.append(self._made_by(each, frame))
        values = self._join(found)
        bound = definition.value.keywords.get("bound")
        if any(_is_telling(each) for each in values) or bound is None:
            return values
        return self._annotated(bound, _Frame(definition.module, busy=frame.busy))

    def _mentions_type(self, said: Expression, variable: Name, frame: _Frame) -> bool:
        """Whether an annotation is of something that makes what the variable stands for: `type[T]`."""
        if isinstance(said, Choice):
            return any(self._mentions_type(each, variable, frame) for each in said.choices)
        if not isinstance(said, Element):
            return False
        base = self._origin(said.of, frame)
        if base in _OPTIONAL:
            return any(self._mentions_type(each, variable, frame) for each in said.index)
        makes = base in _TYPES or base.endswith(".Callable")
        return makes and bool(said.index) and said.index[-1] == variable

    def _made_by(self, value: Value, frame: _Frame) -> Values:
        """An instance of a class, or the object itself."""
        is_class = isinstance(value, _Defined) and isinstance(value.definition, (ClassDefinition, External))
        if is_class or (isinstance(value, _Defined) and isinstance(value.definition, FunctionDefinition)):
            return self._call(value, None, frame)
        return frozenset({value})

    def _join(self, values: Iterable[Values]) -> Values:
        found: set[Value] = set()
        for each in values:
            found |= each
        if len(found) > _MAX_VALUES:
            return frozenset(sorted(found, key=repr)[:_MAX_VALUES])
        return frozenset(found)


def _bind(facts: FunctionFacts, receiver: Value | None, arguments: _Arguments | None) -> dict[str, _Lazy]:
    """What each parameter holds; for any arguments, the parameters themselves."""
    names = list(facts.parameters)
    bound: dict[str, _Lazy] = {}
    positional = facts.positional
    is_class = isinstance(receiver, _Defined)
    if receiver is not None and names and facts.kind != "static" and (not is_class or facts.kind == "class"):
        bound[names.pop(0)] = _known(receiver)
        positional -= 1
    if arguments is None:
        given = {
            name: _known(Argument(position if position < positional else None, name))
            for position, name in enumerate(names)
        }
        return {**bound, **given}
    bound.update(zip(names[:positional], arguments.positional, strict=False))
    bound.update((name, values) for name, values in arguments.keywords.items() if name in names)
    return bound


def _known(value: Value) -> _Lazy:
    return _Lazy(lambda: frozenset({value}))


def _words(values: Values) -> Iterator[str]:
    """The strings in a value, in the order of their tables as far as it is known."""
    for each in sorted(values, key=repr):
        if isinstance(each, _Word):
            yield each.text
        elif isinstance(each, Several):
            for item in each.items:
                yield from _words(item)
        elif isinstance(each, _Collection):
            yield from _words(each.values)


def _is_number(index: list[Expression]) -> TypeGuard[list[Number]]:
    return len(index) == 1 and isinstance(index[0], Number)


def _is_telling(value: Value) -> bool:
    return not isinstance(value, (Unseen, _Word))


def _parsed(annotation: str) -> Expression:
    """An annotation that is written as a string."""
    try:
        return read_expression(annotation)
    except (SyntaxError, ValueError):
        return Other()
