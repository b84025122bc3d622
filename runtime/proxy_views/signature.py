"""The arguments of a recorded call of a model, as the arguments of a graph."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LITERALS: Final = (str, int, float, bool, type(None))


class Argument(NamedTuple):
    """One argument of the graph.

    Attributes:
        target: its name, with a star for `*args`.
        value: the value passed.
        default: its default; `inspect.Parameter.empty` if it is required.
    """

    target: str
    value: Any
    default: Any


def arguments_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Argument]:
    """The arguments passed to `function`, such as the `forward` of a module, under its parameter names.

    A number, string or None becomes its own default if all later arguments have defaults too.
    """
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):  # Pre-hooks changed the arguments, or it is not a Python function.
        return _unnamed(args, kwargs)
    found = []
    by_keyword: set[str] = set()
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found.append(Argument(f"*{name}", value, inspect.Parameter.empty))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            by_keyword = set(value)
            found += [Argument(key, each, inspect.Parameter.empty) for key, each in value.items()]
        else:
            found.append(Argument(name, value, inspect.Parameter.empty))
    has_rest = any(each.target.startswith("*") for each in found)
    if has_rest and by_keyword:
        return _unnamed(args, kwargs)
    return found if has_rest else _with_defaults(found)


def _unnamed(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Argument]:
    given = [Argument(f"arg{number}", value, inspect.Parameter.empty) for number, value in enumerate(args)]
    return _with_defaults([*given, *(Argument(key, value, inspect.Parameter.empty) for key, value in kwargs.items())])


def _with_defaults(arguments: list[Argument]) -> list[Argument]:
    found: list[Argument] = []
    for argument in reversed(arguments):
        has_default = isinstance(argument.value, _LITERALS) and (
            not found or found[-1].default is not inspect.Parameter.empty
        )
        found.append(argument._replace(default=argument.value) if has_default else argument)
    return found[::-1]
