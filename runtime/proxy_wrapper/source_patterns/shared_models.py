"""Finds loops over the folds of a cross-validation that train one model in all of them.

model = build_model()
for fold, (train_rows, test_rows) in enumerate(splitter.split(x)):
    train(model, x[train_rows])                     # and nothing resets or copies the model
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

SHARED: Final = "model-shared-by-folds"

_FOLDS: Final = re.compile(r"(\w*_)?k?folds?(_\w*)?|\w*KFold\w*", re.IGNORECASE)
_RESETS: Final = re.compile(
    r"deepcopy|copy|clone|load_state_dict|reset\w*|\w*init\w*|apply|build\w*|make\w*|create\w*|get_model|from_pretrained"
)
_BACKWARD: Final = "backward"


def shared_models(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that call such a model to train it. `other` is the line of the loop.

    The loop calls a function of the file that trains, and neither of them copies, resets or makes anything.
    """
    trainers = {scope.name: scope for scope in scopes if scope.name and _BACKWARD in scope.words}
    for scope in scopes if trainers else ():
        for loop in scope.nodes:
            if isinstance(loop, ast.For) and _goes_through_folds(loop, scope):
                calls = [node for node in nodes_within(loop) if isinstance(node, ast.Call)]
                if not _resets(calls):
                    found = (_of_call(call, trainers, loop, scope) for call in calls)
                    yield from [each for each in found if each is not None][:1]


def _of_call(call: ast.Call, trainers: dict[str, Scope], loop: ast.For, scope: Scope) -> Pattern | None:
    """The pattern if a call in a loop trains a model that was made before the loop, and never anew."""
    trainer = trainers.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if trainer is None or not isinstance(trainer.root, ast.FunctionDef) or _resets(trainer.calls):
        return None
    for parameter, given in zip(trainer.root.args.args, call.args, strict=False):
        model = given.id if isinstance(given, ast.Name) else ""
        lines = scope.stores(model) if model else []
        called = [
            each.lineno for each in trainer.calls if isinstance(each.func, ast.Name) and each.func.id == parameter.arg
        ]
        is_made = any(
            ast.unparse(target) == model and isinstance(value, ast.Call) for target, value in scope.assignments
        )
        is_stored = parameter.arg in {ast.unparse(target) for target, _ in trainer.assignments}
        if called and is_made and not is_stored and max(lines, default=loop.lineno) < loop.lineno:
            return Pattern(SHARED, called[0], (model,), loop.lineno)
    return None


def _goes_through_folds(loop: ast.For, scope: Scope) -> bool:
    """Whether a loop goes through the folds of a cross-validation, by the names in it."""
    names = [each.id for each in (*ast.walk(loop.target), *ast.walk(loop.iter)) if isinstance(each, ast.Name)]
    made = {ast.unparse(target): value for target, value in scope.assignments}
    calls = [made[name] for name in names if name in made]
    splitters = [last_name(each.func) for each in calls if isinstance(each, ast.Call)]
    return any(_FOLDS.fullmatch(name) for name in (*names, *splitters))


def _resets(calls: Iterable[ast.Call]) -> bool:
    return any(_RESETS.fullmatch(last_name(call.func)) for call in calls)
