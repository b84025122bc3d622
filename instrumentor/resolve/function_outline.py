"""What other files need of a function in order to tell whether calling it may make a model."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

import msgspec

from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import (
    STORING,
    annotations_of,
    function_around,
    is_bound,
    names_within,
    spelled_where_read,
    spelling,
    stores,
)
from instrumentor.source.nodes import DISPLAYS, walk

if TYPE_CHECKING:
    from instrumentor.resolve.unit import FunctionNode, Unit

# Uses that may show that an object is a module, without the guesses.
EVIDENCE = (catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE | {catalogue.BACKWARD}) - catalogue.MOVES

_READING = frozenset({"dict", "len", "list", "set", "sorted", "tuple"})


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_DECORATED = (*_FUNCTIONS, ast.ClassDef)
# Node types that return, call, use or store something. Most nodes have other types.
_OUTLINED = frozenset({ast.Attribute, ast.Return, ast.Yield, ast.YieldFrom, ast.Call}) | STORING
# Node types that may change the meaning of a name, or the content of a table.
_ASSIGNING = frozenset(
    {
        ast.Name, ast.arg, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.Global, ast.Nonlocal, ast.Subscript,
        ast.Attribute,
    }
)  # fmt: skip

# Decorators that pass the decorated function to nobody.
_PLAIN_DECORATORS = frozenset(
    {
        "abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "deleter", "getter",
        "inference_mode", "lru_cache", "no_grad", "overload", "override", "property", "setter", "staticmethod",
        "total_ordering", "wraps",
    }
)  # fmt: skip


class FunctionOutline(msgspec.Struct, frozen=True, array_like=True):
    """The outline of a function.

    Attributes:
        key: its key in the unit, after the unit's name.
        name: its name.
        makers: the spelled callees in the values that it may return; an empty string for a callee without a name.
        calls: all spelled callees in it.
        uses_modules: whether it uses something as a module.
        annotations: the spelled names in its annotations, including those of its parameters and its result.
    """

    key: str
    name: str
    makers: list[str]
    calls: list[str]
    uses_modules: bool
    annotations: list[str]


def draw_function(
    unit: Unit, key: str, name: str, nodes: list[ast.AST], bound: dict[FunctionNode | None, set[str]]
) -> FunctionOutline:
    """Draw the outline of a function.

    Arguments and values read from elsewhere do not count as made by it. A method of an unnamed receiver is spelled with
    a leading dot.
    """
    given: list[ast.expr] = []
    held: dict[str, list[ast.expr]] = {}
    calls: list[ast.Call] = []
    uses_modules = False
    for node in nodes:
        if type(node) not in _OUTLINED:
            continue
        if isinstance(node, ast.Attribute):
            uses_modules = uses_modules or is_evidence(node, unit)
        elif isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None:
            giving = function_around(unit, node)
            if giving is nodes[0] or isinstance(giving, ast.Lambda):
                given.append(node.value)
            elif giving is not None:  # a nested function, whose result counts if it is called or returned
                held.setdefault(giving.name, []).append(node.value)
        elif isinstance(node, ast.Call) and not _is_plain_copy(unit, node, bound):
            calls.append(node)
        for target, value in stores(node):
            for each in walk(target):
                if isinstance(each, ast.Name):
                    held.setdefault(each.id, []).append(value)
    callees = _Callees(unit, name, nodes, bound)
    spelled: dict[ast.AST, list[str]] = {node: callees.of_call(node) for node in calls}
    makers = _called_for(given, held, spelled)
    names = dict.fromkeys(name for each in spelled.values() for name in each if name)
    decorators = [each for node in nodes if isinstance(node, _DECORATED) for each in node.decorator_list]
    names.update(dict.fromkeys(spelled_where_read(unit, each, bound) for each in decorators))
    names.pop("", None)
    declared = [each for node in nodes for annotation in annotations_of(node) for each in names_within(annotation)]
    annotations = dict.fromkeys(name for name in map(spelling, declared) if not hasattr(builtins, name))
    return FunctionOutline(key, name, makers, list(names), uses_modules, list(annotations))


def is_evidence(node: ast.AST, unit: Unit) -> bool:
    """Whether a node uses something as a module: `model.parameters()`, not `signature(f).parameters[name]`."""
    if not isinstance(node, ast.Attribute) or node.attr not in EVIDENCE:
        return False
    if _is_signature(node.value, unit):
        return False
    above = unit.parents[node]
    if isinstance(above, ast.Call):
        return above.func is node or spelling(above.func) not in _READING
    is_iterated = isinstance(above, (ast.For, ast.comprehension)) and above.iter is node
    return not (is_iterated or isinstance(above, (ast.Attribute, ast.Subscript, ast.Compare)))


def _is_signature(value: ast.expr, unit: Unit) -> bool:
    """Whether an expression is the result of `inspect.signature`, or a name that holds nothing else."""
    if isinstance(value, ast.Call):
        return spelling(value.func).endswith("signature")
    if not isinstance(value, ast.Name):
        return False
    function, stored = function_around(unit, value), list[ast.AST]()
    while function is not None and not stored:
        stored = [unit.parents[node] for node in walk(function) if _binds(node, value.id)]
        function = function_around(unit, function)
    return bool(stored) and all(
        isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and _is_signature(each.value, unit)
        for each in stored
    )


def _binds(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.arg) and node.arg == name


def _put_into(node: ast.AST) -> str:
    """The name of a table to which a node adds elements; empty for other nodes."""
    if not isinstance(node, (ast.Subscript, ast.Attribute)) or not isinstance(node.value, ast.Name):
        return ""
    is_put = not isinstance(node.ctx, ast.Load) or getattr(node, "attr", "") in ("update", "setdefault")
    return node.value.id if is_put else ""


def _assigned_in(unit: Unit, nodes: list[ast.AST]) -> dict[str, list[ast.expr] | None]:
    """The values assigned to each name in some nodes; None if the name gets other values too."""
    found: dict[str, list[ast.expr] | None] = {}
    whole: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = [*(found.get(node.targets[0].id) or ()), node.value]
            whole.add(id(node.value))
    for node in nodes:
        if type(node) not in _ASSIGNING:
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            statement = unit.parents[node]
            if not isinstance(statement, ast.Assign) or id(statement.value) not in whole:
                found[node.id] = None
        elif isinstance(node, (ast.arg, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            found[(node.arg if isinstance(node, ast.arg) else node.name) or ""] = None
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(dict.fromkeys(node.names))
        elif table := _put_into(node):
            found[table] = None
    return found


class _Callees:
    """Spells the callees of a function's calls, as far as the function itself shows what its names hold.

    Args:
        unit: the file.
        name: the name of the function; empty for the top level of the file.
        nodes: all nodes of it.
        bound: the names bound in the file.
    """

    def __init__(self, unit: Unit, name: str, nodes: list[ast.AST], bound: dict[FunctionNode | None, set[str]]) -> None:
        self._unit = unit
        self._bound = bound
        self._assigned = _assigned_in(unit, nodes)
        # The results of nested functions are among its own results.
        inner = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        self._inner = inner - self._assigned.keys() - {name} if name else set()

    def of_call(self, node: ast.Call) -> list[str]:
        """The spellings of a call's possible callees, for its result or what the result contains."""
        is_map = isinstance(node.func, ast.Name) and node.func.id == "map" and node.args
        return self.of(node.args[0] if is_map else node.func)

    def of(self, callee: ast.expr, depth: int = 4) -> list[str]:
        """The spellings of a callee's alternatives; an empty one if some alternative is unknown."""
        if depth == 0:
            return [""]
        if isinstance(callee, ast.Lambda):
            return [name for node in walk(callee.body) if isinstance(node, ast.Call) for name in self.of_call(node)]
        if isinstance(callee, ast.IfExp):
            return [*self.of(callee.body, depth - 1), *self.of(callee.orelse, depth - 1)]
        if isinstance(callee, ast.Call) and callee.args and self._is_partial(callee.func):
            return self.of(callee.args[0], depth - 1)
        if isinstance(callee, ast.Subscript) and isinstance(callee.value, (ast.Name, ast.Dict)):
            table = callee.value
            tables = [table] if isinstance(table, ast.Dict) else self._assigned.get(table.id) or [table]
            values = [value for each in tables if isinstance(each, ast.Dict) for value in each.values]
            is_plain = all(isinstance(each, ast.Dict) and None not in each.keys for each in tables)
            return [name for value in values for name in self.of(value, depth - 1)] if is_plain else [""]
        if isinstance(callee, ast.Name):
            if callee.id in self._inner:
                return []
            values = self._assigned.get(callee.id) or []
            if values:
                return [name for value in values for name in self.of(value, depth - 1)]
        return [spelled_where_read(self._unit, callee, self._bound)]

    def _is_partial(self, callee: ast.expr) -> bool:
        root, _, rest = spelling(callee).partition(".")
        dotted = self._unit.imports.get(root, "")
        return (f"{dotted}.{rest}" if rest else dotted) == "functools.partial"


