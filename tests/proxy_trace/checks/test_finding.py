from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_trace.checks.finding import fold_names
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


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["m.a.w"], [("m.a.w", 1)], id="one of two is itself"),
        pytest.param(["m.a.w", "m.a.b"], [("m.a.*", 2)], id="all of a module are its prefix"),
        pytest.param(["m.a.w", "m.a.b", "m.c.w"], [("m.*", 3)], id="all of a model are its prefix"),
        pytest.param(["m.c.w"], [("m.c.w", 1)], id="the only one of a module is itself"),
        pytest.param([], [], id="none is none"),
    ],
)
def test_names_are_folded_where(names: list[str], expected: list[tuple[str, int]]) -> None:
    assert fold_names(names, ["m.a.w", "m.a.b", "m.c.w"]) == expected


@given(st.sets(st.text("ab.", min_size=1, max_size=6)))
def test_folding_keeps_the_count_of_names(all_names: set[str]) -> None:
    names = sorted(all_names)[::2]
    assert sum(count for _, count in fold_names(names, all_names)) == len(names)
