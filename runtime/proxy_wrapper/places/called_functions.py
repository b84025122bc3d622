"""Finds which functions of the program a line of its code calls, by name. Nothing is run.

A name stands for what the module of the code has under it, or for a function that is defined in the code itself. A
method is looked for by its name among the classes of the module: it is known if only one of them defines it.
"""

from __future__ import annotations

import dis
from types import CodeType, FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.places.assigned_lines import named_instructions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_MOST: Final = 32
"""How many functions are followed from one."""


class Body(NamedTuple):
    """The code of a function, the globals in which it looks up names, and those of its variables that are known."""

    code: CodeType
    names: dict[str, Any]
    values: Mapping[str, Any] = MappingProxyType({})


class CalledBody(NamedTuple):
    """A function that is called, and the line of the calling code."""

    body: Body
    line: int


def called_by(body: Body, line: int | None = None) -> list[CalledBody]:
    """The functions that `body` mentions by name, each once for each line: all of them, or those of one line.

    What only keeps a function as a value is counted, too.
    """
    found: dict[tuple[int, int], CalledBody] = {}
    for each in named_instructions(body.code):
        if each.is_store or line not in (None, each.line):
            continue
        function = _resolve(each.name, body)
        if function is not None:
            found.setdefault((id(function.code), each.line), CalledBody(function, each.line))
    return list(found.values())


def reachable(body: Body, is_followed: Callable[[CodeType], bool]) -> Iterator[CalledBody]:
    """A function with all that it leads to: each with the line of `body` that leads there, 0 for `body` itself."""
    pending = [CalledBody(body, 0)]
    seen = {id(body.code)}
    for each in pending:
        yield each
        for called in called_by(each.body):
            code = called.body.code
            if id(code) not in seen and len(seen) < _MOST and is_followed(code):
                seen.add(id(code))
                pending.append(CalledBody(called.body, each.line or called.line))


def functions_of(names: dict[str, Any]) -> Iterator[Body]:
    """The functions and methods of a module that Python code makes, behind their decorators."""
    for value in list(names.values()):
        for each in list(vars(value).values()) if isinstance(value, type) else (value,):
            function: Any = each.__func__ if type(each) in (staticmethod, classmethod) else each
            while type(function) is FunctionType and "__wrapped__" in vars(function):
                function = vars(function)["__wrapped__"]
            if type(function) is FunctionType:
                yield Body(function.__code__, function.__globals__)


def return_lines(code: CodeType) -> list[int]:
    """The lines of the statements that return something other than a constant."""
    lines: dict[int, None] = {}
    before = None
    line = code.co_firstlineno
    for each in dis.get_instructions(code):
        if each.starts_line is not None and each.starts_line is not False:
            line = each.starts_line if each.starts_line is not True else getattr(each, "line_number", None) or line
        if each.opname == "RETURN_VALUE" and before is not None and not before.opname.startswith("LOAD_CONST"):
            lines[line] = None
        before = each
    return list(lines)


def _resolve(name: str, body: Body) -> Body | None:
    """What a name in some code stands for, if that is a function of the program's; a method has a dot before it."""
    if name.startswith("."):
        return _method(name[1:], body.names)
    nested = [each for each in body.code.co_consts if isinstance(each, CodeType) and each.co_name == name]
    if len(nested) == 1:
        return Body(nested[0], body.names)
    is_local = name in body.code.co_varnames or name in body.code.co_freevars
    return None if is_local else body_of(body.names.get(name))


def _method(name: str, names: dict[str, Any]) -> Body | None:
    """The method of that name of the classes of a module; None if there is none, or several are."""
    found: dict[int, Body] = {}
    for value in list(names.values()):
        if isinstance(value, type):
            body = body_of(vars(value).get(name))
            if body is not None:
                found[id(body.code)] = body
    return next(iter(found.values())) if len(found) == 1 else None


def body_of(value: Any) -> Body | None:
    """The code of a function, or of a static or a class method, written in Python; None for anything else."""
    if type(value) in (staticmethod, classmethod):
        value = value.__func__
    return Body(value.__code__, value.__globals__) if type(value) is FunctionType else None
