"""Traced on the late device, programs compute and wait as they do untraced, and leave the trace that the CPU leaves."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.values import pending
from tests.devices.programs import PROGRAMS, STEPS, batch, make, run
from tests.devices.records import comparable, problems, records
from tests.proxy_wrapper.rough_norms import with_rough_norms

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.devices.late.device import LateDevice


def traced(folder: Path, level: str = "INFO", statistics: str = "state") -> Callable[[nn.Module], object]:
    return lambda model: Proxy.Proxy(
        model, recurse=True, name="model", logdir=folder, log_level=level, statistics=statistics
    )


@pytest.fixture(autouse=True)
def nothing_is_read_early(late: LateDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever arrives on the host has arrived before our code reads it."""
    unpack = pending._Packing.unpack

    def unpack_arrived(packing: Any, words: torch.Tensor) -> Any:
        late.peek(words)
        return unpack(packing, words)

    monkeypatch.setattr(pending._Packing, "unpack", unpack_arrived)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("level", "statistics"), [("INFO", "state"), ("DEBUG", "all")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_traced_program_computes_the_same_and_waits_as_often(
    name: str, level: str, statistics: str, late: LateDevice, tmp_path: Path
) -> None:
    def counted(trace: Callable[[nn.Module], object]) -> tuple[Any, int, int]:
        late.recover()
        done = run(name, "late", trace)
        mine = late.waits_of(threading.get_ident())
        return done.bytes(), mine, late.waits_but_of(threading.get_ident())

    plain, waits, waits_in_backward = counted(lambda model: None)
    assert waits_in_backward == 0
    same, waits_traced, _ = counted(traced(tmp_path, level, statistics))
    assert same == plain
    assert waits_traced == waits
    Proxy._installed.take_down()
    assert problems(tmp_path) == []


OTHERWISE = {
    "in_mixed_precision",  # Each kind of device has its own list of what is computed in which precision.
    "with_scaled_losses",  # The scale is a factor of the loss that a device holds, and is not read from there.
    "with_scaled_gradients_clipped",
    "around_versions",  # What a device has changed so is known once its numbers have arrived.
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("statistics", ["state", "all"])
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - OTHERWISE))
def test_the_trace_is_that_of_the_cpu(name: str, statistics: str, tmp_path: Path) -> None:
    traces = []
    for device in ("cpu", "late"):
        run(name, device, traced(tmp_path / device, statistics=statistics))
        Proxy._installed.take_down()
        traces.append(comparable(tmp_path / device))
    on_cpu, on_late = traces
    assert any("statistics" in each for each in on_cpu)
    assert on_late == on_cpu


def test_what_changes_around_its_version_count_is_followed_from_when_it_has_been_seen_to(tmp_path: Path) -> None:
    model, given = make("late"), batch("late")
    traced(tmp_path)(model)
    PROGRAMS["around_versions"](model, given)
    Proxy.flush()
    seen = len(records(tmp_path))
    PROGRAMS["around_versions"](model, given)
    Proxy._installed.take_down()
    found = records(tmp_path)
    weight = next(each["id"] for each in found if each.get("name") == "model.out.weight")
    updates = [each for each in found[seen:] if each["kind"] == "update" and each["tensor"] == weight]
    assert [each["cause"] for each in updates] == ["data"] * 2 * STEPS
    assert len({each["statistics"]["bits"] for each in updates}) == 2 * STEPS
    assert found[-1]["step"] >= 2 * STEPS


def test_what_did_not_change_is_no_update(late: LateDevice, tmp_path: Path) -> None:
    model = make("late").eval()
    traced(tmp_path)(model)
    image, word, _ = batch("late")
    with torch.no_grad():
        for _ in range(6):
            model(image, word)
    Proxy._installed.take_down()
    assert [each for each in records(tmp_path) if each["kind"] == "update"] == []


DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.complex64, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (5, 1031)], ids=str)
def test_statistics_of_every_dtype_are_those_of_the_cpu(
    dtype: torch.dtype, shape: tuple[int, ...], tmp_path: Path
) -> None:
    found = []
    for device in ("cpu", "late"):
        torch.manual_seed(0)
        holder = nn.Module()
        values = (torch.randn(shape) * 50).to(torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
        holder.register_buffer("values", values.to(device))
        holder.register_buffer("turned", values.to(device).t() if values.dim() == 2 else values.to(device))
        traced(tmp_path / device)(holder)
        Proxy._installed.take_down()
        buffers = [each for each in records(tmp_path / device) if each["kind"] == "buffer"]
        found.append([with_rough_norms(each.get("statistics")) for each in buffers])
    assert found[0] == found[1]
    assert None not in found[0]


def test_without_events_the_writer_waits_for_the_whole_device(
    late: LateDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = [tmp_path / "with", tmp_path / "without"]
    for folder in folders:
        late.recover()
        run("with_adam", "late", traced(folder))
        assert late.waits_of(threading.get_ident()) == sum(1 for _ in (*batch("cpu"), *make("cpu").state_dict()))
        Proxy._installed.take_down()
        monkeypatch.delattr(type(late), "Event", raising=False)
    assert comparable(folders[0]) == comparable(folders[1])


def test_memory_that_a_program_needs_is_there(late: LateDevice, level: str, tmp_path: Path) -> None:
    """With as much memory as the program takes, and not a byte more, it runs as before."""
    plain = run("with_adam", "late").bytes()
    late.recover()
    run("with_adam", "late")
    late.memory.limit = late.memory.peak
    assert run("with_adam", "late", traced(tmp_path, level)).bytes() == plain
