"""Minimum, maximum, norm and fingerprint of tensors on the CPU, whichever way they are read."""

from __future__ import annotations

import math

import pytest
import torch

from proxy_wrapper.values.extents import count_nonfinite, extents, fingerprint_of

SHAPES = [(), (1,), (10,), (576,), (16, 3, 3, 3), (64, 64), (8193,), (64, 300), (40_000,)]

pytestmark = pytest.mark.usefixtures("way")


def numbers(*tensors: torch.Tensor) -> list[tuple[float, float, float]]:
    """Minimum, maximum and norm of each tensor."""
    return [(lowest, highest, norm) for lowest, highest, norm, _, _ in extents(tensors)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_many_tensors_have_the_numbers_of_each_alone(dtype: torch.dtype) -> None:
    tensors = [torch.randn(shape, dtype=dtype) * 10**i for i, shape in enumerate(SHAPES) for _ in range(4)]
    assert list(extents(tensors)) == [each for tensor in tensors for each in extents([tensor])]
    for tensor, (lowest, highest, norm) in zip(tensors, numbers(*tensors), strict=True):
        assert (lowest, highest) == (tensor.min().item(), tensor.max().item())
        assert norm == pytest.approx(tensor.double().norm().item(), rel=1e-5)


def test_a_tensor_that_is_not_contiguous_is_read_in_its_own_order() -> None:
    tensor = torch.randn(300, 200)
    for each in (tensor.t().contiguous().t(), torch._neg_view(-tensor), tensor.repeat_interleave(2, 1)[:, ::2]):
        assert list(extents([each])) == list(extents([tensor]))
        assert fingerprint_of([each]) == fingerprint_of([tensor])


def test_integers_are_taken_for_what_they_are() -> None:
    tensors = [torch.tensor(2**60 + i) for i in range(3)] + [torch.tensor([True, False]), torch.tensor([3, 4])]
    assert numbers(*tensors) == [(2.0**60, 2.0**60, 2.0**60)] * 3 + [(0.0, 1.0, 1.0), (3.0, 4.0, 5.0)]


def test_half_precision_is_summed_up_in_single() -> None:
    tensor = torch.full((300,), 1000.0, dtype=torch.float16)
    assert numbers(tensor) == [pytest.approx((1000.0, 1000.0, 1000 * math.sqrt(300)))]


def test_infinities_stay_with_their_tensor() -> None:
    tensors = [torch.ones(8) for _ in range(5)]
    tensors[2][3] = -math.inf
    found = numbers(*tensors)
    assert found[2] == (-math.inf, 1.0, math.inf)
    assert found[1] == found[3] == pytest.approx((1.0, 1.0, math.sqrt(8)))


def test_a_nan_makes_all_three_numbers_nan() -> None:
    tensors = [torch.ones(8) for _ in range(5)]
    tensors[4][0] = math.nan
    assert all(math.isnan(number) for number in numbers(*tensors)[4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_norm_is_infinite_where_single_precision_has_no_room_for_the_squares(dtype: torch.dtype) -> None:
    (_, highest, norm), (_, _, of_one) = numbers(torch.full((20,), 2.0**70, dtype=dtype), torch.tensor([2.0**70]))
    assert (highest, norm, of_one) == (2.0**70, math.inf, 2.0**70)
    ((_, _, double),) = numbers(torch.full((16,), 2.0**70, dtype=torch.float64))
    assert double == 2.0**72


def test_a_zero_has_no_sign() -> None:
    ((lowest, highest, _),) = numbers(torch.tensor([-0.0, -0.0]))
    assert (math.copysign(1, lowest), math.copysign(1, highest)) == (1.0, 1.0)


def test_the_norm_of_many_elements_keeps_its_digits() -> None:
    tensor = torch.randn(1_500_000, generator=torch.Generator().manual_seed(0))
    ((_, _, norm),) = numbers(tensor)
    assert norm == pytest.approx(tensor.double().norm().item(), rel=1e-6)


def test_none_gives_none() -> None:
    assert numbers() == []


@pytest.mark.parametrize("count", [20, 50_000])
def test_non_finite_elements_are_counted_in_real_and_complex_tensors(count: int) -> None:
    tensor = torch.full((count,), 3e38)
    assert count_nonfinite(tensor) == 0
    tensor[::2] = math.nan
    assert count_nonfinite(tensor) == count_nonfinite(torch.complex(tensor, tensor)) == count // 2
