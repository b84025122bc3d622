from __future__ import annotations

from typing import TYPE_CHECKING

from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_wrapper import events
    from tests.proxy_trace.conftest import WriteTrace


def test_a_layer_that_is_left_out_is_found(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", *small_run, ends=True)
    (finding,) = find(path)
    assert (finding.code, finding.name, finding.names) == ("never-called", "model.spare", 1)
    assert finding.evidence == ["so untrained: model.spare.*"]


def test_the_same_finding_in_several_ranks_is_one(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", *small_run, ends=True, rank=rank, pid=rank)
    assert [(finding.name, finding.ranks) for finding in find(tmp_path)] == [("model.spare", [0, 1])]
