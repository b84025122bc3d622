"""Whether functions of other files may return a maker of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.resolve.outline import OutlinedUnit
from instrumentor.resolve.units import Class, Function, Unit
from instrumentor.screening.names import Gives, instance_of, variable_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.screening.names import Callables, Meaning

# The number of functions and top levels searched. With more, a maker is assumed to be found.
_MAX_SEARCHED = 300


class ReadMakers:
    """Searches the code that a function leads to for makers that are read as values.

    Args:
        hierarchy: the classes.
        callables: judges callees.
    """

    def __init__(self, hierarchy: Hierarchy, callables: Callables) -> None:
        self._hierarchy = hierarchy
        self._callables = callables
        self._known: dict[str, bool] = {}

    def may_be_given_by(self, function: Function) -> bool:
        """Whether a function may return a maker of modules: it, or code that it leads to, reads one as a value."""
        if function.key not in self._known:
            seen: set[str] = set()
            self._known[function.key] = self._find(function, seen)
            if not self._known[function.key]:
                self._known.update(dict.fromkeys(seen, False))
        return self._known[function.key]

    def _find(self, function: Function, seen: set[str]) -> bool:
        pending: list[Function | OutlinedUnit] = [function]
        while pending:
            code = pending.pop()
            key = code.key if isinstance(code, Function) else code.name
            if key in seen or self._known.get(key) is False:
                continue
            if self._known.get(key):
                return True
            seen.add(key)
            if len(seen) > _MAX_SEARCHED or (isinstance(code, Function) and not isinstance(code.unit, OutlinedUnit)):
                return True
            read = list(self._meanings(code, is_called=False))
            if any(self._makes_modules(meaning) for _, meaning in read):
                return True
            for source, meaning in (*self._meanings(code, is_called=True), *read):
                if isinstance(meaning, Function):
                    pending.append(meaning)
                elif source is not None:
                    pending.append(source)
        return False

    def _meanings(
        self, code: Function | OutlinedUnit, *, is_called: bool
    ) -> Iterator[tuple[OutlinedUnit | None, Meaning]]:
        """The meanings of the names in some code. For a variable, the file that defines it comes first."""
        unit = code.unit if isinstance(code, Function) else code
        assert isinstance(unit, OutlinedUnit)
        outline = unit.outlined[code.key] if isinstance(code, Function) else unit.outline.top
        for spelled in outline.calls if is_called else outline.values:
            root = spelled.partition(".")[0]
            if root in ("self", "cls") and isinstance(code, Function):
                yield None, self._callables.meaning(code, spelled)
            elif root:
                meaning = self._hierarchy.resolve_spelled(unit, spelled)
                is_variable = meaning is None or root in unit.outline.shadowed
                source = variable_of(self._hierarchy, unit, root) if is_variable else None
                is_instance = source is not None and instance_of(self._hierarchy, *source) is not None
                yield None if source is None or is_instance else source[0], meaning

    def _makes_modules(self, meaning: Meaning) -> bool:
        if isinstance(meaning, Class):
            return self._hierarchy.is_module(meaning)
        if isinstance(meaning, Function):
            return self._callables.of_function(meaning) is Gives.ANYTHING
        if isinstance(meaning, str):
            return self._callables.of_library(meaning) is Gives.ANYTHING
        return isinstance(meaning, Unit)
