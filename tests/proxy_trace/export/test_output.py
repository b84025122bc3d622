from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.errors import OutputExistsError, OutputIsFolderError
from proxy_trace.export.output import whole_or_nothing

if TYPE_CHECKING:
    from pathlib import Path


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "made" / "run.csv"
    with whole_or_nothing(target, force=False) as aside:
        aside.write_text("a,b")
        assert not target.exists()
    assert target.read_text() == "a,b"
    assert listed(tmp_path) == ["made", "made/run.csv"]


def test_what_fails_half_way_leaves_things_as_they_were(tmp_path: Path) -> None:
    target = tmp_path / "run.csv"
    target.write_text("before")
    with pytest.raises(ZeroDivisionError), whole_or_nothing(target, force=True) as aside:
        1 / aside.write_text("")
    assert target.read_text() == "before"
    assert listed(tmp_path) == ["run.csv"]


def test_a_file_is_replaced_by_force_only(tmp_path: Path) -> None:
    target = tmp_path / "run.csv"
    target.write_text("before")
    with pytest.raises(OutputExistsError), whole_or_nothing(target, force=False):
        pytest.fail("the block must not run")
    with whole_or_nothing(target, force=True) as aside:
        aside.write_text("after")
    assert target.read_text() == "after"


@pytest.mark.parametrize("force", [False, True])
def test_a_file_never_replaces_a_folder_with_all_that_is_in_it(force: bool, tmp_path: Path) -> None:
    target = tmp_path / "results"
    target.mkdir()
    (target / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputIsFolderError, match="results: is a directory"), whole_or_nothing(target, force=force):
        pytest.fail("the block must not run")
    assert (target / "thesis.txt").read_text() == "years of work"


def test_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "run.csv"
    with pytest.raises(OutputExistsError), whole_or_nothing(target, force=False):
        target.write_text("theirs")
    assert target.read_text() == "theirs"
    assert listed(tmp_path) == ["run.csv"]
