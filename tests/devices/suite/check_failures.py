"""What fails on a device while we compute on it takes our numbers with it, and nothing of the program's."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.values import statistics
from tests.devices.programs import Mixed, batch, bytes_of, make, run
from tests.devices.records import comparable, problems, records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.devices.late.device import LateDevice

LARGE = (3, 152)
"""The shape of `out.weight`, the largest parameter."""


def out_of_memory_for_the_largest(name: str, args: Any) -> Exception | None:
    if is_ours(name) and args[0].shape == LARGE:
        return torch.OutOfMemoryError("late:0 is out of memory: 1,824 bytes were asked for.\nAnd a traceback.")
    return None


def without_our_operations(name: str, args: Any) -> Exception | None:
    return NotImplementedError(f"{name} is not there") if is_ours(name) else None


def failing_under_ours(name: str, args: Any) -> Exception | None:
    return RuntimeError("late:0: unspecified launch failure") if is_ours(name) else None


def is_ours(name: str) -> bool:
    """Whether an operation is one that statistics are computed with, and training is not."""
    return name.startswith("aten::aminmax")


FAILURES = [out_of_memory_for_the_largest, without_our_operations, failing_under_ours]


def traced(folder: Path) -> Callable[[nn.Module], object]:
    return lambda model: Proxy.Proxy(model, recurse=True, name="model", logdir=folder)


def numbers(folder: Path) -> dict[str, list[Any]]:
    """The statistics in all records of each parameter and buffer."""
    found = records(folder)
    names = {each["id"]: each["name"] for each in found if each["kind"] in ("parameter", "buffer")}
    numbers: dict[str, list[Any]] = {name: [] for name in names.values()}
    for each in found:
        if each["kind"] in ("parameter", "buffer", "gradient", "update"):
            numbers[names[each.get("tensor", each.get("id"))]].append(each.get("statistics"))
    return numbers


@pytest.mark.parametrize("failure", FAILURES)
def test_training_does_not_notice(
    failure: Callable[[str, Any], Exception | None],
    late: LateDevice,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    plain = run("with_adam", "late")
    waits = late.waits_of(threading.get_ident())
    expected = plain.bytes()
    late.recover()
    late.refused = failure
    done = run("with_adam", "late", traced(tmp_path))
    assert late.waits_of(threading.get_ident()) == waits
    assert done.bytes() == expected
    Proxy._installed.take_down()
    (message,) = problems(tmp_path)
    assert message.endswith("Training goes on.")
    assert capfd.readouterr().err == f"proxy_wrapper: {message}\n"
    assert records(tmp_path)[-1]["kind"] == "run_end"


def test_what_there_is_no_memory_for_is_named_and_nothing_else_is_lost(late: LateDevice, tmp_path: Path) -> None:
    late.refused = out_of_memory_for_the_largest
    run("with_adam", "late", traced(tmp_path))
    Proxy._installed.take_down()
    (message,) = problems(tmp_path)
    assert "the numbers of model.out.weight " in message
    assert "(OutOfMemoryError: late:0 is out of memory: 1,824 bytes were asked for.)" in message
    for name, found in numbers(tmp_path).items():
        assert found
        assert all((each is None) == (name == "model.out.weight") for each in found)


def test_numbers_come_back_with_the_memory(late: LateDevice, tmp_path: Path) -> None:
    model = make("late")
    traced(tmp_path)(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    image, word, _ = batch("late")
    for refused in (lambda name, args: None, out_of_memory_for_the_largest, lambda name, args: None):
        late.refused = refused
        optimizer.zero_grad()
        model(image, word).square().mean().backward()
        optimizer.step()
    Proxy._installed.take_down()
    found = [each is not None for each in numbers(tmp_path)["model.out.weight"]]
    assert (found[0], found[-1], found.count(False)) == (True, True, 2)  # A gradient and an update.


def test_what_may_have_changed_is_not_said_to_have(late: LateDevice, tmp_path: Path) -> None:
    model = make("late").eval()
    traced(tmp_path)(model)
    late.refused = failing_under_ours
    image, word, _ = batch("late")
    with torch.no_grad():
        for _ in range(6):
            model(image, word)
    Proxy.flush()
    Proxy._installed.take_down()
    assert [each for each in records(tmp_path) if each["kind"] == "update"] == []


def test_a_failure_that_only_the_writer_meets_is_said_once(
    late: LateDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = run("with_adam", "late").bytes()
    event = type(late.Event())
    synchronize = event.synchronize

    def fail(self: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("late:0: unspecified launch failure")
        synchronize(self)

    monkeypatch.setattr(event, "synchronize", fail)
    done = run("with_adam", "late", traced(tmp_path))
    Proxy.flush()
    assert done.bytes() == expected
    Proxy._installed.take_down()
    (message,) = problems(tmp_path)
    assert "(RuntimeError: late:0: unspecified launch failure)" in message
    assert capfd.readouterr().err.count("\n") == 1
    assert {value for found in numbers(tmp_path).values() for value in found} == {None}
    assert records(tmp_path)[-1]["kind"] == "run_end"


def test_a_device_that_is_lost_ends_a_program_as_it_would_have_ended(
    late: LateDevice, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def program(trace: Callable[[nn.Module], object]) -> list[Any]:
        late.recover()
        model = make("late")
        trace(model)
        optimizer = torch.optim.Adam(model.parameters())
        image, word, _ = batch("late")
        outcome: list[Any] = []
        for step in range(4):
            try:
                optimizer.zero_grad()
                model(image, word).square().mean().backward()
                optimizer.step()
            except RuntimeError as error:
                outcome.append((step, str(error)))
            if step == 1:
                late.queue.fail(RuntimeError("late:0: the device is lost"))
        torch.manual_seed(0)
        spare = Mixed()  # The program goes on without it.
        trace(spare)
        torch.optim.SGD(spare.parameters(), lr=0.1).step()
        outcome += bytes_of(spare.parameters())
        return outcome

    plain = program(lambda model: None)
    assert [each[0] for each in plain[:2]] == [2, 3]
    assert program(traced(tmp_path)) == plain
    Proxy._installed.take_down()
    (message,) = problems(tmp_path)
    assert "(RuntimeError: late:0: the device is lost)" in message
    assert capfd.readouterr().err.count("\n") == 1
    assert records(tmp_path)[-1]["kind"] == "run_end"


def test_what_a_signal_handler_raises_is_the_program_s(late: LateDevice, tmp_path: Path) -> None:
    def preempt(number: int, frame: object) -> None:
        raise TimeoutError("preempted")

    def refused(name: str, args: Any) -> None:
        if is_ours(name):
            signal.raise_signal(signal.SIGUSR1)

    model = make("late")
    traced(tmp_path)(model)
    before = signal.signal(signal.SIGUSR1, preempt)
    late.refused = refused
    try:
        with pytest.raises(TimeoutError, match="preempted"):
            torch.optim.SGD(model.parameters(), lr=0.1).step()
    finally:
        late.recover()
        signal.signal(signal.SIGUSR1, before)


def test_where_there_are_no_doubles_floats_are_told_exactly(
    late: LateDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for device in ("cpu", "late"):
        late.has_float64 = False
        monkeypatch.setattr(statistics, "_widest_floating", lambda device: torch.float32)
        run("with_adam", device, traced(tmp_path / device))
        Proxy._installed.take_down()
    assert comparable(tmp_path / "late") == comparable(tmp_path / "cpu")
