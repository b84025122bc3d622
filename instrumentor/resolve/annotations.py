"""Return types that annotations in library sources give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from instrumentor.resolve.call_values import (
    NOTHING,
    UNSEEN,
    Arguments,
    Defined,
    Frame,
    Fresh,
    Several,
    Value,
    Values,
    is_telling,
    join,
)
from instrumentor.resolve.installed import ClassDefinition, External, FunctionDefinition, VariableDefinition
from instrumentor.resolve.module_facts import Call, Choice, Element, Expression, Name, Other, Text
from instrumentor.resolve.module_reader import read_expression
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from instrumentor.resolve.installed import InstalledPackages
    from instrumentor.resolve.parameters import Names

_OPTIONAL = frozenset({"typing.Optional", "typing.Union", "typing.Annotated", "typing.Final", "typing.ClassVar"})
_TUPLES = frozenset({"typing.Tuple", "builtins.tuple"})
_TYPES = frozenset({"typing.Type", "builtins.type"})
_SAMES = frozenset({"typing.Self", "typing_extensions.Self"})


class Calls(Protocol):
    """Evaluates calls."""

    def class_nature(self, cls: ClassDefinition) -> Nature:
        """The nature of a class's instances."""
        ...

    def call(self, callee: Value, arguments: Arguments | None, frame: Frame) -> Values:
        """The result of a call."""
        ...


class AnnotationReader:
    """Evaluates annotations. A type variable stands for the arguments of the parameters that mention it."""

    def __init__(self, packages: InstalledPackages, outside: Names, calls: Calls) -> None:
        self._packages = packages
        self._outside = outside
        self._calls = calls

    def read(self, annotation: Expression, frame: Frame) -> Values:
        """The values that an annotation allows; empty if it says nothing useful."""
        if isinstance(annotation, Text):
            return self.read(_parsed(annotation.text), frame)
        if isinstance(annotation, Choice):
            return join(self.read(each, frame) for each in annotation.choices)
        if isinstance(annotation, Element):
            return self._element(annotation, frame)
        if not isinstance(annotation, Name):
            return NOTHING
        definition = self._packages.resolve(frame.module, annotation.dotted)
        if isinstance(definition, ClassDefinition):
            return frozenset({Fresh(definition.dotted, self._calls.class_nature(definition), definition.place, True)})
        if isinstance(definition, VariableDefinition):
            return self._type_variable(definition, annotation, frame)
        if not isinstance(definition, External):
            return NOTHING
        name = definition.dotted
        if name in _SAMES:
            first = frame.function.facts.parameters[:1] if frame.function is not None else []
            receivers = [each for parameter in first for each in frame.parameter(parameter)]
            return join(self._made_by(each, frame) for each in receivers)
        if self._outside.is_module_class(name):
            return frozenset({Fresh(name, Nature.MODULE, frame.function.place if frame.function else "", True)})
        if name in {"typing.Any", "builtins.object"} or self._outside.nature_of_call(name) is Nature.UNKNOWN:
            return NOTHING
        return frozenset({Fresh(name, Nature.NOT_MODULE, is_annotated=True)})

    def _element(self, annotation: Element, frame: Frame) -> Values:
        base = self._origin(annotation.of, frame)
        if base in _OPTIONAL:
            return join(self.read(each, frame) for each in annotation.index)
        if base in _TUPLES:
            items = tuple(self.read(each, frame) or UNSEEN for each in annotation.index)
            return frozenset({Several(items)})
        return self.read(annotation.of, frame) if base else NOTHING

    def _origin(self, expression: Expression, frame: Frame) -> str:
        found = self._packages.resolve(frame.module, expression.dotted) if isinstance(expression, Name) else None
        return found.dotted if isinstance(found, (External, ClassDefinition)) else ""

    def _type_variable(self, definition: VariableDefinition, annotation: Name, frame: Frame) -> Values:
        """The arguments of the parameters that mention a type variable, or the values of an alias."""
        if not isinstance(definition.value, Call):
            is_alias = isinstance(definition.value, (Name, Element, Choice)) and definition.value != annotation
            inner = Frame(definition.module, frame.function, frame.parameters, frame.busy | {definition.place})
            is_new = definition.place not in frame.busy
            return self.read(definition.value, inner) if is_alias and is_new else NOTHING
        function = frame.function
        found: list[Values] = []
        for name, said in function.facts.annotations.items() if function is not None else ():
            for each in frame.parameter(name):
                if said == annotation:
                    found.append(frozenset({each}))
                elif self._mentions_type(said, annotation, frame):
                    found.append(self._made_by(each, frame))
        values = join(found)
        bound = definition.value.keywords.get("bound")
        if any(is_telling(each) for each in values) or bound is None:
            return values
        return self.read(bound, Frame(definition.module, busy=frame.busy))

    def _mentions_type(self, said: Expression, variable: Name, frame: Frame) -> bool:
        """Whether an annotation is of something that makes values of the variable's type, as `type[T]` is."""
        if isinstance(said, Choice):
            return any(self._mentions_type(each, variable, frame) for each in said.choices)
        if not isinstance(said, Element):
            return False
        base = self._origin(said.of, frame)
        if base in _OPTIONAL:
            return any(self._mentions_type(each, variable, frame) for each in said.index)
        makes = base in _TYPES or base.endswith(".Callable")
        return makes and bool(said.index) and said.index[-1] == variable

    def _made_by(self, value: Value, frame: Frame) -> Values:
        """An instance of a class, the result of a function, or the object itself."""
        is_class = isinstance(value, Defined) and isinstance(value.definition, (ClassDefinition, External))
        if is_class or (isinstance(value, Defined) and isinstance(value.definition, FunctionDefinition)):
            return self._calls.call(value, None, frame)
        return frozenset({value})


def _parsed(annotation: str) -> Expression:
    """The expression in a string annotation."""
    try:
        return read_expression(annotation)
    except (SyntaxError, ValueError):
        return Other()
