"""What is known of values, and how it passes from one to the next."""

from __future__ import annotations

from typing import Final, NamedTuple


class May:
    """What a value may be, as bits: plain numbers, of which there are millions to be joined.

    Attributes:
        MADE: a module that a call made here.
        HOLDING: a plain container with such modules in it.
        UNKNOWN: something got from elsewhere of which nothing is known.
        PASSED: what a function was passed, or got from what is not its own: no one else's to wrap.
        MAKER: a class of modules, or a function that makes some, whichever.
        MAKER_PASSED: the same, as it was passed to the function at hand.
        ANY_CALLABLE: so many different classes and functions that they are not told apart.
    """

    MADE: Final = 1
    HOLDING: Final = 2
    UNKNOWN: Final = 4
    PASSED: Final = 8
    ANY_CALLABLE: Final = 16
    MAKER: Final = 32
    MAKER_PASSED: Final = 64


class Edge:
    """How one value becomes another."""

    COPY: Final = 0  # it may be the same
    BOX: Final = 1  # it is put into a container
    UNBOX: Final = 2  # it is taken out of one
    PASS: Final = 3  # it is passed to a function: only what it may call goes along, and not back with what that returns
    RETURN: Final = 4  # it is what a call gives
    CALL: Final = 5  # it is called
    KEEP: Final = 6  # it is kept as an attribute, or read as one: only whether it is known goes along
    IMPORT: Final = 9  # another file has it under a name by which this one imports it
    SHARE: Final = 8  # functions within each other have it under one name
    STORE: Final = 7  # it is kept under a name that other files may read: only what it may call goes along


_KINDS = 10
_BITS = 128


def _passed(kind: int, bits: int) -> int:
    made, holding, unknown, passed, anything, maker, passed_maker = (bits & 1 << place for place in range(7))
    is_maker = bool(maker or passed_maker)
    if kind in (Edge.PASS, Edge.STORE, Edge.IMPORT):
        kept = May.MAKER_PASSED if kind == Edge.PASS else May.MAKER
        return anything | (kept if is_maker else 0)
    if kind == Edge.RETURN:
        return made | holding | anything | maker | (May.UNKNOWN if unknown or passed else 0)
    if kind == Edge.CALL:
        is_unknown = unknown or passed or anything
        return (May.UNKNOWN if is_unknown else 0) | (May.MADE if anything or is_maker else 0)
    if kind == Edge.KEEP:
        return unknown | passed
    rest = unknown | passed | anything | maker | passed_maker
    if kind == Edge.BOX:
        return rest | (May.HOLDING if made or holding else 0)
    if kind == Edge.UNBOX:
        return rest | (May.HOLDING | May.MADE if holding else 0)
    if kind == Edge.SHARE:
        return made | holding | unknown | passed | anything | (May.MAKER if is_maker else 0)
    return bits


# What passes by each kind of edge, by the bits of where it starts.
PASSED_BITS = tuple(bytes(_passed(kind, bits) for bits in range(_BITS)) for kind in range(_KINDS))


class Kind:
    """What something that may be called, or looked into, is."""

    CLASS: Final = 0
    FUNCTION: Final = 1
    METHOD: Final = 2  # with its object
    INSTANCE: Final = 3  # of a class of the project
    FILE: Final = 4
    LIBRARY: Final = 5  # by its name
    LIBRARY_OBJECT: Final = 6  # made by calling that


class Thing(NamedTuple):
    """Something that may be called or looked into.

    Attributes:
        kind: what it is.
        file: of the project; -1 for a library's.
        number: of the class, or of the function's scope, among all; of a library's thing, how often something was read
            of what is imported to get to it.
        name: of a library's thing.
    """

    kind: int
    file: int
    number: int = 0
    name: str = ""
