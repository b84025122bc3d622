"""Tensors in words."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from proxy_wrapper.values.describe import Describer, find_tensors


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.ones(2, 3), "float32[2, 3]"),
        (torch.tensor(1), "int64[]"),
        (torch.ones(0, dtype=torch.bfloat16), "bfloat16[0]"),
        (nn.Parameter(torch.ones(1)), "float32[1]"),
        (torch.ones(1, device="meta"), "float32[1]"),
        (nn.UninitializedParameter(), "uninitialized"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_dtype_and_shape(tensor: torch.Tensor, words: str) -> None:
    assert Describer().describe(tensor) == words


def test_a_subclass_is_described_without_asking_it() -> None:
    class Asks(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            raise AssertionError("it was asked")

    assert Describer().describe(torch.ones(2).as_subclass(Asks)) == "float32[2]"


def test_containers_are_looked_into() -> None:
    one, two = torch.ones(1), torch.ones(2)
    found = find_tensors([{"a": [one, None, 3], "b": ("text", {"c": two})}])
    assert [tensor.numel() for tensor in found] == [1, 2]


def test_a_container_in_itself_ends() -> None:
    loop: list[object] = [torch.ones(1)]
    loop.append(loop)
    assert find_tensors(loop)
