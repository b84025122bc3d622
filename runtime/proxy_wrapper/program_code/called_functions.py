"""Finds the functions of the program that a line calls, by name. Nothing is run.

A name refers to a global of the code's module, to a function defined in the code itself, or to one of a function around
it. A method is searched by name among the classes that the code can name, and found if exactly one defines it.
"""

from __future__ import annotations

import dis
from types import CellType, CodeType, FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.program_code.assigned_lines import named_instructions
from proxy_wrapper.program_code.frame_variables import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

_MOST: Final = 32
"""The most functions that are followed from one function."""


_EMPTY: Final = CellType()
"""The cell of a variable that has no value yet; equal to all others of that kind."""


class Body(NamedTuple):
    """The code of a function, the globals in which it looks up names, and its variables with known values."""

    code: CodeType
    names: dict[str, Any]
    values: Mapping[str, Any] = MappingProxyType({})


class CalledBody(NamedTuple):
    """A called function, and the line of the calling code."""

    body: Body
    line: int


def called_by(body: Body, line: int | None = None) -> list[CalledBody]:
    """The functions that `body` mentions by name, once per line; only those of `line` if it is given.

    A function that is only passed as a value counts too.
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
    """A function and all that it calls, directly or not, each with the line of `body` leading to it (0 for `body`)."""
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
                yield body_of_function(function)


def body_at(frame: FrameType) -> Body:
    """The code of a frame; of its variables, only functions and classes are known."""
    return Body(frame.f_code, frame.f_globals, _definitions(values_of(frame)))


def bodies_around(frame: FrameType | None, is_followed: Callable[[CodeType], bool]) -> list[Body]:
    """The running functions of the program, and all functions that these and their modules define, each once."""
    found: dict[int, Body] = {}
    while frame is not None:
        if is_followed(frame.f_code):
            own = body_at(frame)
            found.update((id(body.code), body) for body in (own, *functions_of({**frame.f_globals, **own.values})))
        frame = frame.f_back
    return list(found.values())


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
    """The program's function that a name in `body` refers to, else None. The name of a method begins with a dot."""
    if name.startswith("."):
        return _method(name[1:], [*body.names.values(), *body.values.values()])
    nested = [each for each in body.code.co_consts if isinstance(each, CodeType) and each.co_name == name]
    if len(nested) == 1:
        return Body(
            nested[0], body.names, {each: value for each, value in body.values.items() if each in nested[0].co_freevars}
        )
    code = body.code
    is_local = name in code.co_varnames or name in code.co_freevars or name in code.co_cellvars
    return body_of((body.values if is_local else body.names).get(name))


def _method(name: str, values: Iterable[Any]) -> Body | None:
    """The only method of that name among the classes in `values`; None if there is not exactly one."""
    found: dict[int, Body] = {}
    for value in values:
        if isinstance(value, type):
            body = body_of(vars(value).get(name))
            if body is not None:
                found[id(body.code)] = body
    return next(iter(found.values())) if len(found) == 1 else None


def body_of(value: Any) -> Body | None:
    """The code of a Python function, static method or class method; None for anything else."""
    if type(value) in (staticmethod, classmethod):
        value = value.__func__
    return body_of_function(value) if type(value) is FunctionType else None


def body_of_function(function: FunctionType) -> Body:
    """The code of a Python function; of the variables around it, only functions and classes are known."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = {name: cell.cell_contents for name, cell in cells if cell != _EMPTY}
    return Body(function.__code__, function.__globals__, _definitions(known))


def _definitions(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in values.items() if type(value) is FunctionType or isinstance(value, type)}
