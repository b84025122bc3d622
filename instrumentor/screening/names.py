"""The meanings of a file's names where they are read, and what calling them makes."""

from __future__ import annotations

import ast
from enum import Enum
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import bound_names, is_bound, spelling
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.function_outline import EVIDENCE
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.outline import OutlinedUnit
from instrumentor.resolve.unit import Class, Function, Unit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import EllipsisType

    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.function_outline import FunctionOutline

Meaning = Class | Function | Unit | str | None


class Gives(Enum):
    """What a call may return."""

    NO_MODULE = "nothing that is ever taken for a module"
    UNKNOWN = "something that its use would have to explain"
    ANYTHING = "perhaps a module"


# Effects that make no object of their own.
_GIVEN = {
    Effect.READS: Gives.NO_MODULE,
    Effect.COLLECTS: Gives.NO_MODULE,
    Effect.BUILDS: Gives.NO_MODULE,
    Effect.DERIVES: Gives.NO_MODULE,
    Effect.IDENTITY: Gives.UNKNOWN,
    Effect.IDENTITY_TUPLE: Gives.UNKNOWN,
    Effect.UNWRAPS: Gives.UNKNOWN,
}
_READING_BUILTINS = frozenset({"builtins.getattr", "builtins.next", "builtins.super"})
# Methods that put their arguments into a container.
PUTTING_METHODS = frozenset(
    {"append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault", "__setitem__"}
)
# Methods of `Accelerator` and `Fabric` that take modules.
_TAKING_MODULES = frozenset({"prepare", "prepare_model", "setup", "setup_module", "unwrap_model"})
# The limit on nested calls. Of mutually recursive functions, each is asked once.
_MAX_DEPTH = 30
_MAX_FOLLOWED = 400
# Methods of tensors besides the common ones, and of arrays, paths, files, patterns, loggers and containers.
_OTHER_METHODS = """
    absolute addHandler all amax amin any appendleft argsort as_posix astype bmm byte ceil char clip close cos
    critical cross cumprod cumsum data_ptr debug diagonal diff end eq erf error exception exists expanduser
    extendleft findall finditer flip floor flush fullmatch ge get_device getvalue glob group groupdict groups gt
    index_add_ index_copy_ index_fill_ index_put_ info isEnabledFor is_contiguous is_dir is_file is_floating_point
    isfinite isinf isnan iterdir joinpath le log2 logical_and logical_not logical_or masked_fill_ masked_scatter
    masked_select match median mkdir most_common move_to_end movedim multinomial narrow ne neg new_empty new_full
    new_ones new_zeros nonzero normal_ open outer pin_memory polar popleft prod ravel read read_bytes read_text
    readline readlines reciprocal relative_to relu rename repeat_interleave resolve rglob roll rot90 round rsqrt
    scatter scatter_add scatter_add_ search seek select setLevel sigmoid sign sin span square squeeze_ start stat
    stride swapaxes take tan tanh tell tile tobytes topk touch trace tril triu trunc unbind unfold uniform_ unique
    unlink warn warning where with_name with_suffix write write_bytes write_text
"""
# The methods of all these, and of Python's own values. A class may well define `new` to make a model.
VALUE_METHODS = (
    frozenset(name for kind in (str, bytes, int, float, list, dict, set) for name in dir(kind))
    | catalogue.TENSOR_METHODS
    | frozenset(_OTHER_METHODS.split())
) - (EVIDENCE | {"__class__", "new"})


def _outline(function: Function) -> FunctionOutline | None:
    return function.unit.outlined[function.key] if isinstance(function.unit, OutlinedUnit) else None


class Names:
    """Gives the meanings of the script's names. Names that the script also stores to have none."""

    def __init__(self, unit: Unit, hierarchy: Hierarchy) -> None:
        self._unit = unit
        self._hierarchy = hierarchy
        self._bound = bound_names(unit)
        self._known: dict[ast.expr, Meaning | EllipsisType] = {}

    def meaning(self, expression: ast.expr) -> Meaning:
        """The meaning of a dotted name where it is read; None if unknown."""
        known = self._known.get(expression, ...)
        if known is ...:
            known = self._known[expression] = self._find_meaning(expression)
        return known

    def _find_meaning(self, expression: ast.expr) -> Meaning:
        method = self._method(expression)
        if method is not None:
            return method
        if isinstance(expression, ast.Attribute):
            holder = self.meaning(expression.value)
            if isinstance(holder, Class):
                return self._hierarchy.method(holder, expression.attr)
        spelled = spelling(expression)
        root = spelled.partition(".")[0]
        if not root or root in self._unit.alternatives or is_bound(self._unit, expression, root, self._bound):
            return None
        return self._hierarchy.resolve_spelled(self._unit, spelled)

    def is_stored(self, name: ast.Name) -> bool:
        """Whether a name may have been stored to."""
        return is_bound(self._unit, name, name.id, self._bound)

    def is_of_top(self, name: ast.Name) -> bool:
        """Whether a name is read that the top level of the file binds."""
        return not is_bound(self._unit, name, name.id, {**self._bound, None: set()})

    def _method(self, expression: ast.expr) -> Meaning:
        """The method that code in a class names by `self`, `cls` or `super()`: of its class or of an ancestor.

        None if no class of the project has it.
        """
        if not isinstance(expression, ast.Attribute):
            return None
        holder = (
            spelling(expression.value.func) + "()"
            if isinstance(expression.value, ast.Call)
            else spelling(expression.value)
        )
        if holder not in ("self", "cls", "super()"):
            return None
        around = self._unit.class_around(expression)
        if around is None:
            return None
        ancestors = self._hierarchy.ancestors(around)
        classes = ancestors[1:] if holder == "super()" else ancestors
        return next((each.methods[expression.attr] for each in classes if expression.attr in each.methods), None)


