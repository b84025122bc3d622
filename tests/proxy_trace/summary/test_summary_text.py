from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy_trace.reading.selection import Period, StepRange
from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize
from proxy_trace.summary.summary_text import summary_lines
from proxy_trace.terminal.colour import Palette
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

CALLS: list[events.Event] = [events.CallModule(1, module=1), events.ReturnModule(2, module=1, duration_us=1)]


@pytest.fixture
def write_trace(write_trace: WriteTrace) -> WriteTrace:
    """Writes the traces of processes that ended in an orderly way."""
    return partial(write_trace, ends=True)


def report(path: Path, *, tables_of_all: bool = False) -> str:
    lines = summary_lines(summarize(Trace.open(path)), Palette(enabled=False), tables_of_all=tables_of_all)
    return "\n".join(lines)


NEWER = (
    "not checked: steps, clearing, optimizers, freezing, rates, schedulers, signs, modes, progress, initial weights "
    "(no record of an optimizer), loss functions (no record of a loss), inputs (no values of inputs of layers)"
)
"""What is not checked in a trace without the records of losses and optimizers."""


def test_a_whole_report(small_trace: Path) -> None:
    size = next(small_trace.iterdir()).stat().st_size / 1e3
    assert (
        report(small_trace)
        == f"""\
train.py --epochs 1
  run        20261121T080911-3f2a9c, started 2026-11-21 08:09:11 UTC, 2.4 ms long
  software   Python 3.11.7, torch 2.8.0, proxy_wrapper 0.1.0
  training   2 steps of SGD, 2 backward passes (200 us)
  trace      35 events, {size:.1f} kB

1 check found something: calls; 15 checks passed; {NEWER}.

warning[never-called] Modules never called (1)
  model.spare  never called, train.py:10
    so untrained: model.spare.*
  what to do: Check whether `forward` was meant to use it: a layer may be left
  out, a name misspelt, or `forward` called directly. If it is not needed,
  delete it.
  see more: proxy-trace show {small_trace} --kind call_module

Modules
  name     type    calls   total    mean  parameters
  model    Net         2  200 us  100 us          24
    fc     Linear      2   80 us   40 us          12
    spare  Linear      0       -       -          12

Parameters
  name                type           updates  minimum     maximum   norm  gradient norm
  model.fc.weight     float32[3, 3]        2  -0.5 -> -1  0.5          2            1.5
  model.fc.bias       float32[3]           2  0 -> -1     0 -> 0.5     2            1.5
  model.spare.weight  float32[3, 3]        0  -0.5        0.5          1              -
  model.spare.bias    float32[3]           0  0           0            0              -"""
    )


def test_calls_that_go_around_the_hooks_are_not_said_to_be_none(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Process", 1, calls_seen=False),
        events.Module(2, "model.fc", "Linear", 1, 1, calls_seen=False),
        events.CallModule(1, module=2),
        events.ReturnModule(2, module=2),
    )
    text = report(path)
    assert "in part: outputs, calls (calls of 1 of 2 modules bypass PyTorch's hooks)" in text
    assert [line.split()[:4] for line in text.splitlines() if " Process " in line] == [
        ["model", "Process", "not", "seen"]
    ]


def test_stages_and_what_was_left_out_on_purpose_are_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1, first=5, every=10),
        events.Parameter(1, "model.w", 1, "float32[3]", watched=False),
        events.CallModule(1, 1, module=1),
        events.ReturnModule(2, 1, module=1),
        events.OptimizerStepEnd(3, 1, optimizer="SGD"),
        events.CallModule(4, 42, module=1, stage="validation"),
        events.ReturnModule(5, 42, module=1, stage="validation"),
    )
    lines = report(path).splitlines()
    assert "  training   1 step recorded of SGD" in lines
    assert "  stages     train (1 step, 1 call), validation (1 call)" in lines
    assert "  recorded   only 1 of 10 steps after the first 5 (of 42); 1 tensor not watched" in lines


def test_a_stage_counts_the_calls_that_lie_in_no_other_whichever_module_is_called(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.denoiser", "Unet", 1, parent=1),
        events.CallModule(1, module=1),
        events.CallModule(2, module=2),
        events.ReturnModule(3, module=2),
        events.ReturnModule(4, module=1),
        events.Backward(5),
        events.CallModule(6, module=2),  # activations that were not kept
        events.ReturnModule(7, module=2),
        events.BackwardEnd(8),
        events.OptimizerStepEnd(9, optimizer="SGD"),
        events.CallModule(10, 1, module=2, stage="eval"),
        events.ReturnModule(11, 1, module=2, stage="eval"),
    )
    assert "  stages     train (1 step, 1 call), eval (1 call)" in report(path).splitlines()


