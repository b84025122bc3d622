"""What is known of values, and how it passes from one to the next."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple


class May(IntFlag):
    """What a value may be.

    Attributes:
        MADE: a module that a call made here.
        HOLDING: a plain container with such modules in it.
        UNKNOWN: something got from elsewhere of which nothing is known.
        PASSED: what a function was passed, or got from what is not its own: no one else's to wrap.
        ANY_CALLABLE: so many different classes and functions that they are not told apart.
    """

    MADE = 1
    HOLDING = 2
    UNKNOWN = 4
    PASSED = 8
    ANY_CALLABLE = 16


class Edge(IntEnum):
    """How one value becomes another."""

    COPY = 0  # it may be the same
    BOX = 1  # it is put into a container
    UNBOX = 2  # it is taken out of one
    PASS = 3  # it is passed, or kept in another file: only what it may call goes along
    RETURN = 4  # it is what a call gives
    CALL = 5  # it is called
    KEEP = 6  # it is kept as an attribute, or read as one


_KINDS = len(Edge)
_BITS = 32


def _passed(kind: Edge, bits: int) -> int:
    made, holding, unknown, passed, anything = (bits & each for each in May)
    if kind is Edge.COPY:
        return bits
    if kind is Edge.BOX:
        return (May.HOLDING if made or holding else 0) | unknown | passed | anything
    if kind is Edge.UNBOX:
        return (May.HOLDING | May.MADE if holding else 0) | unknown | passed | anything
    if kind is Edge.PASS:
        return anything
    if kind is Edge.RETURN:
        return made | holding | anything | (May.UNKNOWN if unknown or passed else 0)
    if kind is Edge.CALL:
        return (May.UNKNOWN if unknown or passed or anything else 0) | (May.MADE if anything else 0)
    return unknown | passed


# What passes by each kind of edge, by the bits of where it starts.
PASSED_BITS = tuple(bytes(int(_passed(kind, bits)) for bits in range(_BITS)) for kind in Edge)


class Kind(IntEnum):
    """What something that may be called, or looked into, is."""

    CLASS = 0
    FUNCTION = 1
    METHOD = 2  # with its object
    INSTANCE = 3  # of a class of the project
    FILE = 4
    LIBRARY = 5  # by its name


class Thing(NamedTuple):
    """Something that may be called or looked into.

    Attributes:
        kind: what it is.
        file: of the project; -1 for a library's.
        number: of the class, or of the function's scope, among all.
        name: of a library's thing.
    """

    kind: Kind
    file: int
    number: int = 0
    name: str = ""
