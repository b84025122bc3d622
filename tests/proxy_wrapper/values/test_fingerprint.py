"""Fingerprints depend on the bytes of the elements alone, and tell apart what differs in any bit or place."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_wrapper.events import Statistics
from proxy_wrapper.values.statistics import bits_of, count_nonfinite, summarize, unobserved
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _bits(tensor: torch.Tensor) -> str:
    with unobserved():
        (bits,) = bits_of([tensor])
    assert bits is not None
    return bits


def _weight(index: int) -> int:
    """The `index`-th number that splitmix64 gives from seed 0, made odd."""
    number = (index + 1) * _GOLDEN & _MASK
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & _MASK
    return (number ^ (number >> 31)) | 1


def _expected(data: bytes) -> str:
    """The fingerprint of some bytes, worked out with Python's integers from what is said of it."""
    padded = data + bytes(-len(data) % 4)
    halves = struct.unpack(f"<{len(padded) // 4}i", padded)
    if len(data) <= 1 << 16:
        terms = list(halves)
    else:
        terms = []
        for start, columns in ((0, 2039), (4, 2029)):
            count = (len(padded) - start) // 8
            words = struct.unpack_from(f"<{count}q", padded, start)
            whole = count - count % columns
            terms += [sum(words[column:whole:columns]) for column in range(columns)]
            terms += words[whole:]
        terms.append(halves[-1])
    total = sum(term * _weight(index) for index, term in enumerate(terms)) + len(data) * _GOLDEN
    return f"{total & _MASK:016x}"


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


_DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.int32,
    torch.int16, torch.uint8, torch.int8, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint64,
]  # fmt: skip


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("count", [1, 3, 4, 63, 1001, 16_385, 65_537, 70_001])
def test_is_the_weighted_sum_that_is_documented(dtype: torch.dtype, count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    data = torch.randint(2 if dtype is torch.bool else 256, (count * dtype.itemsize,), generator=generator)
    tensor = data.to(torch.uint8).view(dtype)

    assert _bits(tensor) == _expected(_bytes(tensor))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("count", [32_770, 65_536, 2039 * 2 * 16, 2039 * 2 * 33 + 5, 300_001])
def test_large_ones_are_summed_as_documented(count: int) -> None:
    tensor = torch.randn(count, generator=torch.Generator().manual_seed(count))

    assert _bits(tensor) == _expected(_bytes(tensor))


@pytest.mark.usefixtures("way")
def test_stands_in_statistics_whichever_way_they_are_computed() -> None:
    generator = torch.Generator().manual_seed(0)
    alike = [torch.randn(64, generator=generator) for _ in range(5)]
    tensors = [*alike, torch.randn(40_000, generator=generator), torch.arange(7), torch.randn(3, dtype=torch.complex64)]

    with unobserved():
        statistics = summarize(tensors)
        bits = bits_of(tensors)

    assert [each.bits for each in statistics if each is not None] == bits == [_expected(_bytes(t)) for t in tensors]  # type: ignore[union-attr]


def test_nothing_has_a_fingerprint_of_zeros() -> None:
    with unobserved():
        (statistics,) = summarize([torch.empty(0, 3)])

    assert statistics.bits == _bits(torch.empty(0)) == "0" * 16  # type: ignore[union-attr]
    assert _bits(torch.zeros(1)) != _bits(torch.zeros(2))


@given(st.integers(0, 2**32), st.sampled_from([(7, 5), (130, 3), (260, 130), (1, 70_000)]), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_strides_and_the_place_in_memory_do_not_matter(seed: int, shape: tuple[int, int], skipped: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randn(shape, generator=generator)
    expected = _bits(tensor)
    larger = torch.randn(tensor.numel() + 5, generator=generator)
    elsewhere = larger[skipped : skipped + tensor.numel()].view(shape).copy_(tensor)

    assert _bits(tensor.t().contiguous().t()) == expected
    assert _bits(elsewhere) == expected
    assert _bits(tensor.repeat_interleave(2, 1)[:, ::2]) == expected


@pytest.mark.usefixtures("way")
def test_negative_and_conjugate_views_are_read_as_their_values() -> None:
    numbers = torch.randn(9, dtype=torch.complex64)

    assert _bits(numbers.conj()) == _bits(numbers.conj_physical())
    assert _bits(numbers.conj().imag) == _bits(-numbers.imag.contiguous())


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "view", [lambda tensor: tensor, lambda tensor: tensor.t(), torch.Tensor.conj, lambda tensor: tensor.t().conj()]
)
@pytest.mark.filterwarnings("error")
def test_complex_numbers_of_half_precision_are_read_without_a_warning_of_torch(
    view: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    parts = torch.randn(60, 30, 2).to(torch.float16)
    tensor, same = view(torch.view_as_complex(parts)), view(torch.view_as_complex(parts.to(torch.float32)))
    expected = torch.view_as_real(same.resolve_conj()).to(torch.float16)
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # Else torch warns once in a process, of whichever comes first.
    try:
        with unobserved():
            (statistics,) = summarize([tensor])
            assert count_nonfinite(tensor) == 0
    finally:
        torch.set_warn_always(before)
    assert isinstance(statistics, Statistics)
    assert statistics.bits == _bits(expected)
    assert (statistics.minimum, statistics.maximum) == (float(expected.min()), float(expected.max()))


def test_the_number_of_threads_does_not_matter() -> None:
    tensor = torch.randn(1 << 20, generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    found = set()
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            found.add(_bits(tensor))
    finally:
        torch.set_num_threads(before)

    assert len(found) == 1


def _swapped(tensor: torch.Tensor, first: int, second: int) -> torch.Tensor:
    tensor[[first, second]] = tensor[[second, first]]
    return tensor


def _scaled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mul_(2)


_CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "all signs": lambda tensor: tensor.neg_(),
    "signs at odd places": lambda tensor: tensor[1::2].neg_(),
    "two signs at odd places": lambda tensor: tensor[[1, 3]].neg_(),
    "a column": lambda tensor: tensor.view(-1, 64)[:, 3].neg_(),
    "neighbours": lambda tensor: _swapped(tensor, 0, 1),
    "of the same parity": lambda tensor: _swapped(tensor, 1, 3),
    "far apart": lambda tensor: _swapped(tensor, 1, len(tensor) - 1),
    "two rows": lambda tensor: _swapped(tensor.view(-1, 64), 0, 1),
    "rows a power of two apart": lambda tensor: _swapped(tensor.view(-1, 64), 0, len(tensor) // 128),
    "backwards": lambda tensor: tensor.copy_(tensor.flip(0)),
    "turned by one": lambda tensor: tensor.copy_(tensor.roll(1)),
    "turned by a row": lambda tensor: tensor.copy_(tensor.roll(64)),
    "twice as much": _scaled,
    "one element": lambda tensor: tensor[len(tensor) // 2].mul_(1.000001),
}


@pytest.mark.parametrize("change", _CHANGES)
@pytest.mark.parametrize("count", [128, 1 << 14, 1 << 16, 1 << 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("values", ["signs", "random"])
def test_sees_what_extremes_and_norm_cannot(change: str, count: int, dtype: torch.dtype, values: str) -> None:
    if values == "signs":  # As many of one sort as of the other, everywhere.
        tensor = torch.ones(count, dtype=dtype)
        tensor.view(-1, 4)[:, 1:3] = -1
    else:
        tensor = torch.randn(count, generator=torch.Generator().manual_seed(1)).to(dtype)
    before = tensor.clone()
    bits = _bits(tensor)

    changed = tensor.clone()
    _CHANGES[change](changed)

    assert (_bits(changed) == bits) is torch.equal(_raw(before), _raw(changed))


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_sees_each_bit_of_each_byte(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 6, 500, 17_000, 200_000]))
    tensor = torch.randn(count, generator=torch.Generator().manual_seed(0))
    bits = _bits(tensor)
    raw = _raw(tensor)
    flips = data.draw(st.sets(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 7)), min_size=1, max_size=4))
    for place, bit in flips:
        raw[place] ^= 1 << bit

    assert _bits(tensor) != bits


@pytest.mark.usefixtures("way")
def test_sparse_tensors_are_told_apart_by_their_indices() -> None:
    values = torch.tensor([1.0, 2.0])
    here = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), values, (4,), check_invariants=True)
    there = torch.sparse_coo_tensor(torch.tensor([[0, 3]]), values, (4,), check_invariants=True)

    assert _bits(here) == _bits(here.coalesce().clone())
    assert _bits(here) != _bits(there)


FIRST_PROXY_IN_MODES = """
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
import proxy_wrapper.proxy as Proxy

seen = []

class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(str(func))
        return func(*args, **(kwargs or {}))

class Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(str(func))
        return func(*args, **(kwargs or {}))

model = torch.nn.Linear(2, 2)
multiply = torch.Tensor.__mul__
torch.Tensor.__mul__ = lambda *args: seen.append("multiplied") or multiply(*args)
with Functions(), Operators():
    Proxy.Proxy(model, logdir="trace")
print(seen)
"""


def test_modes_of_the_program_do_not_see_what_the_first_proxy_computes(tmp_path: Path) -> None:
    done = run_python(["-c", FIRST_PROXY_IN_MODES], cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "[]")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.complex64])
def test_one_element_has_a_fingerprint_whatever_its_stride(dtype: torch.dtype) -> None:
    values = torch.arange(12).to(dtype)
    sliced = values[5::7]
    assert sliced.stride() == (7,)
    with unobserved():
        assert bits_of([sliced]) == bits_of([values[5:6].clone()])
