"""What the text of a function shows about its effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast


@dataclass(frozen=True)
class FunctionText:
    """The effects in the text of a function and its nested functions, in the order of the text for determinism.

    Attributes:
        is_open: whether it stores to names of other scopes, or uses something as a module. If so, the rest is empty.
        stored: the attributes that it stores to.
        sets_any: whether it may store to attributes with computed names.
        changes_elements: whether it may change containers that it has not made.
        read: the attributes and the names of the file that it reads; for imported names, also those in their own files.
        references: the dotted names that may mean functions, classes and things of libraries.
        called: the references that are called in place.
        methods: the last components of other callees' names.
    """

    is_open: bool
    stored: tuple[str, ...] = ()
    sets_any: bool = False
    changes_elements: bool = False
    read: tuple[str, ...] = ()
    references: tuple[ast.expr, ...] = ()
    called: frozenset[ast.expr] = frozenset()
    methods: tuple[str, ...] = ()