def test_versions_that_differ_between_processes_are_all_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank, version in enumerate(("0.1.0", "0.2.0", "0.1.0")):
        write_trace(tmp_path / f"rank{rank}-1.jsonl", rank=rank, version=version)
    assert "torch 2.8.0, proxy_wrapper 0.1.0, 0.2.0" in report(tmp_path)


def test_what_made_a_non_finite_output_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    words = ["float32[3]"]
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Location(1, "net.py", 13, "forward"),
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.fc", "Linear", 1, 1),
        events.CallModule(1, module=1, inputs=words, input_ids=[1]),
        events.CallModule(2, module=2, location=1, inputs=words, input_ids=[1]),
        events.ReturnModule(3, module=2, outputs=words, output_ids=[2]),
        events.CallFunction(4, 0, 1, 1, target="torch.log", inputs=words, outputs=words, input_ids=[2], output_ids=[3]),
        events.ReturnModule(5, module=1, outputs=words, output_ids=[3]),
        events.NonFinite(6, module=1, count=1, type="float32[3]"),
    )
    lines = report(path).splitlines()
    found = next(number for number, line in enumerate(lines) if "first" in line)
    assert lines[found + 1].strip() == "made by log at net.py:13, from model.fc"


def test_what_was_taken_out_of_its_model_is_marked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.aux", "Linear", 1, 1, removed=True),
        events.Parameter(1, "model.aux.weight", 2, "float32[1]", removed=True),
    )
    rows = [line.split() for line in report(path).splitlines()]
    assert ["aux", "Linear", "removed", "-", "-", "-"] in rows
    assert ["model.aux.weight", "float32[1]", "removed", "-", "-", "-", "-"] in rows


def test_training_by_hand_is_told_by_its_steps(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Backward(1),
        events.BackwardEnd(2, duration_us=1),
        events.Gradient(2, tensor=1, statistics=events.Statistics(0.0, 1.0, 1.0)),
        events.Update(3, 1, tensor=1, statistics=events.Statistics(0.0, 2.0, 2.0), cause="in-place"),
        ends=True,
    )
    assert "  training   1 step without an optimizer, 1 backward pass (1 us)" in report(path)


@pytest.mark.parametrize(
    ("input_ids", "expected"),
    [
        pytest.param([7], "made from model.fc", id="from what another module put out"),
        pytest.param([], "then", id="from nothing that was seen"),
    ],
)
def test_that_a_module_made_its_own_output_is_not_said(
    input_ids: list[int], expected: str, tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model.fc", "Linear", 1),
        events.Module(2, "model.act", "ReLU", 2),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1, outputs=["float32[3]"], output_ids=[7]),
        events.CallModule(3, module=2, input_ids=input_ids),
        events.ReturnModule(4, module=2, outputs=["float32[3]"], output_ids=[8]),
        events.NonFinite(5, module=2, count=1, type="float32[3]"),
        events.NonFinite(6, module=1, where="parameter", tensor=1, count=1),
    )
    lines = report(path).splitlines()
    found = next(number for number, line in enumerate(lines) if "first" in line)
    assert lines[found + 1].strip().startswith(expected)


def test_a_part_of_a_run_is_summed_up_alone(small_trace: Path) -> None:
    summary = summarize(Trace.open(small_trace), period=Period(StepRange(1, 1)))
    text = "\n".join(summary_lines(summary, Palette(enabled=False)))
    assert "  training   1 step of SGD, 1 backward pass (100 us)" in text
    assert "  period     only step 1" in text
    assert "model.fc.weight     float32[3, 3]        1  -0.75 -> -1" in text


