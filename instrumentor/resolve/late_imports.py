"""Imports by a function, `import_module("models." + name)`: the project's modules that they may name."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from instrumentor.resolve.bindings import function_around, parameter_around
from instrumentor.source.nodes import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.resolve.unit import Unit

_FUNCTIONS = frozenset({"import_module", "__import__", "run_module"})
# A part of a name that is only known at run time.
_ANY = None
# The package of the file itself. No name contains this character.
_OWN_PACKAGE = "<"
_MAX_DEPTH = 4


@dataclass(frozen=True)
class LateImport:
    """An import by name, of which the package and perhaps a part of the module's name are constant.

    Attributes:
        package: the dotted name of the package; a relative one starts with dots.
        name: a pattern for the module's own name.
        is_main: whether the module runs as the main program.
    """

    package: str
    name: re.Pattern[str]
    is_main: bool = False


def late_imports(unit: Unit) -> Iterator[LateImport]:
    """The modules that a file imports by calls. Those with a computed package are left out."""
    for node in unit.parents:
        if isinstance(node, ast.Call) and node.args and last_name(node.func) in _FUNCTIONS:
            parts = _joined(_anchored(unit, node, _written(unit, node.args[0], _MAX_DEPTH)))
            found = _late_import(parts)
            if found is not None:
                yield replace(found, is_main=_is_main(node))


def _is_main(call: ast.Call) -> bool:
    """Whether a call runs a module as the main program: `runpy.run_module(name, run_name="__main__")`."""
    given = [*call.args[2:3], *(each.value for each in call.keywords if each.arg == "run_name")]
    return last_name(call.func) == "run_module" and any(
        isinstance(each, ast.Constant) and each.value == "__main__" for each in given
    )


def _anchored(unit: Unit, call: ast.Call, parts: list[str | None]) -> list[str | None]:
    """The parts of a name, preceded by the call's package if the name is relative."""
    if not parts or parts[0] is _ANY or not parts[0].startswith("."):
        return parts
    given = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "package")]
    anchor = _written(unit, given[0], _MAX_DEPTH) if given else [_ANY]
    return [_ANY] if parts[0].startswith("..") else [*anchor, *parts]


def _late_import(parts: list[str | None]) -> LateImport | None:
    """The module that the parts of a name may denote; None if its package is computed."""
    first, *rest = parts or [_ANY]
    if first is _ANY or (rest and "." not in first) or any(each is not _ANY and "." in each for each in rest):
        return None  # the package is computed
    package, _, begun = first.rpartition(".")
    pattern = "".join(r"\w*" if each is _ANY else re.escape(each) for each in (begun, *rest))
    is_own = package.startswith(_OWN_PACKAGE)
    return LateImport(f".{package[2:]}" if is_own else package, re.compile(pattern))


def _written(unit: Unit, node: ast.expr, depth: int) -> list[str | None]:
    """The parts of a string in order; None for computed ones."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else [_ANY]
    if depth == 0:
        return [_ANY]
    found: list[str | None] = [_ANY]
    if isinstance(node, ast.JoinedStr):
        found = [each for value in node.values for each in _written(unit, value, depth - 1)]
    elif isinstance(node, ast.FormattedValue):
        found = _written(unit, node.value, depth - 1)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        found = _written(unit, node.left, depth - 1) + _written(unit, node.right, depth - 1)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        found = _filled(re.split(r"%[sdr]", str(node.left.value)))
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
        and isinstance(node.func.value, ast.Constant)
    ):
        found = _filled(re.split(r"\{[^{}]*\}", str(node.func.value.value)))
    elif isinstance(node, ast.Name):
        found = _named(unit, node, depth)
    return _joined(found)


def _named(unit: Unit, node: ast.Name, depth: int) -> list[str | None]:
    """The parts of a variable with a single value. A package's own name anchors its relative imports."""
    if node.id == "__package__" or (node.id == "__name__" and unit.name.endswith("__init__.py")):
        return [_OWN_PACKAGE]
    value = _sole_value(unit, node)
    return [_ANY] if value is None else _written(unit, value, depth - 1)


def _sole_value(unit: Unit, node: ast.Name) -> ast.expr | None:
    """The value of the only store to a variable; None if there are several, or if it is a parameter."""
    if parameter_around(unit, node) is not None:
        return None
    stores = [
        each
        for each in unit.parents
        if isinstance(each, ast.Name) and each.id == node.id and isinstance(each.ctx, ast.Store)
    ]
    around = function_around(unit, node)
    own = [each for each in stores if function_around(unit, each) is around]
    found = own or [each for each in stores if function_around(unit, each) is None]
    above = unit.parents.get(found[0]) if len(found) == 1 else None
    return above.value if isinstance(above, ast.Assign) and len(above.targets) == 1 else None


def _filled(written: list[str]) -> list[str | None]:
    """The parts of a string with placeholders."""
    found: list[str | None] = []
    for each in written:
        found.extend([_ANY, each] if found else [each])
    return found


def _joined(parts: list[str | None]) -> list[str | None]:
    """The same parts with adjacent constants merged."""
    found: list[str | None] = []
    for each in parts:
        if each == "":
            continue
        before = found[-1] if found else _ANY
        if each is not _ANY and before is not _ANY:
            found[-1] = before + each
        else:
            found.append(each)
    return found
