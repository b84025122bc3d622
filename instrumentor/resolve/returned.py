"""What calling something of an installed package returns, by a light reading of its source.

A function returns the values of its return statements. The calls in them are followed, also through other modules, with
their arguments: `build_model_with_cfg(ResNet, ...)` calls its first parameter. Order and branches are ignored: every
return and every value of a name counts. If the returns say nothing, the function's annotations are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from instrumentor.resolve.annotations import AnnotationReader
from instrumentor.resolve.call_values import (
    NOTHING,
    UNSEEN,
    Above,
    Argument,
    Arguments,
    Collection,
    Defined,
    Frame,
    Fresh,
    Lazy,
    Method,
    PartialCall,
    Same,
    Several,
    Unseen,
    Value,
    Values,
    Word,
    Wrapped,
    bind,
    is_telling,
    join,
    words,
)
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.installed import (
    ClassDefinition,
    External,
    FunctionDefinition,
    Module,
    VariableDefinition,
)
from instrumentor.resolve.module_facts import (
    Call,
    Choice,
    Element,
    Expression,
    Imported,
    Items,
    Member,
    Name,
    Nothing,
    Number,
    Table,
    Text,
)
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.parameters import Meaning, ParameterSearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.installed import Definition, InstalledPackages
    from instrumentor.resolve.module_facts import HeldFacts
    from instrumentor.resolve.parameters import Names

# Limits on the depth of calls, and on the number of expressions evaluated for one query.
_MAX_CALLS = 14
_MAX_STEPS = 5_000
# The number of names looked up in a table. They are of one kind.
_MAX_ROWS = 2


class LibraryDefinitions:
    """The classes and functions of installed packages, for `ParameterSearch`."""

    def __init__(self, packages: InstalledPackages, nature: Callable[[ClassDefinition], Nature]) -> None:
        self._packages = packages
        self.nature = nature

    def meaning(
        self, where: ClassDefinition | FunctionDefinition, name: str
    ) -> Meaning[ClassDefinition, FunctionDefinition]:
        """The meaning of a dotted name in the module of a class or function."""
        found = self._packages.resolve(where.module, name)
        if isinstance(found, ClassDefinition):
            return Meaning(cls=found)
        if isinstance(found, FunctionDefinition):
            return Meaning(function=found)
        return Meaning(library=found.dotted) if isinstance(found, External) else Meaning()

    def method(self, cls: ClassDefinition, name: str) -> FunctionDefinition | None:
        """The method that an instance of a class has."""
        found = self._packages.class_member(cls, name)
        return found if isinstance(found, FunctionDefinition) else None

    def ancestors(self, cls: ClassDefinition) -> list[ClassDefinition]:
        """The class and its ancestors, as far as their sources are read."""
        return [each for each in self._packages.ancestors(cls) if isinstance(each, ClassDefinition)]

    def library_bases(self, cls: ClassDefinition) -> list[str]:
        """The bases of a class and its ancestors whose sources are not read."""
        return [each.dotted for each in self._packages.ancestors(cls) if isinstance(each, External)]

    def held(self, cls: ClassDefinition) -> HeldFacts:
        """What the code of the class itself stores in its instances."""
        return cls.facts.held

    def registers(self, function: FunctionDefinition) -> bool:
        """Whether a function may register something in one of its arguments, or pass it on."""
        return function.facts.registers

    def calls_in(self, function: FunctionDefinition) -> None:  # noqa: ARG002
        """None: only calls that determine a function's result are kept."""
        return


