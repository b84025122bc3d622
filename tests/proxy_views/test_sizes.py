"""A size is an int to everything, and stays in the graph where it can."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from tests.proxy_views.same_results import assert_replays, traced


class Asks(nn.Module):
    """Does with the size of its input what it is told, and keeps what comes of it."""

    def __init__(self, question: Any) -> None:
        super().__init__()
        self.question = question
        self.answer: Any = None

    def forward(self, x: torch.Tensor) -> Any:
        self.answer = self.question(x.shape[0], x)
        return x + 1


QUESTIONS = {
    "isinstance": lambda n, x: isinstance(n, int),
    "equal": lambda n, x: (n == 4, operator.eq(4, n), n != 4, n < 5, n in (4,), {4: "a"}[n], hash(n) == hash(4)),
    "json": lambda n, x: json.dumps({"n": n, "all": list(x.shape)}),
    "format": lambda n, x: ("%d" % n, f"{n:03d}", f"{n}", repr(n), str(x.shape)),  # noqa: UP031
    "pickle": lambda n, x: pickle.loads(pickle.dumps(n)) + 1,
    "copy": lambda n, x: (copy.copy(n), copy.deepcopy([n])),
    "range": lambda n, x: list(range(n)) + list(range(0, n, 2)),
    "list": lambda n, x: [0] * n + [1, 2, 3, 4, 5][:n],
    "arithmetic": lambda n, x: (
        n + 1,
        1 + n,
        n - 1,
        9 - n,
        n * 2,
        n // 3,
        n % 3,
        -n,
        abs(-n),
        n**2,
        divmod(n, 3),
        n / 2,
        n * 0.5,
    ),
    "bits": lambda n, x: (n << 1, n & 6, n | 1, n ^ 1, n.bit_length()),
    "math": lambda n, x: (
        math.sqrt(n),
        math.prod(x.shape),
        math.gcd(n, 6),
        round(n / 3),
        max(n, 2),
        min(n, 9),
        sum([n, n]),
    ),
    "conversions": lambda n, x: (int(n), float(n), bool(n), complex(n), bytes(n)),
    "unpacking": lambda n, x: [*x.shape, *x.size(), x.size(-1), x.numel(), len(x), x.dim(), x.shape.numel()],
    "sizes": lambda n, x: (x.shape[:-1] + (7,), x.shape == (4, 3), torch.Size([n, 3]) == x.shape, tuple(x.shape)),  # noqa: RUF005
    "torch": lambda n, x: [torch.zeros(n, 2).shape, x.view(n, -1).shape, x.new_ones(x.shape).sum().item()],
    "numpy": lambda n, x: __import__("numpy").zeros((n, 2)).shape,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_it_answers_as_an_int(name: str) -> None:
    plain, asked = Asks(QUESTIONS[name]), Asks(QUESTIONS[name])
    x = torch.randn(4, 3)
    plain(x)
    with Proxy.trace(asked) as trace:
        asked(x)
    assert asked.answer == plain.answer
    assert repr(asked.answer) == repr(plain.answer)
    trace.graph()


def test_behind_the_block_it_is_an_int_that_does_no_more() -> None:
    model = Asks(lambda n, x: n)
    with Proxy.trace(model) as trace:
        model(torch.randn(4, 3))
    size = model.answer
    assert type(size + 1) is int
    assert (size < 5) is True
    assert trace.frozen == []


@pytest.mark.parametrize(("live_sizes", "is_int"), [(True, False), (False, True)])
def test_a_program_can_ask_for_plain_ints(live_sizes: bool, is_int: bool) -> None:
    model = Asks(lambda n, x: type(n) is int)
    with Proxy.trace(model, live_sizes=live_sizes) as trace:
        model(torch.randn(4, 3))
    assert model.answer is is_int
    trace.graph()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_torchscript_takes_it() -> None:
    scripted = torch.jit.script(_repeat)
    model = Asks(lambda n, x: scripted(x, n).shape)
    with Proxy.trace(model):
        model(torch.randn(4, 3))
    assert model.answer == (16, 3)


def _repeat(x: torch.Tensor, n: int) -> torch.Tensor:
    return x.repeat(n, 1)


def test_arithmetic_stays_in_the_graph_and_comparisons_are_frozen() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            half = x.shape[1] // 2
            if x.shape[0] > 1:
                x = x * (x.shape[0] - 1)
            return x[:, half:] + half

    model = Net()
    trace = traced(model, torch.randn(3, 4))
    assert_replays(trace, model, torch.randn(5, 10))
    (found,) = trace.frozen
    assert (found.kind, found.what, found.value) == ("size", "3 > 1", True)
    assert found.place is not None
    assert found.place.file.endswith("test_sizes.py")
    assert "test_sizes.py" in str(found)
    assert "3 > 1 gave True" in str(found)


def test_a_loop_over_a_size_is_unrolled() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            for _ in range(x.shape[0]):
                x = x * 2
            return x

    trace = traced(Net(), torch.randn(3, 2))
    assert [node.name for node in trace.graph().graph.nodes if node.op.startswith("call")] == ["mul", "mul_1", "mul_2"]


def test_a_size_that_became_a_fraction_is_frozen() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x / x.shape[-1] ** 0.5 + x.shape[0] / 2

    trace = traced(Net(), torch.randn(3, 4))
    assert [(each.what, each.value) for each in trace.frozen] == [("4 ** 0.5", 2.0), ("3 / 2", 1.5)]
