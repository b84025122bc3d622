"""A file that whole lines are appended to, whatever the program does to it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from proxy_wrapper.writing.sinks.appended_file import AppendedFile, FileRemovedError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX's numbers of files")


def test_a_number_that_the_program_has_given_to_another_file_is_not_written_to(tmp_path: Path) -> None:
    file = AppendedFile(tmp_path / "trace" / "run.jsonl", is_new=True)
    file.append(b"one\n")
    own = os.open(tmp_path / "own.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(own, file._file)
    file.append(b"two\n")
    file.close()
    os.write(own, b"mine\n")
    os.close(own)
    assert (tmp_path / "own.txt").read_bytes() == b"mine\n"
    assert (tmp_path / "trace" / "run.jsonl").read_bytes() == b"one\ntwo\n"


def test_a_number_that_the_program_has_given_away_is_not_closed(tmp_path: Path) -> None:
    file = AppendedFile(tmp_path / "run.jsonl", is_new=True)
    number = file._file
    with (tmp_path / "own.txt").open("wb") as own:
        os.dup2(own.fileno(), number)
        file.close()
        os.write(number, b"mine\n")
        os.close(number)
    assert (tmp_path / "own.txt").read_bytes() == b"mine\n"


def test_a_file_that_the_program_has_closed_goes_on(tmp_path: Path) -> None:
    file = AppendedFile(tmp_path / "run.jsonl", is_new=True)
    os.close(file._file)
    file.append(b"one\n")
    file.close()
    file.close()
    assert (tmp_path / "run.jsonl").read_bytes() == b"one\n"


@pytest.mark.parametrize("is_another_there", [False, True])
def test_a_file_that_is_closed_and_gone_is_told_of(tmp_path: Path, *, is_another_there: bool) -> None:
    path = tmp_path / "run.jsonl"
    file = AppendedFile(path, is_new=True)
    os.close(file._file)
    path.rename(tmp_path / "moved")
    if is_another_there:
        path.write_bytes(b"another's")
    with pytest.raises(FileRemovedError, match="has been deleted"):
        file.append(b"one\n")
    assert not is_another_there or path.read_bytes() == b"another's"
