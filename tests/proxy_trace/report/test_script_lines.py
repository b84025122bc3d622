"""The script stands in the page if it is the one that ran, and else only its lines' numbers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from proxy_trace.report.process_curves import Mark
from proxy_trace.report.script_lines import read_scripts

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = "import x\n\n\ndef main():\n    a = [i for i in ()]\n    return 1\n\n\nmain()\n"
MARKS = [Mark("train.py", 6, "main", "backward", 3), Mark("train.py", 9, "<module>", "model", 1)]


def test_a_script_that_fits_is_shown(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (found,) = read_scripts(MARKS, [], [tmp_path / "elsewhere", tmp_path])
    assert (found.file, found.lines, found.note) == ("train.py", SCRIPT.splitlines(), "")
    assert found.marks == MARKS


@pytest.mark.parametrize(
    ("text", "note"),
    [
        pytest.param(None, "cannot be read any more", id="it is gone"),
        pytest.param("# new\n" + SCRIPT, "has changed since the run", id="its lines have moved"),
        pytest.param("def main(:\n", "has changed since the run", id="it is no Python any more"),
        pytest.param(SCRIPT.replace("main", "start"), "has changed since the run", id="its functions are others"),
        pytest.param("x" * (1 << 21), "cannot be read any more", id="it is huge"),
    ],
)
def test_a_script_that_does_not_fit_is_told_by_its_places(tmp_path: Path, text: str | None, note: str) -> None:
    if text is not None:
        (tmp_path / "train.py").write_text(text)
    (found,) = read_scripts(MARKS, [], [tmp_path])
    assert found.lines is None
    assert found.note.startswith(note)
    assert found.marks == MARKS


def test_a_trace_cannot_have_any_file_shown(tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text("secret\n")
    (found,) = read_scripts([Mark(str(secret), 1, "<module>", "model", 1)], [str(secret)], [tmp_path])
    assert (found.lines, found.note) == (None, "is no Python source")


@pytest.mark.parametrize("ending", ["\n", ""])
def test_the_original_of_an_instrumented_script_is_restored_by_its_hash(tmp_path: Path, ending: str) -> None:
    original = SCRIPT.rstrip("\n") + ending
    lines = SCRIPT.splitlines(keepends=True)
    digest = hashlib.sha256(original.encode()).hexdigest()
    eof = "" if ending else " eof=none"
    comment = f'# instrument: format=1 source="train.py" sha256={digest} added=+2{eof}\n'
    (tmp_path / "x.py").write_text("".join([lines[0], "import proxy\n", *lines[1:], comment]))
    (found,) = read_scripts(MARKS, ["x.py"], [tmp_path])
    assert found.lines == SCRIPT.splitlines()
    (tmp_path / "x.py").write_text("".join([lines[0], "import proxy\n", "changed = 1\n", *lines[1:], comment]))
    assert read_scripts(MARKS, ["x.py"], [tmp_path])[0].lines is None
