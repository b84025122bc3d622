"""What is told of backward passes that changed nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from proxy_wrapper.events import Statistics
from tests.proxy_trace.checks.judged import BACKWARD, CALLS, NET, OTHER_VALUES, STEP, VALUES, of_code, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

UNCHANGED = events.Update(50, tensor=1, statistics=VALUES, cause="unchanged")


@pytest.mark.parametrize(
    ("records", "words"),
    [
        pytest.param([*BACKWARD, *CALLS], "1 backward pass, but no parameter was seen to change", id="without a step"),
        pytest.param(
            [*BACKWARD, *BACKWARD, UNCHANGED, STEP],
            "2 backward passes and 1 step of an optimizer, but no parameter was seen to change",
            id="with a step that changed nothing",
        ),
        pytest.param(
            [*BACKWARD, *CALLS, events.Update(50, tensor=1, statistics=OTHER_VALUES, cause="converted")],
            "1 backward pass, but no parameter was seen to change",
            id="with a change of dtype",
        ),
    ],
)
def test_backward_passes_that_changed_nothing_are_told(
    records: list[events.Event], words: str, tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *CALLS, *records)
    assert of_code(path, "no-effect") == [("model", words)]
    assert said(path, "training") == ("finding", [])


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([], ("not checked", ["no backward pass was traced"]), id="no backward pass"),
        pytest.param(
            [*BACKWARD],
            ("not checked", ["no parameter was examined after the last backward pass"]),
            id="a single step by hand, perhaps",
        ),
        pytest.param(
            [*BACKWARD, events.Update(50, tensor=1, statistics=OTHER_VALUES)], ("passed", []), id="a changed parameter"
        ),
        pytest.param(
            [*BACKWARD, events.Update(50, tensor=1, statistics=Statistics(-1.0, 1.0, 2.0))],
            ("not checked", ["the values of the only parameter were not compared"]),
            id="no fingerprints",
        ),
        pytest.param(
            [*BACKWARD, events.Module(2, "model.quiet", "Linear", 1, 1, "WARNING")],
            ("not checked", ["1 of 2 modules at level WARNING"]),
            id="a part whose updates are not recorded",
        ),
    ],
)
def test_otherwise_it_is_said_what_was_seen(
    records: list[events.Event], expected: tuple[str, list[str]], tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *CALLS, *records)
    assert of_code(path, "no-effect") == []
    assert said(path, "training") == expected


def test_a_process_may_change_what_another_made_gradients_for(tmp_path: Path, write_trace: WriteTrace) -> None:
    write_trace(tmp_path / "rank0-1.jsonl", NET, weight(), *CALLS, *BACKWARD)
    changed = events.Update(50, 1, tensor=1, statistics=OTHER_VALUES, cause="data")
    write_trace(tmp_path / "rank0-2.jsonl", NET, weight(), *CALLS, changed, pid=2)
    assert said(tmp_path, "training") == ("passed", [])
