"""The options of `summary` by which a program acts on what was found."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest
from sarif_pydantic import Sarif

from proxy_trace.checks import all_checks
from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.rule import Rule
from proxy_trace.cli import run_command
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_trace.checks.evidence import Evidence
    from tests.proxy_trace.conftest import WriteTrace


@pytest.fixture
def failed_run(tmp_path: Path, write_trace: WriteTrace) -> str:
    """A run with an error that has a place, and one that has none."""
    path = write_trace(
        tmp_path / "trace" / "a.jsonl",
        events.Location(1, "src/tr ain.py", 9, "main"),
        events.Module(1, "model", "Net", 1),
        events.CallModule(1, module=1),
        events.NonFinite(20, 3, module=1, location=1, count=2, type="float32[4]"),
        events.ReturnModule(21, module=1),
        events.RunEnd(30, 3, reason="exception", error="Value\nError%"),
        ends=False,
    )
    return str(path)


def codes(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The codes of what `summary` tells with these arguments."""
    assert run_command(["summary", "--format", "json", *arguments]) == 0
    return [finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [([], 0), (["--fail-on", "error"], 1), (["--fail-on", "warning"], 1), (["--fail-on", "error", "--ignore", "*"], 0)],
)
def test_the_exit_code_tells_of_findings_if_it_is_asked_to(failed_run: str, options: list[str], expected: int) -> None:
    assert run_command(["summary", failed_run, *options]) == expected


def test_a_note_fails_nothing_and_a_warning_only_where_warnings_do(
    tmp_path: Path, small_trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert codes(capsys, str(small_trace)) == ["never-called", "incomplete-trace"]
    assert run_command(["summary", str(small_trace), "--fail-on", "error"]) == 0
    assert run_command(["summary", str(small_trace), "--fail-on", "warning"]) == 1
    assert run_command(["summary", str(small_trace), "--fail-on", "warning", "--select", "untrained"]) == 0


def test_what_is_known_is_not_told_again(tmp_path: Path, failed_run: str, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.json"
    assert run_command(["summary", failed_run, "--write-baseline", str(known)]) == 0
    assert "2 findings written" in capsys.readouterr().err
    assert run_command(["summary", failed_run, "--baseline", str(known), "--fail-on", "warning"]) == 0
    assert "2 findings left out, known or not chosen" in " ".join(capsys.readouterr().out.split())
    assert codes(capsys, failed_run, "--baseline", str(known)) == []


def test_a_new_baseline_keeps_what_the_old_one_knows(
    tmp_path: Path, failed_run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = tmp_path / "known.json"
    for _ in range(2):
        arguments = ["--baseline", str(known)] if known.exists() else []
        assert run_command(["summary", failed_run, *arguments, "--write-baseline", str(known)]) == 0
    assert capsys.readouterr().err.count("2 findings written") == 2
    assert codes(capsys, failed_run, "--baseline", str(known)) == []
    assert [each.name for each in tmp_path.glob("known*")] == ["known.json"]


def test_a_file_that_is_something_else_is_not_replaced_by_a_baseline(
    tmp_path: Path, failed_run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "model.json"
    other.write_text('{"layers": 3}')
    assert run_command(["summary", failed_run, "--write-baseline", str(other)]) == 2
    assert "exists and is not a baseline" in capsys.readouterr().err
    assert other.read_text() == '{"layers": 3}'


def test_an_unknown_code_is_refused_in_one_line(failed_run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["summary", failed_run, "--select", "non-finit"]) == 2
    assert capsys.readouterr().err.endswith("there is no check with the code 'non-finit'. Did you mean non-finite?\n")


def test_sarif_has_a_result_for_each_finding(failed_run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["summary", failed_run, "--format", "sarif"]) == 0
    text = capsys.readouterr().out
    Sarif.model_validate_json(text)
    (run,) = json.loads(text)["runs"]
    by_rule: dict[str, Any] = {result["ruleId"]: result for result in run["results"]}
    assert set(by_rule) == {"ended-by-exception", "non-finite"}
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(by_rule)
    assert by_rule["non-finite"]["level"] == "error"
    (location,) = by_rule["non-finite"]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "src/tr%20ain.py"},
        "region": {"startLine": 9},
    }
    assert "locations" not in by_rule["ended-by-exception"]


def test_annotations_escape_what_would_end_them(failed_run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["summary", failed_run, "--format", "github"]) == 0
    ended, non_finite = capsys.readouterr().out.splitlines()
    assert ended.startswith("::error title=ended-by-exception%3A Value%0AError%25::Value%0AError%25: ended the process")
    assert non_finite.startswith("::error file=src/tr ain.py,line=9,title=non-finite%3A model::model: output (Net): 2 ")


def test_explain_tells_what_a_code_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["explain", "never-updated"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("never-updated\n\n**error**: Parameters never updated.\n")
    assert "What to do: " in text
    assert all(len(line) <= 80 for line in text.splitlines() if "http" not in line)
    assert run_command(["explain"]) == 0
    assert "never-updated" in capsys.readouterr().out
    assert run_command(["explain", "never-updatd"]) == 2
    assert "Did you mean never-updated" in capsys.readouterr().err


SLOW = Rule("slow-call", "warning", "Slow calls", "A call was slow.", "Make it faster.")


def _look(evidence: Evidence) -> Sight:
    return Sight([SLOW.finding(evidence.modules[0].name, "slow", [0])])


def _fail(evidence: Evidence) -> Sight:
    raise LookupError(evidence)


PLUGIN = Check("speed", "no call is slow", _look, (SLOW,))
BROKEN = Check("broken", "nothing", _fail)
TAKEN = Check("updates", "nothing", _look)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Act as if a package were there with an entry point for this name in this module."""

    def entry(name: str) -> None:
        points = [EntryPoint(name.lower(), f"{__name__}:{name}", "proxy_trace.checks")]
        monkeypatch.setattr(all_checks, "entry_points", lambda *, group: points if "checks" in group else [])

    return entry


def test_a_package_brings_a_check_of_its_own(install: Any, failed_run: str, capsys: pytest.CaptureFixture[str]) -> None:
    install("PLUGIN")
    assert "slow-call" in codes(capsys, failed_run)
    assert codes(capsys, failed_run, "--select", "slow-*") == ["slow-call"]
    assert run_command(["explain", "slow-call"]) == 0


def test_a_check_of_a_package_that_fails_has_not_checked(
    install: Any, failed_run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    install("BROKEN")
    assert run_command(["summary", failed_run]) == 0
    assert "broken (it raised LookupError)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "words"),
    [("TAKEN", "updates is already taken by another check"), ("SLOW", "it is no"), ("GONE", "cannot be loaded")],
)
def test_what_is_no_check_is_refused(
    install: Any, failed_run: str, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    install(name)
    assert run_command(["summary", failed_run]) == 2
    assert words in capsys.readouterr().err
