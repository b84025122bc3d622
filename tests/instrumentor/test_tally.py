"""What a run has come to, in its own files and in those that an interrupted run was done with."""

from __future__ import annotations

import pytest

from instrumentor.report.record import Error, FileRecord
from instrumentor.tally import DONE, FAILED, WOULD_CHANGE, Tally

CHANGED = FileRecord(path="a.py", status="changed")
UNCHANGED = FileRecord(path="b.py", status="unchanged")
BROKEN = FileRecord(path="zoo/c.py", status="failed", error=Error(message="invalid syntax", line=2, column=5))


def tally_of(*records: FileRecord) -> Tally:
    tally = Tally()
    for record in records:
        tally.restore(record)
    return tally


@pytest.mark.parametrize(
    ("records", "check", "code"),
    [
        ((UNCHANGED,), True, DONE),
        ((UNCHANGED, CHANGED), True, WOULD_CHANGE),
        ((UNCHANGED, CHANGED), False, DONE),
        ((CHANGED, BROKEN), True, FAILED),
        ((CHANGED, BROKEN), False, FAILED),
    ],
)
def test_the_exit_code(records: tuple[FileRecord, ...], check: bool, code: int) -> None:
    assert tally_of(*records).exit_code(check=check) == code


def test_a_failure_says_where_it_is() -> None:
    assert tally_of(BROKEN).failures == ["zoo/c.py:2:5: invalid syntax"]


@pytest.mark.parametrize(
    ("revert", "writes", "line"),
    [
        (False, True, "3 files: 1 instrumented (0 models), 1 failed:"),
        (False, False, "3 files: 1 to be instrumented (0 models), 1 failed:"),
        (True, True, "3 files: 1 reverted, 1 failed:"),
        (True, False, "3 files: 1 to be reverted, 1 failed:"),
    ],
)
def test_all_files_in_one_line(revert: bool, writes: bool, line: str) -> None:
    assert tally_of(CHANGED, UNCHANGED, BROKEN).describe(revert=revert, writes=writes) == line
