"""Knowledge about names outside the project: from the user, then installed sources, then the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.call_values import Argument, Fresh, Several, Unseen, Values
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.installed import ClassDefinition, External, FunctionDefinition, InstalledPackages
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.returned import CallReader

if TYPE_CHECKING:
    from instrumentor.resolve.installed import ModuleFinder
    from instrumentor.settings import Settings


@dataclass(frozen=True)
class Origin:
    """The classes of an object, and the evidence for them.

    Attributes:
        class_names: its possible classes, each under the module that defines it; empty if unknown.
        place: where this was read (`timm/models/resnet.py:350`); empty if no source was read.
        source: "configuration", "source", "annotation" or "catalogue".
    """

    class_names: tuple[str, ...]
    place: str
    source: str


class Knowledge:
    """Answers queries about dotted names outside the project.

    Args:
        settings: the user's additions to the catalogue.
        finder: the installed modules; if None, only the user and the catalogue are asked.
    """

    def __init__(self, settings: Settings, finder: ModuleFinder | None = None) -> None:
        self._factories = settings.factories
        self._classes = settings.module_classes
        self._wrappers = settings.wrappers
        self._functions = tuple(name for name in settings.identity_methods if "." in name)
        self.identity_methods = catalogue.IDENTITY_METHODS | {
            name for name in settings.identity_methods if "." not in name
        }
        self._packages = None if finder is None else _packages(finder)
        self._reader = None if self._packages is None else CallReader(self._packages, self)
        self._natures: dict[str, Nature] = {}
        self._names: dict[str, str] = {}

    def effect_of(self, name: str) -> Effect | None:
        """What the function `name` does with modules passed to it; None if unknown."""
        if self._wrappers and _matches(name, self._wrappers):
            return Effect.WRAPS
        if self._functions and _matches(name, self._functions):
            return Effect.IDENTITY
        if self.is_factory(name):
            return None
        return catalogue.effect_of(self._known_as(name))

    def nature_of_call(self, name: str) -> Nature:
        """The nature of what calling the class or function `name` returns, regardless of its arguments."""
        if name not in self._natures:
            self._natures[name] = Nature.UNKNOWN  # the value for a name that leads to itself
            self._natures[name] = self._find_nature(name)
        return self._natures[name]

    def _find_nature(self, name: str) -> Nature:
        if self.is_factory(name):
            return Nature.MODULE
        name = self._known_as(name)
        if catalogue.is_complete(name):
            return catalogue.nature_of_call(name)
        values = self.returned(name)
        if values is not None:
            natures = {_nature_of(each) for each in values} or {Nature.NOT_MODULE}
            if Nature.MODULE in natures or Nature.UNKNOWN not in natures:
                return max(natures)
        return catalogue.nature_of_call(name)

    def returned(self, name: str) -> Values | None:
        """What calling `name` returns according to a library's source; None if there is no source."""
        if self._reader is None or catalogue.is_complete(name) or "*" in name or self.is_factory(name):
            return None
        return self._reader.returned(name)

    def passes_on(self, name: str) -> Argument | None:
        """The parameter that the function `name` returns, according to its source; None if there is not exactly one."""
        values = self.returned(name)
        found = {each for each in values or () if isinstance(each, Argument)}
        rest = {each for each in values or () if not isinstance(each, (Argument, Unseen))}
        return next(iter(found)) if len(found) == 1 and not rest else None

    def takes_module(self, name: str) -> bool:
        """Whether the first argument of the function or class `name`, or its `model`, is a module."""
        return catalogue.takes_module(self._known_as(name))

    def uses_arguments(self, name: str) -> bool:  # noqa: ARG002
        """Whether the function or class `name` may use any of its arguments as a module; False for libraries."""
        return False

    def makes_objects(self, name: str) -> bool:
        """Whether the function or class `name` instantiates the classes passed to it."""
        return catalogue.makes_objects(self._known_as(name))

    def holding(self, name: str) -> catalogue.Holding | None:
        """How the object that `name` returns holds a model made for it; None if it is not known to do so."""
        return catalogue.holding(self._known_as(name))

    def may_register(self, name: str) -> bool:
        """Whether the function `name` may register a parameter or a module in its arguments."""
        if catalogue.is_complete(name):
            return False
        found = None if self._packages is None else self._packages.lookup(name)
        return not isinstance(found, FunctionDefinition) or found.facts.registers

    def nature_of_base(self, name: str) -> Nature:
        """The nature of a class whose base is the library's class `name`."""
        if self._classes and _matches(name, self._classes):
            return Nature.MODULE
        name = self._known_as(name)
        if self._packages is not None and self._reader is not None and not catalogue.is_complete(name):
            found = self._packages.lookup(name)
            if isinstance(found, ClassDefinition):
                nature = self._reader.class_nature(found)
                listed = catalogue.nature_of_base(name)
                if nature is not Nature.UNKNOWN:
                    # An abstract base has no parameters, but its subclasses for models will
                    # (lightning.LightningModule).
                    return listed if nature is Nature.NO_PARAMS and listed is Nature.MODULE else nature
        return catalogue.nature_of_base(name)

    def is_module_class(self, name: str) -> bool:
        """Whether `name` is a module class."""
        return self.nature_of_base(name) in (Nature.MODULE, Nature.NO_PARAMS)

    def is_factory(self, name: str) -> bool:
        """Whether the user says that calling `name` makes a module."""
        return self.has_factories and _matches(name, (*self._factories, *self._classes))

    @property
    def has_factories(self) -> bool:
        """Whether the user names anything whose call makes a module."""
        return bool(self._factories or self._classes)

    def is_listed_class(self, name: str) -> bool:
        """Whether the user says that `name`, of the project or a library, is a module class."""
        return bool(self._classes) and _matches(name, self._classes)

    def star_member(self, module: str, name: str) -> str | None:
        """The dotted name that `from module import *` binds `name` to; None if it does not seem to bind the name."""
        dotted = f"{module}.{name}"
        found = None if self._packages is None or catalogue.is_complete(dotted) else self._packages.lookup(dotted)
        if isinstance(found, External) and found.dotted not in (dotted, f"builtins.{name}"):
            return found.dotted
        if found is not None and not isinstance(found, External):
            return dotted
        return dotted if self.is_module_class(dotted) else None

    def origin(self, name: str) -> Origin | None:
        """The origin of what calling `name` returns; None if nothing is known of it."""
        if self.is_factory(name):
            return Origin((), "", "configuration")
        values = self.returned(name)
        made = [each for each in _flat(values) if each.nature in (Nature.MODULE, Nature.NO_PARAMS)]
        if made:
            places = [each.place for each in made if each.place]
            source = "annotation" if all(each.is_annotated for each in made) else "source"
            names = tuple(sorted({each.name for each in made}))
            return Origin(names, places[0] if len(set(places)) == 1 else self._place_of(name), source)
        known = self._known_as(name)
        if self.nature_of_call(name) is Nature.NOT_MODULE:
            return None
        if catalogue.nature_of_call(known) in (Nature.MODULE, Nature.NO_PARAMS):
            is_class = known.rpartition(".")[2][:1].isupper()
            return Origin((catalogue.canonical_name(known),) if is_class else (), "", "catalogue")
        return None

    def _place_of(self, name: str) -> str:
        found = self._packages.lookup(name) if self._packages is not None else None
        return found.place if isinstance(found, (ClassDefinition, FunctionDefinition)) else ""

    def _known_as(self, name: str) -> str:
        """The catalogue's name for something that a package imports from another one: `fastai.vision.all.nn`."""
        if self._packages is None or catalogue.is_complete(name) or "*" in name:
            return name
        if name not in self._names:
            found = self._packages.lookup(name)
            self._names[name] = found.dotted if isinstance(found, External) and found.dotted else name
        return self._names[name]


def _packages(finder: ModuleFinder) -> InstalledPackages:
    def is_listed(name: str) -> bool:
        return catalogue.nature_of_base(name) in (Nature.MODULE, Nature.NO_PARAMS)

    return InstalledPackages(finder, catalogue.is_complete, is_listed)


def _nature_of(value: object) -> Nature:
    if isinstance(value, Fresh):
        return value.nature
    return Nature.UNKNOWN


def _flat(values: Values | None) -> list[Fresh]:
    """The new objects in a value and in its tuples, in a fixed order."""
    found: list[Fresh] = []
    for each in sorted(values or (), key=repr):
        if isinstance(each, Fresh):
            found.append(each)
        elif isinstance(each, Several):
            for item in each.items:
                found.extend(_flat(item))
    return found


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
