"""What counts as named, where, and as a false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from bugs.pairs import Pair
from bugs.tables import HEADINGS, render
from bugs.traced_run import Finding, read_findings
from bugs.verdicts import Verdict, judge

PAIR = Pair("late_clip", Path("late_clip"), "clip-after-step", 30, "Gradients", "https://example.org/1")


def finding(code: str = "clip-after-step", severity: str = "error", place: str = "buggy.py:30") -> Finding:
    return Finding(code, severity, "model", place)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([finding()], "named"),
        ([finding("never-updated"), finding(severity="warning")], "named"),
        ([finding(severity="note")], "noted"),
        ([finding(severity="note"), finding("never-updated")], "noted"),
        ([finding("never-updated")], "flagged"),
        ([finding("never-updated", "note")], "missed"),
        ([], "missed"),
    ],
)
def test_the_right_code_names_the_bug(found: list[Finding], verdict: str) -> None:
    assert judge(PAIR, found, []).verdict == verdict


@pytest.mark.parametrize(
    ("place", "is_placed"),
    [
        ("buggy.py:30", True),
        ("/somewhere/buggy.py:28", True),
        ("buggy.py:32", True),
        ("buggy.py:27", False),
        ("buggy.py:33", False),
        ("trainer.py:30", False),
        ("buggy.py", False),
        ("", False),
    ],
)
def test_the_place_may_be_two_lines_off(place: str, is_placed: bool) -> None:
    assert judge(PAIR, [finding(place=place)], []).is_placed is is_placed


def test_only_a_finding_that_names_the_bug_can_be_in_its_place() -> None:
    assert not judge(PAIR, [finding("never-updated"), finding(place="")], []).is_placed
    assert not judge(PAIR, [finding(severity="note")], []).is_placed


def test_errors_and_warnings_in_the_correct_script_are_false_alarms() -> None:
    verdict = judge(PAIR, [], [finding(), finding("frozen", "note", ""), finding("uncalled", "warning", "")])
    assert verdict.false_alarms == ("clip-after-step at buggy.py:30", "uncalled")


def test_the_findings_of_a_summary_are_read() -> None:
    found = {"code": "clip-after-step", "severity": "error", "name": "sgd", "place": "train.py:3", "reason": "words"}
    assert read_findings({"findings": [found]}) == [Finding("clip-after-step", "error", "sgd", "train.py:3")]


def test_what_sounds_the_same_is_said_once() -> None:
    assert judge(PAIR, [finding(), finding(), finding(place="")], []).found == (
        "clip-after-step at buggy.py:30",
        "clip-after-step",
    )


def test_the_table_counts_by_area_and_half() -> None:
    verdicts = [
        Verdict("a", "Gradients", "fitted", "x", "named", is_placed=True, is_shown=True),
        Verdict("b", "Gradients", "held-out", "x", "named", false_alarms=("y at correct.py:3",)),
        Verdict("c", "Modes", "held-out", "x", "missed"),
    ]
    assert render(verdicts, {"train.py": [], "other.py": ["y", "z"]}, "text") == (
        "           pairs  named  with place  noted  flagged  missed  failed  false alarms  shown by --against\n"
        "Gradients      2      2           1      0        0       0       0             1                   1\n"
        "Modes          1      0           0      0        0       1       0             0                   0\n"
        "all            3      2           1      0        0       1       0             1                   1\n"
        "fitted         1      1           1      0        0       0       0             0                   1\n"
        "held-out       2      1           0      0        0       1       0             1                   0\n"
        "\n"
        "1 of 2 further correct scripts raise a false alarm.\n"
        "\n"
        "False alarms:\n"
        "- b/correct.py: y at correct.py:3\n"
        "- other.py: y, z\n"
    )


def test_the_table_can_be_markdown() -> None:
    table = render([Verdict("a", "Modes", "fitted", "x", "noted")], {}, "markdown")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[:3]]
    assert rows[0][1:] == list(HEADINGS[1:])
    assert rows[1][1].endswith("-:")
    assert rows[2] == ["Modes", "1", "0", "0", "1", "0", "0", "0", "0", "0"]
