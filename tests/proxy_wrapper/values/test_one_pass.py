"""The compiled library gives what the definitions say and torch computes, and is used only with its own source."""

from __future__ import annotations

import json
import math
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.values import extents
from proxy_wrapper.values.one_pass import KINDS, OnePass, item_of, load
from scripts.compile_one_pass import LIBRARY, SOURCE, compile_one_pass
from tests.proxy_wrapper.programs import Branching, train
from tests.proxy_wrapper.rough_norms import with_rough_norms
from tests.proxy_wrapper.truth.expected_bits import expected_bits

if TYPE_CHECKING:
    from pathlib import Path

ROW, OTHER_ROW, PIECE = 2039 * 8, 2029 * 8, 128 * 2039 * 8  # In bytes.
SIZES = [
    *(1, 3, 4, 5, 63, 64, 65, 4095, 4096, 4097),
    *(65_535, 65_536, 65_537, 65_540, 65_544),
    *(5 * ROW - 1, 5 * ROW, 5 * ROW + 3, 5 * OTHER_ROW + 3, 5 * OTHER_ROW + 4, 5 * OTHER_ROW + 5, 8 * ROW + 8),
    *(PIECE - 1, PIECE, PIECE + 1, PIECE + ROW, 2 * PIECE + 12_345, 3 * PIECE + ROW + 4),
]


def bytes_of(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.view(torch.uint8).numpy())


def read(library: OnePass, tensor: torch.Tensor) -> tuple[float, float, float, int, str]:
    lowest, highest, norm, nonfinite, bits = library.extent(item_of(tensor))
    return lowest, highest, norm, nonfinite, f"{bits:016x}"


