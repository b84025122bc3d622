"""What is told of problems of tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import find, of_code, said

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def test_the_same_problem_is_told_once_with_its_count(tmp_path: Path, write_trace: WriteTrace) -> None:
    problem = events.Problem(5, 1, message="no space\nleft")
    path = write_trace(tmp_path / "a.jsonl", problem, problem, events.Problem(9, message="other"))
    assert of_code(path, "tracing-problem") == [("", "no space left (2 times)"), ("", "other")]
    assert (find(path)[0].step, find(path)[0].time_us) == (1, 5)


def test_a_mistake_of_the_tracing_is_told_though_it_left_no_record_of_it(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(tmp_path / "a.jsonl", events.RunEnd(5, 3, reason="failed"), ends=False)
    assert of_code(path, "tracing-problem") == [("", "a bug in the tracing has ended it")]
    assert said(path, "tracing") == ("finding", [])
    problem = events.Problem(4, 3, message="tracing failed with IndexError")
    path = write_trace(tmp_path / "b.jsonl", problem, events.RunEnd(5, 3, reason="failed"), ends=False)
    assert of_code(path, "tracing-problem") == [("", "tracing failed with IndexError")]


def test_without_a_problem_tracing_has_passed(small_trace: Path) -> None:
    assert said(small_trace, "tracing") == ("passed", [])
