"""Finds calls of the program's own functions with two arguments in each other's place.

def train(loader, epoch, mode): ...
train(loader, args.mode, epoch)         # each is named like the parameter of the other

Only names of different kinds count, such as a count of epochs and a mode. Others are exchanged on purpose: the sizes of
a decoder, the two sides of a symmetric function, the height and the width of an image.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import last_name
from proxy_wrapper.source_patterns.data_roles import words_of
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

EXCHANGED: Final = "arguments-exchanged"

_KINDS: Final = (
    *("epoch epochs step steps iteration iterations iter iters", "mode phase split stage", "seed seeds", "lr"),
    *("name path dir folder directory filename prefix", "decay wd", "momentum", "warmup", "patience", "batch"),
    *("layers depth blocks", "heads", "hidden embedding embeddings embed emb latent input output features dim"),
    *("classes", "vocab", "kernel", "stride", "padding", "dilation", "dropout drop", "shuffle", "augment", "verbose"),
    *(
        "bidirectional",
        "causal",
        "temperature temp tau",
        "alpha beta gamma discount",
        "lam lambda lmbda",
        "eps epsilon",
    ),
    *("margin", "smoothing", "threshold", "workers", "mask masks", "lengths lens", "std sigma var logvar variance"),
    *("reward rewards", "done dones", "action actions", "state states", "query queries", "key keys"),
    "target targets label labels logits outputs prediction predictions pred preds mean mu noise value values",
)
"""The words that name each kind of argument. Arguments of one kind are also exchanged on purpose, or to no effect."""
_KIND_OF: Final = {word: number for number, kind in enumerate(_KINDS) for word in kind.split()}
_KEEPING: Final = frozenset(
    {"staticmethod", "classmethod", "no_grad", "enable_grad", "inference_mode", "script", "compile"}
)
"""Decorators that keep the parameters of a function."""


class _Function(NamedTuple):
    """A function that a call by a name calls: its definition, and its parameters without `self`."""

    root: ast.FunctionDef | ast.AsyncFunctionDef
    parameters: Sequence[str]


def exchanged_arguments(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The calls with two arguments in each other's place. `names` has the function and the two."""
    functions = _functions(scopes)
    calls = [(scope, call, functions.get(_called(call, scope))) for scope in scopes for call in scope.calls]
    for scope, call, function in calls:
        given = _given(call)
        pair = () if function is None or function.root is scope.root else _exchanged(given, function.parameters)
        others = (_given(other) for _, other, same in calls if function is same)
        if function is not None and pair and not any(_has_in_place(each, pair, function.parameters) for each in others):
            yield Pattern(EXCHANGED, call.lineno, (last_name(call.func), *pair), function.root.lineno)


def _functions(scopes: Sequence[Scope]) -> dict[str, _Function]:
    """The functions of a file by how a call names them; those that a name may stand for other things are left out."""
    names = Counter(_names_bound(scopes))
    found: dict[str, list[_Function]] = {}
    for scope in scopes:
        root = scope.root
        if not isinstance(root, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        decorators = {last_name(each.func if isinstance(each, ast.Call) else each) for each in root.decorator_list}
        parameters = [each.arg for each in (*root.args.posonlyargs, *root.args.args)]
        if scope.owner is not None:
            parameters = parameters["staticmethod" not in decorators :]
        if decorators <= _KEEPING:
            found.setdefault(_name_of(scope), []).append(_Function(root, parameters))
    return {
        name: functions[0]
        for name, functions in found.items()
        if len(functions) == 1 and (name.startswith("self.") or names[name] == 1)
    }


def _names_bound(scopes: Iterable[Scope]) -> Iterator[str]:
    """The variables that a file binds, each as often as it does; methods are none."""
    for scope in scopes:
        if scope.name and scope.owner is None:
            yield scope.name
        for node in scope.nodes:
            if isinstance(node, ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.alias):
                yield (node.asname or node.name).partition(".")[0]
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id
        if isinstance(scope.root, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from (node.arg for node in ast.walk(scope.root.args) if isinstance(node, ast.arg))


def _name_of(scope: Scope) -> str:
    """How a call names a function: its name, that of its class for an initialiser, or `self.name`."""
    if scope.owner is None:
        return scope.name
    return scope.owner.name if scope.name == "__init__" else f"self.{scope.name}"


def _called(call: ast.Call, scope: Scope) -> str:
    is_own = isinstance(call.func, ast.Attribute) and scope.owner is not None
    return ast.unparse(call.func) if isinstance(call.func, ast.Name) or is_own else ""


def _given(call: ast.Call) -> list[str]:
    """The names of the positional arguments of a call, in lower case; "" for those that have none."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return []
    return [last_name(each).lower() for each in call.args]


def _exchanged(given: Sequence[str], parameters: Sequence[str]) -> tuple[str, ...]:
    """The two names of different kinds that stand in each other's place; () if there are not exactly two."""
    lowered = [each.lower() for each in parameters[: len(given)]]
    wrong = [(name, place) for name, place in zip(given, lowered, strict=False) if name != place and name in lowered]
    if len(wrong) != 2 or wrong[0] != wrong[1][::-1] or len(set(lowered)) < len(lowered):
        return ()
    kinds = [{_KIND_OF[word] for word in words_of(name) if word in _KIND_OF} for name in wrong[0]]
    return wrong[0] if all(len(each) == 1 for each in kinds) and kinds[0] != kinds[1] else ()


def _has_in_place(given: Sequence[str], pair: Sequence[str], parameters: Sequence[str]) -> bool:
    """Whether a call has one of two names in its place."""
    return any(name in pair and name == place.lower() for name, place in zip(given, parameters, strict=False))