class CallReader:
    """Evaluates calls abstractly."""

    def __init__(self, packages: InstalledPackages, outside: Names) -> None:
        self._packages = packages
        self._outside = outside
        self._annotations = AnnotationReader(packages, outside, self)
        self._definitions = LibraryDefinitions(packages, self.class_nature)
        self._parameters = ParameterSearch(self._definitions, outside, {})
        self._returned: dict[str, Values | None] = {}
        self._natures: dict[str, Nature] = {}
        self._variables: dict[tuple[str, str], Values] = {}
        self._steps = 0

    def returned(self, dotted: str) -> Values | None:
        """What calling something by its absolute dotted name returns, for any arguments.

        Returns:
            `Fresh`, `Argument`, `Wrapped`, `Several` and `Unseen` values; empty if it returns nothing of its own; None
            if no source defines the name.
        """
        if dotted not in self._returned:
            self._returned[dotted] = None  # the value for a name that leads to itself
            # One query may cause another. The steps of both count for the first.
            outer, self._steps = self._steps, 0
            self._returned[dotted] = self._read(dotted)
            self._steps += outer
        return self._returned[dotted]

    def _read(self, dotted: str) -> Values | None:
        definition = self._packages.lookup(dotted)
        if definition is None or isinstance(definition, External):
            return None
        frame = Frame(definition if isinstance(definition, Module) else definition.module)
        callees = self._defined(definition)
        if isinstance(definition, (FunctionDefinition, VariableDefinition)) and definition.owner is not None:
            # A class method makes an instance of the class on which it is called, not of the one that defines it.
            above, _, name = dotted.rpartition(".")
            owner = self._packages.lookup(above)
            if isinstance(owner, ClassDefinition):
                callees = self._class_attribute(owner, name, Defined(owner), frame)
        values = join(self.call(each, None, frame) for each in callees)
        return frozenset(Unseen() if isinstance(each, (Word, Defined, Method)) else each for each in values)

    def class_nature(self, cls: ClassDefinition) -> Nature:
        """The nature of a class's instances; UNKNOWN if one of its bases is not seen."""
        key = cls.dotted
        if key not in self._natures:
            self._natures[key] = Nature.MODULE  # the value for recursive references to the class
            self._natures[key] = self._find_nature(cls)
        return self._natures[key]

    def _find_nature(self, cls: ClassDefinition) -> Nature:
        bases = self._definitions.library_bases(cls)
        best = max(map(self._outside.nature_of_base, bases), default=Nature.NOT_MODULE)
        return self._parameters.nature(cls) if best is Nature.NO_PARAMS else best

    # ---- calls ----

    def call(self, callee: Value, arguments: Arguments | None, frame: Frame) -> Values:
        """The result of a call; `arguments` is None for any."""
        if isinstance(callee, Method):
            return self._call_function(callee.function, callee.receiver, arguments, frame)
        if isinstance(callee, PartialCall):
            return self.call(callee.callee, callee.arguments.with_more(arguments), frame)
        if isinstance(callee, Same):
            return frozenset({callee.receiver})
        if not isinstance(callee, Defined):
            return UNSEEN
        definition = callee.definition
        if isinstance(definition, ClassDefinition):
            return frozenset({self._instance(definition, arguments)})
        if isinstance(definition, FunctionDefinition):
            return self._call_function(definition, None, arguments, frame)
        return self._call_external(definition, arguments) if isinstance(definition, External) else UNSEEN

    def _instance(self, cls: ClassDefinition, arguments: Arguments | None) -> Fresh:
        given = () if arguments is None else (*arguments.positional, *arguments.keywords.values())
        return Fresh(cls.dotted, self.class_nature(cls), cls.place, cls=cls, arguments=given)

    def _call_external(self, definition: External, arguments: Arguments | None) -> Values:
        effect = self._outside.effect_of(definition.dotted)
        if effect is None:
            nature = self._outside.nature_of_call(definition.dotted)
            return UNSEEN if nature is Nature.UNKNOWN else frozenset({Fresh(definition.dotted, nature)})
        first = NOTHING if arguments is None else arguments.first()
        if effect is Effect.BUILDS and arguments is not None:
            bound = Arguments(arguments.positional[1:], arguments.keywords)
            return frozenset(PartialCall(each, bound) for each in first) or UNSEEN
        if effect in (Effect.IDENTITY, Effect.PROXIES, Effect.REPLACES):
            return first or UNSEEN
        if effect is Effect.WRAPS:
            return frozenset(Wrapped(each) if isinstance(each, Argument) else each for each in first) or UNSEEN
        if effect is Effect.COPIES and first and not any(isinstance(each, Argument) for each in first):
            return first
        if effect is Effect.COLLECTS:
            return frozenset({Collection(join(self._elements(each, None) for each in first))})
        return frozenset({Fresh(definition.dotted, Nature.NOT_MODULE)}) if effect is Effect.READS else UNSEEN

    def _call_function(
        self, function: FunctionDefinition, receiver: Value | None, arguments: Arguments | None, frame: Frame
    ) -> Values:
        facts = function.facts
        key = function.place
        if key in frame.busy:
            return NOTHING
        if len(frame.busy) >= _MAX_CALLS:
            return UNSEEN
        if facts.kind == "generator":
            return frozenset({Fresh(function.name, Nature.NOT_MODULE)})
        inner = Frame(function.module, function, bind(facts, receiver, arguments), frame.busy | {key})
        values = join(self._evaluate(each, inner) for each in facts.returns)
        if not facts.returns and function.owner is not None:
            values = UNSEEN  # it only raises an error: the methods of subclasses return something
        made = {each for each in values if isinstance(each, Fresh) and each.nature is Nature.MODULE}
        if facts.returned is not None and (len(made) > 1 or not any(is_telling(each) for each in values)):
            said = self._annotations.read(facts.returned, inner)
            # Of several classes, the annotated one, if it is one of them.
            return said if said and (not made or said <= made) else values
        return values

    def _elements(self, value: Value, index: int | None) -> Values:
        if isinstance(value, Several):
            if index is not None and index < len(value.items):
                return value.items[index]
            return join(value.items)
        if isinstance(value, Collection):
            return value.values or UNSEEN  # an empty container is filled later
        if isinstance(value, Defined) and isinstance(value.definition, ClassDefinition):
            return frozenset({value})  # Generic[T]
        if isinstance(value, Fresh) and value.cls is not None and value.nature is Nature.NOT_MODULE:
            return self._named_in(value) or UNSEEN
        return UNSEEN

    def _named_in(self, table: Fresh) -> Values:
        """The classes of the table's package that the strings in its arguments name.

        Packages that load modules lazily keep class names in tables and look them up in the package on access
        (transformers' `MODEL_MAPPING`).
        """
        assert table.cls is not None
        package = table.cls.module.name.partition(".")[0]
        found: set[Value] = set()
        for argument in table.arguments:
            names = [word for word in words(argument()) if word.isidentifier() and word[:1].isupper()]
            for word in names[:_MAX_ROWS]:
                definition = self._packages.lookup(f"{package}.{word}")
                if isinstance(definition, ClassDefinition):
                    found.add(Defined(definition))
        return frozenset(found)

    # ---- expressions ----

    def _evaluate(self, expression: Expression, frame: Frame) -> Values:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            return UNSEEN
        if isinstance(expression, Name):
            return self._name(expression, frame)
        if isinstance(expression, Call):
            return self._evaluate_call(expression, frame)
        if isinstance(expression, Member):
            return join(self._attribute(each, expression.name, frame) for each in self._evaluate(expression.of, frame))
        if isinstance(expression, Items):
            return frozenset({Several(tuple(self._evaluate(each, frame) for each in expression.items))})
        if isinstance(expression, Table):
            return frozenset({Collection(join(self._evaluate(each, frame) for each in expression.values))})
        if isinstance(expression, Choice):
            return join(self._evaluate(each, frame) for each in expression.choices)
        if isinstance(expression, Element):
            index = expression.index[0].number if _is_number(expression.index) else None
            return join(self._elements(each, index) for each in self._evaluate(expression.of, frame))
        if isinstance(expression, Text):
            return frozenset({Word(expression.text)})
        return NOTHING if isinstance(expression, (Nothing, Number)) else UNSEEN

    def _name(self, expression: Name, frame: Frame) -> Values:
        first, *rest = expression.dotted.split(".")
        values = self._first_name(first, frame)
        for part in rest:
            values = join(self._attribute(each, part, frame) for each in values)
        return values

    def _first_name(self, name: str, frame: Frame) -> Values:
        if name not in frame.names:
            frame.names[name] = frame.parameters[name]() if name in frame.parameters else NOTHING
            found = [frame.names[name]]
            variables = frame.function.facts.variables.get(name, []) if frame.function is not None else []
            for each in variables:
                if isinstance(each, Imported):
                    found.append(self._defined(self._packages.imported(frame.module, each.dotted)))
                else:
                    found.append(self._evaluate(each, frame))
            if not variables and name not in frame.parameters:
                found.append(self._defined(self._packages.resolve(frame.module, name)))
            frame.names[name] = join(found)
        return frame.names[name]

    def _defined(self, definition: Definition | None) -> Values:
        """The value of a definition; for a variable, the value assigned to it."""
        if definition is None:
            return UNSEEN
        if not isinstance(definition, VariableDefinition):
            return frozenset({Defined(definition)})
        key = (definition.module.name, definition.place)
        if key not in self._variables:
            self._variables[key] = NOTHING
            self._variables[key] = self._evaluate(definition.value, Frame(definition.module))
        return self._variables[key]

    def _evaluate_call(self, call: Call, frame: Frame) -> Values:
        if call.function == Name("super"):
            return self._super(frame)
        callees = self._evaluate(call.function, frame)
        arguments = Arguments(
            tuple(self._later(each, frame) for each in call.arguments),
            {name: self._later(each, frame) for name, each in call.keywords.items()},
        )
        return join(self.call(each, arguments, frame) for each in callees)

    def _later(self, expression: Expression, frame: Frame) -> Lazy:
        return Lazy(lambda: self._evaluate(expression, frame))

    def _super(self, frame: Frame) -> Values:
        function = frame.function
        if function is None or function.owner is None or not function.facts.parameters:
            return UNSEEN
        receivers = frame.parameter(function.facts.parameters[0])
        return frozenset(Above(function.owner, each) for each in receivers)

    def _attribute(self, value: Value, name: str, frame: Frame) -> Values:
        if isinstance(value, Defined):
            definition = value.definition
            if isinstance(definition, ClassDefinition):
                return self._class_attribute(definition, name, value, frame)
            return self._defined(self._packages.member(definition, name))
        if isinstance(value, Above):
            for base in self._packages.ancestors(value.cls)[1:]:
                if isinstance(base, ClassDefinition) and name in base.facts.methods:
                    return self._class_attribute(base, name, value.receiver, frame)
            return UNSEEN
        if isinstance(value, Fresh):
            return self._object_attribute(value, name, frame)
        if isinstance(value, (Argument, Wrapped)) and name in self._outside.identity_methods:
            return frozenset({Same(value)})
        return UNSEEN

    def _object_attribute(self, value: Fresh, name: str, frame: Frame) -> Values:
        if value.cls is not None:
            found = self._class_attribute(value.cls, name, value, frame)
            if found != UNSEEN:
                return found
        if value.nature in (Nature.MODULE, Nature.NO_PARAMS) and name in self._outside.identity_methods:
            return frozenset({Same(value)})
        return UNSEEN

    def _class_attribute(self, cls: ClassDefinition, name: str, receiver: Value, frame: Frame) -> Values:
        found = self._packages.class_member(cls, name)
        if isinstance(found, FunctionDefinition):
            if found.facts.kind == "property":
                return self._call_function(found, receiver, None, frame)
            return frozenset({Method(found, receiver)})
        return self._defined(found)


def _is_number(index: list[Expression]) -> TypeGuard[list[Number]]:
    return len(index) == 1 and isinstance(index[0], Number)
