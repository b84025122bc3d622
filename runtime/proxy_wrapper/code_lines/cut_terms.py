"""Finds a term of a loss that was cut off its graph, as in `loss = error + 0.1 * divergence.item()`.

A term is also cut off where it only uses the largest of some scores, or compares them, as in `dice(out.argmax(1), y)`.
Such a term changes the value of the loss, but trains nothing. The autograd graph tells which terms of a sum have no
gradient, and the source how they were computed: the two are followed together, from the line that starts the backward
pass to the sums, into the functions that compute them.
"""

from __future__ import annotations

import ast
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import nn

from proxy_wrapper.loss_graph.nodes import COPIED, DIFFERENCE, SCALED, SUMS, inputs_of, only_node_before
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import Body, called_by
from proxy_wrapper.program_code.computed_lines import called_body
from proxy_wrapper.program_code.frame_variables import values_of
from proxy_wrapper.program_code.outermost_calls import UNKNOWN, value_of
from proxy_wrapper.program_code.syntax import last_name, names_in, nodes_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import CodeType, FrameType

_MOST_STEPS: Final = 64
_NEGATED: Final = "NegBackward0"
_NUMBERS: Final = frozenset({"item", "tolist", "numpy"})
_NEW: Final = frozenset({"tensor", "as_tensor", "FloatTensor", "from_numpy"})
_CHOICES: Final = frozenset({"argmax", "argmin", "argsort", "gt", "ge", "lt", "le", "long", "int", "bool"})
"""Functions whose result has no gradient, although that of their argument may have one."""
_UNTRACKED: Final = frozenset({"no_grad", "inference_mode", "set_grad_enabled"})
_WITHOUT_GRADIENT: Final = (
    *(torch.Tensor, nn.Module, int, float, str, list, tuple, dict, ModuleType, type),
    *(FunctionType, BuiltinFunctionType),
)


class _Value(NamedTuple):
    """An expression, with the function that it is in, and that function's syntax.

    Attributes:
        expr: the expression.
        body: its function.
        syntax: the syntax of that function.
        nodes: its nodes.
        arguments: the arguments of the call of that function, by the names of its parameters, as far as known.
    """

    expr: ast.expr
    body: Body
    syntax: ast.FunctionDef | ast.Module
    nodes: Sequence[ast.AST]
    arguments: Mapping[str, _Value]

    def part(self, expr: ast.expr) -> _Value:
        return self._replace(expr=expr)


def cut_term(
    frame: FrameType,
    root: Any,
    syntax_of: Callable[[CodeType], ast.FunctionDef | ast.Module | None],
    is_followed: Callable[[CodeType], bool],
) -> AssignedLine | None:
    """The line that cuts a term of a loss off its graph; None if there is none, or if this is uncertain.

    Args:
        frame: the function that starts the backward pass, at that line.
        root: the node that computed the loss.
        syntax_of: finds the syntax of a function.
        is_followed: whether a function is the program's.
    """
    syntax = syntax_of(frame.f_code)
    if syntax is None:
        return None
    body = Body(frame.f_code, frame.f_globals, values_of(frame))
    nodes = nodes_within(syntax)
    for node in nodes:
        if isinstance(node, ast.Call) and node.lineno <= frame.f_lineno <= (node.end_lineno or 0):
            loss, is_scaled = _differentiated(node)
            if loss is not None:
                start = only_node_before(root) if is_scaled else root
                value = _Value(loss, body, syntax, nodes, {})
                return None if start is None else _Search(syntax_of, is_followed).in_sum(value, start)
    return None


