"""Statistics are torch's own numbers, for every dtype and layout, and take nothing from the tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Parameter, Problem, Statistics
from proxy_wrapper.values.fingerprint import size_in_bytes
from proxy_wrapper.values.pending import HostCopy, PendingStatistics
from proxy_wrapper.values.statistics import (
    Readable,
    _table,
    bits_of,
    count_nonfinite,
    has_values,
    is_certainly_finite,
    summarize,
    unobserved,
)

if TYPE_CHECKING:
    from proxy_wrapper.values.statistics import PendingOr
    from proxy_wrapper.writing.observers.memory import MemoryObserver


def summarized(*tensors: torch.Tensor | None) -> list[PendingOr]:
    with unobserved():
        return summarize(tensors)


REALS = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (200, 300)], ids=str)
@pytest.mark.usefixtures("way")
def test_numbers_are_those_of_torch(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = (torch.randn(shape) * 3).to(dtype)
    (found,) = summarized(tensor)
    assert isinstance(found, Statistics)
    assert found.minimum == tensor.to(torch.float64).min().item()
    assert found.maximum == tensor.to(torch.float64).max().item()
    assert math.isclose(float(found.norm or 0), tensor.to(torch.float64).norm().item(), rel_tol=1e-4)
    assert found.nonfinite == 0


def without_bits(*tensors: torch.Tensor) -> list[Statistics]:
    return [msgspec.structs.replace(each, bits=None) for each in summarized(*tensors) if isinstance(each, Statistics)]


@given(st.lists(st.floats(width=32), min_size=1, max_size=40))
def test_non_finite_values_are_counted_and_named(values: list[float]) -> None:
    tensor = torch.tensor(values)
    (found,) = summarized(tensor)
    assert isinstance(found, Statistics)
    bad = [value for value in values if not math.isfinite(value)]
    assert found.nonfinite == len(bad)
    if any(math.isnan(value) for value in values):
        assert found.minimum == found.maximum == "nan"
    elif bad:
        assert (found.maximum == "inf") == (max(values) == math.inf)
        assert (found.minimum == "-inf") == (min(values) == -math.inf)
    assert (count_nonfinite(tensor) != 0) == bool(bad)


@given(st.lists(st.lists(st.floats(width=32), min_size=1, max_size=5), min_size=1, max_size=5))
def test_what_a_device_would_compute_is_what_the_cpu_computes(rows: list[list[float]]) -> None:
    tensors = [torch.tensor(row) for row in rows]
    with unobserved():
        readable = [Readable(tensor, (tensor,)) for tensor in tensors]
        copy = HostCopy(lambda: _table(readable))
        sizes = [size_in_bytes([tensor]) for tensor in tensors]
        pending = [PendingStatistics(copy, row, size).resolve() for row, size in enumerate(sizes)]
        hosted = summarize(tensors)
    for there, here in zip(pending, hosted, strict=True):
        assert isinstance(here, Statistics)
        assert (there.minimum, there.maximum, there.nonfinite) == (here.minimum, here.maximum, here.nonfinite)
        # Squares of tiny numbers are lost in single precision.
        is_close = math.isclose(float(there.norm or 0), float(here.norm or 0), rel_tol=1e-6, abs_tol=1e-18)
        assert there.norm == here.norm or is_close
        assert there.bits == here.bits


def test_a_row_other_than_the_first_counts_too() -> None:
    tensor = torch.zeros(512, 128)
    before = summarized(tensor)
    tensor[300, 5] = 1.0
    assert summarized(tensor) != before


def test_complex_numbers_are_taken_apart() -> None:
    assert without_bits(torch.tensor([3 - 4j])) == [Statistics(-4.0, 3.0, 5.0)]


@pytest.mark.usefixtures("way")
def test_sparse_values_are_summed_first() -> None:
    tensor = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.tensor([1.0, 2.0]), (3,), check_invariants=True)
    assert without_bits(tensor) == [Statistics(3.0, 3.0, 3.0)]


def test_a_tensor_whose_memory_was_taken_has_no_statistics() -> None:
    tensor = torch.ones(4, 4)
    tensors = (tensor, tensor[1:])
    tensor.untyped_storage().resize_(0)  # As FSDP does between uses.
    assert summarized(*tensors) == [None, None]
    assert not any(map(is_certainly_finite, tensors))
    with unobserved():
        assert bits_of(tensors) == [None, None]
    assert not any(map(has_values, tensors))


@pytest.mark.usefixtures("way")
def test_what_has_no_numbers_has_no_statistics() -> None:
    assert summarized(None, torch.ones(2, device="meta")) == [None, None]
    assert without_bits(torch.ones(0, 3)) == [Statistics(None, None, 0.0)]


@pytest.mark.usefixtures("way")
def test_overflow_of_the_sum_is_not_taken_for_infinity() -> None:
    assert count_nonfinite(torch.full((100,), 3e38)) == 0
    assert count_nonfinite(torch.full((100,), 60000.0, dtype=torch.float16)) == 0


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16], ids=str)
def test_narrow_numbers_are_searched_for_non_finite_ones(dtype: torch.dtype) -> None:
    values = torch.tensor([1.0, float("nan"), 2.0]).to(dtype)
    assert (count_nonfinite(values[:1]), count_nonfinite(values)) == (0, 1)


def test_a_complex_number_of_half_precision_counts_once_and_without_a_warning() -> None:
    values = torch.view_as_complex(torch.tensor([[1.0, 2.0], [float("inf"), float("nan")]], dtype=torch.float16))
    assert (count_nonfinite(values[:1]), count_nonfinite(values)) == (0, 1)


def test_nothing_is_changed_by_looking() -> None:
    tensor = torch.randn(5, requires_grad=True)
    version, state = tensor._version, torch.get_rng_state()
    summarized(tensor)
    assert tensor._version == version
    assert torch.equal(state, torch.get_rng_state())
    assert torch.is_grad_enabled()


def test_inside_a_transform_values_are_not_read() -> None:
    readable: list[bool] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        with unobserved() as can_read:
            readable.append(can_read)
        return x

    torch.vmap(look)(torch.ones(2, 2))
    assert readable == [False]


@pytest.mark.parametrize("statistics", ["state", "all"])
def test_a_tensor_of_more_dimensions_than_torch_reduces_has_none_and_is_traced(
    statistics: str, logdir: str, seen: MemoryObserver
) -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones((1,) * 65))
            self.last = nn.Linear(1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.last(x.view((1,) * 65).view(1))
            return out

    model = Proxy.Proxy(Deep(), recurse=True, logdir=logdir, log_level="DEBUG", statistics=statistics)
    model(torch.ones(1)).sum().backward()
    torch.optim.SGD(model.last.parameters(), lr=0.1).step()
    Proxy.flush()
    assert Proxy._installed.get().active
    (deep,) = [event for event in seen.events if isinstance(event, Parameter) and event.name.endswith("weight")][:1]
    assert deep.statistics is None
    assert not [event for event in seen.events if isinstance(event, Problem)]
