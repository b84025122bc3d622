"""Finds parts of one data set that are given different transforms through the data set that they share.

train_set, val_set = random_split(data, [900, 100])
train_set.dataset.transform = augment
val_set.dataset.transform = normalize           # `train_set` has this transform now, too
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import is_variable, last_name, nodes_within
from proxy_wrapper.source_patterns.data_roles import role_of
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy_wrapper.program_code.syntax import Scope

SHARED: Final = "transform-shared"

_SPLITS: Final = frozenset({"random_split", "Subset"})
_TRANSFORMS: Final = frozenset({"transform", "transforms"})


def shared_transforms(scope: Scope) -> Iterator[Pattern]:
    """The last transform that is assigned to one of the parts. `names` has the part, and one that it changes besides.

    A single assignment counts if it is for held-out data, by the name of the part, and the data set was created with
    another transform for a part that trains. In loops, transforms may be exchanged back and forth.
    """
    for base, parts in _parts(scope).items():
        assigned = _assigned(scope, parts)
        if not assigned or any(scope.stores(f"{part}.dataset") for part in parts):
            continue
        last = assigned[-1]
        text = ast.unparse(last.value)
        part = next(each for each in parts if _sets(last, each))
        other = next((each for each in assigned if ast.unparse(each.value) != text and not _sets(each, part)), None)
        if other is not None:
            changed = next(each for each in parts if _sets(other, each))
            yield Pattern(SHARED, last.lineno, (part, changed), other.lineno)
            continue
        training = next((each for each in parts if _is_for_training(each)), "")
        given = _given(scope, parts[part], base)
        if training and role_of(part).is_held_out and not _is_for_training(part) and given not in (None, text, "None"):
            yield Pattern(SHARED, last.lineno, (part, training), last.lineno)


def _parts(scope: Scope) -> Mapping[str, dict[str, ast.expr]]:
    """For each data set, the variables that are parts of it, each with its expression in the call that makes them."""
    found: dict[str, dict[str, ast.expr]] = {}
    for target, value in scope.assignments:
        if (
            isinstance(value, ast.Call)
            and last_name(value.func) in _SPLITS
            and value.args
            and is_variable(value.args[0])
        ):
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            names = [ast.unparse(each) for each in parts if is_variable(each)]
            base = found.setdefault(ast.unparse(value.args[0]), {})
            base.update((name, value.args[0]) for name in names if len(scope.stores(name)) == 1)
    return {base: parts for base, parts in found.items() if len(parts) > 1 and len(scope.stores(base)) <= 1}


def _assigned(scope: Scope, parts: Mapping[str, ast.expr]) -> list[ast.Assign]:
    """The statements outside of loops that assign a transform through one of the parts."""
    loops = [node for node in scope.nodes if isinstance(node, (ast.For, ast.AsyncFor, ast.While))]
    repeated = {id(inside) for loop in loops for inside in nodes_within(loop)}
    return [
        node
        for node in scope.nodes
        if isinstance(node, ast.Assign) and id(node) not in repeated and any(_sets(node, part) for part in parts)
    ]


def _sets(statement: ast.Assign, part: str) -> bool:
    """Whether a statement assigns the transform of the data set of a part."""
    return any(
        ast.unparse(target) in {f"{part}.dataset.{name}" for name in _TRANSFORMS} for target in statement.targets
    )


def _given(scope: Scope, data: ast.expr, name: str) -> str | None:
    """The transform with which a data set is created; None if it is unknown, or if it has none."""
    made = scope.resolved(data)
    words = made.keywords if isinstance(made, ast.Call) and ast.unparse(made) != name else ()
    return next((ast.unparse(word.value) for word in words if word.arg in _TRANSFORMS), None)


def _is_for_training(name: str) -> bool:
    return role_of(name).is_training
