"""What code may call by names that say nothing of it: parameters, elements of tables, attributes.

Such a callee is a value, and got to be one where some code reads a class or function by its name without calling it. So
if none of all the code that a script leads to reads a class of modules so, or a function that makes some, then a call
of what has no name of its own makes none either.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.outline import OutlinedUnit, outline_of_all
from instrumentor.resolve.units import Class, Function, Unit
from instrumentor.screening.names import Callables, Gives

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.function_outline import FunctionOutline

# Functions looked at, which takes some hundredths of a second; what leads to more is taken to have everything.
_MAX_LOOKED_AT = 3_000
_MAX_HANDED_ON = 12


class Circulation:
    """Looks for what makes modules among the values of all code that a script leads to.

    Args:
        script: the script.
        make_hierarchy: makes the classes anew.
    """

    def __init__(self, script: Unit, make_hierarchy: Callable[[], Hierarchy]) -> None:
        self._make_hierarchy = make_hierarchy
        self._script = script
        self._pending: list[tuple[Unit, FunctionOutline]] = []
        self._seen: set[tuple[str, str]] = set()
        # The classes that there may be instances of, and those whose methods are looked at.
        self._made: dict[Class, None] = {}
        self._opened: dict[Class, None] = {}
        # The attributes that are read for their value.
        self._attributes: set[str] = set()
        # The files that are handed about.
        self._values: set[str] = set()
        for cls in script.class_of.values():
            self._made[cls] = None

    @cached_property
    def has_makers(self) -> bool:
        """Whether there may be any."""
        self._hierarchy = self._make_hierarchy()
        # As long as nothing is found, what has no name of its own makes nothing.
        self._callables = Callables(self._hierarchy, lambda: Gives.UNKNOWN)
        self._pending.append((self._script, outline_of_all(self._script)))
        while True:
            while self._pending:
                if len(self._seen) > _MAX_LOOKED_AT or self._finds_maker(*self._pending.pop()):
                    return True
            opened = len(self._opened)
            for cls in list(self._made):
                for each in (cls, *self._hierarchy.descendants(cls)):
                    for above in self._hierarchy.ancestors(each):
                        self._open(above)
            if len(self._opened) == opened and not self._pending:
                return any(map(self._has_maker, self._opened))

    def _open(self, cls: Class) -> None:
        """Look at what a class has in it."""
        if cls in self._opened:
            return
        self._opened[cls] = None
        for method in cls.methods.values():
            self._look_at(method)
        self._look_at_top(cls.unit)

    def _has_maker(self, cls: Class) -> bool:
        """Whether a class has a method that makes a module and is read for its value, or called as the instance."""
        return any(
            (name == "__call__" or name in self._attributes) and self._may_make(method)
            for name, method in cls.methods.items()
        )

    def _look_at(self, function: Function) -> None:
        key = (function.unit.name, function.key)
        if isinstance(function.unit, OutlinedUnit) and key not in self._seen:
            self._seen.add(key)
            self._pending.append((function.unit, function.unit.outlined[function.key]))
            owner = function.unit.owners.get(function.key)
            if owner is not None:
                self._made[owner] = None

    def _look_at_top(self, unit: Unit) -> None:
        if isinstance(unit, OutlinedUnit) and (unit.name, "") not in self._seen:
            self._seen.add((unit.name, ""))
            self._pending.append((unit, unit.outline.top))

    def _finds_maker(self, unit: Unit, outline: FunctionOutline) -> bool:
        """Whether what makes modules is read for its value in some code; notes what else that leads to."""
        inner = unit.functions_within(outline) if isinstance(unit, OutlinedUnit) else []
        return (
            any(map(self._may_make, inner))
            or any(self._is_maker(unit, spelled, is_called=True) for spelled in outline.calls)
            or any(self._is_maker(unit, spelled, is_called=False) for spelled in outline.values)
        )

    def _is_maker(self, unit: Unit, spelled: str, *, is_called: bool) -> bool:
        """Whether a name that is read in a file gets hold of what makes modules."""
        root, _, rest = spelled.partition(".")
        if root in ("", "self", "cls"):
            if not is_called:
                self._attributes.add(rest.rpartition(".")[2])
            return False
        meaning = self._hierarchy.resolve_spelled(unit, spelled)
        if root in unit.stored or (isinstance(unit, OutlinedUnit) and root in unit.outline.shadowed):
            self._look_at_top(unit)
        if meaning is None:
            return self._is_found_in_maker(unit, spelled)
        if isinstance(meaning, Class):
            self._made[meaning] = None
            return not is_called and self._hierarchy.is_module(meaning)
        if isinstance(meaning, Function):
            self._look_at(meaning)
            return not is_called and self._may_make(meaning)
        if isinstance(meaning, Unit):
            return not is_called and self._holds_maker(meaning)
        return not is_called and self._may_make_by_library(meaning)

    def _is_found_in_maker(self, unit: Unit, spelled: str) -> bool:
        """The same for a name of which the first part is known, or nothing: a variable, or what hangs on a class."""
        parts = spelled.split(".")
        for count in range(len(parts) - 1, 0, -1):
            meaning = self._hierarchy.resolve_spelled(unit, ".".join(parts[:count]))
            if isinstance(meaning, Class):
                self._made[meaning] = None
                self._attributes.add(parts[count])
                return self._hierarchy.is_module(meaning)
            if isinstance(meaning, Function):
                self._look_at(meaning)
                return self._may_make(meaning)
            if isinstance(meaning, Unit):
                self._look_at_variable(meaning, parts[count])
                return parts[count] == "*"
        if parts[0] in unit.imports:
            self._look_at_imported(unit, parts[0])
        return False

    def _holds_maker(self, unit: Unit) -> bool:
        """Whether a file that is handed about, so that whatever is in it may be read of it, has what makes modules."""
        if unit.name in self._values:
            return False
        self._values.add(unit.name)
        if unit.stars or unit.alternatives or not isinstance(unit, OutlinedUnit):
            return True
        self._look_at_top(unit)
        names = (*unit.classes, *unit.functions, *unit.imports)
        return any(self._is_maker(unit, name, is_called=False) for name in names)

    def _look_at_imported(self, unit: Unit, name: str, depth: int = _MAX_HANDED_ON) -> None:
        """Look at where a variable comes from that a file imports."""
        for dotted in (unit.imports[name], *unit.alternatives.get(name, ())):
            above, _, variable = dotted.rpartition(".")
            source = self._hierarchy.project.lookup(unit, above or ".") if variable else None
            if isinstance(source, Unit):
                self._look_at_variable(source, variable, depth)

    def _look_at_variable(self, unit: Unit, name: str, depth: int = _MAX_HANDED_ON) -> None:
        self._look_at_top(unit)
        if name in unit.imports and depth:
            self._look_at_imported(unit, name, depth - 1)

    def _may_make(self, function: Function) -> bool:
        if not isinstance(function.unit, OutlinedUnit):
            return False  # of the script's own functions, each call is looked at where it stands
        return self._callables.of_function(function) is Gives.ANYTHING

    def _may_make_by_library(self, name: str) -> bool:
        """Whether calling a library's thing, or something in it where it has more names, may make a module."""
        if self._callables.of_library(name) is Gives.ANYTHING:
            return True
        last = name.rpartition(".")[2]
        if name.startswith("torch.") or name == "torch":
            return last in catalogue.TORCH_NAMESPACES
        return not catalogue.is_complete(name) and self._hierarchy.knowledge.may_be_namespace(name)
