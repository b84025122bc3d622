"""Which classes of a project are module classes, and which of these have parameters."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import (
    annotated_names,
    bound_by,
    function_around,
    parameter_around,
    spelling,
    stores,
)
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.own_object import (
    attributes_called_by_other_names,
    attributes_with_called_parts,
    helper_of,
    is_attribute,
    is_computed,
    is_own,
    may_register,
    own_names,
    registers,
)
from instrumentor.resolve.unit import Class, Function, Unit
from instrumentor.source.nodes import DISPLAYS, children, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from instrumentor.resolve.project import Project


_METACLASSES = frozenset({"builtins.type", "abc.ABCMeta", "enum.EnumMeta"})
# Members that show that an attribute is a module.
_OF_MODULES = (catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE | {"forward"}) - catalogue.MOVES


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
        # For a class whose only base is a class of the project, that base. Its ancestors are all further ancestors.
        self._sole_bases: dict[str, Class] = {}
        self._library_bases: dict[str, list[str | None]] = {}
        self._methods: dict[tuple[str, str], Function | None] = {}
        self._nodes: dict[str, list[ast.AST]] = {}
        self._texts: dict[str, _Text] = {}
        self._uses: dict[str, _Uses] = {}
        self._with_parameters: dict[str, bool] = {}
        self._below: dict[Class, list[Class]] = {}
        self._mixed_below: dict[Class, list[Class]] = {}
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
        known = self._ancestors.get(cls.key)
        if known is None:
            for each in reversed(self._chain(cls)):
                self._ancestors[each.key] = [each]  # for a class that is its own ancestor, which Python refuses
                known = self._ancestors[each.key] = self._find_ancestors(each)
            assert known is not None
        return known

    def _chain(self, cls: Class) -> list[Class]:
        """A class and its ancestors along sole bases, up to one whose ancestors are known."""
        found = {cls.key: cls}
        while len(bases := self.bases(cls)) == 1 and isinstance(base := bases[0], Class):
            if base.key in self._ancestors or base.key in found:
                break
            cls = found[base.key] = base
        return [*found.values()]

    def _find_ancestors(self, cls: Class) -> list[Class]:
        bases = self.bases(cls)
        own = [base for base in bases if isinstance(base, Class)]
        orders = [self.ancestors(base) for base in own]
        if len(bases) != 1 or not own or cls in orders[0]:
            return [cls, *_merge([*orders, own])]
        self._sole_bases[cls.key] = own[0]
        return [cls, *orders[0]]

    def library_bases(self, cls: Class) -> Sequence[str | None]:
        """The bases outside the project of a class and its ancestors; None for those that cannot be resolved."""
        found = self._library_bases.get(cls.key)
        if found is None:
            above = self.ancestors(cls)
            passed: list[Class] = []
            for each in above:
                passed.append(each)
                found = self._library_bases.get(each.key)
                if found is not None or each.key not in self._sole_bases:
                    break
            if found is None:
                rest = above[len(passed) - 1 :]
                found = [base for each in rest for base in self.bases(each) if not isinstance(base, Class)]
            self._library_bases.update((each.key, found) for each in passed)
        return found

    def descendants(self, cls: Class) -> list[Class]:
        """The subclasses of a class, direct and indirect, in the units read so far."""
        if len(self.project.units) != self._units_below:
            self._units_below = len(self.project.units)
            units = dict.fromkeys(unit for unit in self.project.units.values() if unit is not None)
            everything = [each for unit in units for each in unit.class_of.values()]
            found: dict[Class, list[Class]] = defaultdict(list)
            mixed: dict[Class, list[Class]] = defaultdict(list)
            lengths: dict[str, int] = {}
            for each in everything:
                related = self.ancestors(each)[1:]
                for above in related:
                    found[above].append(each)
                for above in related[self._sole_ancestors(each, lengths) :]:
                    mixed[above].append(each)
            self._below, self._mixed_below = found, mixed
        return self._below.get(cls, [])

    def _sole_ancestors(self, cls: Class, lengths: dict[str, int]) -> int:
        """The number of ancestors that a class has along sole bases.

        Args:
            cls: the class, whose ancestors are known.
            lengths: the results so far, by class key.
        """
        chain: list[str] = []
        base: Class | None = cls
        while base is not None and base.key not in lengths:
            lengths[base.key] = 0
            chain.append(base.key)
            base = self._sole_bases.get(base.key)
        # The last one has no sole base, or its base has a known result.
        length = -1 if base is None else lengths[base.key]
        for key in reversed(chain):
            length += 1
            lengths[key] = length
        return lengths[cls.key]

    def mixed_descendants(self, cls: Class) -> list[Class]:
        """The subclasses of a class in whose resolution order other classes than its ancestors may follow it."""
        self.descendants(cls)
        return self._mixed_below.get(cls, [])

    def method(self, cls: Class, name: str) -> Function | None:
        """The method that an instance of exactly this class has; None if there is none."""
        found: Function | None = None
        passed: list[tuple[str, str]] = []
        above = self.ancestors(cls)
        for each in above:
            key = (each.key, name)
            if key in self._methods:
                found = self._methods[key]
                break
            passed.append(key)
            if name in each.methods or each.key not in self._sole_bases:
                rest = above[len(passed) - 1 :]
                found = next((other.methods[name] for other in rest if name in other.methods), None)
                break
        self._methods.update((key, found) for key in passed)
        return found

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
        if best is Nature.NO_PARAMS and self._may_have_parameters(cls):
            return Nature.MODULE
        if best is Nature.NO_PARAMS and not (self.method(cls, "forward") or self.method(cls, "__call__")):
            # Only losses and layers have no parameters, and this is neither, unless torch defines it.
            torch_bases = {catalogue.canonical_name(base) for base in self.library_bases(cls) if base is not None}
            return Nature.MODULE if "torch.nn.Module" in torch_bases else best
        return best

    def _may_have_parameters(self, cls: Class) -> bool:
        """Whether something in a class or its ancestors may be a parameter, or a module with parameters."""
        pending = [cls]
        while pending[-1].key in self._sole_bases and pending[-1].key not in self._with_parameters:
            pending.append(self._sole_bases[pending[-1].key])
        for each in reversed(pending):
            if each.key not in self._with_parameters:
                self._with_parameters[each.key] = self._find_parameters(each)
        return self._with_parameters[cls.key]

    def _find_parameters(self, cls: Class) -> bool:
        """The same, if the result for the sole base is known."""
        base = self._sole_bases.get(cls.key)
        if base is not None and self._with_parameters[base.key]:
            return True
        new = self.ancestors(cls) if base is None else [cls]
        if any(self._text_of(each).may_register for each in new):
            return True
        # What one class stores, an ancestor or descendant may use.
        uses = self._uses[cls.key] = _Uses.joined([self._text_of(each).uses for each in new])
        if base is not None:
            uses = self._uses[cls.key] = _Uses.joined([self._uses[base.key], uses])
        stores = [(each, store) for each in new for store in self._text_of(each).stores]
        newly_used = frozenset() if base is None else self._text_of(cls).uses.beyond(self._uses[base.key])
        for above in self.ancestors(cls)[1:] if newly_used else ():
            stores += [(above, store) for store in self._text_of(above).stores if store[0] in newly_used]
        return any(
            self._may_hold_parameters(each, self._text_of(each).own, attribute, value, uses)
            for each, (attribute, value) in stores
        )

    def _text_of(self, cls: Class) -> _Text:
        """What the text of a class does with its own object."""
        found = self._texts.get(cls.key)
        if found is None:
            nodes, own = self._nodes_of(cls), own_names(cls.node)
            helpers = [helper for node in nodes if (helper := helper_of(node, own)) is not None]
            registers_something = any(may_register(node, own) for node in nodes) or any(
                self._may_register(cls.unit, helper) for helper in helpers
            )
            stores = [*_attribute_stores(nodes, own)]
            found = self._texts[cls.key] = _Text(own, registers_something, stores, _Uses.of(nodes, own))
        return found

    def _may_hold_parameters(
        self, cls: Class, own: frozenset[str], attribute: str, value: ast.expr, uses: _Uses
    ) -> bool:
        """Whether the value that a class stores in an attribute may be a parameter, or a module with parameters."""
        values = [value, *(_local_values(cls.unit, value) if isinstance(value, ast.Name) else ())]
        if any(self._is_parameter_maker(cls.unit, call) for each in values for call in _calls(each)):
            return True
        if any(is_computed(call.func) for call in _calls(value)):
            return True
        if any(self._makes_parameters(method) for method in self._own_methods_called(cls, own, value)):
            return True
        if attribute in uses.with_called_parts and self._is_out_of_sight(cls.unit, value):
            return True
        if isinstance(value, ast.Name) and self._is_declared_module(cls, value):
            return True
        # The contents of a plain list or dictionary are no part of the module.
        is_used = attribute in uses.whole or (
            attribute in uses.with_called_elements and not isinstance(value, DISPLAYS)
        )
        return is_used and not self._is_parameter_free(cls.unit, value)

    def _is_declared_module(self, cls: Class, name: ast.Name) -> bool:
        """Whether a name is a parameter of the enclosing function that is annotated with a module class."""
        parameter = parameter_around(cls.unit, name)
        annotation = None if parameter is None else parameter.annotation
        return annotation is not None and any(self._is_module_class(cls.unit, part) for part in walk(annotation))

    def _is_module_class(self, unit: Unit, expression: ast.AST) -> bool:
        if not isinstance(expression, (ast.Name, ast.Attribute)):
            return False
        found = self.resolve(unit, expression)
        if isinstance(found, Class):
            return self.nature(found) is Nature.MODULE
        if not isinstance(found, str):
            return False
        return (
            catalogue.canonical_name(found) == "torch.nn.Module"
            or self.knowledge.nature_of_base(found) is Nature.MODULE
        )

    def _may_register(self, unit: Unit, helper: ast.expr) -> bool:
        """Whether a function that is passed an object may register something in it."""
        found = self.resolve(unit, helper)
        if isinstance(found, Function):
            return registers(found.node)
        return not isinstance(found, str) or self.knowledge.may_register(found)

    def _is_parameter_maker(self, unit: Unit, call: ast.Call, seen: set[str] | None = None) -> bool:
        """Whether a call may make a parameter, or a module with parameters; `seen` holds functions already examined."""
        found = self.resolve(unit, call.func)
        if isinstance(found, Class):
            bases = self.library_bases(found)
            return self.nature(found) is Nature.MODULE or any(map(catalogue.is_parameter, filter(None, bases)))
        if isinstance(found, Function):
            return self._makes_parameters(found, seen)
        if isinstance(found, str):
            if catalogue.is_container(found):
                return not call.args  # an empty one is filled later; a full one is what its elements are
            return catalogue.is_parameter(found) or self.knowledge.nature_of_call(found) is Nature.MODULE
        return False

    def _makes_parameters(self, function: Function, seen: set[str] | None = None) -> bool:
        """Whether a function may make a parameter, or a module with parameters."""
        seen = set() if seen is None else seen
        if function.key in seen:
            return False
        seen.add(function.key)
        return any(self._is_parameter_maker(function.unit, each, seen) for each in _calls(function.node))

    def _own_methods_called(self, cls: Class, own: frozenset[str], value: ast.expr) -> list[Function]:
        """The methods of the own object that make a value: `self.layers = self._make_layers()`."""
        called = [call.func for call in _calls(value) if isinstance(call.func, ast.Attribute)]
        methods = [self.method(cls, each.attr) for each in called if is_own(each.value, own)]
        return [each for each in methods if each is not None]

    def _is_out_of_sight(self, unit: Unit, value: ast.expr, seen: set[str] | None = None) -> bool:
        """Whether a value is the result of calling a local variable, or a library function of which nothing is known.

        Functions that make such calls count too; `seen` holds the functions already examined.
        """
        if not isinstance(value, ast.Call):
            return False
        seen = set() if seen is None else seen
        found = self.resolve(unit, value.func)
        if found is None:
            inner = value.func.value if isinstance(value.func, ast.Attribute) else None
            return isinstance(value.func, ast.Name) or (inner is not None and self._is_out_of_sight(unit, inner, seen))
        if isinstance(found, Function):
            if found.key in seen:
                return False
            seen.add(found.key)
            return any(self._is_out_of_sight(found.unit, call, seen) for call in _calls(found.node))
        return isinstance(found, str) and not self._is_parameter_free(unit, value)

    def _is_parameter_free(self, unit: Unit, value: ast.expr) -> bool:
        """Whether a value that the class calls or iterates over is known to hold no parameters."""
        if isinstance(value, ast.Subscript):
            return self._is_parameter_free(unit, value.value)
        if isinstance(value, ast.Name):
            held = _local_values(unit, value)
            return bool(held) and all(self._is_tensor(unit, each) for each in held)
        if not isinstance(value, ast.Call):
            return isinstance(value, (ast.Lambda, ast.Constant))
        found = self.resolve(unit, value.func)
        if isinstance(found, Class):
            return self.nature(found) in (Nature.NO_PARAMS, Nature.NOT_MODULE)
        if not isinstance(found, str):
            return False
        if catalogue.is_container(found):
            return all(self._is_parameter_free(unit, argument) for argument in value.args)
        if self.knowledge.effect_of(found) not in (None, Effect.READS):
            return False  # `copy.deepcopy(model)` has the model's parameters
        return self.knowledge.nature_of_call(found) in (Nature.NO_PARAMS, Nature.NOT_MODULE)

    def _is_tensor(self, unit: Unit, value: ast.expr) -> bool:
        """Whether a value is the result of a torch function that makes tensors, none of them a parameter."""
        found = self.resolve(unit, value.func) if isinstance(value, ast.Call) else None
        return (
            isinstance(found, str)
            and found.startswith("torch.")
            and self.knowledge.effect_of(found) is None
            and self.knowledge.nature_of_call(found) is Nature.NOT_MODULE
            and not any(self._is_parameter_maker(unit, call) for call in _calls(value))
        )


class _Uses(NamedTuple):
    """How the methods of a class and its ancestors use the attributes of their object.

    Attributes:
        whole: the attributes that they call, iterate over, or use as modules.
        with_called_elements: the attributes whose elements they call.
        with_called_parts: the attributes of which they call a member.
    """

    whole: frozenset[str]
    with_called_elements: frozenset[str]
    with_called_parts: frozenset[str]

    @classmethod
    def of(cls, nodes: Sequence[ast.AST], own: frozenset[str]) -> _Uses:
        """The uses in one class."""
        whole = _attributes_iterated(nodes, own) | attributes_called_by_other_names(nodes, own)
        with_called_elements: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Call):
                held = node.func
                while isinstance(held, ast.Subscript):
                    held = held.value
                if is_attribute(held, own):
                    (whole if held is node.func else with_called_elements).add(held.attr)
            elif isinstance(node, ast.Attribute) and node.attr in _OF_MODULES and is_attribute(node.value, own):
                whole.add(node.value.attr)
        with_called_parts = attributes_with_called_parts(nodes, own)
        return cls(frozenset(whole), frozenset(with_called_elements), frozenset(with_called_parts))

    @classmethod
    def joined(cls, several: Sequence[_Uses]) -> _Uses:
        """The union of the uses in several classes."""
        return cls(*(frozenset().union(*kinds) for kinds in zip(*several, strict=True)))

    def beyond(self, others: _Uses) -> frozenset[str]:
        """The attributes with uses that `others` does not have."""
        return frozenset().union(*(ours - theirs for ours, theirs in zip(self, others, strict=True)))


class _Text(NamedTuple):
    """What the text of one class does with its object.

    Attributes:
        own: the names that its methods use for the object.
        may_register: whether it may register parameters or modules by a call.
        stores: the attributes that it stores to, with the stored expressions.
        uses: how it uses attributes.
    """

    own: frozenset[str]
    may_register: bool
    stores: list[tuple[str, ast.expr]]
    uses: _Uses


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


def _local_values(unit: Unit, name: ast.Name) -> list[ast.expr]:
    """The values assigned to a function's local variable; empty for a name that is bound in another way."""
    function = function_around(unit, name)
    nodes = [] if function is None else walk(function)
    if any(name.id in bound_by(node) for node in nodes if not isinstance(node, ast.Name)):
        return []
    return [
        value
        for node in nodes
        for target, value in stores(node)
        if any(isinstance(each, ast.Name) and each.id == name.id for each in walk(target))
    ]


def _calls(value: ast.AST) -> Iterator[ast.Call]:
    return (node for node in walk(value) if isinstance(node, ast.Call))


def _attribute_stores(nodes: Sequence[ast.AST], own: frozenset[str]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            targets = [node.target]
        value = getattr(node, "value", None)
        for target in targets:
            for each in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                if isinstance(each, ast.Attribute) and is_own(each.value, own) and isinstance(value, ast.expr):
                    yield each.attr, value


def _attributes_iterated(nodes: Sequence[ast.AST], own: frozenset[str]) -> set[str]:
    """The attributes that loops iterate over, directly or by their length; not the numbers in a `range`."""
    pending: list[ast.AST] = [node.iter for node in nodes if isinstance(node, (ast.For, ast.comprehension))]
    found: set[str] = set()
    while pending:
        node = pending.pop()
        if is_attribute(node, own):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and spelling(node.func) == "range":
            pending.extend(each for each in walk(node) if isinstance(each, ast.Call) and spelling(each.func) == "len")
        else:
            pending.extend(children(node))
    return found
