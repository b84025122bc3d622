"""Finds the functions to observe: the methods of modules' classes, and the functions that these call.

What a function calls is found by the names in its code, so it is a superset of what any single call calls. The search
runs no code of the program: it invokes no descriptors, and judges objects by their types alone.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_PLAIN: Final = frozenset({int, float, bool, complex, str, bytes, type(None)})
_CONTAINERS: Final = frozenset({list, tuple, dict})
_WITH_FUNCTION: Final = frozenset({staticmethod, classmethod, MethodType})
_MOST_ELEMENTS: Final = 1000


class Reachable:
    """Follows the calls of modules, within their own files and the program's.

    Each class and each code object is visited once.
    """

    def __init__(self, is_program_file: Callable[[str], bool], is_never_observed: Callable[[str], bool]) -> None:
        """Start with nothing looked at.

        Args:
            is_program_file: whether a file is one of the program's own.
            is_never_observed: whether it is one of torch's, of Python's, or of this runtime.
        """
        self._is_program_file = is_program_file
        self._is_never_observed = is_never_observed
        self._files: set[str] = set()
        self._classes: set[type] = set()
        self._codes: set[int] = set()
        self._kept: list[CodeType] = []  # So that the ids stay theirs.

    def functions_of(self, module: nn.Module) -> list[FunctionType]:
        """The functions that `module` may call, except those already found for earlier modules."""
        waiting: list[Any] = []
        for owner in type(module).__mro__:
            file = "" if owner is object or owner in self._classes else _file_of(owner)
            if file and not self._is_never_observed(file):
                self._classes.add(owner)
                self._files.add(file)
                waiting.extend(vars(owner).values())
        waiting.extend(_within(_state_of(module).values()))
        found: list[FunctionType] = []
        seen: dict[int, Any] = {}  # Kept meanwhile, so that the ids stay theirs.
        while waiting:
            value = waiting.pop()
            if type(value) in _PLAIN or id(value) in seen:
                continue
            seen[id(value)] = value
            if type(value) is FunctionType:
                waiting.extend(self._from_function(value, found))
            else:
                waiting.extend(self._from_value(value))
        return found

    def _from_function(self, function: FunctionType, found: list[FunctionType]) -> Iterator[Any]:
        """The objects that `function` refers to. It is itself added to `found` if it is to be observed."""
        yield from _enclosed(function)
        code = function.__code__
        if not self._may_observe(code.co_filename):
            return
        found.append(function)
        if id(code) in self._codes:
            return
        self._codes.add(id(code))
        self._kept.append(code)
        names = set(_names_in(code))
        for name in names:
            value = function.__globals__.get(name)
            if issubclass(type(value), ModuleType):
                members = _state_of(value)
                if self._may_observe(str(members.get("__file__", ""))):
                    yield from (members[each] for each in names & members.keys())
            elif not issubclass(type(value), nn.Module):
                yield value

    def _from_value(self, value: Any) -> Iterable[Any]:
        kind = type(value)
        if kind in _WITH_FUNCTION:
            return (value.__func__,)
        if kind is property:
            return (value.fget, value.fset, value.fdel)
        if kind is functools.partial or kind is functools.cached_property:
            return (value.func,)
        if issubclass(kind, type):
            return self._from_class(value)
        if issubclass(kind, (nn.Module, ModuleType)):
            return ()
        # A decorator written as a class holds what it decorates.
        kept = [each for each in _state_of(value).values() if type(each) in (FunctionType, MethodType)]
        return [*kept, *self._from_class(kind)]

    def _from_class(self, owner: type) -> Iterable[Any]:
        """The methods of a class that is not a module's, in the program's or the modules' files."""
        if owner in self._classes or issubclass(owner, nn.Module) or not self._may_observe(_file_of(owner)):
            return ()
        self._classes.add(owner)
        own = [base for base in owner.__mro__ if base is owner or self._may_observe(_file_of(base))]
        return [each for base in own for each in vars(base).values()]

    def _may_observe(self, file: str) -> bool:
        return file in self._files or (bool(file) and not self._is_never_observed(file) and self._is_program_file(file))


def _state_of(value: Any) -> dict[str, Any]:
    """The `__dict__` of `value`; empty if it has none."""
    try:
        state = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return dict(state) if issubclass(type(state), dict) else {}


def _within(values: Iterable[Any]) -> Iterator[Any]:
    """The values, with containers replaced by their items."""
    for value in values:
        if type(value) in _CONTAINERS:
            if len(value) <= _MOST_ELEMENTS:
                yield from list(value.values() if type(value) is dict else value)
        else:
            yield value


def _enclosed(function: FunctionType) -> Iterator[Any]:
    """The objects that a function encloses: what it decorates, and other functions that it holds."""
    yield function.__dict__.get("__wrapped__")
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # Empty.
            continue
        if type(value) in (FunctionType, MethodType, functools.partial):
            yield value


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names_in(each)


def _file_of(owner: type) -> str:
    """The file that defines a class, as spelled in code objects; "" if unknown.

    It is taken from the class's functions if possible, because the `__main__` of a notebook has no file.
    """
    for value in vars(owner).values():
        function = value.__func__ if type(value) in _WITH_FUNCTION else value
        while type(function) is FunctionType and type(function.__dict__.get("__wrapped__")) is FunctionType:
            function = function.__dict__["__wrapped__"]
        if type(function) is FunctionType and function.__qualname__ == f"{owner.__qualname__}.{function.__name__}":
            file = function.__code__.co_filename
            if file != "<string>" and function.__module__ == owner.__module__:  # As `dataclasses` has it.
                return file
    of_module = getattr(sys.modules.get(str(owner.__module__)), "__file__", None)
    return of_module if isinstance(of_module, str) else ""
