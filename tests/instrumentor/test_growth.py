"""The work grows with the script, not with its square, or with what lies in what."""

from __future__ import annotations

import sys
from textwrap import indent
from typing import TYPE_CHECKING

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = "import sys\nfrom torch import nn\n"


def factory(size: int) -> str:
    """A function that makes one of many models."""
    returns = "".join(f"    if x == {i}:\n        return nn.Linear({i}, 1)\n" for i in range(size))
    return f"def make(x):\n{returns}model = make(1)\n"


def chain(size: int) -> str:
    """A chain of many calls."""
    return f"made = open('x'){'.a()' * size}\nmodel = nn.Linear(1, 1)\n"


def final_blocks(size: int) -> str:
    """A loop that each of several final blocks, one in the other, may leave."""
    body = "model = nn.Linear(1, 1)\n"
    for _ in range(size):
        tried = "net = nn.Linear(1, 1)\nif i:\n    break\nif i + 1:\n    continue\n"
        body = f"try:\n{indent(tried, '    ')}finally:\n{indent(body, '    ')}"
    return f"for i in range(2):\n{indent(body, '    ')}"


def work(script: str) -> int:
    """How many functions of Python run to decide about a script."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    outer = sys.getprofile()
    sys.setprofile(note)
    try:
        instrument_source((HEAD + script).encode(), Settings(), source_name="x.py")
    finally:
        sys.setprofile(outer)
    return count


@pytest.mark.parametrize(
    ("write", "size"),
    [
        pytest.param(factory, 120, id="a function that makes one of many models"),
        pytest.param(chain, 300, id="a chain of many calls"),
        pytest.param(final_blocks, 4, id="final blocks one in the other"),
    ],
)
def test_twice_as_much_takes_less_than_three_times_as_long(write: Callable[[int], str], size: int) -> None:
    work(write(1))  # what is looked up once for all scripts
    assert work(write(2 * size)) < 3 * work(write(size))
