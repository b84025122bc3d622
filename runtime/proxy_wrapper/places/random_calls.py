"""Finds in the code of a `forward` what draws random numbers whatever the mode of the module is.

Nothing is run, and a name is taken for what it says: `F.dropout`, `torch.rand`. So this tells which call has drawn the
numbers that a module is known to have drawn, not whether it draws any.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.places.assigned_lines import AssignedLine
from proxy_wrapper.places.called_functions import Body, reachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

    from proxy_wrapper.places.parsed_functions import ParsedFunctions

_DROPOUTS: Final = frozenset(
    {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"}
)
_FUNCTIONAL: Final = "torch.nn.functional"
_DROPOUT_MODULES: Final = "torch.nn.modules.dropout"
_UNIFORM: Final = frozenset({"rand", "rand_like", "uniform_"})
_BERNOULLI: Final = frozenset({"bernoulli", "bernoulli_"})
_OTHERS: Final = frozenset(
    {"randn", "randn_like", "randint", "randint_like", "randperm", "normal", "normal_", "multinomial", "rsample"}
    | {"sample", "exponential_", "random_", "log_normal_", "cauchy_", "geometric_", "poisson", "gumbel_softmax"}
    | {"rrelu", "fractional_max_pool2d", "multi_head_attention_forward"}
)
_ATTENTION: Final = "scaled_dot_product_attention"
_PLACE_OF_CHANCE: Final = 5
"""Of the arguments of `scaled_dot_product_attention`, that which says how much is dropped."""
_MODULES: Final = frozenset({"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"})
_PLACE_OF_TRAINING: Final = 3
_TRAINING: Final = "training"


class RandomCall(NamedTuple):
    """A call that drops values in evaluation mode: its line, and the name of the function."""

    at: AssignedLine
    function: str


class _Draws(NamedTuple):
    """The calls of one function that draw random numbers: those that drop values, and whether there are others."""

    dropouts: list[RandomCall]
    masks: list[RandomCall]
    has_others: bool


def always_dropping(
    forward: Body, functions: ParsedFunctions, is_followed: Callable[[CodeType], bool]
) -> RandomCall | None:
    """The only kind of call in a `forward` that draws random numbers, if that drops values whatever the mode is.

    It is a functional dropout that is told nothing of `training`, an attention with a chance that does not depend on
    it, a dropout module that is made anew in the call and so is in training mode, or a mask that is drawn, multiplied
    and divided by what is kept, as dropout is written by hand. None if anything else may draw numbers, or the mode is
    asked for.
    """
    dropouts: list[RandomCall] = []
    masks: list[RandomCall] = []
    for called in reachable(forward, is_followed):
        syntax = functions.find(called.body.code)
        if syntax is None:
            return None
        if _asks_for_mode(syntax):
            continue  # What it draws, it draws in training.
        draws = _draws_in(syntax, called.body, called.line or None, forward.code)
        if draws.has_others:
            return None
        dropouts += draws.dropouts
        masks += draws.masks
    if dropouts and masks:
        return None
    return next(iter(dropouts or masks), None)


def _draws_in(syntax: ast.FunctionDef, body: Body, line: int | None, forward: CodeType) -> _Draws:
    """The calls in one function that draw random numbers; `line` is the one of `forward` that leads there."""
    dropouts: list[RandomCall] = []
    masks: list[RandomCall] = []
    has_others = False
    for call in _calls(syntax):
        name = _last_name(call.func)
        at = AssignedLine(body.code, call.lineno)
        if name in _DROPOUTS and _module_of(call.func, body.names) == _FUNCTIONAL:
            if not _is_told(call):
                dropouts.append(RandomCall(at, name))
            has_others |= _is_told(call) and not _is_told_mode(call)
        elif name == _ATTENTION:
            chance = _chance_of_attention(call)
            if chance is not None and not _mentions_mode(chance):
                dropouts.append(RandomCall(at, name))
        elif name in _MODULES and _module_of(call.func, body.names) == _DROPOUT_MODULES:
            dropouts.append(RandomCall(at, name))
        elif name in _UNIFORM | _BERNOULLI and _is_dropout_by_hand(syntax):
            # The helper cannot know the mode: what is wrong is that it is called.
            masks.append(RandomCall(at if line is None else AssignedLine(forward, line), name))
        else:
            has_others |= name in _OTHERS | _UNIFORM | _BERNOULLI
    return _Draws(dropouts, masks, has_others)


def _calls(syntax: ast.FunctionDef) -> Iterator[ast.Call]:
    return (node for node in ast.walk(syntax) if isinstance(node, ast.Call))


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _module_of(function: ast.expr, names: dict[str, Any]) -> str:
    """The Python module that defines what is called, where that is a name, or one of a module; "" where it is not."""
    parts = ast.unparse(function).split(".")
    value = names.get(parts[0])
    for part in parts[1:]:
        # Only modules: to ask another object for an attribute may run its code.
        value = vars(value).get(part) if type(value) is type(ast) else None
    return str(getattr(value, "__module__", "")) if callable(value) else ""


def _chance_of_attention(call: ast.Call) -> ast.expr | None:
    """How much a call of `scaled_dot_product_attention` drops; None where it does not say, or says 0."""
    named = [each.value for each in call.keywords if each.arg == "dropout_p"]
    chance = next(iter(named or call.args[_PLACE_OF_CHANCE - 1 : _PLACE_OF_CHANCE]), None)
    return None if isinstance(chance, ast.Constant) and not chance.value else chance


def _is_told(call: ast.Call) -> bool:
    """Whether a call of a dropout says whether it is to drop, or may do so."""
    has_unpacked = any(isinstance(each, ast.Starred) for each in call.args)
    is_named = any(each.arg in (None, _TRAINING) for each in call.keywords)
    return has_unpacked or is_named or len(call.args) >= _PLACE_OF_TRAINING


def _is_told_mode(call: ast.Call) -> bool:
    """Whether it is told the mode of the module, as `training=self.training`, or not to drop at all."""
    values = [each.value for each in call.keywords if each.arg == _TRAINING]
    values += call.args[_PLACE_OF_TRAINING - 1 : _PLACE_OF_TRAINING]
    is_off = any(isinstance(each, ast.Constant) and each.value is False for each in values)
    return len(values) == 1 and (is_off or _mentions_mode(values[0]))


def _asks_for_mode(syntax: ast.FunctionDef) -> bool:
    """Whether a function does something else in training than in evaluation."""
    tests = (node.test for node in ast.walk(syntax) if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)))
    return any(_mentions_mode(test) for test in tests)


def _mentions_mode(expression: ast.expr) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr == _TRAINING)
        or (isinstance(node, ast.Name) and node.id == _TRAINING)
        for node in ast.walk(expression)
    )


def _is_dropout_by_hand(syntax: ast.FunctionDef) -> bool:
    """Whether a function multiplies by a mask that it draws, and divides by the part that is kept."""
    nodes = list(ast.walk(syntax))
    chances = {text for node in nodes for text in _chances(node)}
    is_scaled = any(_is_part_kept(divisor, chances) for node in nodes for divisor in _divisors(node))
    return is_scaled and any(isinstance(getattr(node, "op", None), ast.Mult) for node in nodes)


def _chances(node: ast.AST) -> list[str]:
    """What uniform random numbers are compared with, and what a mask is drawn with: the source of each expression."""
    if isinstance(node, ast.Compare):
        draws = any(isinstance(each, ast.Call) and _last_name(each.func) in _UNIFORM for each in ast.walk(node))
        return [ast.unparse(each) for each in (node.left, *node.comparators)] if draws else []
    if isinstance(node, ast.Call) and _last_name(node.func) in _BERNOULLI:
        return [ast.unparse(each) for each in node.args]
    return []


def _divisors(node: ast.AST) -> list[ast.expr]:
    """What something is divided by."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return [node.right]
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        return [node.value]
    if isinstance(node, ast.Call) and _last_name(node.func) in ("div", "div_"):
        return node.args[:1]
    return []


def _is_part_kept(divisor: ast.expr, chances: set[str]) -> bool:
    """Whether a divisor is one of some chances, or 1 less one."""
    is_rest = isinstance(divisor, ast.BinOp) and isinstance(divisor.op, ast.Sub)
    rest = ast.unparse(divisor.right) if isinstance(divisor, ast.BinOp) and is_rest else ""
    return ast.unparse(divisor) in chances or rest in chances