class Callables:
    """Judges calls by their callees.

    Args:
        hierarchy: the classes.
        find_unnamed: the judgement on callees without a name of their own: parameters, elements of tables.

    Attributes:
        relied_on: the methods that are assumed to make no module unless more is known of them.
    """

    def __init__(self, hierarchy: Hierarchy, find_unnamed: Callable[[], Gives]) -> None:
        self._hierarchy = hierarchy
        self._find_unnamed = find_unnamed
        self._functions: dict[str, Gives] = {}
        self.relied_on: set[str] = set()

    def meaning(self, function: Function, spelled: str) -> Meaning:
        """The meaning of a dotted name in a function of another file."""
        unit = function.unit
        root, _, rest = spelled.partition(".")
        if root in ("self", "cls"):
            owner = self._owner(function)
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

    @staticmethod
    def _owner(function: Function) -> Class | None:
        return function.unit.owners.get(function.key) if isinstance(function.unit, OutlinedUnit) else None

    def of_library(self, name: str) -> Gives:
        """What calling a library's function or class returns."""
        knowledge = self._hierarchy.knowledge
        if name in _READING_BUILTINS:
            return Gives.UNKNOWN
        effect = knowledge.effect_of(name)
        if effect is not None:
            return _GIVEN.get(effect, Gives.ANYTHING)
        if name == "builtins.setattr" or name in catalogue.MAPPING:
            return Gives.ANYTHING
        if name.startswith("builtins."):
            return Gives.NO_MODULE
        if knowledge.passes_on(name) is not None:
            return Gives.UNKNOWN
        nature = knowledge.nature_of_call(name)
        if nature is Nature.MODULE or catalogue.is_container(name):
            return Gives.ANYTHING
        return Gives.UNKNOWN if nature is Nature.UNKNOWN else Gives.NO_MODULE

    def of_function(self, function: Function, depth: int = _MAX_DEPTH) -> Gives:
        """What calling a function of another file of the project returns, regardless of its arguments."""
        key = function.key
        if key not in self._functions:
            self._functions[key] = Gives.UNKNOWN  # the value for recursive calls
            self._functions[key] = self._find_given(function, depth)
        return self._functions[key]

    def _find_given(self, function: Function, depth: int) -> Gives:
        outline = _outline(function)
        if outline is None or outline.uses_modules or depth == 0 or self.declares_modules(function.unit, outline):
            return Gives.ANYTHING
        found = {self._given_by(function, spelled, depth) for spelled in outline.makers}
        return next((each for each in (Gives.ANYTHING, Gives.UNKNOWN) if each in found), Gives.NO_MODULE)

    def _given_by(self, function: Function, spelled: str, depth: int) -> Gives:
        """What a call in a function of another file returns."""
        meaning = self.meaning(function, spelled)
        if isinstance(meaning, Function):
            return self.of_function(meaning, depth - 1)
        if isinstance(meaning, Class):
            return Gives.ANYTHING if self._hierarchy.is_module(meaning) else Gives.NO_MODULE
        if isinstance(meaning, str):
            return self.of_library(meaning)
        if isinstance(meaning, Unit):
            return Gives.UNKNOWN
        return self.of_method(spelled.rpartition(".")[2]) if "." in spelled else self.unnamed

    def declares_modules(self, unit: Unit, outline: FunctionOutline) -> bool:
        """Whether an annotation in a function names a module class, or a class with a `fit` that takes modules."""
        return any(self._is_of_modules(self._hierarchy.resolve_spelled(unit, each)) for each in outline.annotations)

    def _is_of_modules(self, meaning: Meaning) -> bool:
        if isinstance(meaning, Class):
            return self._hierarchy.is_module(meaning)
        knowledge = self._hierarchy.knowledge
        return isinstance(meaning, str) and (
            knowledge.is_module_class(meaning) or knowledge.takes_module(f"{meaning}.fit")
        )

    @property
    def unnamed(self) -> Gives:
        """What calling something without a name of its own returns."""
        return self._find_unnamed()

    def may_use_modules(self, called: Function | Class | Unit) -> bool:
        """Whether something in a function or class of another file, or in its callees, is used as a module."""
        pending: list[object] = [called]
        seen: set[object] = set()
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            if isinstance(each, Class):
                pending.extend(method for cls in self._hierarchy.ancestors(each) for method in cls.methods.values())
            elif isinstance(each, Function):
                outline = _outline(each)
                if outline is None or outline.uses_modules or len(seen) > _MAX_FOLLOWED:
                    return True
                if self.declares_modules(each.unit, outline):
                    return True
                pending.extend(self.meaning(each, spelled) for spelled in outline.calls)
        return False

    def of_method(self, name: str) -> Gives:
        """What a method known only by name returns. Names that no ordinary value has are recorded."""
        if name in EVIDENCE or name in _TAKING_MODULES or name == "__class__":
            return Gives.ANYTHING
        if name.startswith(("from_", "load")) and self.unnamed is Gives.ANYTHING:
            return Gives.ANYTHING  # on a module class it would make a module
        if name not in VALUE_METHODS:
            self.relied_on.add(name)
        return Gives.UNKNOWN