def random_values(dtype: torch.dtype, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    if dtype.is_floating_point:
        return torch.randn(count, generator=generator).to(dtype)
    raw = torch.randint(256, (count * dtype.itemsize,), generator=generator).to(torch.uint8)
    return (raw % 2).view(dtype) if dtype is torch.bool else raw.view(dtype)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_numbers_are_those_of_the_definitions_at_every_border(one_pass: OnePass, dtype: torch.dtype) -> None:
    for size in SIZES:
        tensor = random_values(dtype, max(1, size // dtype.itemsize))
        wide = tensor.to(torch.float64)
        lowest, highest, norm, nonfinite, bits = read(one_pass, tensor)

        assert bits == expected_bits(bytes_of(tensor)), size
        assert (lowest, highest, nonfinite) == (wide.min().item(), wide.max().item(), 0), size
        assert math.isclose(norm, wide.norm().item(), rel_tol=1e-6), size


@pytest.mark.parametrize("size", SIZES)
def test_bytes_of_any_meaning_have_a_fingerprint(one_pass: OnePass, size: int) -> None:
    tensor = random_values(torch.uint8, size)

    assert f"{one_pass.fingerprint(tensor):016x}" == expected_bits(bytes_of(tensor))


NUMBERS = st.one_of(
    st.floats(width=32), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-40, 3e38, 65504.0, 1e-7])
)


@given(data=st.data(), dtype=st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_special_values_are_read_as_torch_reads_them(
    one_pass: OnePass, monkeypatch: pytest.MonkeyPatch, data: st.DataObject, dtype: torch.dtype
) -> None:
    values = data.draw(st.lists(NUMBERS, min_size=1, max_size=20))
    count = data.draw(st.sampled_from([len(values), 40, 20_000, 70_000]))
    tensor = torch.zeros(max(count, len(values)))
    tensor[-len(values) :] = torch.tensor(values)
    tensor = tensor.roll(data.draw(st.integers(0, count))).to(dtype)

    monkeypatch.setattr(extents, "library", None)
    (expected,) = extents.extents([tensor])
    (found,) = one_pass.extents([item_of(tensor)])

    assert [as_text(each) for each in found[:2]] == [as_text(each) for each in expected[:2]]
    assert found[3:] == expected[3:]
    assert one_pass.count_nonfinite(tensor) == expected[3]
    # The squares of tiny numbers are lost in single precision, in another order.
    assert as_text(found[2]) == as_text(expected[2]) or math.isclose(found[2], expected[2], rel_tol=1e-4, abs_tol=1e-18)


def as_text(number: float) -> str:
    """A number with its sign, that of a zero, too; "nan" for any NaN."""
    return repr(number)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("skipped", [1, 2, 3])
def test_an_address_of_any_kind_will_do(one_pass: OnePass, dtype: torch.dtype, skipped: int) -> None:
    for count in (50, 40_000):
        tensor = random_values(dtype, count)
        memory = bytearray(bytes(skipped) + bytes_of(tensor))
        elsewhere = torch.frombuffer(memory, dtype=dtype, offset=skipped)

        assert elsewhere.data_ptr() % dtype.itemsize == skipped % dtype.itemsize
        assert read(one_pass, elsewhere) == read(one_pass, tensor)


def test_the_number_of_threads_changes_nothing(one_pass: OnePass) -> None:
    tensors = [
        torch.randn(each, generator=torch.Generator().manual_seed(each)) for each in (7, 3_000_001, 40, 5_000_000)
    ]
    expected = list(one_pass.extents(list(map(item_of, tensors))))
    try:
        for threads in (2, 3, 100):
            torch.set_num_threads(threads)
            assert list(one_pass.extents(list(map(item_of, tensors)))) == expected
    finally:
        torch.set_num_threads(1)
    assert expected == [each for tensor in tensors for each in one_pass.extents([item_of(tensor)])]


def test_the_processor_changes_nothing(one_pass: OnePass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), "")
    monkeypatch.setenv("CC", f"{compiler} -DPLAIN")  # Without the loops for AVX2.
    path = compile_one_pass(tmp_path) if compiler else None
    if path is None:
        pytest.skip("no C compiler")
    plain = OnePass(path)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.uint8):
        for size in (*SIZES, 40 * ROW + 24, 1_500_000):
            tensor = random_values(dtype, max(1, size // dtype.itemsize))
            assert one_pass.extent(item_of(tensor)) == plain.extent(item_of(tensor)), (dtype, size)


def test_nothing_and_one_are_as_good_as_many(one_pass: OnePass) -> None:
    assert list(one_pass.extents([])) == []
    assert one_pass.count_nonfinite(torch.empty(0)) == 0


@pytest.mark.parametrize("count", [1, 31, 1024, 1025, 33_000, 50_000])
def test_all_that_is_not_finite_is_counted(one_pass: OnePass, count: int) -> None:
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        tensor = torch.full((count,), torch.finfo(dtype).max, dtype=dtype)
        assert one_pass.count_nonfinite(tensor) == 0
        tensor[::3] = math.inf
        tensor[1::3] = math.nan
        assert one_pass.count_nonfinite(tensor) == count - len(tensor[2::3])


def test_a_library_of_another_source_is_not_used(native: Path, tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path)
    assert load(tmp_path) is None
    shutil.copy(native / LIBRARY, tmp_path)
    assert load(tmp_path) is not None

    (tmp_path / SOURCE.name).write_text(SOURCE.read_text() + "\n")
    assert load(tmp_path) is None


def test_a_file_that_is_no_library_is_not_used(tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path)
    (tmp_path / LIBRARY).write_text("no library")
    assert load(tmp_path) is None


def records_of(library: OnePass | None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, list[Any], Any]:
    """Which way a run says that it reads tensors, what it writes besides, without times, and its weights at the end."""
    monkeypatch.setattr(extents, "library", library)
    torch.manual_seed(0)
    model = Branching()
    train(Proxy.Proxy(model, recurse=True, logdir=str(folder), log_level="DEBUG", statistics="all"))
    Proxy.flush()
    Proxy._installed.take_down()
    (file,) = folder.rglob("*.jsonl")
    records = list(map(json.loads, file.read_text().splitlines()))
    return records[0]["compiled"], list(map(_comparable, records)), model.state_dict()


def _comparable(record: dict[str, Any]) -> Any:
    left_out = {"run", "started", "pid", "time_us", "duration_us", "compiled"}
    return with_rough_norms({key: value for key, value in record.items() if key not in left_out})


def test_a_run_has_the_same_trace_and_the_same_weights_without_the_library(
    one_pass: OnePass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (compiled, records, weights), (is_other_compiled, others, other_weights) = (
        records_of(library, tmp_path / str(number), monkeypatch) for number, library in enumerate((one_pass, None))
    )

    assert records == others
    assert (compiled, is_other_compiled) == (True, False)
    assert sum("statistics" in each for each in records) > 100
    assert weights.keys() == other_weights.keys()
    assert all(torch.equal(weights[name], other_weights[name]) for name in weights)
