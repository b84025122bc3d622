"""Which classes of a project are module classes, and which of these have parameters."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import annotated_names, spelling
from instrumentor.resolve.module_reader import calls_in, held_facts
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.own_object import is_own, own_names, registers
from instrumentor.resolve.parameters import Meaning, ParameterSearch
from instrumentor.resolve.unit import Class, Function, Unit
from instrumentor.source.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.resolve.module_facts import Call, HeldFacts
    from instrumentor.resolve.project import Project


_METACLASSES = frozenset({"builtins.type", "abc.ABCMeta", "enum.EnumMeta"})


class Declaration(NamedTuple):
    """What an annotation says.

    Attributes:
        is_module: whether the annotated value is a module.
        names: the library classes that it names, except those of torch and the standard library, which are no evidence.
    """

    is_module: bool
    names: tuple[str, ...]


def _merge(orders: Sequence[Sequence[Class]]) -> list[Class]:
    """The C3 linearisation of classes (https://docs.python.org/3/howto/mro.html).

    If there is none and Python would refuse the class, the classes in the order in which they occur.
    """
    pending = [list(order) for order in orders if order]
    found: list[Class] = []
    while pending:
        heads = [order[0] for order in pending]
        behind = {each for order in pending for each in order[1:]}
        first = next((head for head in heads if head not in behind), heads[0])
        found.append(first)
        pending = [rest for order in pending if (rest := [each for each in order if each is not first])]
    return found


class Hierarchy:
    """The class hierarchy of a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.knowledge = project.knowledge
        self._natures: dict[str, Nature] = {}
        self._ancestors: dict[str, list[Class]] = {}
        self._bases: dict[str, tuple[Class | str | None, ...]] = {}
        self._library_bases: dict[str, list[str | None]] = {}
        self._nodes: dict[str, list[ast.AST]] = {}
        self._held: dict[str, HeldFacts] = {}
        self._calls: dict[str, list[Call]] = {}
        self._with_parameters: dict[Class, bool] = {}
        self._below: dict[Class, list[Class]] = defaultdict(list)
        self._units_below = 0
        self._looks: dict[str, bool] = {}
        self._spelled: dict[tuple[str, str], Class | Function | Unit | str | None] = {}
        self._declarations: dict[ast.expr, Declaration] = {}
        self._declared: dict[str, dict[tuple[ast.AST, str], ast.expr]] = {}

    def resolve(self, unit: Unit, expression: ast.expr) -> Class | Function | Unit | str | None:
        """The meaning of a dotted name, by the unit's imports and definitions alone."""
        if isinstance(expression, ast.Name):
            return self._resolve_name(unit, expression.id)
        if isinstance(expression, ast.Attribute):
            return self._member(self.resolve(unit, expression.value), expression.attr)
        if isinstance(expression, ast.Subscript):  # Generic[T]
            return self.resolve(unit, expression.value)
        return None

    def resolve_spelled(self, unit: Unit, spelled: str) -> Class | Function | Unit | str | None:
        """The same for the spelling of a dotted name."""
        key = (unit.name, spelled)
        if key not in self._spelled:
            root, *rest = spelled.split(".")
            found = self._resolve_name(unit, root)
            for name in rest:
                found = self._member(found, name)
            self._spelled[key] = found
        return self._spelled[key]

    def _member(self, above: Class | Function | Unit | str | None, name: str) -> Class | Function | Unit | str | None:
        if isinstance(above, Unit):
            return self.project.member(above, name)
        return f"{above}.{name}" if isinstance(above, str) else None

    def names_in_libraries(self, unit: Unit, expression: ast.expr) -> list[str]:
        """The library names that a dotted name may mean; for a class of the project, those of its library bases.

        An unresolved name may be any that the unit imports by `*`.
        """
        found = self.resolve(unit, expression)
        if isinstance(found, Class):
            return [base for base in self.library_bases(found) if base is not None]
        if found is None and isinstance(expression, ast.Name) and expression.id not in unit.stored:
            return [f"{star}.{expression.id}" for star in unit.stars]
        return [found] if isinstance(found, str) else []

    def declaration(self, unit: Unit, annotation: ast.expr) -> Declaration:
        """What an annotation says. It shows a module only if it allows nothing else but None."""
        known = self._declarations.get(annotation)
        if known is None:
            found = [self.resolve(unit, each) for each in annotated_names(annotation)]
            names = tuple(each for each in found if isinstance(each, str) and not catalogue.is_complete(each))
            is_module = bool(found) and all(
                self.is_module(each)
                if isinstance(each, Class)
                else isinstance(each, str) and self.knowledge.is_module_class(each)
                for each in found
            )
            known = self._declarations[annotation] = Declaration(is_module, names)
        return known

    def declared(self, unit: Unit) -> dict[tuple[ast.AST, str], ast.expr]:
        """The annotations of a file's variables, by owner and name.

        The owner is a function, a class (for attributes of its instances), or the file's tree.
        """
        if unit.name not in self._declared:
            found = self._declared[unit.name] = {}
            for node in unit.declarations:
                owner, name = _declared_variable(unit, node)
                found[owner, name] = node.annotation
        return self._declared[unit.name]

    def _resolve_name(self, unit: Unit, name: str) -> Class | Function | Unit | str | None:
        found = self.project.member(unit, name)
        if found is None and name not in unit.imports and hasattr(builtins, name):
            return f"builtins.{name}"
        return found

    def bases(self, cls: Class) -> tuple[Class | str | None, ...]:
        """The bases of a class; None for those that cannot be resolved."""
        if cls.key not in self._bases:
            found = (self.resolve(cls.unit, base) for base in cls.node.bases)
            self._bases[cls.key] = tuple(base if isinstance(base, (Class, str)) else None for base in found)
        return self._bases[cls.key]

    def ancestors(self, cls: Class) -> list[Class]:
        """The class and its ancestors within the project, in method resolution order."""
        if cls.key not in self._ancestors:
            self._ancestors[cls.key] = [cls]  # for a class that is its own ancestor, which Python refuses
            own = [base for base in self.bases(cls) if isinstance(base, Class)]
            orders = [self.ancestors(base) for base in own]
            above = orders[0] if len(orders) == 1 else _merge([*orders, own])
            self._ancestors[cls.key] = [cls, *above]
        return self._ancestors[cls.key]

    def library_bases(self, cls: Class) -> Sequence[str | None]:
        """The bases outside the project of a class and its ancestors; None for those that cannot be resolved."""
        if cls.key not in self._library_bases:
            bases = [base for each in self.ancestors(cls) for base in self.bases(each)]
            self._library_bases[cls.key] = [base for base in bases if not isinstance(base, Class)]
        return self._library_bases[cls.key]

    def descendants(self, cls: Class) -> list[Class]:
        """The subclasses of a class, direct and indirect, in the units read so far."""
        if len(self.project.units) != self._units_below:
            self._units_below = len(self.project.units)
            self._below = defaultdict(list)
            for unit in dict.fromkeys(filter(None, self.project.units.values())):
                for each in unit.class_of.values():
                    for above in self.ancestors(each)[1:]:
                        self._below[above].append(each)
        return self._below.get(cls, [])

    def method(self, cls: Class, name: str) -> Function | None:
        """The method that an instance of exactly this class has; None if there is none."""
        return next((each.methods[name] for each in self.ancestors(cls) if name in each.methods), None)

    def is_factory(self, function: Function) -> bool:
        """Whether the user says that calling a function of the project makes a module."""
        return self.knowledge.has_factories and self.knowledge.is_factory(dotted_name(function))

    def looks_like_module(self, cls: Class) -> bool:
        """Whether a class defines a method typical of modules, or uses its own object as a module."""
        if cls.key not in self._looks:
            own = own_names(cls.node)
            nodes = self._nodes_of(cls)
            self._looks[cls.key] = not catalogue.MODULE_METHODS.isdisjoint(cls.methods) or any(
                (isinstance(node, ast.Call) and is_own(node.func, own))
                or (
                    isinstance(node, ast.Attribute)
                    and node.attr in catalogue.MODULE_EVIDENCE
                    and is_own(node.value, own)
                    and self.method(cls, node.attr) is None
                )
                for node in nodes
            )
        return self._looks[cls.key]

    def _nodes_of(self, cls: Class) -> list[ast.AST]:
        """A class definition and all nodes in it."""
        found = self._nodes.get(cls.key)
        if found is None:
            found = self._nodes[cls.key] = walk(cls.node)
        return found

    def is_module(self, cls: Class) -> bool:
        """Whether instances are modules, with or without parameters."""
        return self.nature(cls) in (Nature.MODULE, Nature.NO_PARAMS)

    def is_in_module_class(self, unit: Unit, node: ast.AST) -> bool:
        """Whether a module class contains a node."""
        around = (each for each in unit.enclosing(node) if isinstance(each, ast.ClassDef))
        return any(self.is_module(unit.class_of[each]) for each in around)

    def metaclass(self, cls: Class) -> Class | None:
        """The project's class of a class; None if it is `type` or belongs to a library."""
        for above in self.ancestors(cls):
            for each in above.node.keywords:
                found = self.resolve(above.unit, each.value) if each.arg == "metaclass" else None
                if isinstance(found, Class):
                    return found
        return None

    def is_metaclass(self, cls: Class) -> bool:
        """Whether instances of a class are classes."""
        return not _METACLASSES.isdisjoint(self.library_bases(cls))

    def enumerated(self, cls: Class) -> list[str]:
        """The names of an enumeration's members; empty for other classes."""
        if not any(base is not None and base.startswith("enum.") for base in self.library_bases(cls)):
            return []
        targets = (each.targets for each in cls.node.body if isinstance(each, ast.Assign))
        return [name.id for names in targets for name in names if isinstance(name, ast.Name)]

    def is_generic(self, cls: Class) -> bool:
        """Whether calling `Net[int]` calls the class `Net`."""
        return self.method(cls, "__class_getitem__") is None and any(
            getattr(each.node, "type_params", ()) or any(isinstance(base, ast.Subscript) for base in each.node.bases)
            for each in self.ancestors(cls)
        )

    def nature(self, cls: Class) -> Nature:
        """The nature of what calling the class makes."""
        if cls.key not in self._natures:
            self._natures[cls.key] = Nature.MODULE  # the value for recursive references to the class
            self._natures[cls.key] = self._find_nature(cls)
        return self._natures[cls.key]

    def _find_nature(self, cls: Class) -> Nature:
        if self.knowledge.is_listed_class(dotted_name(cls)):
            return Nature.MODULE
        kinds = [
            Nature.UNKNOWN if base is None else self.knowledge.nature_of_base(base) for base in self.library_bases(cls)
        ]
        best = max(kinds, default=Nature.NOT_MODULE)
        if best is Nature.UNKNOWN and (Nature.NO_PARAMS in kinds or self.method(cls, "forward")):
            return Nature.MODULE
        if best is not Nature.NO_PARAMS:
            return best
        # Made anew, since a search that is kept would be a reference cycle.
        return ParameterSearch(self, self.knowledge, self._with_parameters).nature(cls)

    def meaning(self, where: Class | Function, name: str) -> Meaning[Class, Function]:
        """The meaning of a dotted name in the file of a class or function."""
        found = self.resolve_spelled(where.unit, name)
        if isinstance(found, Class):
            return Meaning(cls=found)
        if isinstance(found, Function):
            return Meaning(function=found)
        return Meaning(library=found) if isinstance(found, str) else Meaning()

    def held(self, cls: Class) -> HeldFacts:
        """What the code of a class itself stores in its instances."""
        if cls.key not in self._held:
            self._held[cls.key] = held_facts(cls.node)
        return self._held[cls.key]

    def registers(self, function: Function) -> bool:
        """Whether a function may register something in one of its arguments, or pass it on."""
        return registers(function.node)

    def calls_in(self, function: Function) -> list[Call]:
        """The calls in a function."""
        if function.key not in self._calls:
            self._calls[function.key] = calls_in(function.node)
        return self._calls[function.key]


def _declared_variable(unit: Unit, node: ast.AnnAssign) -> tuple[ast.AST, str]:
    """The owner and name of a declared variable: for `self.net` the enclosing class; no name for other targets."""
    target = node.target
    is_own = isinstance(target, ast.Attribute) and spelling(target.value) == "self"
    ends = (ast.ClassDef,) if is_own else (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    above: ast.AST = node
    while above in unit.parents and (above is node or not isinstance(above, ends)):
        above = unit.parents[above]
    if isinstance(target, ast.Attribute):
        return above, target.attr if is_own else ""
    return above, target.id if isinstance(target, ast.Name) else ""


def dotted_name(of: Class | Function) -> str:
    """The name by which a project's class or function is imported from the script's folder."""
    path = of.unit.name.removesuffix(".py").removesuffix("/__init__").strip("./")
    return f"{path.replace('/', '.')}.{of.name}" if path else of.name
