"""What the text of one function shows of what it may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast


@dataclass(frozen=True)
class FunctionText:
    """What is written in a function, and in those within it, in the order of the text: sets differ from run to run.

    Attributes:
        is_open: it stores to names of other scopes, or uses something as only modules are; the rest is not told then.
        stored: the attributes that it stores to.
        sets_any: it may store to attributes of other names.
        changes_elements: it may change containers that it has not made itself.
        read: the attributes, and the names of the file, that it reads; imported ones as in their own files, too.
        references: the names, dotted ones too, that may stand for functions, classes and things of libraries.
        called: those among them that are called where they stand.
        methods: what else is called, by the last part of its name.
    """

    is_open: bool
    stored: tuple[str, ...] = ()
    sets_any: bool = False
    changes_elements: bool = False
    read: tuple[str, ...] = ()
    references: tuple[ast.expr, ...] = ()
    called: frozenset[ast.expr] = frozenset()
    methods: tuple[str, ...] = ()
