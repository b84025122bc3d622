"""What the conditions around an expression imply about it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.units import Unit

_SEQUENCES = ("builtins.frozenset", "builtins.list", "builtins.set", "builtins.tuple")
_MAPPINGS = ("Mapping", "MutableMapping", "OrderedDict", "defaultdict")
_OTHERS = ("MutableSequence", "Sequence", "deque")
# Python's container classes, and for each the builtin class with the same constructor arguments.
_LIKE = {
    **dict.fromkeys(_SEQUENCES, "builtins.list"),
    "builtins.dict": "builtins.dict",
    **{
        f"{module}.{name}": like
        for module in ("collections", "collections.abc", "typing")
        for names, like in ((_MAPPINGS, "builtins.dict"), (_OTHERS, "builtins.list"))
        for name in names
    },
}


def container_there(unit: Unit, hierarchy: Hierarchy, name: ast.expr) -> str:
    """The builtin container class that an enclosing test shows a name to be like; "" if there is none.

    As in `if isinstance(batch, (tuple, list)): return type(batch)(...)`.
    """
    if not isinstance(name, ast.Name):
        return ""
    for test in _tests_around(unit, name):
        if not (isinstance(test, ast.Call) and len(test.args) == 2 and isinstance(test.func, ast.Name)):
            continue
        tested, classes = test.args
        if test.func.id != "isinstance" or not isinstance(tested, ast.Name) or tested.id != name.id:
            continue
        each = classes.elts if isinstance(classes, ast.Tuple) else [classes]
        resolved = [hierarchy.resolve(unit, cls) for cls in each]
        like = [_LIKE.get(found, "") if isinstance(found, str) else "" for found in resolved]
        if all(like):
            return like[0]
    return ""


def _tests_around(unit: Unit, node: ast.AST) -> Iterator[ast.expr]:
    """The tests that are true where a node runs. The operands of an `and` are separate tests."""
    above = unit.parents.get(node)
    while above is not None and not isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        test: ast.expr | None = None
        if (isinstance(above, (ast.If, ast.While)) and node in above.body) or (
            isinstance(above, ast.IfExp) and node is above.body
        ):
            test = above.test
        if test is not None:
            yield from test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        node, above = above, unit.parents.get(above)
