"""`proxy-trace runs`: the runs that there are, with what was found in each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy_trace.cli import run_command
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

OLD, MIDDLE, NEW = (f"20261121T08000{second}-aaaaaa" for second in (1, 2, 3))


@pytest.fixture
def logdir(tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]) -> str:
    """A run that ended by an exception, one of two ranks without a finding, and one that is no trace."""
    path = tmp_path / "proxy_trace"
    called = [events.Module(1, "model", "Net", 1), events.CallModule(1, module=1), events.ReturnModule(2, module=1)]
    write_trace(path / OLD / "rank0-1.jsonl", *small_run, events.RunEnd(5, reason="exception", error="Bad"), run=OLD)
    for rank in (0, 1):
        file = path / MIDDLE / f"rank{rank}-{rank}.jsonl"
        write_trace(file, *called, ends=True, run=MIDDLE, rank=rank, world_size=2)
    (path / NEW).mkdir()
    (path / NEW / "rank0-1.jsonl").write_text("no trace\n")
    (path / "20261121T080009-empty").mkdir()
    return str(path)


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert run_command(["runs", *arguments, "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_newest_come_first_with_what_was_found(jobs: str, logdir: str, capsys: pytest.CaptureFixture[str]) -> None:
    new, middle, old = listed(capsys, logdir, "--jobs", jobs)
    assert (new["run"], new["findings"]) == (NEW, None)
    assert "not a record" in new["problem"]
    assert (middle["run"], middle["processes"], middle["findings"], middle["gravest"]) == (MIDDLE, 2, {}, [])
    assert (old["run"], old["steps"]) == (OLD, 2)
    assert old["findings"] == {"error": 1, "warning": 1}
    assert old["gravest"] == ["ended-by-exception"]


def test_lines_for_people_say_how_many_are_left_out(logdir: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["runs", logdir, "--limit", "2"]) == 0
    printed = capsys.readouterr().out
    assert "cannot be read" in printed
    assert OLD not in printed
    assert "1 older run left out" in printed


def test_without_findings_only_the_first_lines_are_read(logdir: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, old = listed(capsys, logdir, "--no-findings")
    assert (old["script"], old["argv"], old["steps"], old["findings"]) == ("train.py", ["--epochs", "1"], None, None)


def test_what_the_project_ignores_is_not_counted(
    logdir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.proxy-trace]\nignore = ["ended-by-*"]\n')
    monkeypatch.chdir(tmp_path)
    assert listed(capsys)[-1]["gravest"] == ["never-called"]


def test_the_folder_of_a_run_is_a_list_of_one(logdir: str, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = listed(capsys, f"{logdir}/{OLD}")
    assert one["run"] == OLD


@pytest.mark.parametrize(("folder", "words"), [("nowhere", "no such file or directory"), (".", "contains no trace")])
def test_a_folder_without_runs_is_a_mistake(
    folder: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["runs", str(tmp_path / folder)]) == 2
    assert words in capsys.readouterr().err
