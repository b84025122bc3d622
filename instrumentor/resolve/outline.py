"""What other files need to know of a file to tell that they hold no model: its names, and what its functions may make.

An outline is a few percent of its file's tree. It depends on nothing but the file's bytes.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from instrumentor.resolve import catalogue
from instrumentor.resolve.units import Class, Function, Unit
from instrumentor.source.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.resolve.units import FunctionNode

# Using an object so may make a module of it for those who want no guesses.
EVIDENCE = (catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE | {catalogue.BACKWARD}) - catalogue.MOVES
# Of what an outline holds, and of what counts as the use of a module.
VERSION = "2-" + hashlib.blake2b(" ".join(sorted(EVIDENCE)).encode(), digest_size=4).hexdigest()
_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_READING = frozenset({"dict", "len", "list", "set", "sorted", "tuple"})
_NEVER_CALLED = (ast.Constant, ast.JoinedStr, ast.BinOp, ast.UnaryOp, ast.Compare, *_DISPLAYS)


class FunctionOutline(msgspec.Struct, frozen=True, array_like=True):
    """One function.

    Attributes:
        key: what it is called in all units, behind the name of its own.
        name: its name.
        makers: what is called, as it is spelled, in the values that it may give; None where that cannot be said.
        calls: all that is called in it, as far as it has a spelling.
        uses_modules: something in it is used as only modules are.
    """

    key: str
    name: str
    makers: list[str] | None
    calls: list[str]
    uses_modules: bool


class ClassOutline(msgspec.Struct, frozen=True, array_like=True):
    """One class.

    Attributes:
        key: what it is called in all units, behind the name of its own.
        name: its name.
        bases: its bases, as they are spelled.
        methods: the keys of its methods.
    """

    key: str
    name: str
    bases: list[str]
    methods: dict[str, str]


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """One file.

    Attributes:
        imports: as a unit has them, like `alternatives` and `stars`.
        classes: all classes, inner ones too.
        class_names: those that the file's own names stand for, by their key.
        functions: all functions but lambdas.
        function_names: as `class_names`.
        stored: the attributes that something is stored in which may be called and is no instance of a class.
        shadowed: the names that something else may stand for than what the file defines or imports by them.
        uses_modules: something in it is used as only modules are.
    """

    imports: dict[str, str]
    alternatives: dict[str, list[str]]
    stars: list[str]
    classes: list[ClassOutline]
    class_names: dict[str, str]
    functions: list[FunctionOutline]
    function_names: dict[str, str]
    stored: set[str]
    shadowed: set[str]
    uses_modules: bool


_EMPTY = Outline({}, {}, [], [], {}, [], {}, set(), set(), uses_modules=True)


@dataclass(frozen=True, eq=False)
class OutlinedUnit(Unit):
    """A unit that is empty but for what its outline has of it.

    Attributes:
        outlined: the outlines of its functions, by their keys.
        outline: all that is known of it.
    """

    outlined: dict[str, FunctionOutline] = field(default_factory=dict)
    outline: Outline = _EMPTY


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
            _outline_function(unit, each, bound)
            for each in unit.function_of.values()
            if not isinstance(each.node, ast.Lambda)
        ],
        function_names={name: each.key[prefix:] for name, each in unit.functions.items()},
        stored=stored_attributes(unit),
        shadowed=bound[None],
        uses_modules=any(_is_evidence(node, unit) for node in unit.parents),
    )


def stored_attributes(unit: Unit) -> set[str]:
    """The attributes, those of classes too, in which something is stored that may be called and is no instance."""
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


def bound_names(unit: Unit) -> dict[FunctionNode | None, set[str]]:
    """The names that each function of a file binds but by definitions and imports; under None those of its top."""
    found: dict[FunctionNode | None, set[str]] = {None: set()}
    for node in unit.parents:
        if isinstance(node, ast.Name):
            names = [] if isinstance(node.ctx, ast.Load) else [node.id]
        elif isinstance(node, ast.arg):
            names = [node.arg]
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            names = [node.name or ""]
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found[None].update(node.names)
            continue
        else:
            continue
        if names:
            found.setdefault(function_around(unit, node), set()).update(names)
    return found


def function_around(unit: Unit, node: ast.AST) -> FunctionNode | None:
    """The innermost function that a node lies in; None at the top of a file or class."""
    above = unit.parents.get(node)
    while above is not None and not isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        above = unit.parents.get(above)
    return above


def is_bound(unit: Unit, node: ast.AST, name: str, bound: dict[FunctionNode | None, set[str]]) -> bool:
    """Whether a name may stand for something else where a node reads it than what the file defines or imports by it."""
    function = function_around(unit, node)
    while function is not None:
        if name in bound.get(function, ()):
            return True
        function = function_around(unit, function)
    return name in bound[None]


def _outline_function(unit: Unit, function: Function, bound: dict[FunctionNode | None, set[str]]) -> FunctionOutline:
    """Draw the outline of a function.

    What it is passed and what it reads from elsewhere it does not make. A method of what has no fixed name is spelled
    with a dot before it.
    """
    given: list[ast.expr] = []
    held: dict[str, list[ast.expr]] = {}
    calls: list[ast.Call] = []
    uses_modules = False
    nodes = walk(function.node)
    for node in nodes:
        if isinstance(node, ast.Attribute):
            uses_modules = uses_modules or _is_evidence(node, unit)
        elif isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None:
            given.append(node.value)
        elif isinstance(node, ast.Call) and not _is_plain_copy(unit, node, bound):
            calls.append(node)
        for target, value in stores(node):
            for each in walk(target):
                if isinstance(each, ast.Name):
                    held.setdefault(each.id, []).append(value)
    callees = _Callees(unit, function, nodes, bound)
    spelled: dict[ast.AST, list[str]] = {node: callees.of_call(node) for node in calls}
    makers = _called_for(given, held, spelled)
    names = dict.fromkeys(name for each in spelled.values() for name in each if name)
    key = function.key[len(unit.name) + 1 :]
    return FunctionOutline(key, function.name, None if "" in makers else makers, list(names), uses_modules)


def _is_evidence(node: ast.AST, unit: Unit) -> bool:
    """Whether something is used as only modules are: `model.parameters()`, not `signature(f).parameters[name]`."""
    if not isinstance(node, ast.Attribute) or node.attr not in EVIDENCE:
        return False
    if isinstance(node.value, ast.Call) and spelling(node.value.func).endswith("signature"):
        return False
    above = unit.parents[node]
    if isinstance(above, ast.Call):
        return above.func is node or spelling(above.func) not in _READING
    is_iterated = isinstance(above, (ast.For, ast.comprehension)) and above.iter is node
    return not (is_iterated or isinstance(above, (ast.Attribute, ast.Subscript, ast.Compare)))


def _put_into(node: ast.AST) -> str:
    """The name of a table that a node puts more into; empty for other nodes."""
    if not isinstance(node, (ast.Subscript, ast.Attribute)) or not isinstance(node.value, ast.Name):
        return ""
    is_put = not isinstance(node.ctx, ast.Load) or getattr(node, "attr", "") in ("update", "setdefault")
    return node.value.id if is_put else ""


class _Callees:
    """Spells what the calls in a function call, as far as the function itself shows what its names hold.

    Args:
        unit: the file.
        function: the function.
        nodes: all nodes of it.
        bound: the names bound in the file.
    """

    def __init__(
        self, unit: Unit, function: Function, nodes: list[ast.AST], bound: dict[FunctionNode | None, set[str]]
    ) -> None:
        self._unit = unit
        self._bound = bound
        # What each name is assigned as a whole; None where it gets something else, too.
        self._assigned: dict[str, list[ast.expr] | None] = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                known = self._assigned.setdefault(node.targets[0].id, [])
                if known is not None:
                    known.append(node.value)
        whole = {id(each) for values in self._assigned.values() for each in values or ()}
        for node in nodes:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                statement = unit.parents[node]
                if not isinstance(statement, ast.Assign) or id(statement.value) not in whole:
                    self._assigned[node.id] = None
            elif isinstance(node, (ast.arg, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
                self._assigned[(node.arg if isinstance(node, ast.arg) else node.name) or ""] = None
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                self._assigned.update(dict.fromkeys(node.names))
            elif table := _put_into(node):
                self._assigned[table] = None
        # What functions defined within it give is among what it gives.
        inner = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        self._inner = inner - self._assigned.keys() - {function.name}

    def of_call(self, node: ast.Call) -> list[str]:
        """The spellings of what a call may call, for what it gives or what is in that."""
        is_map = isinstance(node.func, ast.Name) and node.func.id == "map" and node.args
        return self.of(node.args[0] if is_map else node.func)

    def of(self, callee: ast.expr, depth: int = 4) -> list[str]:
        """The spellings of what may be called; an empty one among them where that cannot be said."""
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
        return [_spelled_where_read(self._unit, callee, self._bound)]

    def _is_partial(self, callee: ast.expr) -> bool:
        root, _, rest = spelling(callee).partition(".")
        dotted = self._unit.imports.get(root, "")
        return (f"{dotted}.{rest}" if rest else dotted) == "functools.partial"


def _called_for(given: list[ast.expr], held: dict[str, list[ast.expr]], spelled: dict[ast.AST, list[str]]) -> list[str]:
    """What is called in the values that are given, and in those that names in them may hold."""
    makers: dict[str, None] = {}
    pending, left = list(given), dict(held)
    while pending:
        for node in walk(pending.pop()):
            if node in spelled:
                makers.update(dict.fromkeys(spelled[node]))
            elif isinstance(node, ast.Name):
                pending.extend(left.pop(node.id, ()))
    return list(makers)


def _spelled_where_read(unit: Unit, node: ast.expr, bound: dict[FunctionNode | None, set[str]]) -> str:
    spelled = spelling(node)
    root, _, rest = spelled.partition(".")
    if root in ("self", "cls") and rest and "." not in rest:
        return spelled
    if root and is_bound(unit, node, root, bound):
        return f".{rest.rpartition('.')[2]}" if rest else ""
    return spelled


def spelling(expression: ast.expr) -> str:
    """A dotted name as it is written; a dot and the attribute for one of what has no name; empty for all else."""
    names: list[str] = []
    while isinstance(expression, ast.Attribute):
        names.append(expression.attr)
        expression = expression.value
    if isinstance(expression, ast.Name):
        return ".".join([expression.id, *reversed(names)])
    return f".{names[0]}" if names else ""


def stores(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets that a node stores to, each with the expression that the value is, or is taken from."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        if node.value is not None:
            yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def unit_of(outline: Outline, name: str, folder: str) -> OutlinedUnit:
    """A unit that defines and imports what its file does, and is empty but for that."""
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
        # As arguments: those with a star are no expressions of their own.
        bases = ast.parse(f"f({', '.join(one.bases)})", mode="eval").body
        assert isinstance(bases, ast.Call)
        definition = ast.ClassDef(one.name, bases.args, [], [], [], lineno=0, col_offset=0)
        methods = {method: functions[key] for method, key in one.methods.items()}
        cls = classes[one.key] = Class(f"{name}:{one.key}", definition, unit, methods)
        unit.class_by_key[cls.key] = unit.class_of[definition] = cls
    unit.classes.update((each, classes[key]) for each, key in outline.class_names.items())
    unit.functions.update((each, functions[key]) for each, key in outline.function_names.items())
    return unit


def _may_be_called(unit: Unit, statement: ast.AST, attribute: str) -> bool:
    """Whether what a statement stores in an attribute may be a class or function, but for a function of its name."""
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.AnnAssign) and value is None:
        return False  # a declaration
    if isinstance(value, ast.Name) and value.id == attribute:
        return value.id not in unit.functions
    return not isinstance(value, _NEVER_CALLED)


def _is_plain_copy(unit: Unit, node: ast.Call, bound: dict[FunctionNode | None, set[str]]) -> bool:
    """Whether a call copies what a function was passed or got: it makes no more of a module than that is."""
    if is_copy_of_attributes(node):
        return True
    if spelling(node.func) not in ("copy.copy", "copy.deepcopy", "deepcopy") or not node.args:
        return False
    copied = node.args[0]
    if isinstance(copied, ast.Call) and spelling(copied.func) == "getattr" and len(copied.args) > 1:
        if isinstance(copied.args[1], ast.Constant):
            return False
        copied = copied.args[0]  # an attribute whose name is not written, of which nobody knows what it holds
    if isinstance(copied, _DISPLAYS):
        return True  # what is called in it is among the calls
    root = spelling(copied).partition(".")[0]
    return bool(root) and root not in bound[None] and is_bound(unit, node, root, bound)


def is_copy_of_attributes(node: ast.Call) -> bool:
    """Whether a call copies `self.__dict__`: a dict, whatever is in it."""
    return bool(node.args) and isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "__dict__"
