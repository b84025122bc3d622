"""Whether callees without a name of their own may make modules: parameters, elements of tables, attributes.

Such a callee is a value: somewhere, code reads a class or function by its name without calling it. If none of the code
that a script leads to reads a module class or a function that makes modules in this way, then a call of a callee
without a name makes none either.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.outline import OutlinedUnit, outline_of_all
from instrumentor.resolve.unit import Class, Function, Unit
from instrumentor.screening.names import Callables, Gives

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.function_outline import FunctionOutline

# The number of functions examined, in some hundredths of a second. With more, makers are assumed to exist.
_MAX_LOOKED_AT = 3_000
_MAX_HANDED_ON = 12


class Circulation:
    """Searches all code that a script leads to for makers of modules that are used as values.

    Args:
        script: the script.
        make_hierarchy: makes a new hierarchy of classes.
    """

    def __init__(self, script: Unit, make_hierarchy: Callable[[], Hierarchy]) -> None:
        self._make_hierarchy = make_hierarchy
        self._script = script
        self._pending: list[tuple[Unit, FunctionOutline]] = []
        self._seen: set[tuple[str, str]] = set()
        # The classes that may have instances, and those whose methods are examined.
        self._made: dict[Class, None] = {}
        self._opened: dict[Class, None] = {}
        # The attributes whose values are read.
        self._attributes: set[str] = set()
        # The files that are used as values.
        self._values: set[str] = set()
        for cls in script.class_of.values():
            self._made[cls] = None

    @cached_property
    def has_makers(self) -> bool:
        """Whether a maker of modules may be used as a value."""
        self._hierarchy = self._make_hierarchy()
        # As long as no maker is found, callees without a name make nothing.
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
        """Examine the methods of a class and the top level of its file."""
        if cls in self._opened:
            return
        self._opened[cls] = None
        for method in cls.methods.values():
            self._look_at(method)
        self._look_at_top(cls.unit)

    def _has_maker(self, cls: Class) -> bool:
        """Whether a class has a method that makes a module and is read as a value, or is `__call__`."""
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
        """Whether some code reads a maker of modules as a value. What else the code leads to becomes pending."""
        inner = unit.functions_within(outline) if isinstance(unit, OutlinedUnit) else []
        return (
            any(map(self._may_make, inner))
            or any(self._is_maker(unit, spelled, is_called=True) for spelled in outline.calls)
            or any(self._is_maker(unit, spelled, is_called=False) for spelled in outline.values)
        )

    def _is_maker(self, unit: Unit, spelled: str, *, is_called: bool) -> bool:
        """Whether a name read in a file may give a maker of modules."""
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
        """The same for a name of which at most the first part is resolved: a variable, or a member of a class."""
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
        """Whether a file used as a value, so that any of its names may be read, has a maker of modules."""
        if unit.name in self._values:
            return False
        self._values.add(unit.name)
        if unit.stars or unit.alternatives or not isinstance(unit, OutlinedUnit):
            return True
        self._look_at_top(unit)
        names = (*unit.classes, *unit.functions, *unit.imports)
        return any(self._is_maker(unit, name, is_called=False) for name in names)

    def _look_at_imported(self, unit: Unit, name: str, depth: int = _MAX_HANDED_ON) -> None:
        """Examine the files that a variable is imported from."""
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
            return False  # calls of the script's own functions are examined where they are
        return self._callables.of_function(function) is Gives.ANYTHING

    def _may_make_by_library(self, name: str) -> bool:
        """Whether calling something of a library may make a module, or whether something inside it may."""
        if self._callables.of_library(name) is Gives.ANYTHING:
            return True
        last = name.rpartition(".")[2]
        if name.startswith("torch.") or name == "torch":
            return last in catalogue.TORCH_NAMESPACES
        return not catalogue.is_complete(name) and self._hierarchy.knowledge.may_be_namespace(name)
