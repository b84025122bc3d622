"""Outlines of files: what other files need of a file in order to tell that they hold no model.

An outline has the file's names and what its functions may make. It is a few percent of the size of the file's tree, and
depends only on the file's bytes.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from functools import cache

import msgspec

from instrumentor.resolve import bindings, function_outline, module_reader, unit
from instrumentor.resolve.bindings import bound_names
from instrumentor.resolve.facts_cache import version_of
from instrumentor.resolve.function_outline import EVIDENCE, FunctionOutline, draw_function, is_evidence
from instrumentor.resolve.unit import Class, Function, Unit
from instrumentor.source import nodes, source_text
from instrumentor.source.nodes import DISPLAYS, children, walk

_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
_NEVER_CALLED = (ast.Constant, ast.JoinedStr, ast.BinOp, ast.UnaryOp, ast.Compare, *DISPLAYS)


class ClassOutline(msgspec.Struct, frozen=True, array_like=True):
    """The outline of a class.

    Attributes:
        key: its key in the unit, after the unit's name.
        name: its name.
        bases: its spelled bases.
        methods: the keys of its methods.
    """

    key: str
    name: str
    bases: list[str]
    methods: dict[str, str]


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """The outline of a file.

    Attributes:
        imports: as in a unit, like `alternatives` and `stars`.
        classes: all classes, including nested ones.
        class_names: the keys of the classes that the file's own names mean.
        functions: all functions except lambdas.
        top: the code outside of functions, as one outline.
        function_names: the same as `class_names`, for functions.
        stored: the attributes that may hold something callable that is no instance.
        shadowed: the names that may mean something other than the file's definition or import.
        uses_modules: whether the file uses something as a module.
    """

    imports: dict[str, str]
    alternatives: dict[str, list[str]]
    stars: list[str]
    classes: list[ClassOutline]
    class_names: dict[str, str]
    functions: list[FunctionOutline]
    top: FunctionOutline
    function_names: dict[str, str]
    stored: set[str]
    shadowed: set[str]
    uses_modules: bool


_NO_FUNCTION = FunctionOutline("", "", [], [], uses_modules=True, annotations=[])
_EMPTY = Outline({}, {}, [], [], {}, [], _NO_FUNCTION, {}, set(), set(), uses_modules=True)


@dataclass(frozen=True, eq=False)
class OutlinedUnit(Unit):
    """A unit without code, made from an outline.

    Attributes:
        outlined: the outlines of its functions, by key.
        outline: the outline of the file.
        owners: the classes of its methods, by the methods' keys.
    """

    outlined: dict[str, FunctionOutline] = field(default_factory=dict)
    outline: Outline = _EMPTY
    owners: dict[str, Class] = field(default_factory=dict)


@cache
def outlines_version() -> str:
    """A short identifier of the code and constants on which outlines depend, besides a file's bytes."""
    readers = (sys.modules[__name__], function_outline, bindings, unit, module_reader, nodes, source_text)
    return version_of(readers, EVIDENCE)


def outline_of(unit: Unit) -> Outline:
    """Draw the outline of a parsed file."""
    prefix = len(unit.name) + 1
    bound = bound_names(unit)
    return Outline(
        imports=unit.imports,
        alternatives=unit.alternatives,
        stars=unit.stars,
        classes=[
            ClassOutline(
                each.key[prefix:],
                each.name,
                [ast.unparse(base) for base in each.node.bases],
                {name: method.key[prefix:] for name, method in each.methods.items()},
            )
            for each in unit.class_of.values()
        ],
        class_names={name: each.key[prefix:] for name, each in unit.classes.items()},
        functions=[
            draw_function(unit, each.key[prefix:], each.name, walk(each.node), bound)
            for each in unit.function_of.values()
            if not isinstance(each.node, ast.Lambda)
        ],
        top=draw_function(unit, "", "", nodes_of_top(unit.tree), bound),
        function_names={name: each.key[prefix:] for name, each in unit.functions.items()},
        stored=stored_attributes(unit),
        shadowed=bound[None],
        uses_modules=any(is_evidence(node, unit) for node in unit.parents),
    )


def stored_attributes(unit: Unit) -> set[str]:
    """The attributes of instances and classes that may hold something callable that is no instance."""
    found = set()
    for node in unit.parents:
        if isinstance(node, ast.Attribute):
            name = "" if isinstance(node.ctx, ast.Load) else node.attr
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            name = node.id if _is_in_class_body(unit, node) else ""
        else:
            continue
        if name and _may_be_called(unit, unit.parents[node], name):
            found.add(name)
    return found


def _is_in_class_body(unit: Unit, node: ast.AST) -> bool:
    above: ast.AST | None = node
    while above is not None and not isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        if isinstance(above, ast.ClassDef):
            return True
        above = unit.parents.get(above)
    return False


def nodes_of_top(tree: ast.Module) -> list[ast.AST]:
    """The nodes outside of functions, including these functions' decorators and parameter defaults."""
    found: list[ast.AST] = [tree]
    for node in found:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.extend((*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)))
        else:
            found.extend(children(node))
    return found


def unit_of(outline: Outline, name: str, folder: str) -> OutlinedUnit:
    """A unit with a file's definitions and imports, but without code."""
    tree = ast.Module([], [])
    unit = OutlinedUnit(name, folder, tree, outline.imports, outline.alternatives, outline.stars, outline=outline)
    functions: dict[str, Function] = {}
    for each in outline.functions:
        node = ast.FunctionDef(each.name, _NO_ARGUMENTS, [], [], lineno=0, col_offset=0)
        function = functions[each.key] = Function(f"{name}:{each.key}", node, unit, None, None)
        unit.function_by_key[function.key] = unit.function_of[node] = function
        unit.outlined[function.key] = each
    classes: dict[str, Class] = {}
    for one in outline.classes:
        # As arguments of a call, because starred ones are no expressions by themselves.
        bases = ast.parse(f"f({', '.join(one.bases)})", mode="eval").body
        assert isinstance(bases, ast.Call)
        definition = ast.ClassDef(one.name, bases.args, [], [], [], lineno=0, col_offset=0)
        methods = {method: functions[key] for method, key in one.methods.items()}
        cls = classes[one.key] = Class(f"{name}:{one.key}", definition, unit, methods)
        unit.class_by_key[cls.key] = unit.class_of[definition] = cls
        unit.owners.update((function.key, cls) for function in methods.values())
    unit.classes.update((each, classes[key]) for each, key in outline.class_names.items())
    unit.functions.update((each, functions[key]) for each, key in outline.function_names.items())
    return unit


def _may_be_called(unit: Unit, statement: ast.AST, attribute: str) -> bool:
    """Whether what a statement stores in an attribute may be callable. The function of the same name does not count."""
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.AnnAssign) and value is None:
        return False  # only a declaration
    if isinstance(value, ast.Name) and value.id == attribute:
        return value.id not in unit.functions
    return not isinstance(value, _NEVER_CALLED)
