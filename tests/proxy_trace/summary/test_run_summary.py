from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from proxy_trace.reading.trace import Trace
from proxy_trace.reading.workers import Workers
from proxy_trace.summary.run_summary import REPORT_INTERVAL, summarize
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def test_the_run_is_told_from_its_header(small_trace: Path) -> None:
    summary = summarize(Trace.open(small_trace))
    assert (summary.run, summary.script, summary.argv) == ("20261121T080911-3f2a9c", "train.py", ["--epochs", "1"])
    assert (summary.ranks, summary.steps, summary.duration_us) == ([0], 2, 2430)
    assert summary.events == 34


def test_calls_of_modules_are_counted_and_timed(small_trace: Path) -> None:
    process = summarize(Trace.open(small_trace)).processes[0]
    model, fc, spare = process.modules
    assert (fc.name, fc.type, fc.parent, fc.parameters) == ("model.fc", "Linear", model.id, 12)
    assert (fc.calls, fc.total_us, fc.mean_us) == (2, 80, 40.0)
    assert (spare.calls, spare.mean_us) == (0, 0.0)
    assert process.module_calls == 4


def test_steps_are_counted_by_optimizer(small_trace: Path) -> None:
    process = summarize(Trace.open(small_trace)).processes[0]
    assert (process.steps, process.optimizers) == (2, {"SGD": 2})
    assert (process.backward_passes, process.backward_us) == (2, 200)


def test_parameters_have_their_first_and_last_values(small_trace: Path) -> None:
    weight = summarize(Trace.open(small_trace)).processes[0].tensors[0]
    assert weight.update_count == 2
    assert weight.first == events.Statistics(-0.5, 0.5, 1.0, bits="00000000000000aa")
    assert weight.last == events.Statistics(-1.0, 0.5, 2.0, bits="0000000000000002")
    assert weight.last_gradient == events.Statistics(-1.0, 1.0, 1.5)
    assert weight.has_changed


def test_steps_that_leave_a_tensor_unchanged_are_no_updates(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Parameter(1, "model.w", 1, "float32[1]"),
        events.Update(1, tensor=1, cause="unchanged"),
        events.Update(2, tensor=1, cause="in-place"),
    )
    tensor = summarize(Trace.open(path)).processes[0].tensors[0]
    assert (tensor.update_count, tensor.updates) == (1, {"unchanged": 1, "in-place": 1})


def test_values_loaded_before_the_first_step_are_where_training_starts(tmp_path: Path, write_trace: WriteTrace) -> None:
    loaded = events.Statistics(3.0, 4.0, 5.0)
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Parameter(1, "model.w", 1, "float32[1]", statistics=events.Statistics(0.0, 1.0, 1.0)),
        events.Update(1, tensor=1, statistics=loaded, cause="in-place"),
        events.OptimizerStepEnd(2),
    )
    tensor = summarize(Trace.open(path)).processes[0].tensors[0]
    assert tensor.first == loaded
    assert not tensor.has_changed


def test_a_buffer_starts_from_where_it_was_proxied(tmp_path: Path, write_trace: WriteTrace) -> None:
    new = events.Statistics(0.0, 0.0, 0.0)
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Buffer(1, "model.mean", 1, "float32[1]", statistics=new),
        events.Update(1, tensor=1, statistics=events.Statistics(3.0, 4.0, 5.0), cause="data"),
    )
    tensor = summarize(Trace.open(path)).processes[0].tensors[0]
    assert (tensor.first, tensor.has_changed) == (new, True)


def test_a_module_found_inside_another_is_told_by_its_longer_name(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "encoder", "Encoder", 1),
        events.CallModule(1, module=1),
        events.ReturnModule(5, module=1, duration_us=4),
        events.Module(2, "model", "Net", 2),
        events.Module(1, "model.encoder", "Encoder", 2, 2),
    )
    encoder, model = summarize(Trace.open(path)).processes[0].modules
    assert (encoder.name, encoder.calls, encoder.parent, model.id) == ("model.encoder", 1, 2, 2)


