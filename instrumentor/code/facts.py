"""What a file does, as plain data: values with numbers, and operations that say where they come from.

A value is a number from 1 on: a variable of a scope, a parameter, or what an operation gives. 0 stands for what is of
no interest: constants, numbers, texts. A variable is one value wherever it is assigned, so that nothing here depends on
the order of statements. A container stands for what is in it, too: to put something in, or to take it out, are
operations of their own.
"""

from __future__ import annotations

from typing import Literal

import msgspec

ScopeKind = Literal["file", "function", "lambda", "class"]


class ScopeFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file's top, a function or the body of a class.

    Attributes:
        kind: which of these.
        name: of the function or class.
        line: where it starts.
        parent: the number of the scope around it; -1 for the file.
        owner: the number of the class that it is a method of, or the body of; -1 for others.
        parameters: the names of those that have positions, with their values, in order.
        named: those that have none.
        rest: the values of `*args` and `**kwargs`, 0 where there are none.
        result: what it returns or yields.
        is_public: it stands at the top of a file, and its name is no private one.
        decorators: the last parts of the names of its decorators.
        decorated_by: those that are called with it, as values.
    """

    kind: ScopeKind
    name: str
    line: int
    parent: int
    owner: int
    parameters: list[tuple[str, int]]
    named: list[tuple[str, int]]
    rest: tuple[int, int]
    result: int
    is_public: bool
    decorators: list[str]
    decorated_by: list[int]


class ClassFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A class.

    Attributes:
        name: its name.
        line: where it starts.
        value: the class as a value.
        bases: the values of its bases.
        methods: the numbers of the scopes of its methods, by name.
        scope: the number of the scope that it stands in.
    """

    name: str
    line: int
    value: int
    bases: list[int]
    methods: dict[str, int]
    scope: int


class Call(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call.

    Attributes:
        out: what it gives.
        callee: what is called.
        arguments: what is passed by position, in order; those behind a starred one are in `starred`.
        keywords: what is passed by name.
        starred: what is passed by `*`.
        packed: what is passed by `**`.
        scope: the number of the scope that it stands in.
        line: where it stands.
        is_only_returned: it stands in a function at the top of the file which does nothing with what it gives but
            return it, once.
        decorates_class: it makes a decorator of a class, or is the application of one.
    """

    out: int
    callee: int
    arguments: list[int]
    keywords: list[tuple[str, int]]
    starred: list[int]
    packed: list[int]
    scope: int
    line: int
    is_only_returned: bool
    decorates_class: bool

    @property
    def given(self) -> list[int]:
        """All that is passed."""
        found = (*self.arguments, *self.starred, *self.packed, *(value for _, value in self.keywords))
        return [each for each in found if each]


class FileFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file.

    Attributes:
        scopes: the file's top and all functions and class bodies, outer ones first.
        classes: all classes.
        scope_of: the scope of each value, by its number.
        top: the values of the variables of the file's top.
        imports: values that stand for what is imported under a dotted name; relative ones start with dots.
        modules: all modules that are imported, or in which imported names may be looked up.
        stars: the modules of which everything is imported.
        unbound: the names that the file does not bind, with their values: built in, or imported by a star.
        functions: values that are functions, with the numbers of their scopes.
        copies: pairs of values, the first of which may be the second.
        shared: the same for variables of scopes around each other.
        boxed: pairs of a container and what is put into it.
        unboxed: pairs of what is taken out and the container.
        computed: pairs of what arithmetic gives and what it is computed of.
        loads: values that are attributes of others: the value, the other, the dotted names of the attributes.
        stores: values stored as attributes: the object, the name, the value.
        keyed: values put under a name into what may be passed by `**`: the name and the value.
        keyed_reads: values read under a name from what was passed by `**`: the name and the value.
        kept: values put into what is an attribute of an object, by a store to an element or by a method: the
            attribute's value and name, and what is put there.
        calls: all calls.
        declared: values with the values of the classes that their annotations name.
        used: values that are used as only modules are.
        trained: values from which a backward pass starts.
        methods_run: the names of methods that operators, loops and `with` blocks run.
        read: the names that are read for their value anywhere, and not to be called.
        filled: the names of the file's top that containers have into which something is put.
        added_folders: the folders that it adds to where imports are looked up.
    """

    scopes: list[ScopeFacts]
    classes: list[ClassFacts]
    scope_of: list[int]
    top: dict[str, int]
    imports: list[tuple[int, str]]
    modules: list[str]
    stars: list[str]
    unbound: list[tuple[str, int]]
    functions: list[tuple[int, int]]
    copies: list[tuple[int, int]]
    shared: list[tuple[int, int]]
    boxed: list[tuple[int, int]]
    unboxed: list[tuple[int, int]]
    computed: list[tuple[int, int]]
    loads: list[tuple[int, int, str]]
    stores: list[tuple[int, str, int]]
    keyed: list[tuple[str, int]]
    keyed_reads: list[tuple[str, int]]
    kept: list[tuple[int, str, int]]
    calls: list[Call]
    declared: list[tuple[int, list[int]]]
    used: list[int]
    trained: list[int]
    methods_run: list[str]
    read: list[str]
    filled: list[str]
    added_folders: list[str]
