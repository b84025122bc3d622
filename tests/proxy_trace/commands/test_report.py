"""The command writes a page of one run, or of two, and never over anything unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.cli import run_command
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


@pytest.fixture
def runs(tmp_path: Path, write_trace: WriteTrace, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two runs of which the second calls something once more; this folder is the current one."""
    monkeypatch.chdir(tmp_path)
    call = events.CallFunction(1, 0, target="torch.relu")
    first = write_trace(tmp_path / "a" / "rank0-1.jsonl", call, ends=True, run="a").parent
    second = write_trace(tmp_path / "b" / "rank0-1.jsonl", call, call, ends=True, run="b").parent
    return str(first), str(second)


def test_the_page_of_a_run(
    runs: tuple[str, str], small_trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["report", str(small_trace)]) == 0
    page = tmp_path / f"{small_trace.name}.html"
    assert capsys.readouterr().out == f"{page.name}: 2 findings\n"
    assert "Modules never called" in page.read_text()
    assert "Where the two runs part" not in page.read_text()


def test_the_page_of_the_newest_run_where_scripts_write(
    small_trace: Path, tmp_path: Path, runs: tuple[str, str]
) -> None:
    assert small_trace.parent == tmp_path / "proxy_trace"
    assert run_command(["report", "-o", "page.html"]) == 0
    assert small_trace.name in (tmp_path / "page.html").read_text()


def test_the_page_of_two_runs(runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["report", *runs]) == 0
    assert "only the second run has call_function torch.relu here" in capsys.readouterr().out
    assert "only the second run has call_function torch.relu here" in (tmp_path / "a-b.html").read_text()


def test_no_page_is_replaced_unasked(runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["report", *runs]) == 0
    assert run_command(["report", *runs]) == 2
    assert "a-b.html: already exists." in capsys.readouterr().err
    assert run_command(["report", *runs, "--force"]) == 0
    assert run_command(["report", *runs, "-o", "deep/page.html"]) == 0
    assert (tmp_path / "deep" / "page.html").exists()


def test_ranks_are_drawn_over_each_other_and_too_many_are_counted(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    for rank in range(10):
        write_trace(tmp_path / "run" / f"rank{rank}-1.jsonl", *small_run, ends=True, rank=rank, world_size=10)
    page = tmp_path / "page.html"
    assert run_command(["report", str(tmp_path / "run"), "-o", str(page)]) == 0
    assert page.read_text().count('name="process"') == 8
    assert "2 more processes are not drawn" in page.read_text()
    assert run_command(["report", str(tmp_path / "run"), "--rank", "9", "-o", str(page), "--force"]) == 0
    assert 'name="process"' not in page.read_text()
