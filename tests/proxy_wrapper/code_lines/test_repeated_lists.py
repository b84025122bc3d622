"""A list that multiplies one new object is told from lists of several objects, and of an object that was there."""

from __future__ import annotations

from types import CodeType
from typing import Any

import pytest

from proxy_wrapper.code_lines.repeated_lists import repeated_line, repeats_new_object


def code_of(body: str) -> CodeType:
    """The code of an `__init__` with this body."""
    names: dict[str, Any] = {}
    exec(f"def __init__(self, count, Block, List):\n{body}", names)
    code = names["__init__"].__code__
    assert isinstance(code, CodeType)
    return code


@pytest.mark.parametrize(
    "body",
    [
        " self.blocks = List([Block()] * 4)",
        " self.blocks = List([Block(1, size=2)] * count)",
        " self.blocks = List(*[Block()] * self.count)",
        " self.blocks = List(count * [Block()])",
        " self.blocks = List([Block()] * (count - 1))",
        " self.blocks = List([Block()] * len(count))",
        " self.blocks = List([Block(), Block()] * count)",
        " self.blocks = List(\n  [Block(1)]\n  * (count)\n )",
        " blocks = [Block()] * count\n self.blocks = List(blocks)",
        " self.other = 1\n self.blocks = [Block(*count, **Block)] * 3",
    ],
)
def test_a_list_that_multiplies_a_new_object(body: str) -> None:
    assert repeats_new_object(code_of(body), "blocks")


@pytest.mark.parametrize(
    "body",
    [
        " self.blocks = List([Block() for _ in range(count)])",
        " block = Block()\n self.blocks = List([block] * count)",
        " self.blocks = List([Block(), Block()])",
        " self.blocks = List([Block(count * 2)])",
        " self.blocks = List([2] * count)",
        " self.sizes = [Block()] * count\n self.blocks = List([Block() for _ in range(2)])",
        " self.blocks = Block() * count",
        " self.blocks = List([Block()] + [2] * count)",
        " sizes = [Block()] * count\n sizes = [1]\n self.blocks = List(sizes)",
    ],
)
def test_other_lists(body: str) -> None:
    assert not repeats_new_object(code_of(body), "blocks")


@pytest.mark.parametrize(
    "body",
    [
        " return List(*[Block(4)] * count)",
        " return List(count * [Block(4)])",
        " return [List(*[Block.Block(4)] * count) for each in range(2)]",
        " return List(*[2] * count, *[Block()] * (count + 1))",
        " return List(a=Block(), b=List(*[Block(3), Block(4)] * count))",
    ],
)
def test_the_line_that_multiplies_a_new_object_of_a_class(body: str) -> None:
    found = repeated_line([code_of(body)], "Block")
    assert found is not None
    assert (found.line, found.name) == (2, "Block")


@pytest.mark.parametrize(
    "body",
    [
        " return List(*[Block(4) for _ in range(count)])",
        " return List(*[List()] * count)",
        " block = Block()\n return List(*[block] * count)",
        " block = Block()\n return List([block] * count, [Block()] * 2)",
        " return Block() * count",
    ],
)
def test_no_line_multiplies_only_new_objects_of_a_class(body: str) -> None:
    assert repeated_line([code_of(body)], "Block") is None
