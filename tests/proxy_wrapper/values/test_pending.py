"""Numbers that are on their way from an accelerator.

No accelerator is at hand where these tests run. So the CPU is taken for one: its tensors go the way of a device's, by a
copy that the thread which writes the trace reads, and what arrives there must be what is recorded otherwise.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Statistics
from proxy_wrapper.values import statistics
from proxy_wrapper.values.fingerprint import as_text, of_weighted_sum
from proxy_wrapper.values.pending import (
    HostCopy,
    Pending,
    PendingConjunction,
    PendingCount,
    PendingNonFinite,
    PendingStatistics,
    PendingValue,
    Rows,
    Table,
)
from proxy_wrapper.values.statistics import count_nonfinite, is_nonzero, read_value
from tests.proxy_wrapper.programs import Branching, Plain, images, state_of, train
from tests.proxy_wrapper.rough_norms import with_rough_norms

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Take the CPU for an accelerator from now on."""
    return lambda: monkeypatch.setattr(statistics, "is_hosted", lambda tensor: False)


def records(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.glob("*/*.jsonl")
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def numbers(folder: Path, kinds: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return [
        (*(record.get(key) for key in ("kind", "step", "tensor", "cause")), with_rough_norms(record.get("statistics")))
        for record in records(folder)
        if record["kind"] in kinds
    ]


def copy_of(floats: list[list[float]], integers: list[list[int]], dtype: torch.dtype = torch.float64) -> HostCopy:
    return HostCopy(lambda: Table(torch.tensor(floats, dtype=dtype), torch.tensor(integers)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_row_of_the_copy_becomes_statistics(dtype: torch.dtype) -> None:
    copy = copy_of([[-1.0, 2.0, 3.0], [float("nan"), float("nan"), float("inf")]], [[0, 7], [2, -1]], dtype)
    assert PendingStatistics(copy, 0, 4).resolve() == Statistics(-1.0, 2.0, 3.0, bits=as_text(of_weighted_sum(7, 4)))
    assert PendingStatistics(copy, 1, 8).resolve() == Statistics(
        "nan", "nan", "inf", 2, as_text(of_weighted_sum(-1, 8))
    )
    assert PendingNonFinite(PendingStatistics(copy, 1, 8)).resolve() == 2


def test_a_count_is_of_all_elements(remote: Callable[[], None]) -> None:
    remote()
    count = count_nonfinite(torch.tensor([1.0, float("nan"), float("-inf")]))
    assert isinstance(count, PendingCount)
    assert count.resolve() == 2


@pytest.mark.parametrize("value", [0.1, math.inf])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_value_is_that_of_the_one_element(value: float, dtype: torch.dtype, remote: Callable[[], None]) -> None:
    tensor = torch.tensor([[value]], dtype=dtype)
    hosted = read_value(tensor)
    remote()
    pending = read_value(tensor)
    assert isinstance(pending, PendingValue)
    assert pending.resolve() == hosted


def test_all_of_several_tensors_have_to_be_other_than_zero(remote: Callable[[], None]) -> None:
    remote()
    zeros, nans = is_nonzero(torch.zeros(3, 2)), is_nonzero(torch.tensor([0.0, math.nan]))
    assert isinstance(zeros, PendingCount)
    assert isinstance(nans, PendingCount)
    assert PendingConjunction([nans, nans]).resolve() is True
    assert PendingConjunction([nans, zeros]).resolve() is False


def test_a_sparse_tensor_is_not_summed_up_where_that_would_wait(remote: Callable[[], None]) -> None:
    double = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.tensor([1.0, 2.0]), (3,), check_invariants=True)
    (hosted,) = statistics.summarize([double])
    remote()
    twice, once = statistics.summarize([double, double.coalesce()])
    assert twice is None
    assert isinstance(once, PendingStatistics)
    assert once.resolve() == hosted


def test_nothing_is_read_on_the_training_thread(
    remote: Callable[[], None], monkeypatch: pytest.MonkeyPatch, logdir: str
) -> None:
    readers: set[str] = set()
    rows = HostCopy.rows

    def read(copy: HostCopy) -> Rows:
        readers.add(threading.current_thread().name)
        return rows(copy)

    monkeypatch.setattr(HostCopy, "rows", read)
    remote()
    train(Proxy.Proxy(Branching(), recurse=True, logdir=logdir), steps=3)
    assert threading.current_thread().name not in readers


def test_what_arrives_is_what_is_recorded_at_once_on_the_cpu(remote: Callable[[], None], tmp_path: Path) -> None:
    def run(folder: Path) -> list[tuple[Any, ...]]:
        torch.manual_seed(0)
        model = Proxy.Proxy(Branching(), recurse=True, logdir=folder)
        train(model, steps=6)
        model.eval()
        for _ in range(3):
            model(images())
        Proxy._installed.take_down()
        return numbers(folder, ("parameter", "buffer", "gradient", "update"))

    at_once = run(tmp_path / "hosted")
    remote()
    assert run(tmp_path / "remote") == at_once


def test_what_may_have_changed_and_has_not_is_no_update(remote: Callable[[], None], tmp_path: Path) -> None:
    remote()
    model = Proxy.Proxy(Plain(), recurse=True, logdir=tmp_path)
    with torch.no_grad():
        for _ in range(4):
            model(images())
    Proxy._installed.take_down()
    assert numbers(tmp_path, ("update",)) == []


def test_the_first_non_finite_values_are_found(remote: Callable[[], None], tmp_path: Path) -> None:
    remote()
    model = Proxy.Proxy(nn.Linear(2, 1, bias=False), name="net", logdir=tmp_path)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        (model(torch.ones(1, 2)) * float("inf")).sum().backward()
        optimizer.step()
    Proxy._installed.take_down()
    found = [
        (each.get("where", "output"), each.get("step", 0)) for each in records(tmp_path) if each["kind"] == "non_finite"
    ]
    assert found == [("loss", 0), ("gradient", 0), ("parameter", 0), ("output", 1)]


def test_results_are_the_same(remote: Callable[[], None], logdir: str, level: str) -> None:
    def run(trace: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Branching()
        if trace:
            remote()
            Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
        train(model, steps=4)
        return [*state_of(model), torch.get_rng_state()]

    assert all(torch.equal(a, b) for a, b in zip(run(trace=False), run(trace=True), strict=True))


def test_what_is_pending_can_be_told_from_what_is_known() -> None:
    copy = copy_of([[0.0, 0.0, 0.0]], [[0, 0]])
    assert isinstance(PendingStatistics(copy, 0, 4), Pending)
    assert not isinstance(Statistics(), Pending)


def test_a_device_that_fails_takes_the_numbers_and_nothing_else(
    remote: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(tensor: torch.Tensor) -> Any:
        raise torch.OutOfMemoryError("late:0 has no memory left.\nA traceback.")

    def run(trace: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Plain()
        if trace:
            Proxy.Proxy(model, recurse=True, logdir=tmp_path)
            monkeypatch.setattr(statistics, "aminmax", fail)
        train(model, steps=3)
        return [*state_of(model), torch.get_rng_state()]

    plain = run(trace=False)
    remote()
    assert all(torch.equal(a, b) for a, b in zip(run(trace=True), plain, strict=True))
    Proxy._installed.take_down()
    (problem,) = [record["message"] for record in records(tmp_path) if record["kind"] == "problem"]
    assert "(OutOfMemoryError: late:0 has no memory left.)" in problem
    assert capsys.readouterr().err.count("\n") == 1
    updates = [record for record in records(tmp_path) if record["kind"] == "update"]
    assert len(updates) == 3 * len(list(Plain().parameters()))
    assert not any("statistics" in record for record in updates)
