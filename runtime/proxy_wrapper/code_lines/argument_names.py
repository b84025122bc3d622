"""Finds calls of PyTorch's functions whose arguments are named like other parameters.

Names of arguments tell which parameter they are for (Rice et al., Detecting argument selection defects, OOPSLA 2017).
`triplet(anchor, negative, positive)` has two in each other's place, and `gaussian_nll_loss(mean, y, std)` has a
standard deviation in place of a variance. Nothing is run: names are read from the source.
"""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import nn

from proxy_wrapper.program_code.outermost_calls import UNKNOWN, value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from proxy_wrapper.program_code.called_functions import Body

SWAPPED: Final = "negative-before-positive"
DEVIATION: Final = "deviation-as-variance"
VARIANCE: Final = "variance-as-deviation"

_TRIPLET: Final = ("anchor", "positive", "negative")
_PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "triplet_margin_loss": _TRIPLET,
    "triplet_margin_with_distance_loss": _TRIPLET,
    "TripletMarginLoss": _TRIPLET,
    "TripletMarginWithDistanceLoss": _TRIPLET,
    "gaussian_nll_loss": ("input", "target", "var"),
    "GaussianNLLLoss": ("input", "target", "var"),
    "Normal": ("loc", "scale"),
    "normal": ("mean", "std"),
}
"""The parameters of functions, of modules when they are called, and of classes."""

_ROLES: Final[dict[str, frozenset[str]]] = {
    "anchor": frozenset({"a", "anc", "anchor", "anchors", "query", "q"}),
    "positive": frozenset({"p", "pos", "positive", "positives"}),
    "negative": frozenset({"n", "neg", "negative", "negatives"}),
}
"""For each parameter of a triplet loss, the words that name its arguments."""
_DEVIATIONS: Final = frozenset({"std", "stds", "stddev", "stdev", "sigma", "sigmas", "sd", "scale"})
_VARIANCES: Final = frozenset({"var", "vars", "variance", "variances"})
_OTHERWISE: Final = frozenset({"log", "sq", "sqr", "square", "squared", "inv", "init", "min", "max"})
"""Words that make a name mean something else than its other words say."""
_SAME_VALUES: Final = frozenset(
    {"float", "double", "half", "detach", "to", "cpu", "cuda", "squeeze", "unsqueeze", "view", "reshape", "flatten"}
    | {"expand", "expand_as", "clamp", "clamp_min", "contiguous", "type_as", "view_as"}
)
"""Methods whose result is named like the tensor."""
_SQUARED: Final = re.compile(r"pow|square|\bvar|\*\* ?2|(\b\w+) \* \1\b|^(?!.*(0\.5|/ 2|std|sigma)).*\bexp\b")
_ROOTED: Final = re.compile(r"sqrt|std|sigma|\*\* ?0\.5|pow")
"""What computes a variance, and a deviation: the name of a variable computed so may no longer be right."""


class WrongArgument(NamedTuple):
    """A call with an argument in the place of another, and what is wrong."""

    line: int
    what: str


def wrong_arguments(tree: ast.AST, body: Body) -> Iterator[WrongArgument]:
    """The calls in a function, or in a script, whose arguments are named like other parameters."""
    nodes = list(ast.walk(tree))
    made = _made(nodes)
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        parameters = _PARAMETERS.get(_callee(call.func, made, body), ())
        given = _given(call, parameters)
        if parameters == _TRIPLET and len(given) == len(_TRIPLET):
            roles = _roles([_name(given[each], is_any_call_passed=True) for each in _TRIPLET])
            if roles[1:] == ["negative", "positive"]:
                yield WrongArgument(call.lineno, SWAPPED)
        for parameter, wrong, conversion, what in (
            ("var", _DEVIATIONS, _SQUARED, DEVIATION),
            ("scale", _VARIANCES, _ROOTED, VARIANCE),
            ("std", _VARIANCES, _ROOTED, VARIANCE),
        ):
            if parameter in given and _is_named(given[parameter], wrong, conversion, tree):
                yield WrongArgument(call.lineno, what)