def _called_for(given: list[ast.expr], held: dict[str, list[ast.expr]], spelled: dict[ast.AST, list[str]]) -> list[str]:
    """The callees in some returned values, and in the values of the names that occur in them."""
    makers: dict[str, None] = {}
    pending, left = list(given), dict(held)
    while pending:
        for node in walk(pending.pop()):
            if node in spelled:
                makers.update(dict.fromkeys(spelled[node]))
            elif isinstance(node, ast.Name):
                pending.extend(left.pop(node.id, ()))
    return list(makers)


def _is_plain_copy(unit: Unit, node: ast.Call, bound: dict[FunctionNode | None, set[str]]) -> bool:
    """Whether a call copies something that a function was passed or got, which makes no new kind of object."""
    if is_copy_of_attributes(node):
        return True
    if spelling(node.func) not in ("copy.copy", "copy.deepcopy", "deepcopy") or not node.args:
        return False
    copied = node.args[0]
    if isinstance(copied, ast.Call) and spelling(copied.func) == "getattr" and len(copied.args) > 1:
        if isinstance(copied.args[1], ast.Constant):
            return False
        copied = copied.args[0]  # an attribute with a computed name, whose value is unknown
    if isinstance(copied, DISPLAYS):
        return True  # calls inside it are recorded themselves
    root = spelling(copied).partition(".")[0]
    return bool(root) and root not in bound[None] and is_bound(unit, node, root, bound)


def is_copy_of_attributes(node: ast.Call) -> bool:
    """Whether a call copies `self.__dict__`, which gives a dict."""
    return bool(node.args) and isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "__dict__"
