"""Objects of the program's own classes that hold tensors go into a graph, through it and out of it."""

from __future__ import annotations

import collections
import dataclasses
import types
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy


class Box:
    """A record, which asks what it is given."""

    def __init__(self, first: torch.Tensor, rest: Any) -> None:
        assert isinstance(first, torch.Tensor)
        self.first, self.rest = first, rest


class Slots:
    __slots__ = ("first", "unset")

    def __init__(self, first: torch.Tensor) -> None:
        self.first = first


@dataclasses.dataclass(frozen=True)
class Frozen:
    first: torch.Tensor
    doubled: torch.Tensor = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", self.first * 2)


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def defaults(y: torch.Tensor) -> Any:
    found: collections.defaultdict[str, list[torch.Tensor]] = collections.defaultdict(list)
    found["y"].append(y)
    return found


RESULTS = {
    "object": lambda y: Box(y, [y * 2, {"pair": Pair(y, y + 1)}]),
    "slots": Slots,
    "frozen dataclass": Frozen,
    "namespace": lambda y: types.SimpleNamespace(y=y),
    "named tuple in a dictionary": lambda y: {"pair": Pair(y, y * 2), 3: y},
    "packed sequence": lambda y: nn.utils.rnn.pack_sequence([y[:2], y[:1]]),
    "ordered dictionary with numbers for keys": lambda y: collections.OrderedDict({0: y, (1, 2): y * 2}),
    "defaultdict": defaults,
    "UserDict": lambda y: collections.UserDict(y=y),
    "set": lambda y: {y},
    "sizes": lambda y: (y, y.shape, y.shape[0] * 2, {"shape": y.size()}),
    "deque": lambda y: collections.deque([y, y * 2], maxlen=3),
    "distribution": lambda y: torch.distributions.Normal(y, y.exp(), validate_args=False),
}


class Gives(nn.Module):
    def __init__(self, result: Any) -> None:
        super().__init__()
        self.fc, self.result = nn.Linear(3, 3), result

    def forward(self, x: torch.Tensor) -> Any:
        return self.result(self.fc(x))


@pytest.mark.parametrize("name", RESULTS)
def test_what_a_model_gives_comes_back_as_such(name: str) -> None:
    model = Gives(RESULTS[name])
    with Proxy.trace(model) as trace:
        model(torch.randn(2, 3))
    graph = trace.graph()
    for x in (torch.randn(2, 3), torch.randn(4, 3)):
        assert same(graph(x), model(x))
    assert trace.frozen == []


def test_what_changes_after_the_call_is_as_it_was() -> None:
    model = Gives(RESULTS["object"])
    with Proxy.trace(model) as trace:
        given = model(torch.randn(2, 3))
    given.first, given.rest = torch.zeros(1), None
    x = torch.randn(4, 3)
    assert same(trace.graph()(x), model(x))


class Adds(nn.Module):
    """Changes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, box: Box) -> Box:
        box.first = self.fc(box.first) + box.rest[0]
        return box


class Passes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Adds(), Adds()

    def forward(self, box: Box) -> Any:
        return self.second(self.first(box)).first.sin()


@pytest.mark.parametrize("leaf_modules", [False, [Adds]])
def test_what_a_model_is_given_is_an_input(leaf_modules: Any) -> None:
    model = Passes()
    with Proxy.trace(model) as trace:
        model(Box(torch.randn(2, 3), [torch.randn(3)]))
    graph = trace.graph(leaf_modules=leaf_modules)
    x, y = torch.randn(4, 3), torch.randn(3)
    assert torch.equal(graph(Box(x, [y])), model(Box(x, [y])))
    assert trace.frozen == []


def test_an_object_that_holds_itself_is_let_be() -> None:
    def holding_itself(y: torch.Tensor) -> Any:
        box = Box(y, None)
        box.rest = box
        return y, box

    model = Gives(holding_itself)
    with Proxy.trace(model) as trace:
        model(torch.randn(2, 3))
    x = torch.randn(4, 3)
    assert torch.equal(trace.graph()(x)[0], model(x)[0])


def same(one: Any, other: Any) -> bool:
    """Whether two values are of the same types, and hold the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list, set, collections.deque)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Slots):
        return same(one.first, other.first)
    return same(vars(one), vars(other)) if hasattr(one, "__dict__") else bool(one == other)
