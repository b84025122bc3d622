"""A folder of files is there as a whole or not at all; what was whole when writing broke off is not written again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proxy_trace.errors import ExportRunningError, NotOurOutputError, OutputExistsError, UnwritableFileError
from proxy_trace.export.resumable_folder import part_of_folder, resumable_folder

PARTS = [Path("rank=0", "a.parquet"), Path("rank=1", "b.parquet")]
OURS = "ours: "


def is_ours(path: Path) -> bool:
    return path.read_text().startswith(OURS)


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def write(target: Path, parts: list[Path] = PARTS, stop_at: int = 9, *, force: bool = False) -> int:
    """Write the parts that are not there, up to one; how many were."""
    were_there = 0
    with resumable_folder(target, parts, is_ours, force=force) as places:
        for number, place in enumerate(places):
            if place.exists():
                were_there += 1
                continue
            with part_of_folder(place) as aside:
                aside.write_text(f"{OURS}{number}")
                if number == stop_at:
                    raise KeyboardInterrupt
    return were_there


def test_all_parts_appear_at_once(tmp_path: Path) -> None:
    assert write(tmp_path / "data" / "run=1") == 0
    assert listed(tmp_path) == ["data/run=1/rank=0/a.parquet", "data/run=1/rank=1/b.parquet"]


def test_what_was_whole_is_not_written_again(tmp_path: Path) -> None:
    target = tmp_path / "run=1"
    with pytest.raises(KeyboardInterrupt):
        write(target, stop_at=1)
    assert listed(tmp_path) == [".run=1.partial/rank=0/a.parquet.whole"]
    assert write(target) == 1
    assert listed(tmp_path) == ["run=1/rank=0/a.parquet", "run=1/rank=1/b.parquet"]


def test_nothing_stays_if_nothing_was_whole(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "run=1", stop_at=0)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_taken_away(tmp_path: Path) -> None:
    aside = tmp_path / ".run=1.partial"
    for path in ("rank=0/.a.parquet.whole.4711.partial", "rank=7/c.parquet.whole", "rank=0/a.parquet"):
        (aside / path).parent.mkdir(parents=True, exist_ok=True)
        (aside / path).write_text(OURS)
    assert write(tmp_path / "run=1") == 0
    assert listed(tmp_path) == ["run=1/rank=0/a.parquet", "run=1/rank=1/b.parquet"]


@pytest.mark.parametrize("name", ["thesis.txt", "rank=0/a.parquet.whole", "rank=5/.b.parquet"])
def test_what_is_not_ours_is_left_alone(name: str, tmp_path: Path) -> None:
    theirs = tmp_path / ".run=1.partial" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("years of work")
    with pytest.raises(NotOurOutputError, match=theirs.name):
        write(tmp_path / "run=1")
    assert theirs.read_text() == "years of work"
    assert not (tmp_path / "run=1").exists()


@pytest.mark.parametrize("name", ["", "rank=0", "rank=0/a.parquet.whole", "elsewhere"])
def test_links_are_not_followed(name: str, tmp_path: Path) -> None:
    outside, link = tmp_path / "outside", tmp_path / "data" / ".run=1.partial" / name
    outside.mkdir()
    (outside / "a.parquet.whole").write_text(OURS)
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(NotOurOutputError):
        write(tmp_path / "data" / "run=1")
    assert listed(outside) == ["a.parquet.whole"]


def test_a_folder_is_replaced_by_force_only(tmp_path: Path) -> None:
    target = tmp_path / "run=1"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(OutputExistsError):
        write(target)
    write(target, force=True)
    assert listed(tmp_path) == ["run=1/rank=0/a.parquet", "run=1/rank=1/b.parquet"]


def test_a_folder_does_not_replace_a_file(tmp_path: Path) -> None:
    target = tmp_path / "run=1"
    target.write_text("before")
    with pytest.raises(UnwritableFileError):
        write(target, force=True)
    assert target.read_text() == "before"


def test_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "run=1"
    with pytest.raises(OutputExistsError), resumable_folder(target, [], is_ours, force=False):
        target.write_text("theirs")
    assert target.read_text() == "theirs"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of folders")
def test_another_process_is_not_let_in(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from proxy_trace.export.resumable_folder import resumable_folder\n"
        "with resumable_folder(Path(sys.argv[1]), [], bool, force=False):\n"
        "    print('ready', flush=True); input()\n"
    )
    target = tmp_path / "run=1"
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}", str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(ExportRunningError, match="another export is writing it"):
            write(target)
        other.communicate("\n")
    write(target, force=True)
