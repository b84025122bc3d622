"""Traces for the tests, encoded as the runtime encodes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pytest

from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path


def make_run(**fields: Any) -> events.Run:
    defaults: dict[str, Any] = {
        "format": events.FORMAT,
        "run": "20261121T080911-3f2a9c",
        "started": "2026-11-21T08:09:11.500000+00:00",
        "pid": 100,
        "script": "train.py",
        "argv": ["--epochs", "1"],
        "python": "3.11.7",
        "torch": "2.8.0",
        "version": "0.1.0",
    }
    return events.Run(**{**defaults, **fields})


class WriteTrace(Protocol):
    def __call__(
        self, path: Path, *records: events.Event, tail: bytes = b"", ends: bool = False, **run: Any
    ) -> Path: ...


@pytest.fixture(scope="session")
def write_trace() -> WriteTrace:
    """Writes a file: a header with the fields in `run`, the records, an end if asked for, or the bytes in `tail`."""

    def write(path: Path, *records: events.Event, tail: bytes = b"", ends: bool = False, **run: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        latest = max((event.time_us for event in records if isinstance(event, events.Happening)), default=0)
        end = [events.RunEnd(latest)] if ends and not tail else []
        path.write_bytes(msgspec.json.Encoder().encode_lines([make_run(**run), *records, *end]) + tail)
        return path

    return write


@pytest.fixture(scope="session")
def small_run() -> list[events.Event]:
    """Two steps of a model with two layers: `fc` is trained, `spare` is neither called nor trained."""
    before = events.Statistics(-0.5, 0.5, 1.0, bits="00000000000000aa")
    zeros = events.Statistics(0.0, 0.0, 0.0, bits="0000000000000000")
    records: list[events.Event] = [
        events.Location(1, "train.py", 10, "main"),
        events.Location(2, "train.py", 20, "Net.forward", 1),
        events.Module(1, "model", "Net", 1, 0, "INFO", 24, 1),
        events.Module(2, "model.fc", "Linear", 1, 1, "INFO", 12, 1),
        events.Module(3, "model.spare", "Linear", 1, 1, "INFO", 12, 1),
        events.Parameter(1, "model.fc.weight", 2, "float32[3, 3]", "cpu", True, statistics=before),
        events.Parameter(2, "model.fc.bias", 2, "float32[3]", "cpu", True, statistics=zeros),
        events.Parameter(3, "model.spare.weight", 3, "float32[3, 3]", "cpu", True, statistics=before),
        events.Parameter(4, "model.spare.bias", 3, "float32[3]", "cpu", True, statistics=zeros),
    ]
    for step in range(2):
        t = 1000 * (step + 1)
        moved = events.Statistics(-0.5 - 0.25 * (step + 1), 0.5, 2.0, bits=f"{step + 1:016x}")
        records += [
            events.CallModule(t, step, 1, 1, inputs=["float32[2, 3]"], training=True),
            events.CallModule(t + 10, step, 2, 2, inputs=["float32[2, 3]"], training=True),
            events.ReturnModule(t + 50, step, 2, outputs=["float32[2, 3]"], duration_us=40),
            events.ReturnModule(t + 100, step, 1, outputs=["float32[2, 3]"], duration_us=100),
            events.Backward(t + 200, step, location=1, inputs=["float32[]"]),
            events.BackwardEnd(t + 300, step, location=1, duration_us=100),
            events.OptimizerStep(t + 400, step, location=1, optimizer="SGD", tensors=2),
        ]
        for tensor in (1, 2):
            records.append(events.Gradient(t + 410, step, 2, 1, 0, "train", tensor, events.Statistics(-1.0, 1.0, 1.5)))
            records.append(events.Update(t + 420, step, 2, 1, 0, "train", tensor, moved, step + 1, "step"))
        records.append(events.OptimizerStepEnd(t + 430, step, location=1, optimizer="SGD", duration_us=30))
    return records


@pytest.fixture
def small_trace(tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]) -> Path:
    """The run directory of `small_run`."""
    return write_trace(tmp_path / "proxy_trace" / "20261121T080911-3f2a9c" / "rank0-100.jsonl", *small_run).parent
