"""Whether instances of a module class may have parameters: by what its code stores in them, and how it uses that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from instrumentor.resolve import catalogue
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.module_facts import OWN, Call, Element, Items, Member, Name, Nothing, Table, names_in
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from instrumentor.resolve.module_facts import Expression, HeldFacts

C = TypeVar("C")
F = TypeVar("F")
_FREE = (Nature.NO_PARAMS, Nature.NOT_MODULE)


class Names(Protocol):
    """Knows names whose source is not read."""

    def nature_of_call(self, name: str) -> Nature:
        """The nature of what calling the class or function `name` returns."""
        ...

    def nature_of_base(self, name: str) -> Nature:
        """The nature of a class whose base is the library's class `name`."""
        ...

    def is_module_class(self, name: str) -> bool:
        """Whether `name` is a module class."""
        ...

    @property
    def identity_methods(self) -> Set[str]:
        """The methods of modules that return the module itself."""
        ...

    def effect_of(self, name: str) -> Effect | None:
        """What the function `name` does with modules passed to it; None if unknown."""
        ...

    def may_register(self, name: str) -> bool:
        """Whether the function `name` may register a parameter or a module in its arguments."""
        ...


@dataclass(frozen=True)
class Meaning(Generic[C, F]):
    """What a name means: a class, a function, something whose source is not read, or neither of these."""

    cls: C | None = None
    function: F | None = None
    library: str = ""


class Definitions(Protocol[C, F]):
    """The classes `C` and functions `F` of a project or of installed packages."""

    def meaning(self, where: C | F, name: str) -> Meaning[C, F]:
        """The meaning of a dotted name in the file of a class or function."""
        ...

    def ancestors(self, cls: C) -> Sequence[C]:
        """The class and its ancestors, as far as their sources are read."""
        ...

    def library_bases(self, cls: C) -> Sequence[str | None]:
        """The bases of a class and its ancestors whose sources are not read; None for those that cannot be resolved."""
        ...

    def method(self, cls: C, name: str) -> F | None:
        """The method that an instance of a class has."""
        ...

    def nature(self, cls: C) -> Nature:
        """The nature of a class's instances."""
        ...

    def held(self, cls: C) -> HeldFacts:
        """What the code of the class itself stores in its instances."""
        ...

    def registers(self, function: F) -> bool:
        """Whether a function may register something in one of its arguments, or pass it on."""
        ...

    def calls_in(self, function: F) -> Sequence[Call] | None:
        """The calls in a function; None if they are not known."""
        ...


