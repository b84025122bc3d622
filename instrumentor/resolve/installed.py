"""Definitions of names in installed packages, followed from module to module through their sources."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from instrumentor.resolve.module_facts import (
    Call,
    ClassFacts,
    Element,
    Expression,
    FunctionFacts,
    Imported,
    ModuleFacts,
    Name,
    Nothing,
    VariableFacts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.module_facts import Binding

# The maximum number of names in a chain: `a.Net` imported from `b`, there from `c`, and so on.
_MAX_DEPTH = 24
# A package may import everything from hundreds of others (transformers.models). At most this many are searched, those
# named like the name in question first.
_MAX_STARS = 64


@dataclass(frozen=True, eq=False)
class Module:
    """A module of an installed package.

    Attributes:
        name: its dotted name.
        path: its file, relative to the folder that contains its package, with `/`: `timm/models/resnet.py`.
        is_package: whether it is a package's `__init__.py`, or a package without one.
        facts: its definitions.
    """

    name: str
    path: str
    is_package: bool
    facts: ModuleFacts

    @property
    def package(self) -> str:
        """The package from which its relative imports start."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


class ModuleFinder(Protocol):
    """Finds modules by their dotted names and reads them."""

    def exists(self, name: str) -> bool:
        """Whether there is such a module. It is not read."""
        ...

    def find(self, name: str) -> Module | None:
        """The module; None if there is none with a readable source."""
        ...

    def mentions(self, name: str, word: str) -> bool:
        """Whether a module's text may define `word`, judging by its bytes, without parsing."""
        ...


@dataclass(frozen=True, eq=False)
class ClassDefinition:
    """A class of an installed module."""

    module: Module
    name: str
    facts: ClassFacts

    @property
    def dotted(self) -> str:
        """Its name under the module that defines it."""
        return f"{self.module.name}.{self.name}"

    @property
    def place(self) -> str:
        """Where it was read: `timm/models/resnet.py:350`."""
        return f"{self.module.path}:{self.facts.line}"


@dataclass(frozen=True, eq=False)
class FunctionDefinition:
    """A function of an installed module, or a method of one of its classes."""

    module: Module
    name: str
    facts: FunctionFacts
    owner: ClassDefinition | None = None

    @property
    def place(self) -> str:
        """Where it was read."""
        return f"{self.module.path}:{self.facts.line}"


@dataclass(frozen=True, eq=False)
class VariableDefinition:
    """A variable of an installed module."""

    module: Module
    name: str
    value: Expression
    owner: ClassDefinition | None = None

    @property
    def place(self) -> str:
        """A unique identifier."""
        return f"{self.module.name}.{self.owner.name if self.owner else ''}.{self.name}"


@dataclass(frozen=True)
class External:
    """A dotted name whose source is not read or not found: `torch.nn.Linear`."""

    dotted: str


Definition = Module | ClassDefinition | FunctionDefinition | VariableDefinition | External


