"""A trace keeps itself out of commits."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from proxy_wrapper.events import FORMAT, Run
from proxy_wrapper.process.ignored_folder import keep_out_of_commits
from proxy_wrapper.process.launch import Rank
from proxy_wrapper.writing.sinks.json_lines import JsonLinesSink

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(shutil.which("git") is None, reason="asks git what it would commit")
def test_git_sees_nothing_of_a_trace(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "notes.txt").write_text("of the user's")
    for logdir in ("proxy_trace", "runs"):
        run = Run(FORMAT, "20261123T200000-abcdef", "2026-11-23T20:00:00+00:00", 1, "train.py", [], "3.11", "2.13", "1")
        JsonLinesSink(str(tmp_path / logdir), run, lambda: Rank(0, 1)).close()
    command = ["git", "status", "--short", "--untracked-files=all"]
    status = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert status.split() == ["??", "runs/notes.txt", "??", "train.py"]


def test_a_file_that_is_there_stays_and_a_missing_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("own\n")
    keep_out_of_commits(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "own\n"
    keep_out_of_commits(tmp_path / "missing")