class ParameterSearch(Generic[C, F]):
    """Finds out which classes of modules have parameters.

    Args:
        definitions: the classes and functions.
        names: knows the names that these do not define.
        found: whether classes may store parameters themselves, as far as searches have found out.
    """

    def __init__(self, definitions: Definitions[C, F], names: Names, found: dict[C, bool]) -> None:
        self._definitions = definitions
        self._names = names
        self._found = found

    def nature(self, cls: C) -> Nature:
        """The nature of a class of modules whose library bases have no parameters."""
        related = self._definitions.ancestors(cls)
        if any(map(self._has_parameters, related)):
            return Nature.MODULE
        # What one class stores, an ancestor or descendant may use.
        held = [self._definitions.held(each) for each in related]
        called = {name for each in held for name in each.called}
        with_called_elements = {name for each in held for name in each.with_called_elements}
        with_called_parts = {name for each in held for name in each.with_called_parts}
        for each in related:
            for stored in self._definitions.held(each).stored:
                # The contents of a plain list or dictionary are no part of the module.
                is_used = stored.attribute in called or (
                    stored.attribute in with_called_elements and not isinstance(stored.value, (Items, Table))
                )
                if is_used and not self._is_free(each, stored.value, stored.assigned):
                    return Nature.MODULE
                if stored.attribute in with_called_parts and self._is_out_of_sight(each, stored.value, set(), each):
                    return Nature.MODULE
        # Only losses and layers have no parameters, and without a forward pass it is neither, unless torch defines it.
        is_callable = self._definitions.method(cls, "forward") or self._definitions.method(cls, "__call__")
        bases = {catalogue.canonical_name(base) for base in self._definitions.library_bases(cls) if base is not None}
        return Nature.NO_PARAMS if is_callable or "torch.nn.Module" not in bases else Nature.MODULE

    def _has_parameters(self, cls: C) -> bool:
        """Whether a class itself may store a parameter, or a module with parameters, however it uses these."""
        if cls not in self._found:
            held = self._definitions.held(cls)
            self._found[cls] = (
                held.registers
                or self._is_helped(cls)
                or any(self._may_make(cls, call, set(), cls) for stored in held.stored for call in stored.calls)
                or any(self._is_module_class(cls, name) for stored in held.stored for name in names_in(stored.declared))
            )
        return self._found[cls]

    def _is_helped(self, cls: C) -> bool:
        """Whether a function to which a class's instances are passed may register something in them."""
        meant = [self._definitions.meaning(cls, helper) for helper in self._definitions.held(cls).helpers]
        return any(
            (not each.library or self._names.may_register(each.library))
            if each.function is None
            else self._definitions.registers(each.function)
            for each in meant
        )

    def _is_module_class(self, cls: C, name: str) -> bool:
        meant = self._definitions.meaning(cls, name)
        if meant.cls is not None:
            return self._definitions.nature(meant.cls) is Nature.MODULE
        return bool(meant.library) and (
            catalogue.canonical_name(meant.library) == "torch.nn.Module"
            or self._names.nature_of_base(meant.library) is Nature.MODULE
        )

    def _may_make(self, where: C | F, call: Call, seen: set[F], cls: C | None = None) -> bool:
        """Whether a call may make a parameter, or a module with parameters.

        Args:
            where: the class or function with the call.
            call: the call.
            seen: the functions already examined.
            cls: the class whose own methods the call may mean by `self`.
        """
        if not isinstance(call.function, Name):
            return False
        meant = self._meaning(where, call.function, cls)
        if meant.cls is not None:
            bases = filter(None, self._definitions.library_bases(meant.cls))
            return self._definitions.nature(meant.cls) is Nature.MODULE or any(map(catalogue.is_parameter, bases))
        if catalogue.is_container(meant.library):
            return not call.arguments  # an empty one is filled later; a full one is what its elements are
        if meant.library:
            return catalogue.is_parameter(meant.library) or self._names.nature_of_call(meant.library) is Nature.MODULE
        if meant.function is None or meant.function in seen:
            return False
        seen.add(meant.function)
        calls = self._definitions.calls_in(meant.function) or ()
        return any(self._may_make(meant.function, each, seen) for each in calls)

    def _meaning(self, where: C | F, callee: Name, cls: C | None) -> Meaning[C, F]:
        if cls is not None and callee.dotted.startswith(OWN):
            return Meaning(function=self._definitions.method(cls, callee.dotted[len(OWN) :]))
        return self._definitions.meaning(where, callee.dotted)

    def _is_out_of_sight(self, where: C | F, value: Expression, seen: set[F], cls: C | None = None) -> bool:
        """Whether a value is the result of calling a local variable, or something of which nothing is known.

        Functions that make such calls count too. The arguments are those of `_may_make`.
        """
        if not isinstance(value, Call):
            return False
        if isinstance(value.function, Member):
            return self._is_out_of_sight(where, value.function.of, seen, cls)
        if not isinstance(value.function, Name):
            return False
        meant = self._meaning(where, value.function, cls)
        if meant.library:
            return not self._is_free(where, value)
        if meant.function is None:
            return meant.cls is None and "." not in value.function.dotted
        if meant.function in seen:
            return False
        seen.add(meant.function)
        calls = self._definitions.calls_in(meant.function)
        return calls is None or any(self._is_out_of_sight(meant.function, each, seen) for each in calls)

    def _is_free(self, where: C | F, value: Expression, assigned: Sequence[Expression] = ()) -> bool:
        """Whether a value that is called or iterated over is known to hold no parameters.

        Args:
            where: the class or function with the value.
            value: the value.
            assigned: if it is a local variable or an element of one, what the variable is assigned.
        """
        while isinstance(value, Element):
            value = value.of
        if isinstance(value, Name):
            return bool(assigned) and all(self._is_tensor(where, each) for each in assigned)
        if not isinstance(value, Call):
            return isinstance(value, Nothing)
        if not isinstance(value.function, Name):
            return False
        meant = self._definitions.meaning(where, value.function.dotted)
        if meant.cls is not None:
            return self._definitions.nature(meant.cls) in _FREE
        if catalogue.is_container(meant.library):
            return all(self._is_free(where, each) for each in value.arguments)
        # `copy.deepcopy(model)` has the model's parameters.
        is_new = bool(meant.library) and self._names.effect_of(meant.library) in (None, Effect.READS)
        return is_new and self._names.nature_of_call(meant.library) in _FREE

    def _is_tensor(self, where: C | F, value: Expression) -> bool:
        """Whether a value is the result of a torch function that makes no modules."""
        if not isinstance(value, Call) or not isinstance(value.function, Name):
            return False
        name = self._definitions.meaning(where, value.function.dotted).library
        is_of_torch = name.startswith("torch.") and self._names.effect_of(name) is None
        return is_of_torch and self._names.nature_of_call(name) is Nature.NOT_MODULE
