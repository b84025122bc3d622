"""The line is found that gives a module a second name, or stores its weights without a copy."""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from torch import nn

from proxy_wrapper.code_lines.own_weights import OwnWeights, explain_own_weights
from proxy_wrapper.program_code.called_functions import Body

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


def syntax_of(code: CodeType) -> Any:
    tree = ast.parse(textwrap.dedent(inspect.getsource(sys.modules[__name__])))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return next((node for node in functions if node.lineno == code.co_firstlineno), None)


class Net(nn.Linear):
    """Its `load_state_dict` notes what explains it."""

    found: OwnWeights

    def load_state_dict(self, *_: Any, **__: Any) -> Any:
        frame = sys._getframe(1)
        bodies = [Body(frame.f_code, frame.f_globals), Body(Agent.__init__.__code__, {})]
        Net.found = explain_own_weights(frame, self, bodies, syntax_of)


class Agent:
    """Its two networks are one."""

    def __init__(self) -> None:
        self.online = self.target = Net(1, 1)

    def sync(self) -> None:
        self.target.load_state_dict(self.online.state_dict())


def renamed() -> None:
    net = Net(1, 1)
    target = net
    target.load_state_dict(net.state_dict())


def renamed_by_a_method() -> None:
    model = Net(1, 1)
    net = model.train()
    target = model.to("cpu").eval()
    target.load_state_dict(net.state_dict())


def renamed_perhaps(*, is_copied: bool = False) -> None:
    net = Net(1, 1)
    target = copy.deepcopy(net) if is_copied else net
    target.load_state_dict(net.state_dict())


def stored() -> None:
    net = Net(1, 1)
    best = {"epoch": 1, "net": net.state_dict()}
    net.load_state_dict(best["net"])


def stored_twice() -> None:
    net = Net(1, 1)
    first = net.state_dict()
    best = net.state_dict()
    net.load_state_dict(best or first)


def stored_as_copies() -> None:
    net = Net(1, 1)
    best = copy.deepcopy(net.state_dict())
    other = {name: value.clone() for name, value in net.state_dict().items()}
    net.load_state_dict(best or other)


@pytest.mark.parametrize(
    ("function", "line", "names"),
    [(renamed, 2, ("target", "net")), (renamed_by_a_method, 3, ("target", "net")), (stored, 2, ())],
)
def test_the_line_is_found(function: Callable[[], None], line: int, names: tuple[str, ...]) -> None:
    function()
    assert Net.found.at is not None
    assert (Net.found.at.line - function.__code__.co_firstlineno, Net.found.names) == (line, names)


def test_one_value_with_two_names_is_found() -> None:
    Agent().sync()
    assert Net.found.names == ("self.target", "self.online")
    assert Net.found.at is not None
    assert Net.found.at.code is Agent.__init__.__code__


@pytest.mark.parametrize("function", [renamed_perhaps, stored_twice, stored_as_copies])
def test_other_lines_are_not(function: Callable[[], None]) -> None:
    function()
    assert Net.found == OwnWeights(None)
