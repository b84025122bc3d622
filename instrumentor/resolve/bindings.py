"""The scopes of names in a file, the spelling of names, and what is stored under them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.source.nodes import all_parameters, last_name, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.resolve.unit import FunctionNode, Unit

# Type constructors whose arguments are alternatives or qualified types.
_ALTERNATIVES = frozenset({"Optional", "Union", "Final", "ClassVar"})
# Node types that may bind a name, have an annotation, or store something. Most nodes have other types.
_BINDING = frozenset(
    {ast.Name, ast.arg, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.Global, ast.Nonlocal}
)  # fmt: skip
_ANNOTATED = frozenset({ast.arg, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef})
STORING = frozenset(
    {
        ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension,
        ast.withitem,
    }
)  # fmt: skip


def bound_names(unit: Unit) -> dict[FunctionNode | None, set[str]]:
    """The names that each function binds, except by definitions and imports; those of the top level under None."""
    found: dict[FunctionNode | None, set[str]] = {None: set()}
    for node in unit.parents:
        if type(node) not in _BINDING:
            continue
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            found[None].update(node.names)
        elif names := bound_by(node):
            found.setdefault(function_around(unit, node), set()).update(names)
    return found


def bound_by(node: ast.AST) -> list[str]:
    """The names that a node itself binds, except by definitions and imports."""
    if type(node) not in _BINDING:
        return []
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    return [node.name or ""] if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) else []


def function_around(unit: Unit, node: ast.AST) -> FunctionNode | None:
    """The innermost function around a node; None at the top level of a file or class."""
    parents, around = unit.parents, unit.around
    above = parents.get(node)
    passed: list[ast.AST] = []
    while above is not None and not isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        if above in around:
            above = around[above]
            break
        passed.append(above)
        above = parents.get(above)
    around.update(dict.fromkeys(passed, above))
    return above


def parameter_around(unit: Unit, name: ast.Name) -> ast.arg | None:
    """The parameter of the innermost enclosing function with this name; None if there is none."""
    function = function_around(unit, name)
    if function is None:
        return None
    return declared_parameter(function, name.id)


def declared_parameter(function: FunctionNode, name: str) -> ast.arg | None:
    """The parameter declaration with a name; None if there is none."""
    return next((each for each in all_parameters(function.args) if each.arg == name), None)


def annotated_names(annotation: ast.expr) -> list[ast.Name | ast.Attribute]:
    """The classes of which an annotated value may be an instance: A and B in `Optional["A"]` and `A | B[C]`."""
    if isinstance(annotation, (ast.Name, ast.Attribute)):
        return [annotation]
    parts: list[ast.expr] = []
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            parts = [ast.parse(annotation.value, mode="eval").body]
        except SyntaxError:
            return []
    elif isinstance(annotation, ast.BinOp):
        parts = [annotation.left, annotation.right]
    elif isinstance(annotation, ast.Subscript):
        inside = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        is_choice = last_name(annotation.value) in _ALTERNATIVES
        parts = inside if is_choice else [annotation.value]
    return [name for part in parts for name in annotated_names(part)]


def annotations_of(node: ast.AST) -> list[ast.expr]:
    """The annotations of a node: of a parameter, a function's result, or an assigned or declared variable."""
    if type(node) not in _ANNOTATED:
        return []
    annotation: ast.expr | None = None
    if isinstance(node, (ast.arg, ast.AnnAssign)):
        annotation = node.annotation
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        annotation = node.returns
    return [] if annotation is None else [annotation]


def annotated_items(annotation: ast.expr) -> list[ast.expr]:
    """The annotations of a tuple's items in `tuple[A, B]`; empty for other annotations."""
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return []
    return annotation.slice.elts if last_name(annotation.value) in ("tuple", "Tuple") else []


def names_within(annotation: ast.expr) -> list[ast.Name | ast.Attribute]:
    """The class names in an annotation, including those of a tuple's items."""
    return [name for each in (annotation, *annotated_items(annotation)) for name in annotated_names(each)]


def is_bound(unit: Unit, node: ast.AST, name: str, bound: dict[FunctionNode | None, set[str]]) -> bool:
    """Whether a name, where a node reads it, may mean something other than the file's definition or import."""
    function = function_around(unit, node)
    while function is not None:
        if name in bound.get(function, ()):
            return True
        function = function_around(unit, function)
    return name in bound[None]


def spelled_where_read(unit: Unit, node: ast.expr, bound: dict[FunctionNode | None, set[str]]) -> str:
    """The spelling of a dotted name, if its root is defined or imported in the file, or is `self` or `cls`.

    For an attribute of anything else, a dot and the attribute; empty for expressions without such a name.
    """
    spelled = spelling(node)
    root, _, rest = spelled.partition(".")
    if root in ("self", "cls") and rest and "." not in rest:
        return spelled
    if root and is_bound(unit, node, root, bound):
        return f".{rest.rpartition('.')[2]}" if rest else ""
    return spelled


def spelling(expression: ast.expr) -> str:
    """The spelling of a dotted name; for an attribute of another expression, a dot and the attribute; else empty."""
    names: list[str] = []
    while isinstance(expression, ast.Attribute):
        names.append(expression.attr)
        expression = expression.value
    if isinstance(expression, ast.Name):
        return ".".join([expression.id, *reversed(names)])
    return f".{names[0]}" if names else ""


def stores(node: ast.AST) -> Sequence[tuple[ast.expr, ast.expr]]:
    """The targets that a node stores to, each with the expression that gives the value or contains it."""
    if type(node) not in STORING:
        return ()
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        return [(node.target, node.value)] if node.value is not None else ()
    if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        return [(node.target, node.iter)]
    is_named = isinstance(node, ast.withitem) and node.optional_vars is not None
    return [(node.optional_vars, node.context_expr)] if is_named else ()  # type: ignore[attr-defined]


def assigned_in(function: FunctionNode, name: str) -> list[ast.expr]:
    """The values assigned to a function's local variable; empty for a name that is bound in another way."""
    nodes = walk(function)
    if any(name in bound_by(node) for node in nodes if not isinstance(node, ast.Name)):
        return []
    return [
        value
        for node in nodes
        for target, value in stores(node)
        if any(isinstance(each, ast.Name) and each.id == name for each in walk(target))
    ]
