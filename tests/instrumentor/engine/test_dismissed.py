"""The files that need no analysis: found once, and again as soon as anything that told so has changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from instrumentor.cli import app
from instrumentor.engine import dismissed
from instrumentor.engine.dismissed import find_dismissed
from instrumentor.engine.outcome import Task
from instrumentor.link import program
from instrumentor.resolve.search_path import SearchPaths
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

MAKER = "import torch.nn as nn\n\n\ndef make():\n    return nn.Linear(2, 2)\n"
NONE = "def make():\n    return 1\n"
USER = "from made import make\n\nmodel = make()\nprint(model)\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    write(folder / "made.py", NONE)
    write(folder / "use.py", USER)
    write(folder / "other.py", "x = 1\n")
    return folder


def write(path: Path, text: str, age_s: int = 3600) -> None:
    path.write_text(text)
    then = path.stat().st_mtime - age_s
    os.utime(path, (then, then))


def names_dismissed(tree: Path, *, only: tuple[str, ...] = ()) -> list[str]:
    """The names of the files in a folder, or of some of them, that need no analysis."""
    paths = [each for each in sorted(tree.glob("*.py")) if not only or each.name in only]
    tasks = [
        Task(str(each), each.name, each.name, Settings(), root=str(tree), modules_cache=str(tree.parent / "cache"))
        for each in paths
    ]
    found = find_dismissed(tasks, SearchPaths())
    assert all(found[path].lines == (tree / path).read_text().count("\n") for path in found)
    return sorted(os.path.basename(path) for path in found)  # noqa: PTH119


def refuse(*_: object) -> None:
    raise AssertionError("files are read")


def test_an_answer_is_kept(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert names_dismissed(tree) == ["made.py", "other.py", "use.py"]
    monkeypatch.setattr(program, "read_program", refuse)
    assert names_dismissed(tree) == ["made.py", "other.py", "use.py"]


def test_an_answer_holds_until_a_file_changes_that_another_one_leads_to(tree: Path) -> None:
    names_dismissed(tree)
    write(tree / "made.py", MAKER, age_s=1800)
    assert "use.py" not in names_dismissed(tree)
    write(tree / "made.py", NONE, age_s=900)
    assert "use.py" in names_dismissed(tree)


def test_an_answer_holds_until_a_module_comes_that_was_looked_for(tree: Path) -> None:
    (tree / "made.py").unlink()
    assert "use.py" in names_dismissed(tree)
    write(tree / "made.py", MAKER)
    assert "use.py" not in names_dismissed(tree, only=("use.py", "other.py"))


def test_another_question_has_another_answer(tree: Path) -> None:
    assert names_dismissed(tree, only=("use.py",)) == ["use.py"]
    assert names_dismissed(tree, only=("other.py", "use.py")) == ["other.py", "use.py"]


def test_files_that_lead_to_too_many_are_analysed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_BESIDES_EACH", 0)
    monkeypatch.setattr(program, "_BESIDES", 0)
    write(tree / "chain.py", "import made\n\nprint(made.make())\n")
    assert names_dismissed(tree, only=("other.py", "use.py")) == ["other.py"]
    assert names_dismissed(tree, only=("made.py", "use.py")) == ["made.py", "use.py"]


def test_a_mistake_of_the_screen_leaves_all_to_the_analysis(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a mistake")

    write(tree / "made.py", MAKER)
    monkeypatch.chdir(tree)
    monkeypatch.setattr(dismissed, "find_dismissed", fail)
    done = CliRunner().invoke(app, [".", "--check", "--no-cache"], prog_name="instrument")
    assert "use.py" in done.stderr
    assert "internal error while looking for files that need no analysis (KeyError: 'a mistake')" in done.stderr
    assert done.exit_code == 1