def test_ids_that_were_never_defined_are_told_by_number(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", events.CallModule(1, module=5), events.Gradient(1, tensor=6))
    process = summarize(Trace.open(path)).processes[0]
    assert [module.name for module in process.modules] == ["#5"]
    assert [tensor.name for tensor in process.tensors] == ["#6"]


def test_a_call_that_never_ended_is_told_by_its_innermost_module(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.fc", "Linear", 1, 1),
        events.CallModule(1, module=1),
        events.CallModule(2, module=2),
    )
    assert summarize(Trace.open(path)).processes[0].ends_inside == "a call of model.fc"


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (events.Backward(5), "a backward pass"),
        (events.OptimizerStep(5, optimizer="SGD"), "a step of SGD"),
        (events.Problem(5, message="m"), ""),
    ],
)
def test_what_had_not_ended_is_told(
    last: events.Event, words: str, tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", *small_run, last)
    assert summarize(Trace.open(path)).processes[0].ends_inside == words


@pytest.mark.parametrize(
    "last", [events.OptimizerStep(5, optimizer="SGD"), events.CallModule(5, module=1), events.Backward(5)]
)
@pytest.mark.parametrize("reason", ["exception", "exit"])
def test_what_an_exception_left_does_not_make_a_trace_incomplete(
    last: events.Event, reason: str, tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", *small_run, last, events.RunEnd(6, reason=reason, error="ValueError"))
    summary = summarize(Trace.open(path))
    assert summary.processes[0].ends_inside == ""
    assert not [finding for finding in summary.findings if finding.code == "incomplete-trace"]


def test_a_step_that_raised_is_forgotten_with_the_next_call(tmp_path: Path, write_trace: WriteTrace) -> None:
    later = [events.CallModule(2, module=1), events.ReturnModule(3, module=1)]
    path = write_trace(tmp_path / "a.jsonl", events.OptimizerStep(1, optimizer="SGD"), *later)
    assert summarize(Trace.open(path)).processes[0].ends_inside == ""


def test_a_call_left_by_an_interrupt_is_forgotten_with_the_next_call_of_its_root(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.fc", "Linear", 1, 1),
        events.CallModule(1, module=1),
        events.CallModule(2, module=2),
        events.CallModule(3, module=1),
        events.ReturnModule(4, module=1),
    )
    assert summarize(Trace.open(path)).processes[0].ends_inside == ""


def test_each_process_is_summed_up_by_itself(tmp_path: Path, write_trace: WriteTrace) -> None:
    write_trace(tmp_path / "rank1-2.jsonl", events.OptimizerStepEnd(1), rank=1, pid=2, world_size=2)
    write_trace(tmp_path / "rank0-1.jsonl", rank=0, pid=1, world_size=2)
    summary = summarize(Trace.open(tmp_path))
    assert [(process.rank, process.pid, process.steps) for process in summary.processes] == [(0, 1, 0), (1, 2, 1)]
    assert (summary.ranks, summary.world_size, summary.steps) == ([0, 1], 2, 1)


def test_what_was_read_over_is_counted(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", tail=b'nonsense\n{"kind":"fold"}\n{"kind":"mod')
    process = summarize(Trace.open(path)).processes[0]
    assert (process.malformed, process.first_malformed_line, process.unknown) == (1, 2, {"fold": 1})
    assert process.is_cut


def test_memory_does_not_grow_with_the_run_and_progress_is_told(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    definitions, training = small_run[:9], small_run[9:]
    peaks = []
    for rounds in (1, 3):
        told: list[int] = []
        repeated = training * (rounds * REPORT_INTERVAL // len(training) + 1)
        path = write_trace(tmp_path / f"{rounds}.jsonl", *definitions, *repeated)
        trace = Trace.open(path)
        tracemalloc.start()
        summarize(trace, Workers(on_progress=told.append))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(told) > rounds
        assert told == sorted(told)
        assert told[-1] == path.stat().st_size
    assert peaks[1] < peaks[0] * 1.1
