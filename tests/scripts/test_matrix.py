"""The table of Pythons and torches: what is in it, how it is printed, and what its script says of a machine."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import matrix
from scripts.matrix import PAIRS, Counts, Pair, Row, as_workflow_matrix, find_interpreter, selected, table

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

JUNIT = (
    '<?xml version="1.0"?><testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10"/>'
    "</testsuites>"
)


def test_each_python_with_a_classifier_is_in_the_table() -> None:
    assert tuple(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT)) == matrix.PYTHONS
    assert f'requires-python = ">={matrix.PYTHONS[0]}"' in PROJECT
    assert {pair.python for pair in PAIRS if pair.torch == matrix.TORCH} == set(matrix.PYTHONS)


def test_the_oldest_torch_is_the_one_that_is_asked_for() -> None:
    assert f'torch = ["torch>={matrix.OLDEST_TORCH.removesuffix(".0")}"]' in PROJECT
    assert any(pair.torch == matrix.OLDEST_TORCH for pair in PAIRS)
    assert any(pair.torch == matrix.NEWEST_TORCH for pair in PAIRS)


def test_the_usual_torch_is_the_one_that_environments_get() -> None:
    script = (ROOT / "scripts" / "make_environment.sh").read_text(encoding="utf-8")
    assert f"TORCH_VERSION:-{matrix.TORCH}}}" in script
    assert f"no_torch={matrix.NO_TORCH} " in script


def test_no_pair_is_there_twice() -> None:
    assert len(set(PAIRS)) == len(PAIRS)


def test_the_workflow_runs_the_same_table() -> None:
    assert json.loads(as_workflow_matrix(PAIRS))["include"] == [
        {"python": pair.python, "torch": pair.torch} for pair in PAIRS
    ]
    workflow = (ROOT / ".github" / "workflows" / "matrix.yml").read_text(encoding="utf-8")
    assert "scripts/matrix.py --json" in workflow
    assert not re.search(r"\b(3\.1\d|2\.\d+\.\d+)\b", workflow)


def test_pairs_are_selected_by_python_by_torch_or_by_both() -> None:
    assert selected([]) == list(PAIRS)
    assert {pair.python for pair in selected(["3.12"])} == {"3.12"}
    assert {pair.torch for pair in selected([matrix.NEWEST_TORCH])} == {matrix.NEWEST_TORCH}
    assert selected([f"3.11,{matrix.TORCH}", f"3.10,{matrix.TORCH}"]) == [
        Pair("3.10", matrix.TORCH),
        Pair("3.11", matrix.TORCH),
    ]
    with pytest.raises(ValueError, match=r"there is no '3\.9' in the table"):
        selected(["3.9"])


def test_the_report_of_pytest_is_counted() -> None:
    assert Counts.from_junit(JUNIT) == Counts(passed=4, failed=3, skipped=3)
    for text in ("", "<html>", '<testsuite tests="many"/>'):
        with pytest.raises(ValueError, match="no report of tests"):
            Counts.from_junit(text)


def test_the_table_says_what_is_missing() -> None:
    rows = [
        Row(Pair("3.10", "2.6.0"), "passed", Counts(1234, 0, 5), 61.0),
        Row(Pair("3.11", "2.13.0"), "failed", Counts(1, 2, 3), 5.4),
        Row(Pair("3.14", "2.15.0"), "no interpreter"),
    ]
    assert table(rows) == (
        "| Python | torch  | result         | passed | failed | skipped | time |\n"
        "| ------ | ------ | -------------- | ------ | ------ | ------- | ---- |\n"
        "| 3.10   | 2.6.0  | passed         | 1,234  | 0      | 5       | 1:01 |\n"
        "| 3.11   | 2.13.0 | failed         | 1      | 2      | 3       | 0:05 |\n"
        "| 3.14   | 2.15.0 | no interpreter |        |        |         |      |"
    )


def test_what_is_missing_has_not_failed() -> None:
    results = ("passed", "failed", "no interpreter", "no torch for it", "no environment", "pytest did not run")
    failed = [result for result in results if Row(PAIRS[0], result).has_failed]
    assert failed == ["failed", "no environment", "pytest did not run"]


def test_an_interpreter_is_found_by_its_version() -> None:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert find_interpreter(here) == sys.executable
    assert find_interpreter("3.99") == ""


def test_an_interpreter_of_another_version_or_without_venv_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in {"python3.98": "echo 3.97", "python3.97": "echo 3.97; exit 1"}.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert find_interpreter("3.98") == find_interpreter("3.97") == ""


@pytest.mark.skipif(shutil.which("bash") is None, reason="scripts/make_environment.sh needs bash")
def test_a_torch_that_cannot_be_had_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is made for real; pip finds no index."""
    here = Pair(f"{sys.version_info[0]}.{sys.version_info[1]}", "0.0.1")
    monkeypatch.setattr(matrix, "FOLDER", tmp_path)
    monkeypatch.setenv("TORCH_INDEX", tmp_path.as_uri())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    row = matrix.run_pair(here, [])
    assert row == Row(here, "no torch for it")
    assert row.is_missing


def test_the_command_lists_pairs_and_says_what_is_wrong() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "matrix.py")]
    listed = subprocess.run([*command, "--json", "--only", "3.12"], capture_output=True, text=True, check=True)
    assert json.loads(listed.stdout) == {"include": [{"python": "3.12", "torch": matrix.TORCH}]}
    wrong = subprocess.run([*command, "--only", "2.7"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "there is no '2.7' in the table" in wrong.stderr
