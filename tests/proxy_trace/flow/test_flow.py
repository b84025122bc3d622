"""Flow steps of stored runs: what they are called, how they are shown, and where two runs part."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from proxy_trace.cli import run_command
from proxy_trace.flow.flow_parting import compare_flow
from proxy_trace.flow.flow_steps import flow_steps
from proxy_trace.reading.trace import Trace
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = [
    events.Location(1, "train.py", 20, "main"),
    events.Location(2, "net.py", 7, "Net.forward", 1),
    events.Module(1, "model", "Net", 1),
]


def call(time_us: int) -> events.CallModule:
    return events.CallModule(time_us, 0, 1, 1)


def came_out(time_us: int, text: str, value: bool, construct: str = "if", thread: int = 0) -> events.FlowStep:
    return events.FlowStep(time_us, 0, 1, 2, thread, construct=construct, text=text, value=value)


def loop(time_us: int, text: str, iterations: int) -> events.FlowStep:
    return events.FlowStep(time_us, 0, 1, 2, construct="for", text=text, iterations=iterations)


def opened(path: Path) -> Trace:
    return Trace.open(path)


def test_steps_are_called_as_nodes_of_torch_fx_are(write_trace: WriteTrace, tmp_path: Path) -> None:
    records = [
        call(1),
        came_out(2, "x.shape[0] > 1", True),
        came_out(3, "y > 0", False, "elif"),
        came_out(4, "x.all()", False),
        came_out(5, "x.all()", True),
        came_out(6, "x > 0 and y", True),
        loop(7, "t in x", 3),
        call(8),
        came_out(9, "x > 1", True),
    ]
    file = opened(write_trace(tmp_path / "rank0-1.jsonl", *PLACES, *records, ends=True)).files[0]
    steps = [seen.step for seen in flow_steps(file.read(), file.names())]
    assert [each.name for each in steps] == ["gt", "gt_1", "all_1", "all_2", "x > 0 and y", "x", "gt"]
    assert {str(each) for each in steps} == {"net.py:Net.forward.7"}
    assert steps[5][:4] == ("for", "x", None, 3)


def test_a_trace_at_debug_has_the_tests_on_tensors(
    write_trace: WriteTrace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = events.CallMethod(2, 0, 1, 2, target="gt", inputs=["float32[]"], outputs=["bool[]"], output_ids=[5])
    read = events.ReadValue(3, 0, 1, 2, target="__bool__", inputs=["bool[]"], value=True, input_ids=[5])
    path = write_trace(tmp_path / "rank0-1.jsonl", *PLACES, call(1), made, read, ends=True)
    assert run_command(["flow", str(path), "--format", "json"]) == 0
    printed = capsys.readouterr()
    (row,) = [json.loads(line) for line in printed.out.splitlines()]
    assert (row["construct"], row["name"], row["value"], row["line"]) == ("", "gt", True, 7)
    assert "only conditions on tensors are known" in printed.err


def test_the_command_lists_steps(write_trace: WriteTrace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [came_out(2, "y > 0", False), loop(3, "t in x", 1)]
    path = write_trace(tmp_path / "rank0-1.jsonl", *PLACES, *records, ends=True)
    assert run_command(["flow", str(path)]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert " ".join(first.split()) == "0 False if y > 0 net.py:7 in Net.forward in a call of model"
    assert " ".join(second.split()) == "0 1 iteration for t in x net.py:7 in Net.forward in a call of model"
    assert run_command(["flow", str(path), "--limit", "1", "--format", "json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run_command(["flow", str(path), "--step", "1-"]) == 0
    assert "no flow steps" in capsys.readouterr().err


def test_two_runs_part_at_the_first_step_that_differs(
    write_trace: WriteTrace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = events.CallMethod(3, 0, 1, 2, target="gt", inputs=["float32[]"], outputs=["bool[]"], output_ids=[5])
    asked = events.ReadValue(4, 0, 1, 2, target="__bool__", inputs=["bool[]"], value=True, input_ids=[5])
    one = [*PLACES, came_out(2, "a", True), made, asked, came_out(5, "y > 0", True), came_out(6, "b", True)]
    other = [*PLACES, came_out(2, "a", True), came_out(5, "y > 0", False), came_out(6, "c", True)]
    first = write_trace(tmp_path / "one" / "rank0-1.jsonl", *one, ends=True)
    second = write_trace(tmp_path / "other" / "rank0-1.jsonl", *other, ends=True)
    found = compare_flow(opened(first), opened(second))
    (parting,) = found.partings
    assert parting.same == 1
    assert parting.first is not None
    assert parting.second is not None
    assert (parting.first.value, parting.second.value) == (True, False)
    assert parting.first.made_from == ["gt"]
    assert [each.kind for each in parting.first.led_there] == ["call_method", "read_value"]
    assert parting.second.led_there == []
    assert run_command(["flow", str(first), str(second)]) == 1
    assert "they part after 1 flow step" in capsys.readouterr().out
    assert run_command(["flow", str(first), str(first)]) == 0
    assert capsys.readouterr().out == "Both went the same way in all 3 flow steps.\n"


def test_a_run_that_ends_sooner_parts_there(write_trace: WriteTrace, tmp_path: Path) -> None:
    first = write_trace(
        tmp_path / "one" / "rank0-1.jsonl", *PLACES, came_out(2, "a", True), came_out(3, "a", True), ends=True
    )
    second = write_trace(tmp_path / "other" / "rank0-1.jsonl", *PLACES, came_out(2, "a", True), ends=True)
    (parting,) = compare_flow(opened(first), opened(second)).partings
    assert parting.same == 1
    assert parting.second is None


def test_a_run_without_steps_cannot_be_compared(
    write_trace: WriteTrace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_trace(tmp_path / "one" / "rank0-1.jsonl", *PLACES, came_out(2, "a", True), ends=True)
    second = write_trace(tmp_path / "other" / "rank0-1.jsonl", *PLACES, call(2), ends=True)
    assert run_command(["flow", str(first), str(second)]) == 2
    assert "has no flow steps" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["a", "b", "c"], ["a", "b", "--limit", "2"]])
def test_other_arguments_are_refused(
    arguments: list[str], write_trace: WriteTrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        write_trace(tmp_path / name / "rank0-1.jsonl", *PLACES, came_out(2, "a", True), ends=True)
    assert run_command(["flow", *arguments]) == 2
