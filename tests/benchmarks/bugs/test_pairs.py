"""The pairs of scripts: each is well formed, and the two scripts run and differ by little."""

from __future__ import annotations

import ast
import difflib
import os
import re
from typing import TYPE_CHECKING

import pytest

from bugs.pairs import HALVES, MalformedPairError, Pair, read_codes, read_pairs
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = read_pairs()
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)

SAMPLE = ("task_gradients_overwritten", "margin_head_not_optimized")


def docstring(script: Path) -> str:
    return ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""


def code_lines(script: Path) -> list[str]:
    return [line.partition("  # bug:")[0] for line in script.read_text(encoding="utf-8").splitlines()]


def test_there_are_pairs_for_every_code_and_of_every_area() -> None:
    codes = read_codes()
    assert len(PAIRS) >= 80
    assert set(codes) == {pair.code for pair in PAIRS}
    assert {pair.area for pair in PAIRS} == {
        "Gradients", "Optimizer", "Modes", "Structure", "Loss and data", "Ranks", "Numbers",
    }  # fmt: skip


def test_both_halves_are_about_as_large() -> None:
    sizes = [sum(pair.half == half for pair in PAIRS) for half in HALVES]
    assert sum(sizes) == len(PAIRS)
    assert min(sizes) > len(PAIRS) / 3


@each_pair
def test_report_is_an_address_or_a_paper(pair: Pair) -> None:
    assert re.fullmatch(r"https://\S+|.+, \".+\", [A-Z]+ \d{4}", pair.report)
    assert docstring(pair.buggy) == docstring(pair.correct)


@each_pair
def test_scripts_are_short_and_differ_by_little(pair: Pair) -> None:
    buggy, correct = code_lines(pair.buggy), code_lines(pair.correct)
    changed = [line for line in difflib.ndiff(buggy, correct) if line[0] in "+-" and line[2:].strip()]
    assert 1 <= len(changed) <= 14
    assert 20 <= len(buggy) <= 90
    assert 20 <= len(correct) <= 90
    assert "# bug" not in pair.correct.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.parametrize("script", ["buggy.py", "correct.py"])
def test_scripts_run_in_silence(name: str, script: str) -> None:
    (pair,) = (pair for pair in PAIRS if pair.name == name)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_python([script], cwd=pair.folder, env=environment)
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout
    assert not done.stderr


def pair_of(tmp_path: Path, *lines: str) -> Path:
    (tmp_path / "README.md").write_text("## Area\n\n| `some-code` | It is wrong. |\n", encoding="utf-8")
    folder = tmp_path / "pair"
    folder.mkdir()
    for script in ("buggy.py", "correct.py"):
        (folder / script).write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_a_pair_is_read(tmp_path: Path) -> None:
    root = pair_of(tmp_path, '"""Trains.', "", "Report: https://example.org/1", '"""', "x = 1  # bug: some-code")
    (pair,) = read_pairs(root)
    assert (pair.code, pair.line, pair.area, pair.report) == ("some-code", 5, "Area", "https://example.org/1")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['"""Report: a"""', "x = 1"], "has 0 comments"),
        (['"""Report: a"""', "x = 1  # bug: some-code", "y = 1  # bug: some-code"], "has 2 comments"),
        (['"""Report: a"""', "x = 1  # bug: other-code"], "README.md does not list"),
        (['"""Trains."""', "x = 1  # bug: some-code"], "has 0 lines 'Report"),
    ],
)
def test_what_is_malformed_is_said(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(MalformedPairError, match=message):
        read_pairs(pair_of(tmp_path, *lines))


def test_a_pair_without_its_correct_script_is_malformed(tmp_path: Path) -> None:
    root = pair_of(tmp_path, '"""Report: a"""', "x = 1  # bug: some-code")
    (root / "pair" / "correct.py").unlink()
    with pytest.raises(MalformedPairError, match=r"has no correct\.py"):
        read_pairs(root)
