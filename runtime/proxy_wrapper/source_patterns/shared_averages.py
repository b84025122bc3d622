"""Finds averages of parameters that are the parameters themselves, because they were stored without a copy.

`self.shadow = {name: p.data for name, p in model.named_parameters()}` stores references. To update `self.shadow[name]`
in place then shrinks or shifts the weights of the model. The variable or its class is named like an average; other
programs may well update their parameters in place.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

SHARED: Final = "average-shares-memory"

_AVERAGE: Final = re.compile(r"(.*_)?(ema|ma|swa|avg|average[ds]?|shadow|polyak|smoothed)(_.*)?", re.IGNORECASE)
_OWNER: Final = re.compile(r".*(EMA|Ema|MovingAverage|Polyak)([^a-z].*)?")
_STATES: Final = frozenset({"parameters", "named_parameters", "state_dict"})
_SAME_MEMORY: Final = frozenset({"detach", "items", "values", "dict", "list", "OrderedDict", *_STATES})
_EMPTY: Final = frozenset({"{}", "[]", "dict()", "list()", "OrderedDict()", "None"})
_SCALING: Final = frozenset({"mul_", "lerp_"})


def shared_averages(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines that store averages without a copy. `other` is the line that updates one in place."""
    groups: dict[int, list[Scope]] = {}
    for scope in scopes:
        groups.setdefault(id(scope.owner or scope), []).append(scope)
    for group in groups.values():
        owner = group[0].owner
        is_average = owner is not None and _OWNER.fullmatch(owner.name) is not None
        nodes = [node for scope in group for node in scope.nodes]
        stores: dict[str, list[tuple[int, bool]]] = {}
        for name, line, is_shared in _stores(nodes):
            if is_average or _AVERAGE.fullmatch(name):
                stores.setdefault(name, []).append((line, is_shared))
        for name, lines in stores.items():
            update = next(_updates(nodes, name), 0) if all(is_shared for _, is_shared in lines) else 0
            if update:
                yield Pattern(SHARED, lines[0][0], (name,), update)


def _stores(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int, bool]]:
    """The variables that are assigned, or an item of them, the line, and whether it is parameters as they are.

    Empty collections are left out.
    """
    items = {
        id(inner): _is_one_of(inner.value, node.target)
        for node in nodes
        if isinstance(node, ast.For) and _are_parameters(node.iter)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Assign)
    }
    for node in nodes:
        if isinstance(node, ast.Assign) and ast.unparse(node.value) not in _EMPTY:
            is_shared = items.get(id(node), False) or _are_parameters(node.value)
            for target in node.targets:
                name = last_name(target.value if isinstance(target, ast.Subscript) else target)
                yield name, node.lineno, is_shared


def _are_parameters(value: ast.expr) -> bool:
    """Whether an expression is a collection of the very parameters of a model."""
    if isinstance(value, (ast.DictComp, ast.ListComp)):
        (generator, *others) = value.generators
        item = value.value if isinstance(value, ast.DictComp) else value.elt
        return not others and _are_parameters(generator.iter) and _is_one_of(item, generator.target)
    names = {last_name(part.func) for part in ast.walk(value) if isinstance(part, ast.Call)}
    return isinstance(value, ast.Call) and bool(names & _STATES) and names <= _SAME_MEMORY


def _is_one_of(value: ast.expr, target: ast.expr) -> bool:
    """Whether an expression is a variable of a loop, or its data."""
    found = ast.unparse(_whole(value))
    return any(ast.unparse(each) == found for each in (target.elts if isinstance(target, ast.Tuple) else [target]))


def _whole(value: ast.expr) -> ast.expr:
    """An expression without `.data` and `.detach()`."""
    while True:
        if isinstance(value, ast.Attribute) and value.attr == "data":
            value = value.value
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "detach":
            value = value.func.value
        else:
            return value


def _updates(nodes: Sequence[ast.AST], name: str) -> Iterator[int]:
    """The lines that scale an item of a variable in place, or a variable of a loop over it."""
    items = {item for node in nodes if isinstance(node, ast.For) for item in _items_of(node, name)}
    for node in nodes:
        scaled: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SCALING:
            scaled = _whole(node.func.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult):
            scaled = _whole(node.target)
        is_item = isinstance(scaled, ast.Subscript) and last_name(scaled.value) == name
        if scaled is not None and (is_item or (isinstance(scaled, ast.Name) and scaled.id in items)):
            yield scaled.lineno


def _items_of(loop: ast.For, name: str) -> Iterator[str]:
    """The variable of a loop that goes through the values of another variable."""
    is_zip = (
        isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "zip" and isinstance(loop.target, ast.Tuple)
    )
    sources = loop.iter.args if is_zip and isinstance(loop.iter, ast.Call) else [loop.iter]
    targets = loop.target.elts if is_zip and isinstance(loop.target, ast.Tuple) else [loop.target]
    for source, target in zip(sources, targets, strict=False):
        what = last_name(source.func) if isinstance(source, ast.Call) else ""
        of = source.func.value if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) else source
        value = target.elts[-1] if what == "items" and isinstance(target, ast.Tuple) else target
        if last_name(of) == name and what in ("", "items", "values") and isinstance(value, ast.Name):
            yield value.id
