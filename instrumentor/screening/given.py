"""What calling a function of another file may give, by the outlines of the files alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.function_outline import EVIDENCE
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.outline import OutlinedUnit
from instrumentor.resolve.unit import Class, Function, Unit

if TYPE_CHECKING:
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.function_outline import FunctionOutline

Meaning = Class | Function | Unit | str | None

# Effects that make no object of their own.
_GIVEN = {
    Effect.READS: Nature.NOT_MODULE,
    Effect.COLLECTS: Nature.NOT_MODULE,
    Effect.BUILDS: Nature.NOT_MODULE,
    Effect.DERIVES: Nature.NOT_MODULE,
    Effect.IDENTITY: Nature.UNKNOWN,
    Effect.IDENTITY_TUPLE: Nature.UNKNOWN,
    Effect.UNWRAPS: Nature.UNKNOWN,
}
_READING_BUILTINS = frozenset({"builtins.getattr", "builtins.next", "builtins.super"})
# Methods of `Accelerator` and `Fabric` that take modules.
_TAKING_MODULES = frozenset({"prepare", "prepare_model", "setup", "setup_module", "unwrap_model"})
# The methods of Python's own values and of tensors.
METHODS_OF_VALUES = (
    frozenset(name for kind in (str, bytes, int, float, list, dict, set) for name in dir(kind) if name[0] != "_")
    | catalogue.TENSOR_METHODS
) - EVIDENCE
# The limit on nested calls. Of mutually recursive functions, each is asked once.
_MAX_DEPTH = 30
_MAX_FOLLOWED = 400


def _outline_of(function: Function) -> FunctionOutline | None:
    """The outline of a function of another file; None for one of a parsed file."""
    return function.unit.outlined[function.key] if isinstance(function.unit, OutlinedUnit) else None


class Given:
    """Judges calls by their callees: the greatest nature that their results may have.

    A callee without a name of its own, such as a parameter, may make a module.

    Args:
        hierarchy: the classes of the outlined files.
    """

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._functions: dict[str, Nature] = {}
        self._using: dict[Class | Function, bool] = {}

    def by(self, meaning: Meaning) -> Nature:
        """What calling something gives: MODULE if it may be a module, UNKNOWN if its use would have to explain it."""
        if isinstance(meaning, Function):
            return self._by_function(meaning, _MAX_DEPTH)
        if isinstance(meaning, Class):
            return Nature.MODULE if self._hierarchy.is_module(meaning) else self._hierarchy.nature(meaning)
        if isinstance(meaning, str):
            return self._by_library(meaning)
        return Nature.UNKNOWN if isinstance(meaning, Unit) else Nature.MODULE

    def by_any_of(self, unit: Unit) -> Nature:
        """What calling something of a file by a computed name gives."""
        if unit.stars or unit.alternatives:
            return Nature.MODULE
        names = (*unit.classes, *unit.functions, *unit.imports)
        meanings = [self._hierarchy.resolve_spelled(unit, name) for name in names]
        return max((self.by(each) for each in meanings), default=Nature.UNKNOWN)

    def uses_modules(self, called: Class | Function) -> bool:
        """Whether something in a function or class of another file, or in its callees, is used as a module."""
        if called not in self._using:
            self._using[called] = self._may_use_modules(called)
        return self._using[called]

    def declares_modules(self, unit: Unit, outline: FunctionOutline) -> bool:
        """Whether an annotation in a function names a module class, or a class with a `fit` that takes modules."""
        return any(self._is_of_modules(self._hierarchy.resolve_spelled(unit, each)) for each in outline.annotations)

    def _meaning(self, function: Function, spelled: str) -> Meaning:
        """The meaning of a dotted name in a function of another file."""
        unit = function.unit
        root, _, rest = spelled.partition(".")
        if root in ("self", "cls"):
            owner = unit.owners.get(function.key) if isinstance(unit, OutlinedUnit) else None
            return None if owner is None else self._hierarchy.method(owner, rest)
        if not root or not isinstance(unit, OutlinedUnit) or root in unit.outline.shadowed | unit.alternatives.keys():
            return None
        found = self._hierarchy.resolve_spelled(unit, spelled)
        if found is None and rest:
            above, _, name = spelled.rpartition(".")
            holder = self._hierarchy.resolve_spelled(unit, above)
            if isinstance(holder, Class):
                return self._hierarchy.method(holder, name)
        return found

    def _by_function(self, function: Function, depth: int) -> Nature:
        if function.key not in self._functions:
            self._functions[function.key] = Nature.UNKNOWN  # the value for recursive calls
            self._functions[function.key] = self._find_given(function, depth)
        return self._functions[function.key]

    def _find_given(self, function: Function, depth: int) -> Nature:
        outline = _outline_of(function)
        if outline is None or outline.uses_modules or depth == 0 or self.declares_modules(function.unit, outline):
            return Nature.MODULE
        found = {self._by_call_in(function, spelled, depth) for spelled in outline.makers}
        return next((each for each in (Nature.MODULE, Nature.UNKNOWN) if each in found), Nature.NOT_MODULE)

    def _by_call_in(self, function: Function, spelled: str, depth: int) -> Nature:
        """What a call in a function of another file gives."""
        meaning = self._meaning(function, spelled)
        if isinstance(meaning, Function):
            return self._by_function(meaning, depth - 1)
        return self.by_method(spelled.rpartition(".")[2]) if meaning is None and "." in spelled else self.by(meaning)

    @staticmethod
    def by_method(name: str) -> Nature:
        """What a method known only by its name gives."""
        is_of_modules = name in EVIDENCE or name in _TAKING_MODULES or name == "__class__"
        # On a module class, these make a module.
        return Nature.MODULE if is_of_modules or name.startswith(("from_", "load")) else Nature.UNKNOWN

    def _by_library(self, name: str) -> Nature:
        knowledge = self._hierarchy.knowledge
        if name in _READING_BUILTINS:
            return Nature.UNKNOWN
        effect = knowledge.effect_of(name)
        if effect is not None:
            return _GIVEN.get(effect, Nature.MODULE)
        if name == "builtins.setattr" or name in catalogue.MAPPING:
            return Nature.MODULE
        if name.startswith("builtins."):
            return Nature.NOT_MODULE
        if knowledge.passes_on(name) is not None:
            return Nature.UNKNOWN
        nature = knowledge.nature_of_call(name)
        if nature is Nature.MODULE or catalogue.is_container(name):
            return Nature.MODULE
        return Nature.UNKNOWN if nature is Nature.UNKNOWN else Nature.NOT_MODULE

    def _is_of_modules(self, meaning: Meaning) -> bool:
        if isinstance(meaning, Class):
            return self._hierarchy.is_module(meaning)
        knowledge = self._hierarchy.knowledge
        return isinstance(meaning, str) and (
            knowledge.is_module_class(meaning) or knowledge.takes_module(f"{meaning}.fit")
        )

    def _may_use_modules(self, called: Class | Function) -> bool:
        pending: list[Meaning] = [called]
        seen: set[Meaning] = set()
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            if isinstance(each, Class):
                pending.extend(method for cls in self._hierarchy.ancestors(each) for method in cls.methods.values())
            elif isinstance(each, Function):
                outline = _outline_of(each)
                if outline is None or outline.uses_modules or len(seen) > _MAX_FOLLOWED:
                    return True
                if self.declares_modules(each.unit, outline):
                    return True
                pending.extend(self._meaning(each, spelled) for spelled in outline.calls)
        return False