def _made(nodes: Iterable[ast.AST]) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """For each variable and attribute that is assigned the result of a call, the paths of what was called."""
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for each in nodes:
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call):
            for target in each.targets:
                found.setdefault(_path(target), []).append(_path(each.value.func))
    return found


def _callee(function: ast.expr, made: Mapping[tuple[str, ...], Sequence[tuple[str, ...]]], body: Body) -> str:
    """The name of the function, module class or class of PyTorch that a call calls; "" for anything else."""
    path = _path(function)
    value: Any = value_of(path, body) if path else UNKNOWN
    if value is UNKNOWN and path:
        makers = made.get(path, ())
        value = value_of(makers[0], body) if len(makers) == 1 and makers[0] else UNKNOWN
        return (
            value.__name__ if isinstance(value, type) and _is_of_torch(value) and issubclass(value, nn.Module) else ""
        )
    if value is torch.normal:
        return "normal"
    if isinstance(value, type):
        return value.__name__ if _is_of_torch(value) and not issubclass(value, nn.Module) else ""
    if type(value) is FunctionType:
        return value.__name__ if value.__module__ == "torch.nn.functional" else ""
    return type(value).__name__ if isinstance(value, nn.Module) and _is_of_torch(type(value)) else ""


def _is_of_torch(value: type) -> bool:
    return value.__module__.startswith("torch.")


def _path(node: ast.expr) -> tuple[str, ...]:
    """A name with the attributes read from it, `("self", ".criterion")`; () for other expressions."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        before = _path(node.value)
        return (*before, f".{node.attr}") if before else ()
    return ()


def _given(call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr]:
    """The arguments of a call by parameter; {} if some are not known."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return {}
    found = dict(zip(parameters, call.args, strict=False))
    found.update({each.arg: each.value for each in call.keywords if each.arg is not None and each.arg in parameters})
    return found


def _name(node: ast.expr, *, is_any_call_passed: bool) -> str:
    """The name of an argument: of a variable, an attribute, a key, or of what a call is made on; "" for others."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in _SAME_VALUES:
            return _name(function.value, is_any_call_passed=is_any_call_passed)
        if is_any_call_passed and len(node.args) == 1 and not node.keywords:
            return _name(node.args[0], is_any_call_passed=True)
    return ""


def _words(name: str) -> list[str]:
    """The words of a name in lower case; numbers are words of their own."""
    return [each.lower() for each in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)]


def _roles(names: Sequence[str]) -> list[str]:
    """The role in a triplet that each name tells; "" where it tells none. What all names have in common is left out."""
    start = _common(names)
    end = _common([each[start:][::-1] for each in names])
    parts = [each[start : len(each) - end] for each in names]
    found = []
    for part in parts:
        words = set(_words(part))
        roles = [role for role, named in _ROLES.items() if words & named]
        found.append(roles[0] if len(roles) == 1 else "")
    return found


def _common(names: Sequence[str]) -> int:
    """How many characters all names begin with."""
    return sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, zip(*names, strict=False)))


def _is_named(argument: ast.expr, wrong: frozenset[str], conversion: re.Pattern[str], tree: ast.AST) -> bool:
    """Whether an argument is a variable whose name says what it must not be, and no line converts it."""
    name = _name(argument, is_any_call_passed=False)
    words = _words(name)
    if not set(words) & wrong or set(words) & _OTHERWISE or any(each.isdigit() for each in words):
        return False
    return not any(
        isinstance(each, (ast.Assign, ast.AugAssign, ast.AnnAssign))
        and each.value is not None
        and name in {part for target in _targets(each) for part in _names(target)}
        and (conversion.search(ast.unparse(each.value)) or isinstance(each, ast.AugAssign))
        for each in ast.walk(tree)
    )


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _names(node: ast.expr) -> Iterator[str]:
    """The names of the variables and attributes that a target assigns."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