def _differentiated(call: ast.Call) -> tuple[ast.expr | None, bool]:
    """The expression whose gradients a call of `backward` computes, if it is one; whether a scaler scales it."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        return None, False
    loss = call.args[0] if call.args else call.func.value  # As in `accelerator.backward(loss)`.
    is_scaled = isinstance(loss, ast.Call) and last_name(loss.func) == "scale" and len(loss.args) == 1
    return (loss.args[0], True) if isinstance(loss, ast.Call) and is_scaled else (loss, False)


class _Search:
    def __init__(
        self,
        syntax_of: Callable[[CodeType], ast.FunctionDef | ast.Module | None],
        is_followed: Callable[[CodeType], bool],
    ) -> None:
        self._syntax_of = syntax_of
        self._is_followed = is_followed
        self._steps = 0

    def in_sum(self, value: _Value | None, node: Any) -> AssignedLine | None:
        """The line that cuts off a term of a sum, which an expression and a node of the graph compute."""
        while value is not None and self._steps < _MOST_STEPS:
            self._steps += 1
            expr, name = value.expr, node.name()
            if isinstance(expr, ast.BinOp) and isinstance(expr.op, (ast.Add, ast.Sub)):
                return self._in_terms(value, expr, node) if name in SUMS or name == DIFFERENCE else None
            is_alone = len(inputs_of(node)) == 1
            if isinstance(expr, ast.BinOp) and isinstance(expr.op, (ast.Mult, ast.Div)):
                factor = _only_factor(value)
                if name not in SCALED or not is_alone or factor is None:
                    return None
                value, node = factor, only_node_before(node)
            elif isinstance(expr, ast.UnaryOp) and name == _NEGATED:
                value, node = value.part(expr.operand), only_node_before(node)
            elif name in COPIED and is_alone:
                node = only_node_before(node)
            else:
                value = self._source(value)
        return None

    def _in_terms(self, value: _Value, expr: ast.BinOp, node: Any) -> AssignedLine | None:
        terms = [expr.left, expr.right]
        if isinstance(expr.op, ast.Add) and _is_number(expr.left):
            terms.reverse()  # A number plus a tensor is computed as the tensor plus the number.
        for term, (before, _) in zip(terms, node.next_functions, strict=False):
            part = value.part(term)
            found = (self._cut(part) or self._choice(part)) if before is None else self.in_sum(part, before)
            if found is not None:
                return found
        return None

    def _cut(self, value: _Value | None) -> AssignedLine | None:
        """The line that cuts a value without a gradient off the graph."""
        while value is not None and self._steps < _MOST_STEPS:
            self._steps += 1
            if any(_is_open(each) for each in ast.walk(value.expr)):
                return None
            cut = next((cut for factor in _factors(value.expr) for cut in _cuts_in(factor)), None)
            if cut is not None:
                is_needless = self._has_gradient(value.part(cut)) is False
                return None if is_needless else AssignedLine(value.body.code, cut.lineno)
            factor = _only_factor(value)
            value = None if factor is None else self._source(factor, is_only=True)
        return None

    def _choice(self, value: _Value) -> AssignedLine | None:
        """The line where a value without a gradient picks the largest of scores with one, or compares such scores."""
        pending = [value]
        seen: set[tuple[int, str]] = set()
        found: AssignedLine | None = None
        for each in pending:
            key = (id(each.syntax), ast.unparse(each.expr))
            if key in seen or len(seen) > _MOST_STEPS:
                continue
            seen.add(key)
            parts = list(ast.walk(each.expr))
            if any(map(_is_open, parts)) or any(_is_untracked(node) for node in each.nodes):
                return None
            if found is None:
                chosen = (
                    node for node in _choices_in(each.expr) if self._has_gradient(each.part(node), is_tensor=True)
                )
                found = next((AssignedLine(each.body.code, node.lineno) for node in chosen), None)
            sources = [each.arguments.get(name) or _assigned(each, name) for name in names_in(each.expr)]
            sources += [self._returned(each, node) for node in parts if isinstance(node, ast.Call)]
            pending += [source for source in sources if source is not None]
        return found

    def _has_gradient(self, value: _Value, *, is_tensor: bool = False) -> bool | None:
        """Whether an expression uses a tensor with a gradient; None if the values are unknown.

        With `is_tensor`, a module or a list with such tensors does not count.
        """
        pending = [value]
        seen: set[tuple[int, str]] = set()
        is_known = True
        for each in pending:
            for name in names_in(each.expr):
                key = (id(each.syntax), name)
                if key in seen or len(seen) > _MOST_STEPS:
                    continue
                seen.add(key)
                found = value_of((name,), each.body)
                if _is_trained(found) and (not is_tensor or issubclass(type(found), torch.Tensor)):
                    return True
                sources = [each.arguments.get(name) or _assigned(each, name), *_appended(each, name)]
                known = [source for source in sources if source is not None]
                if issubclass(type(found), torch.Tensor):  # It has no gradient: follow it only where it lost it.
                    known = [source for source in known if any(_cuts_in(source.expr))]
                pending += known
                is_known &= bool(known) or _is_known(found)
        return False if is_known else None

    def _source(self, value: _Value, *, is_only: bool = False) -> _Value | None:
        """The expression that computed a variable, or what a function of the program returns; None if uncertain.

        With `is_only`, the variable must have no other assignment.
        """
        expr = value.expr
        if isinstance(expr, ast.Name):
            return value.arguments.get(expr.id) or _assigned(value, expr.id, is_only=is_only)
        if isinstance(expr, ast.Subscript) and isinstance(expr.value, ast.Call):  # An item of the result.
            index = expr.slice.value if isinstance(expr.slice, ast.Constant) else None
            returned = self._returned(value.part(expr.value), expr.value)
            return None if returned is None or not isinstance(index, int) else _item(returned, index)
        return self._returned(value, expr) if isinstance(expr, ast.Call) else None

    def _returned(self, value: _Value, call: ast.Call) -> _Value | None:
        body = self._called(value.body, call)
        syntax = None if body is None else self._syntax_of(body.code)
        if body is None or not isinstance(syntax, ast.FunctionDef):
            return None
        nodes = nodes_within(syntax)
        returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value]
        names = [each.arg for each in syntax.args.args][isinstance(call.func, ast.Attribute) or _is_method(syntax) :]
        arguments = {name: value.part(each) for name, each in zip(names, call.args, strict=False)}
        arguments |= {each.arg: value.part(each.value) for each in call.keywords if each.arg is not None}
        return _Value(returned[0], body, syntax, nodes, arguments) if len(returned) == 1 else None

    def _called(self, body: Body, call: ast.Call) -> Body | None:
        """The function of the program that a call calls; None if uncertain."""
        path = _path(call.func)
        if not path:
            return None
        value = value_of(path, body)
        if value is not UNKNOWN:
            found = called_body(value, path, body)
            return found if found is not None and self._is_followed(found.code) else None
        if path[1:] and path[0] != "self":
            return None
        named = {
            id(each.body.code): each.body
            for each in called_by(body)
            if each.body.code.co_name == last_name(call.func) and self._is_followed(each.body.code)
        }
        return next(iter(named.values())) if len(named) == 1 else None


def _assigned(value: _Value, name: str, *, is_only: bool = False) -> _Value | None:
    """The last expression that is assigned to a variable above the line of another one; the only one, if wanted."""
    found: list[_Value | None] = []
    for node in value.nodes:
        if not isinstance(node, (ast.Assign, ast.AugAssign)) or node.lineno >= value.expr.lineno:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == name:
                found.append(value.part(node.value if isinstance(node, ast.Assign) else _sum(node)))
            elif isinstance(target, ast.Tuple):
                names = [each.id if isinstance(each, ast.Name) else "" for each in target.elts]
                if name in names:
                    found.append(_item(value.part(node.value), names.index(name)))
    return found[-1] if len(found) == 1 or (found and not is_only) else None


def _appended(value: _Value, name: str) -> Iterator[_Value]:
    """The expressions that are appended to a list."""
    for node in value.nodes:
        if isinstance(node, ast.Call) and _path(node.func) == (name, ".append") and node.args:
            yield value.part(node.args[0])


def _is_trained(value: Any) -> bool:
    """Whether a value is a tensor with a gradient, a module with such parameters, or a list of these."""
    kind = type(value)
    if kind in (list, tuple):
        return any(map(_is_trained, value[:_MOST_STEPS]))
    if issubclass(kind, nn.Module):
        return any(each.requires_grad for each in nn.Module.parameters(value))
    return issubclass(kind, torch.Tensor) and value.requires_grad


def _is_known(value: Any) -> bool:
    """Whether a value shows by itself that it has no gradient."""
    return issubclass(type(value), _WITHOUT_GRADIENT)


def _sum(node: ast.AugAssign) -> ast.expr:
    left = ast.Name(ast.unparse(node.target), ast.Load())
    return ast.fix_missing_locations(ast.copy_location(ast.BinOp(left, node.op, node.value), node))


def _item(value: _Value, index: int) -> _Value | None:
    """An item of a tuple that an expression makes, or that a function returns: `f(x)[1]`."""
    if isinstance(value.expr, ast.Tuple):
        return value.part(value.expr.elts[index]) if index < len(value.expr.elts) else None
    item = ast.Subscript(value.expr, ast.Constant(index), ast.Load())
    return value.part(ast.fix_missing_locations(ast.copy_location(item, value.expr)))


def _factors(expr: ast.expr) -> list[ast.expr]:
    """The factors of a product, and what it is divided by; other expressions are their own only factor."""
    if isinstance(expr, ast.UnaryOp):
        return _factors(expr.operand)
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, (ast.Mult, ast.Div)):
        return [*_factors(expr.left), *_factors(expr.right)]
    return [expr]


def _only_factor(value: _Value) -> _Value | None:
    """The only factor of a product that is no number, as far as known; None if there are several."""
    factors = [each for each in _factors(value.expr) if not _is_plain(value.part(each))]
    return value.part(factors[0]) if len(factors) == 1 else None


def _is_plain(value: _Value) -> bool:
    """Whether an expression is a number, such as a setting of the program."""
    expr = value.expr
    if not isinstance(expr, ast.Name):
        return isinstance(expr, (ast.Constant, ast.Attribute))
    if type(value_of((expr.id,), value.body)) in (int, float):
        return True
    if expr.id in value.arguments:
        return _is_plain(value.arguments[expr.id])
    arguments = value.syntax.args if isinstance(value.syntax, ast.FunctionDef) else None
    return arguments is not None and any(each.arg == expr.id for each in (*arguments.args, *arguments.kwonlyargs))


def _cuts_in(expr: ast.expr) -> Iterator[ast.expr]:
    """The parts of an expression that cut a tensor off its graph, not counting indices."""
    for node in _without_indices(expr):
        is_data = isinstance(node, ast.Attribute) and node.attr == "data"
        if is_data or (isinstance(node, ast.Call) and (_is_number(node) or _is_new(node))):
            yield node  # type: ignore[misc]  # Both are expressions.


def _without_indices(expr: ast.expr) -> Iterator[ast.AST]:
    """The parts of an expression, except indices."""
    pending: list[ast.AST] = [expr]
    for node in pending:
        pending += [node.value] if isinstance(node, ast.Subscript) else ast.iter_child_nodes(node)
        yield node


def _is_open(node: ast.AST) -> bool:
    """Whether a part of an expression detaches a tensor on purpose, or decides what is computed."""
    return isinstance(node, ast.IfExp) or (isinstance(node, ast.Attribute) and node.attr == "detach")


def _is_untracked(node: ast.AST) -> bool:
    """Whether a part of a function turns gradients off."""
    return isinstance(node, (ast.Name, ast.Attribute)) and last_name(node) in _UNTRACKED


def _choices_in(expr: ast.expr) -> Iterator[ast.expr]:
    """The parts of an expression that compare values, or give their order or the largest, not counting indices."""
    for node in _without_indices(expr):
        is_compared = isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))
        if is_compared or (isinstance(node, ast.Call) and last_name(node.func) in _CHOICES):
            yield node  # type: ignore[misc]  # Both are expressions.


def _is_number(expr: ast.expr) -> bool:
    """Whether an expression is a number that a method of a tensor returns, at most times constants."""
    factors = [each for each in _factors(expr) if not isinstance(each, ast.Constant)]
    return bool(factors) and all(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _NUMBERS
        for each in factors
    )


def _is_new(call: ast.Call) -> bool:
    """Whether a call copies the values of variables into a new tensor."""
    return (
        last_name(call.func) in _NEW and bool(call.args) and not _path(call.func)[2:] and bool(names_in(call.args[0]))
    )


def _is_method(syntax: ast.FunctionDef) -> bool:
    return bool(syntax.args.args) and syntax.args.args[0].arg == "self"


def _path(function: ast.expr) -> tuple[str, ...]:
    """The path of a function, such as ("self", ".loss"); () if it is no variable or attribute."""
    if isinstance(function, ast.Name):
        return (function.id,)
    if isinstance(function, ast.Attribute) and (before := _path(function.value)):
        return (*before, f".{function.attr}")
    return ()
