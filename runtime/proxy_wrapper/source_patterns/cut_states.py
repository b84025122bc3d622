"""Finds loops over the steps of a sequence that cut the state of a recurrent cell off its graph at every step.

for t in range(len(x)):
    state = cell(x[t], state.detach())      # no gradient reaches the steps before
    loss = loss + criterion(head(state), y[t])
loss.backward()

Backpropagation that is truncated between parts of a sequence is right: there, each call computes several steps, or the
loop goes backward itself.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name, names_in, nodes_within
from proxy_wrapper.source_patterns.carried_states import names_of_state, names_stored
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

CUT: Final = "state-cut"

_CELLS: Final = frozenset({"RNNCell", "LSTMCell", "GRUCell"})
_OF_SEQUENCES: Final = frozenset({"RNN", "LSTM", "GRU"})
_TRAINING: Final = frozenset({"backward", "step", "grad"})
_UNTRACKED: Final = frozenset({"no_grad", "inference_mode", "set_grad_enabled", "eval"})
_CUTS: Final = frozenset({"detach", "data"})
_GATES: Final = frozenset({"tanh", "sigmoid", "relu"})
_HIDDEN: Final = re.compile(r"h|hx|hid|h_prev|h_t|ht|\w*hidden\w*|\w*state")


def cut_states(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines that cut a state at every step. `names` has the state, and `other` is the line of the loop."""
    if not any("detach" in scope.words or "detach_" in scope.words or "data" in scope.words for scope in scopes):
        return
    cells = _cells(scopes)
    training = {scope.name for scope in scopes if scope.name and not scope.words.isdisjoint(_TRAINING)}
    for scope in scopes:
        if not scope.words.isdisjoint(_UNTRACKED):
            continue
        for loop in scope.nodes:
            if isinstance(loop, ast.For) and _is_followed_by_gradient(loop, scope) and not _trains(loop, training):
                yield from _cut_in(loop, scope, cells)


def _cells(scopes: Sequence[Scope]) -> set[str]:
    """The names of what is assigned a recurrent cell, or an object of a class that computes a step."""
    words: dict[str, set[str]] = {}
    for scope in scopes:
        if scope.owner is not None:
            words.setdefault(scope.owner.name, set()).update(scope.words)
    own = {
        scope.owner.name
        for scope in scopes
        if scope.owner is not None
        and scope.name == "forward"
        and words[scope.owner.name].isdisjoint(_OF_SEQUENCES)
        and (words[scope.owner.name] & _CELLS or (scope.words & _GATES and _hidden_of(scope)))
        and not any(isinstance(node, (ast.For, ast.While)) for node in scope.nodes)
    }
    return {
        last_name(target)
        for scope in scopes
        for target, value in scope.assignments
        if any(isinstance(each, ast.Call) and last_name(each.func) in _CELLS | own for each in ast.walk(value))
    }


def _hidden_of(scope: Scope) -> bool:
    """Whether a `forward` has an argument that is called a hidden state."""
    arguments = scope.root.args.args if isinstance(scope.root, ast.FunctionDef) else []
    return any(_HIDDEN.fullmatch(each.arg) for each in arguments)


def _is_followed_by_gradient(loop: ast.For, scope: Scope) -> bool:
    """Whether what a loop computes is trained by a backward pass after it, or returned by a `forward`."""
    end = loop.end_lineno or loop.lineno
    if scope.name == "forward" and scope.owner is not None:
        return any(isinstance(node, ast.Return) and node.lineno > end for node in scope.nodes)
    return any(last_name(call.func) == "backward" and call.lineno > end for call in scope.calls)


def _trains(loop: ast.For, training: set[str]) -> bool:
    """Whether a loop goes backward itself, or calls a function of the file that may."""
    names = {last_name(node.func) for node in nodes_within(loop) if isinstance(node, ast.Call)}
    return not names.isdisjoint(_TRAINING | training)


def _cut_in(loop: ast.For, scope: Scope, cells: set[str]) -> Iterator[Pattern]:
    """The line of a loop that cuts all states that a step gets and returns, if all are cut in each pass."""
    element = names_stored(loop.target)
    for statement in loop.body:
        if not isinstance(statement, ast.Assign) or not names_in(statement.value) & element:
            continue
        stored = {name for target in statement.targets for name in names_stored(target)}
        states = stored & _states_in(statement.value, cells)
        is_made_before = all(any(line < loop.lineno for line in scope.stores(name)) for name in states)
        lines = [_line_of_cut(name, loop) for name in states]
        if lines and all(lines) and is_made_before:
            yield Pattern(CUT, max(lines), (", ".join(sorted(states)),), loop.lineno)


def _states_in(value: ast.expr, cells: set[str]) -> set[str]:
    """The variables that may be states of a step: arguments of a cell, or hidden states in a formula of gates."""
    if isinstance(value, ast.Call) and last_name(value.func) in cells - {""}:
        return {name for each in value.args for name in names_of_state(each)}
    calls = (each for each in ast.walk(value) if isinstance(each, ast.Call))
    is_formula = any(last_name(call.func) in _GATES for call in calls)
    return {name for name in names_in(value) if _HIDDEN.fullmatch(name)} if is_formula else set()


def _line_of_cut(name: str, loop: ast.For) -> int:
    """The line that cuts a state in each pass of a loop, outside of branches; 0 if none does."""
    for statement in loop.body:
        if isinstance(statement, ast.Assign):
            targets = {each for target in statement.targets for each in names_stored(target)}
            if name in targets and _cuts(statement.value, name):
                return statement.lineno
        elif isinstance(statement, ast.Expr) and ast.unparse(statement.value) == f"{name}.detach_()":
            return statement.lineno
    return 0


def _cuts(value: ast.expr, name: str) -> bool:
    """Whether an expression reads a variable, and only without its graph."""
    nodes = list(ast.walk(value))
    reads = sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
    cuts = sum(isinstance(node, ast.Attribute) and _is_cut(node, name) for node in nodes)
    for node in nodes:  # As in `tuple(each.detach() for each in state)`.
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)) and ast.unparse(node.generators[0].iter) == name:
            element = ast.unparse(node.generators[0].target)
            cuts += any(isinstance(each, ast.Attribute) and _is_cut(each, element) for each in ast.walk(node.elt))
    return 0 < reads == cuts


def _is_cut(node: ast.Attribute, name: str) -> bool:
    return node.attr in _CUTS and ast.unparse(node.value) == name
