"""What is told of how processes ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.checks.end import ENDED
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import find, said

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def test_an_exception_that_ended_processes_is_one_finding_for_each_step(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    for rank, step in enumerate((3, 3, 7)):
        end = events.RunEnd(9, step, reason="exception", error="ValueError")
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", end, ends=False, rank=rank, pid=rank, world_size=3)
    assert [finding for finding in find(tmp_path) if finding.code == "ended-by-exception"] == [
        ENDED.finding("ValueError", "ended the process", [0, 1], step=3),
        ENDED.finding("ValueError", "ended the process", [2], step=7),
    ]
    assert said(tmp_path, "end") == ("finding", [])


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param([events.RunEnd(9)], ("passed", []), id="in order"),
        pytest.param(
            [events.RunEnd(9, reason="unproxied")],
            ("not checked", ["the only process no longer traced at the end"]),
            id="when it was traced no more",
        ),
        pytest.param([], ("not checked", ["the only process without an end"]), id="killed, or still running"),
    ],
)
def test_a_process_may_end(
    end: list[events.Event], expected: tuple[str, list[str]], tmp_path: Path, write_trace: WriteTrace
) -> None:
    assert said(write_trace(tmp_path / "a.jsonl", *end, ends=False), "end") == expected