class InstalledPackages:
    """Looks up names in the sources of installed packages.

    Args:
        finder: finds the modules.
        is_known: whether a dotted name is not looked up, as the catalogue knows its package.
        is_listed: whether the catalogue knows such a name itself.
    """

    def __init__(self, finder: ModuleFinder, is_known: Callable[[str], bool], is_listed: Callable[[str], bool]) -> None:
        self._finder = finder
        self._is_known = is_known
        self._is_listed = is_listed
        self._members: dict[tuple[str, str], Definition | None] = {}
        self._definitions: dict[int, Definition] = {}

    def lookup(self, dotted: str, depth: int = _MAX_DEPTH) -> Definition | None:
        """The meaning of an absolute dotted name.

        Returns:
            Its definition, by whatever name it was imported; `External` for a known name or one whose package is not
            installed; None for a name that its module does not seem to have.
        """
        if self._is_known(dotted):
            return External(dotted)
        parts = dotted.split(".")
        # Start with the longest module in the name: a package's own names precede its submodules.
        for count in range(max(len(parts) - 1, 1), 0, -1):
            above = ".".join(parts[:count])
            if not self._finder.exists(above):
                continue
            found: Definition | None = self._finder.find(above)
            for part in parts[count:]:
                if found is None:
                    break
                found = self.member(found, part, depth - 1)
            return found
        return External(dotted)

    def member(self, of: Definition, name: str, depth: int = _MAX_DEPTH) -> Definition | None:
        """The meaning of an attribute of a module or class; None if there is none."""
        if depth <= 0:
            return None
        if isinstance(of, External):
            return External(f"{of.dotted}.{name}")
        if isinstance(of, ClassDefinition):
            return self.class_member(of, name, depth)
        return self._module_member(of, name, depth) if isinstance(of, Module) else None

    def class_member(self, cls: ClassDefinition, name: str, depth: int = _MAX_DEPTH) -> Definition | None:
        """A method or attribute of a class or its nearest ancestor that has one; None if there is none."""
        for each in self.ancestors(cls, depth):
            if isinstance(each, External):
                continue
            if name in each.facts.methods:
                return self._method(each, name)
            if name in each.facts.attributes:
                return VariableDefinition(each.module, name, each.facts.attributes[name], each)
        return None

    def _method(self, cls: ClassDefinition, name: str) -> FunctionDefinition:
        facts = cls.facts.methods[name]
        found = self._definitions.get(id(facts))
        if not isinstance(found, FunctionDefinition):
            found = FunctionDefinition(cls.module, name, facts, cls)
            self._definitions[id(facts)] = found
        return found

    def ancestors(self, cls: ClassDefinition, depth: int = _MAX_DEPTH) -> list[ClassDefinition | External]:
        """The class and its ancestors, nearest first; `External` for those not read or not found."""
        found: list[ClassDefinition | External] = []
        pending: list[ClassDefinition | External] = [cls]
        while pending:
            current = pending.pop(0)
            if current in found:
                continue
            found.append(current)
            if isinstance(current, ClassDefinition) and len(found) < _MAX_DEPTH:
                pending.extend(self.base(current, base, depth - 1) for base in current.facts.bases)
        return found

    def base(self, cls: ClassDefinition, expression: Expression, depth: int = _MAX_DEPTH) -> ClassDefinition | External:
        """The meaning of a base class expression; `External("")` if it is unknown."""
        while isinstance(expression, Element):  # Generic[T]
            expression = expression.of
        if not isinstance(expression, Name):
            return External("")
        found = self.resolve(cls.module, expression.dotted, depth)
        while isinstance(found, VariableDefinition) and isinstance(found.value, Name) and depth > 0:
            depth -= 1
            found = self.resolve(found.module, found.value.dotted, depth)
        return found if isinstance(found, (ClassDefinition, External)) else External("")

    def resolve(self, module: Module, dotted: str, depth: int = _MAX_DEPTH) -> Definition | None:
        """The meaning of a dotted name in the text of a module, or of a builtin if nothing else has the name."""
        first, *rest = dotted.split(".")
        found: Definition | None = self._own(module, first, depth)
        if found is None and hasattr(builtins, first):
            found = External(f"builtins.{first}")
        for part in rest:
            if found is None:
                return None
            found = self.member(found, part, depth - 1)
        return found

    def imported(self, module: Module, dotted: str, depth: int = _MAX_DEPTH) -> Definition | None:
        """The object that an import in a module binds."""
        target = _absolute(module, dotted)
        if target is None:
            return None
        if self._is_known(target):
            return External(target)
        # `import a` and `from . import b` bind a module, whatever names it has.
        if "." not in target or (dotted.startswith(".") and not dotted.strip(".")):
            return self._finder.find(target) or External(target)
        return self.lookup(target, depth)

    def _module_member(self, module: Module, name: str, depth: int) -> Definition | None:
        own = self._own(module, name, depth)
        if own is not None:
            return own
        if module.is_package and self._finder.exists(f"{module.name}.{name}"):
            return self._finder.find(f"{module.name}.{name}")
        return None

    def _own(self, module: Module, name: str, depth: int) -> Definition | None:
        """The meaning of a name that a module itself binds, by its text or by `from ... import *`."""
        key = (module.name, name)
        if key in self._members:
            return self._members[key]
        if depth <= 0:
            return None
        self._members[key] = None  # the value for a name that leads to itself
        found: Definition | None = None
        # The last binding counts, unless its meaning is not found: of a `try` and its `except`, one is installed.
        bindings = module.facts.names.get(name, [])
        for position in range(len(bindings) - 1, -1, -1):
            if _is_passing(bindings[position], name) and len(bindings) > 1:
                continue
            found = found or self._bound(module, name, bindings[position], depth)
            if found is not None and not isinstance(found, External):
                break
        found = found or self._from_stars(module, name, depth)
        self._members[key] = found
        return found

    def _from_stars(self, module: Module, name: str, depth: int) -> Definition | None:
        hidden: list[Module] = []
        for target in _likely_stars(module, name):
            if self._is_known(target):
                if self._is_listed(f"{target}.{name}"):
                    return External(f"{target}.{name}")
                continue
            source = self._finder.find(target) if self._finder.mentions(target, name) else None
            if source is None or source is module:
                continue
            if not _exports(source, name):
                hidden.append(source)
                continue
            found = self._module_member(source, name, depth - 1)
            if found is not None:
                return found
        # A registry's decorators may add to `__all__` the names that they decorate (timm.models).
        defining = [source for source in hidden if not name.startswith("_") and name in source.facts.names]
        return self._own(defining[0], name, depth - 1) if defining else None

    def _bound(self, module: Module, name: str, binding: Binding, depth: int) -> Definition | None:
        if isinstance(binding, ClassFacts):
            return ClassDefinition(module, name, binding)
        if isinstance(binding, FunctionFacts):
            return FunctionDefinition(module, name, binding)
        if isinstance(binding.value, Imported):
            return self.imported(module, binding.value.dotted, depth - 1)
        return VariableDefinition(module, name, binding.value) if isinstance(binding, VariableFacts) else None


def _likely_stars(module: Module, name: str) -> list[str]:
    """The modules from which a module imports everything, the last one first; of many, those named like `name`."""
    plain = name.lower().replace("_", "")

    def rank(star: str) -> tuple[bool, int]:
        last = star.rpartition(".")[2].replace("_", "")
        return (not last or not plain.startswith(last), -len(last))

    stars = list(reversed(module.facts.stars))
    if len(stars) > _MAX_STARS:
        stars = sorted(stars, key=rank)[:_MAX_STARS]
    return [target for star in stars if (target := _absolute(module, star)) is not None]


def _exports(module: Module, name: str) -> bool:
    exported = module.facts.exported
    return not name.startswith("_") if exported is None else name in exported


def _absolute(module: Module, dotted: str) -> str | None:
    """The absolute name of an import in a module; None if its dots lead out of the package."""
    level = len(dotted) - len(dotted.lstrip("."))
    if not level:
        return dotted
    above = [part for part in module.package.split(".") if part]
    above = above[: len(above) - (level - 1)]
    return ".".join([*above, *(part for part in dotted[level:].split(".") if part)]) if above else None


def _is_passing(binding: Binding, name: str) -> bool:
    """Whether a binding leaves the other meanings of its name in place: `Net = None`, `Net = register(Net)`."""
    value = binding.value if isinstance(binding, VariableFacts) else None
    if isinstance(value, Nothing):
        return True
    return isinstance(value, Call) and Name(name) in (*value.arguments, *value.keywords.values())
