"""The definitions in a module of an installed package, as plain data that outlives its tree.

Only what may determine the result of a call is included: the meaning of names, and what functions return. Facts are
msgspec structs, so that they can be stored in a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

# How the names of attributes of the object at hand begin.
OWN = "self."


class Name(msgspec.Struct, frozen=True, array_like=True, tag="name", gc=False):
    """A dotted name: `nn.Module`."""

    dotted: str


class Imported(msgspec.Struct, frozen=True, array_like=True, tag="import", gc=False):
    """The target of an import: a dotted name, with leading dots if it is relative."""

    dotted: str


class Member(msgspec.Struct, frozen=True, array_like=True, tag="member"):
    """An attribute of something that is no dotted name: `super().build`."""

    of: Expression
    name: str


class Call(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """A call. The first starred argument and all positional arguments after it are left out."""

    function: Expression
    arguments: list[Expression]
    keywords: dict[str, Expression]


class Element(msgspec.Struct, frozen=True, array_like=True, tag="element"):
    """A subscript: an element of a container, or an annotation such as `Optional[Net]`."""

    of: Expression
    index: list[Expression]


class Items(msgspec.Struct, frozen=True, array_like=True, tag="items"):
    """A tuple or list of known length. Only the first items of a long one are kept."""

    items: list[Expression]


class Table(msgspec.Struct, frozen=True, array_like=True, tag="table"):
    """A dict, set or comprehension, whose values are not distinguished. Of a large one, only the first are kept."""

    values: list[Expression]


class Choice(msgspec.Struct, frozen=True, array_like=True, tag="choice"):
    """One of several alternatives: `a if test else b`, `a or b`, `A | B`."""

    choices: list[Expression]


class Text(msgspec.Struct, frozen=True, array_like=True, tag="text", gc=False):
    """A string."""

    text: str


class Number(msgspec.Struct, frozen=True, array_like=True, tag="number", gc=False):
    """A small integer."""

    number: int


class Nothing(msgspec.Struct, frozen=True, array_like=True, tag="none", gc=False):
    """None."""


class Other(msgspec.Struct, frozen=True, array_like=True, tag="other", gc=False):
    """Anything without information about modules."""


Expression: TypeAlias = (
    Name | Imported | Member | Call | Element | Items | Table | Choice | Text | Number | Nothing | Other
)


class FunctionFacts(msgspec.Struct, frozen=True, array_like=True, tag="function"):
    """A function or method.

    Attributes:
        line: the line of its `def`, from 1.
        parameters: the positional parameters, then the keyword-only ones.
        positional: the number of positional parameters.
        annotations: the annotations of parameters.
        returned: the annotation of the result.
        returns: the values of its return statements.
        variables: the possible values of the variables on which `returns` depends.
        kind: "static", "class" or "property" for methods; "generator" for generator functions.
        registers: whether it may register a parameter or a module in its arguments; always false for methods.
    """

    line: int
    parameters: list[str]
    positional: int
    annotations: dict[str, Expression]
    returned: Expression | None
    returns: list[Expression]
    variables: dict[str, list[Expression]]
    kind: str = ""
    registers: bool = False


class StoredFacts(msgspec.Struct, frozen=True, array_like=True):
    """A value that the code of a class stores in an attribute of its instances.

    Attributes:
        attribute: the attribute.
        value: the value. Lambdas and constants are `Nothing`, and starred arguments of calls are `Other`.
        calls: all calls in it, and in what is assigned to it if it is a local variable. Of their arguments, only
            whether there are any positional ones.
        assigned: if it is a local variable or an element of one, all that the variable is assigned.
        declared: if it is a parameter, its annotation.
    """

    attribute: str
    value: Expression
    calls: list[Call]
    assigned: list[Expression] = []
    declared: Expression | None = None


class HeldFacts(msgspec.Struct, frozen=True, array_like=True):
    """What the code of a class stores in its instances, which it names `self` here, and how it uses that.

    Attributes:
        stored: the stored values.
        called: the attributes that are called, iterated over, or used as modules.
        with_called_elements: the attributes whose elements are called.
        with_called_parts: the attributes of which a member is called.
        registers: whether a parameter or a module may be registered in another way than by storing an attribute
            (`own_object.may_register`), or taken from a table. The rest is then empty.
        helpers: the functions to which the instance is passed.
    """

    stored: list[StoredFacts] = []
    called: list[str] = []
    with_called_elements: list[str] = []
    with_called_parts: list[str] = []
    registers: bool = False
    helpers: list[str] = []


class ClassFacts(msgspec.Struct, frozen=True, array_like=True, tag="class"):
    """A class.

    Attributes:
        line: the line of its `class`, from 1.
        bases: its bases, as written.
        methods: its own methods.
        attributes: the assignments in its body.
        held: what its methods store in its instances.
    """

    line: int
    bases: list[Expression]
    methods: dict[str, FunctionFacts]
    attributes: dict[str, Expression]
    held: HeldFacts = HeldFacts()


class VariableFacts(msgspec.Struct, frozen=True, array_like=True, tag="variable"):
    """An import of a name, or an assignment to it."""

    value: Expression
    annotation: Expression | None = None


Binding: TypeAlias = ClassFacts | FunctionFacts | VariableFacts


class ModuleFacts(msgspec.Struct, frozen=True):
    """A module.

    Attributes:
        names: the bindings of each name, in the order of the text, including those on exclusive branches.
        stars: the modules from which it imports everything, as in `Imported`.
        exported: `__all__`, if it is a single list of strings.
    """

    names: dict[str, list[Binding]]
    stars: list[str]
    exported: list[str] | None = None


def names_in(expression: Expression | None) -> Iterator[str]:
    """The dotted names in an expression."""
    pending = [expression]
    while pending:
        each = pending.pop()
        if isinstance(each, Name):
            yield each.dotted
        elif isinstance(each, Member):
            pending.append(each.of)
        elif isinstance(each, Call):
            pending.extend((each.function, *each.arguments, *each.keywords.values()))
        elif isinstance(each, Element):
            pending.extend((each.of, *each.index))
        elif isinstance(each, Items):
            pending.extend(each.items)
        elif isinstance(each, Table):
            pending.extend(each.values)
        elif isinstance(each, Choice):
            pending.extend(each.choices)
