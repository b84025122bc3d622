"""What tests around an expression say of it."""

from __future__ import annotations

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings

SCRIPT = """\
import collections, torch
from collections.abc import Mapping
from torch import nn
class Net(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.fc = nn.Linear(2, 2)
def move(held):
    {move}
    return held.to("cpu")
net = Net()
model = move(net)
batch = move(torch.zeros(2, 2))
torch.optim.SGD(model.parameters(), lr=0.1)
"""


def wrapped(move: str) -> list[int]:
    source = SCRIPT.format(move=move).encode()
    decisions = instrument_source(source, Settings(), source_name="a.py").decisions
    return [
        decision.line - source[: source.index(b"net =")].count(b"\n")
        for decision in decisions
        if decision.verdict == "wrap"
    ]


@pytest.mark.parametrize(
    "move",
    [
        "if isinstance(held, (tuple, list)): return type(held)(move(each) for each in held)",
        "if isinstance(held, Mapping): return type(held)({key: move(held[key]) for key in held})",
        "if isinstance(held, tuple) and hasattr(held, '_fields'): return type(held)(*map(move, held))",
        "if isinstance(held, dict):\n        for key in held:\n            return type(held)({key: move(held[key])})",
        "return type(held)(map(move, held)) if isinstance(held, collections.deque) else held",
    ],
)
def test_the_class_of_what_a_test_has_found_to_be_a_container_makes_no_module(move: str) -> None:
    assert wrapped(move) == [1]


@pytest.mark.parametrize(
    "move",
    [
        "if isinstance(held, nn.Module): return type(held)(held)",
        "if not isinstance(held, tuple): return type(held)(held)",
        "if isinstance(held, tuple) or True: return type(held)(held)",
        "if isinstance(held, tuple): pass\n    else: return type(held)(held)",
        "if isinstance(held, (tuple, nn.Module)): return type(held)(held)",
    ],
)
def test_that_of_anything_else_may_make_one(move: str) -> None:
    assert wrapped(move) != [1]
