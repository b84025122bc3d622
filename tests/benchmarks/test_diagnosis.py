"""The benchmark of diagnoses runs a pair from end to end, and says what it makes of each script."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import diagnosis
from bugs import traced_run
from bugs.traced_run import Finding, RunFailedError, Seen, trace_script
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from pathlib import Path


def test_a_pair_is_run_and_judged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return run_python(command[1:], cwd=options["cwd"], env=options["env"])

    faster = SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(traced_run, "subprocess", faster)
    assert diagnosis.main(["--pair", "columns_in_their_own_units", "--format", "json"]) == 0
    printed = capsys.readouterr()
    (verdict,) = json.loads(printed.out)["pairs"]
    assert verdict["expected"] == "inputs-not-normalized"
    assert verdict["verdict"] != "failed", verdict["problem"]
    assert not verdict["false_alarms"]
    assert printed.err.startswith("1/1 columns_in_their_own_units (inputs-not-normalized): ")


def test_alarms_on_further_scripts_are_false(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trace(script: Path) -> list[Finding]:
        if script.name == "broken.py":
            raise RunFailedError("broken.py: it printed nothing")
        return [Finding("clip-after-step", "error", "sgd", "train.py:3"), Finding("frozen", "note", "fc.bias", "")]

    monkeypatch.setattr(diagnosis, "trace_script", trace)
    arguments = ["--no-pairs", "--script", "train.py", "broken.py", "--jobs", "2", "--format", "json"]
    assert diagnosis.main(arguments) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"pairs": [], "scripts": {"train.py": ["clip-after-step at train.py:3"]}}
    assert "train.py: clip-after-step at train.py:3" in printed.err
    assert "broken.py: it printed nothing" in printed.err


def test_a_pair_that_does_not_run_has_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trace(buggy: Path, correct: Path) -> tuple[Seen, list[Finding]]:
        raise RunFailedError(f"{buggy.name}: it printed nothing")

    monkeypatch.setattr(diagnosis, "trace_pair", trace)
    assert diagnosis.main(["--pair", "clip_after_step"]) == 0
    printed = capsys.readouterr()
    assert "failed, buggy.py: it printed nothing" in printed.err
    total = next(line.split() for line in printed.out.splitlines() if line.startswith("all "))
    assert total == ["all", "1", "0", "0", "0", "0", "0", "1", "0", "0"]


@pytest.mark.parametrize("half", ["fitted", "held-out"])
def test_only_the_pairs_of_a_half_are_run(
    half: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(diagnosis, "trace_pair", lambda buggy, correct: (Seen([], []), []))
    assert diagnosis.main(["--half", half, "--format", "json"]) == 0
    assert {verdict["half"] for verdict in json.loads(capsys.readouterr().out)["pairs"]} == {half}


def test_an_unknown_pair_is_said() -> None:
    with pytest.raises(SystemExit, match="No pair is named nonsense"):
        diagnosis.main(["--pair", "nonsense"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", r"train\.py left no trace: no model was found in it"),
        ("x = (\n", "instrumentor ended with exit code"),
    ],
)
def test_what_cannot_be_traced_is_said(tmp_path: Path, text: str, message: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    with pytest.raises(RunFailedError, match=message):
        trace_script(script)
    assert list(tmp_path.iterdir()) == [script]