@pytest.mark.parametrize(
    "period", [Period(StepRange(1000, None)), Period(stages=["evla"])], ids=["steps that were not made", "no stage"]
)
def test_a_period_in_which_nothing_happened_is_not_judged(
    period: Period, tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", *small_run, events.CallModule(9000, 2, 1, stage="eval"), ends=True)
    summary = summarize(Trace.open(path), period=period)
    text = "\n".join(summary_lines(summary, Palette(enabled=False)))
    assert summary.findings == []
    assert "Nothing happened in this period. The run has steps 0 to 2, and the stages train, eval." in text
    assert "Nothing looks wrong" not in text


def test_a_stage_without_training_finds_no_parameter_that_was_not_trained(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    evaluated = [events.CallModule(9000, 2, 1, stage="eval"), events.ReturnModule(9001, 2, 1, stage="eval")]
    path = write_trace(tmp_path / "a.jsonl", *small_run, *evaluated)
    summary = summarize(Trace.open(path), period=Period(stages=["eval"]))
    assert [finding.code for finding in summary.findings] == ["never-called", "never-called"]


def test_a_run_in_which_nothing_is_wrong_says_so(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", *(event for event in small_run if "spare" not in repr(event)))
    assert f"\nNothing looks wrong: 16 checks passed; {NEWER}.\n" in report(path)


def test_a_frozen_parameter_does_not_make_a_run_look_wrong(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    sound = [event for event in small_run if "spare" not in repr(event)]
    text = report(write_trace(tmp_path / "a.jsonl", *sound, events.Parameter(9, "model.frozen", 1, "float32[1]")))
    assert "\nNothing looks wrong: 16 checks passed; in part: parameters (the values of 1 of 3 tensors" in text
    assert "note[frozen] Frozen parameters (1)\n  model.frozen  frozen (requires_grad is False)" in text


def test_what_was_not_traced_is_not_said_to_be_well(tmp_path: Path, write_trace: WriteTrace) -> None:
    text = report(write_trace(tmp_path / "a.jsonl"))
    assert "no optimizer step was traced" in text
    assert "Nothing looks wrong" not in text
    assert (
        "Nothing of the model was recorded: 3 checks passed; "
        "not checked: outputs, registration, calls (no call of a module was traced), "
        "losses, training, targets, activations, views, results (no backward pass was traced), "
        "gradients (no gradient was recorded), "
        "parameters, layers (no parameter was traced), "
        "steps, clearing, optimizers, freezing, rates, schedulers, signs, modes, progress, "
        "initial weights (no record of an optimizer), "
        "loss functions (no record of a loss), inputs (no values of inputs of layers), "
        "updates (no training was traced)."
    ) in text


def test_modules_that_record_too_little_are_not_said_to_be_well(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    def at_warning(event: events.Event) -> events.Event:
        return msgspec.structs.replace(event, level="WARNING") if isinstance(event, events.Module) else event

    definitions = [at_warning(event) for event in small_run[:9]]
    assert (
        "Nothing looks wrong: 5 checks passed; "
        "not checked: losses, gradients, parameters, training, steps, clearing, optimizers, freezing, rates, "
        "schedulers, loss functions, targets, signs, inputs, modes, dropout, progress, initial weights, registration, "
        "activations, views, results, updates, calls (level WARNING).\n"
    ) in report(write_trace(tmp_path / "a.jsonl", *definitions))
    some = [at_warning(event) if "spare" in repr(event) else event for event in small_run]
    assert "passed; in part: gradients, parameters, updates, calls (1 of 3 modules at level WARNING); " in report(
        write_trace(tmp_path / "b.jsonl", *some)
    )


@pytest.mark.parametrize(
    "spoils",
    [
        pytest.param(events.RunEnd(9000, 2, reason="exception", error="ValueError"), id="an exception ended it"),
        pytest.param(events.RunEnd(9000, 2, reason="failed"), id="tracing failed"),
        pytest.param(events.Problem(9000, message="gap"), id="tracing met a problem"),
        pytest.param(events.NonFinite(9000, where="loss", count=1, type="float32[]"), id="a loss was infinite"),
        pytest.param(
            events.Gradient(9000, 2, tensor=1, statistics=events.Statistics(-1e30, 1e30, "inf")),
            id="a norm was infinite",
        ),
    ],
)
def test_nothing_is_said_to_be_well_if(
    spoils: events.Event, tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    sound = [event for event in small_run if "spare" not in repr(event)]
    path = write_trace(tmp_path / "a.jsonl", *sound, spoils, ends=not isinstance(spoils, events.RunEnd))
    text = report(path)
    assert "Nothing looks wrong" not in text
    assert "\n1 check found something: " in text


def test_a_backward_pass_behind_which_nothing_was_looked_at_is_not_said_to_be_well(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    """One that trains by hand may have ended in a function, whose end has freed the model."""
    backward = [events.Backward(5), events.BackwardEnd(6)]
    text = report(write_trace(tmp_path / "a.jsonl", small_run[2], small_run[5], *CALLS, *backward))
    assert "Nothing looks wrong" not in text
    assert "No check found anything: " in text
    assert "training (no parameter was examined after the last backward pass)" in text


def test_the_first_non_finite_value_comes_first(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Location(1, "train.py", 9, "main"),
        *CALLS,
        events.NonFinite(20, 3, module=1, location=1, count=2, type="float32[4]"),
        events.Parameter(1, "model.w", 1, "float32[1]"),
        events.NonFinite(30, 3, module=1, location=1, where="parameter", tensor=1, count=1, type="float32[1]"),
    )
    assert """
error[non-finite] Non-finite values (1)
  first  model  output (Net): 2 non-finite elements of float32[4], at step 3, train.py:9
    then parameter of model.w, at step 3, train.py:9
""" in report(path)


def test_long_lists_are_cut_with_a_word_on_how_to_see_the_rest(tmp_path: Path, write_trace: WriteTrace) -> None:
    problems = [events.Problem(1, message=f"problem {number}") for number in range(25)]
    text = report(write_trace(tmp_path / "a.jsonl", *problems))
    assert "problem 19" in text
    assert "problem 20" not in text
    assert "... and 5 more; --format json lists all" in text


def test_several_processes_share_one_report_with_the_tables_of_one(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    for rank in (0, 1, 2):
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", *small_run, rank=rank, pid=rank, world_size=4)
    text = report(tmp_path)
    assert "  processes  3 processes, ranks 0-2 of 4\n" in text
    assert "  model.spare  never called, train.py:10, ranks 0-2\n" in text
    assert "Modules of rank 0, process 0\n" in text
    assert text.endswith("2 more processes have tables too; --rank N shows those of a rank.")
    assert "Parameters of rank 2, process 2" in report(tmp_path, tables_of_all=True)


def test_of_several_processes_of_a_rank_the_one_that_trained_is_shown(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    idle = [event for event in small_run if not isinstance(event, events.OptimizerStepEnd)]
    for pid, run in ((1, idle), (2, idle), (3, small_run)):
        write_trace(tmp_path / f"rank0-{pid}.jsonl", *run, pid=pid, parent_pid=0)
    text = report(tmp_path)
    assert "Modules of rank 0, process 3\n" in text
    assert text.endswith(
        f"2 more processes have tables too; `proxy-trace summary {tmp_path / 'rank0-1.jsonl'}` shows those of another."
    )


def test_buffers_aliases_and_exceptions_have_their_place(tmp_path: Path, write_trace: WriteTrace) -> None:
    values = events.Statistics(0.0, 1.0, 1.0)
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Parameter(1, "model.w", 1, "float32[1]", "cpu", True, ["model.v"], values),
        events.Buffer(2, "model.b", 1, "float32[1]", statistics=values),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1, duration_us=1, raised=True),
        events.OptimizerStepEnd(3, optimizer="SGD"),
        events.OptimizerStepEnd(4, optimizer="Adam"),
    )
    text = report(path)
    assert "  training   2 steps (SGD 1, Adam 1)\n" in text
    assert "  model.w (= model.v)  float32[1]        0  0        1           1              -\n" in text
    assert "1 (1 raised)" in text
    assert "Buffers\n  name     type        updates  minimum  maximum  norm\n" in text


def test_exceptions_that_ended_processes_are_told_with_their_ranks(tmp_path: Path, write_trace: WriteTrace) -> None:
    interrupt = events.RunEnd(9, 3, reason="exception", error="KeyboardInterrupt")
    for rank in range(3):
        path = tmp_path / f"rank{rank}-{rank}.jsonl"
        tail = msgspec.json.encode(events.RunEnd(9, 7) if rank == 1 else interrupt) + b"\n"
        write_trace(path, tail=tail, rank=rank, pid=rank, world_size=3)
    title = "Exceptions that ended processes (1)"
    assert f"{title}\n  KeyboardInterrupt  ended the process, at step 3, ranks 0, 2\n" in report(tmp_path)


def test_an_exception_that_ended_the_only_process_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    tail = msgspec.json.encode(events.RunEnd(9, 1, reason="exception", error="ValueError")) + b"\n"
    text = report(write_trace(tmp_path / "a.jsonl", tail=tail))
    assert "Exceptions that ended processes (1)\n  ValueError  ended the process, at step 1" in text
    tail = msgspec.json.encode(events.RunEnd(9, 1, reason="failed")) + b"\n"
    assert "a bug in the tracing has ended it, at step 1" in report(write_trace(tmp_path / "b.jsonl", tail=tail))


def test_a_wrapper_inside_a_model_is_named_for_what_it_holds(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "DataParallel(model.body)", "DataParallel", 1, 1),
        events.Module(3, "model.body", "Linear", 1, 2),
    )
    lines = report(path).splitlines()
    begin = lines.index("Modules") + 2
    assert [line.split()[0] for line in lines[begin : begin + 3]] == ["model", "DataParallel(body)", "body"]
