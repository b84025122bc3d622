"""Minimum, maximum and norm of many tensors."""

from __future__ import annotations

import math

import pytest
import torch

from proxy_wrapper.values.extents import extents, fingerprints
from proxy_wrapper.values.fingerprint import PIECE_BYTES, fingerprint

SHAPES = [
    (),
    (1,),
    (10,),
    (64,),
    (576,),
    (16, 3, 3, 3),
    (4096,),
    (64, 64),
    (1 << 13,),
    (64, 128),
    (8193,),
    (64, 300),
    (1 << 15,),
    (40_000,),
]


def together(tensors: list[torch.Tensor]) -> list[tuple[float, ...]]:
    """Minimum, maximum and norm of each tensor."""
    return list(zip(*extents(tensors)[:3], strict=True))


def alone(tensor: torch.Tensor) -> tuple[float, ...]:
    """The same by torch's reductions of one tensor."""
    return tensor.min().item(), tensor.max().item(), torch._foreach_norm([tensor])[0].item()


@pytest.mark.parametrize("count", [1, 3, 4, 9, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_many_tensors_have_to_the_bit_the_numbers_of_each_alone(count: int, dtype: torch.dtype) -> None:
    tensors = [torch.randn(shape, dtype=dtype) * 10**i for i, shape in enumerate(SHAPES) for _ in range(count)]
    assert together(tensors) == [alone(tensor) for tensor in tensors]


def test_fingerprints_are_those_of_the_extents_whatever_else_is_asked_for() -> None:
    tensors = [torch.randn(shape) for shape in SHAPES for _ in range(6)]
    bits = extents(tensors).bits
    assert fingerprints(tensors) == bits
    assert [text for tensor in tensors for text in fingerprints([tensor])] == bits


def test_a_tensor_that_is_not_contiguous_is_reduced_as_it_lies() -> None:
    tensors = [torch.randn(64, 16).t() for _ in range(5)]
    assert together(tensors) == [alone(tensor) for tensor in tensors]


def test_integers_are_taken_for_what_they_are() -> None:
    tensors = [torch.tensor(2**60 + i) for i in range(3)] + [torch.tensor([True, False]), torch.tensor([3, 4])]
    assert together(tensors) == [(2.0**60, 2.0**60, 2.0**60)] * 3 + [(0.0, 1.0, 1.0), (3.0, 4.0, 5.0)]


def test_half_precision_is_summed_up_in_single() -> None:
    tensors = [torch.full((300,), 1000.0, dtype=torch.float16) for _ in range(5)]
    assert together(tensors) == [pytest.approx((1000.0, 1000.0, 1000 * math.sqrt(300)))] * 5


def test_infinities_stay_with_their_tensor() -> None:
    tensors = [torch.ones(8) for _ in range(5)]
    tensors[2][3] = -math.inf
    found = together(tensors)
    assert found[2] == (-math.inf, 1.0, math.inf)
    assert found[1] == found[3] == pytest.approx((1.0, 1.0, math.sqrt(8)))


def test_a_nan_makes_all_three_numbers_nan() -> None:
    tensors = [torch.ones(8) for _ in range(5)]
    tensors[4][0] = math.nan
    assert all(math.isnan(number) for number in together(tensors)[4])


def test_none_gives_none() -> None:
    assert together([]) == []
    assert fingerprints([]) == []


_IN_PIECES = PIECE_BYTES // 4 * 2 + 12_345


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_what_is_read_in_pieces_has_the_numbers_of_the_whole(dtype: torch.dtype) -> None:
    tensor = torch.randn(_IN_PIECES, dtype=dtype, generator=torch.Generator().manual_seed(0))
    lowest, highest, norms, bits = extents([tensor])

    assert (lowest, highest) == ([tensor.min().item()], [tensor.max().item()])
    assert norms == pytest.approx([tensor.double().norm().item()], rel=1e-5)
    assert bits == fingerprints([tensor]) == [fingerprint((tensor.clone(),))]


@pytest.mark.parametrize("index", [0, PIECE_BYTES // 4, _IN_PIECES - 1])
def test_a_value_that_is_not_finite_is_seen_in_every_piece(index: int) -> None:
    tensor = torch.ones(_IN_PIECES)
    tensor[index] = math.inf
    assert together([tensor]) == [(1.0, math.inf, math.inf)]

    tensor[index - 1 if index else 1] = math.nan
    assert all(math.isnan(number) for number in together([tensor])[0])


def test_a_large_tensor_that_lies_otherwise_has_the_same_numbers() -> None:
    tensor = torch.randn(1100, 1300)
    transposed = tensor.t().contiguous().t()
    negative = torch._neg_view(-tensor)

    for each in (transposed, negative):
        found, expected = extents([each]), extents([tensor])
        assert (found.lowest, found.highest, found.bits) == (expected.lowest, expected.highest, expected.bits)
        assert found.norms == pytest.approx(expected.norms, rel=1e-3)
