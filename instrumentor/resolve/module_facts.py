"""What a module of an installed package defines, as plain data that outlives its tree.

Only what can tell what a call gives is kept: names with what they stand for, and what functions return. Facts are
msgspec structs, so that they can be written to a file and read back.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Name(msgspec.Struct, frozen=True, array_like=True, tag="name", gc=False):
    """A name, or a dotted name that starts with one: `nn.Module`."""

    dotted: str


class Imported(msgspec.Struct, frozen=True, array_like=True, tag="import", gc=False):
    """What an import binds: a dotted name, which starts with dots where it is relative."""

    dotted: str


class Member(msgspec.Struct, frozen=True, array_like=True, tag="member"):
    """An attribute of what is no dotted name: `super().build`."""

    of: Expression
    name: str


class Call(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """A call; a starred argument is left out, and the ones by position after it with it."""

    function: Expression
    arguments: list[Expression]
    keywords: dict[str, Expression]


class Element(msgspec.Struct, frozen=True, array_like=True, tag="element"):
    """A subscript: an element of a container, or an annotation such as `Optional[Net]`."""

    of: Expression
    index: list[Expression]


class Items(msgspec.Struct, frozen=True, array_like=True, tag="items"):
    """A tuple or list of known length; of a long one its first items."""

    items: list[Expression]


class Table(msgspec.Struct, frozen=True, array_like=True, tag="table"):
    """A dict, set or comprehension: any of its values may be meant; of a large one its first values."""

    values: list[Expression]


class Choice(msgspec.Struct, frozen=True, array_like=True, tag="choice"):
    """One of several: `a if test else b`, `a or b`, `A | B`."""

    choices: list[Expression]


class Text(msgspec.Struct, frozen=True, array_like=True, tag="text", gc=False):
    """A string."""

    text: str


class Number(msgspec.Struct, frozen=True, array_like=True, tag="number", gc=False):
    """A small whole number."""

    number: int


class Nothing(msgspec.Struct, frozen=True, array_like=True, tag="none", gc=False):
    """None."""


class Other(msgspec.Struct, frozen=True, array_like=True, tag="other", gc=False):
    """Anything that tells nothing about modules."""


Expression: TypeAlias = (
    Name | Imported | Member | Call | Element | Items | Table | Choice | Text | Number | Nothing | Other
)


class FunctionFacts(msgspec.Struct, frozen=True, array_like=True, tag="function"):
    """One function or method.

    Attributes:
        line: where its `def` stands, from 1.
        parameters: those that can be given by position, then those by keyword only.
        positional: how many of them can be given by position.
        annotations: what the parameters are said to be.
        returned: what it is said to return.
        returns: what its return statements give.
        variables: what the names that `returns` leads to may hold.
        kind: "static", "class" or "property" for methods; "generator" for what returns no value of its own.
        registers: it may put a parameter or a module into what it is passed; not told of methods.
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


class HeldFacts(msgspec.Struct, frozen=True, array_like=True):
    """What the methods of a class keep in its instances, and what they do with it.

    Attributes:
        makers: for each attribute, what is called in the values that are stored there.
        given: the attributes in which something other than a call's result is stored.
        used: the attributes that are called or trained.
        with_called_parts: the attributes of which something is called.
        registers: whether a parameter or a module may be put in by other ways than an attribute's store
            (`own_object.may_register`), or taken from a table.
        helpers: the functions that the instance is passed to.
    """

    makers: dict[str, list[Expression]] = {}
    given: list[str] = []
    used: list[str] = []
    with_called_parts: list[str] = []
    registers: bool = False
    helpers: list[Expression] = []


class ClassFacts(msgspec.Struct, frozen=True, array_like=True, tag="class"):
    """One class.

    Attributes:
        line: where its `class` stands, from 1.
        bases: its bases, as written.
        methods: its own methods.
        attributes: what is assigned in its body.
        held: what its methods keep in its instances.
    """

    line: int
    bases: list[Expression]
    methods: dict[str, FunctionFacts]
    attributes: dict[str, Expression]
    held: HeldFacts = HeldFacts()


class VariableFacts(msgspec.Struct, frozen=True, array_like=True, tag="variable"):
    """One import of a name, or one assignment to it."""

    value: Expression
    annotation: Expression | None = None


Binding: TypeAlias = ClassFacts | FunctionFacts | VariableFacts


class ModuleFacts(msgspec.Struct, frozen=True):
    """One module.

    Attributes:
        names: what each name is bound to, in the order of the text; branches that exclude one another included.
        stars: the modules that everything is imported from, as `Imported` has them.
        exported: `__all__` where it is one list of strings.
    """

    names: dict[str, list[Binding]]
    stars: list[str]
    exported: list[str] | None = None
