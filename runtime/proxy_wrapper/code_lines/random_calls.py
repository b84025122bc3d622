"""Finds calls in a `forward` that draw random numbers regardless of the module's mode.

Nothing is run, and names are taken at face value: `F.dropout`, `torch.rand`. So this tells which call drew the numbers
of a module that is known to have drawn some, not whether a module draws any.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import Body, reachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

    from proxy_wrapper.program_code.parsed_functions import ParsedFunctions

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
_DROPOUT_P_COUNT: Final = 5
"""The number of arguments of `scaled_dot_product_attention` up to `dropout_p`."""
_MODULES: Final = frozenset({"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"})
_TRAINING_COUNT: Final = 3
_TRAINING: Final = "training"


class RandomCall(NamedTuple):
    """A call that drops values in evaluation mode: its line, and the function's name."""

    at: AssignedLine
    function: str


class _Draws(NamedTuple):
    """The calls of a function that draw random numbers: functional dropouts, masks, and whether there are others."""

    dropouts: list[RandomCall]
    masks: list[RandomCall]
    has_others: bool


def always_dropping(
    forward: Body, functions: ParsedFunctions, is_followed: Callable[[CodeType], bool]
) -> RandomCall | None:
    """The first call in a `forward` that drops values in any mode, if all random calls are of that kind; else None.

    The kinds: functional dropout without `training`; attention with a dropout probability independent of it; a dropout
    module created in the call, which is thus in training mode; and dropout written by hand, where a drawn mask is
    multiplied and the result divided by the kept fraction. None if anything else may draw numbers, or the mode is
    checked.
    """
    dropouts: list[RandomCall] = []
    masks: list[RandomCall] = []
    for called in reachable(forward, is_followed):
        syntax = functions.find(called.body.code)
        if syntax is None:
            return None
        if _depends_on_mode(syntax):
            continue  # It draws numbers only in training.
        draws = _draws_in(syntax, called.body, called.line or None, forward.code)
        if draws.has_others:
            return None
        dropouts += draws.dropouts
        masks += draws.masks
    if dropouts and masks:
        return None
    return next(iter(dropouts or masks), None)


def _draws_in(syntax: ast.FunctionDef, body: Body, line: int | None, forward: CodeType) -> _Draws:
    """The calls in one function that draw random numbers; `line` is the line of `forward` that leads to it."""
    dropouts: list[RandomCall] = []
    masks: list[RandomCall] = []
    has_others = False
    for call in _calls(syntax):
        name = _last_name(call.func)
        at = AssignedLine(body.code, call.lineno)
        if name in _DROPOUTS and _module_of(call.func, body.names) == _FUNCTIONAL:
            if not _passes_training(call):
                dropouts.append(RandomCall(at, name))
            has_others |= _passes_training(call) and not _passes_mode(call)
        elif name == _ATTENTION:
            probability = _attention_dropout(call)
            if probability is not None and not _mentions_mode(probability):
                dropouts.append(RandomCall(at, name))
        elif name in _MODULES and _module_of(call.func, body.names) == _DROPOUT_MODULES:
            dropouts.append(RandomCall(at, name))
        elif name in _UNIFORM | _BERNOULLI and _is_dropout_by_hand(syntax):
            # A helper cannot know the mode; calling it is the mistake.
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
    """The Python module that defines the callee, if that is a global name or an attribute of modules; else ""."""
    parts = ast.unparse(function).split(".")
    value = names.get(parts[0])
    for part in parts[1:]:
        # Only modules, because reading an attribute of another object may run its code.
        value = vars(value).get(part) if type(value) is type(ast) else None
    return str(getattr(value, "__module__", "")) if callable(value) else ""


def _attention_dropout(call: ast.Call) -> ast.expr | None:
    """The dropout probability of a `scaled_dot_product_attention` call; None if it is absent or 0."""
    named = [each.value for each in call.keywords if each.arg == "dropout_p"]
    probability = next(iter(named or call.args[_DROPOUT_P_COUNT - 1 : _DROPOUT_P_COUNT]), None)
    return None if isinstance(probability, ast.Constant) and not probability.value else probability


def _passes_training(call: ast.Call) -> bool:
    """Whether a dropout call passes `training`, or may do so."""
    has_unpacked = any(isinstance(each, ast.Starred) for each in call.args)
    is_named = any(each.arg in (None, _TRAINING) for each in call.keywords)
    return has_unpacked or is_named or len(call.args) >= _TRAINING_COUNT


def _passes_mode(call: ast.Call) -> bool:
    """Whether it passes the module's mode, as in `training=self.training`, or False."""
    values = [each.value for each in call.keywords if each.arg == _TRAINING]
    values += call.args[_TRAINING_COUNT - 1 : _TRAINING_COUNT]
    is_off = any(isinstance(each, ast.Constant) and each.value is False for each in values)
    return len(values) == 1 and (is_off or _mentions_mode(values[0]))


def _depends_on_mode(syntax: ast.FunctionDef) -> bool:
    """Whether a function's control flow depends on the mode."""
    tests = (node.test for node in ast.walk(syntax) if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)))
    return any(_mentions_mode(test) for test in tests)


def _mentions_mode(expression: ast.expr) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr == _TRAINING)
        or (isinstance(node, ast.Name) and node.id == _TRAINING)
        for node in ast.walk(expression)
    )


def _is_dropout_by_hand(syntax: ast.FunctionDef) -> bool:
    """Whether a function multiplies by a mask that it draws, and divides by the kept fraction."""
    nodes = list(ast.walk(syntax))
    probabilities = {text for node in nodes for text in _probabilities(node)}
    is_scaled = any(_is_kept_fraction(divisor, probabilities) for node in nodes for divisor in _divisors(node))
    return is_scaled and any(isinstance(getattr(node, "op", None), ast.Mult) for node in nodes)


def _probabilities(node: ast.AST) -> list[str]:
    """The thresholds of uniform random numbers and the probabilities of drawn masks, as source text."""
    if isinstance(node, ast.Compare):
        draws = any(isinstance(each, ast.Call) and _last_name(each.func) in _UNIFORM for each in ast.walk(node))
        return [ast.unparse(each) for each in (node.left, *node.comparators)] if draws else []
    if isinstance(node, ast.Call) and _last_name(node.func) in _BERNOULLI:
        return [ast.unparse(each) for each in node.args]
    return []


def _divisors(node: ast.AST) -> list[ast.expr]:
    """The divisors in a node."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return [node.right]
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        return [node.value]
    if isinstance(node, ast.Call) and _last_name(node.func) in ("div", "div_"):
        return node.args[:1]
    return []


def _is_kept_fraction(divisor: ast.expr, probabilities: set[str]) -> bool:
    """Whether a divisor is one of the probabilities, or a difference that subtracts one."""
    is_rest = isinstance(divisor, ast.BinOp) and isinstance(divisor.op, ast.Sub)
    rest = ast.unparse(divisor.right) if isinstance(divisor, ast.BinOp) and is_rest else ""
    return ast.unparse(divisor) in probabilities or rest in probabilities
