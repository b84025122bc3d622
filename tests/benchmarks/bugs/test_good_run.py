"""When a difference from a good run points at the bug of a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bugs.good_run import is_shown, read_change
from bugs.pairs import Pair

if TYPE_CHECKING:
    from pathlib import Path

BUGGY = ["import torch", "", "layer = Norm(momentum=0.9)", "", "x = 1", "", "", "", "clip()"]
CORRECT = ["import torch", "", "layer = Norm()", "", "x = 1", "", "", "", "", "", "clip()", "step()"]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    (tmp_path / "buggy.py").write_text("\n".join(BUGGY))
    (tmp_path / "correct.py").write_text("\n".join(CORRECT))
    return Pair("norm", tmp_path, "code", 3, "area", "report")


def deviation(**fields: str) -> dict[str, str]:
    return {"name": "", "aspect": "", "here": "", "there": "", "place": "", "place_there": "", **fields}


def test_what_differs_is_told_by_lines_and_words(pair: Pair) -> None:
    change = read_change(pair)
    assert 3 in change.buggy
    assert {3, 12} <= change.correct
    assert change.words == {"momentum", "0.9", "step"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"place": "buggy.py:5"}, True),
        ({"place": "buggy.py:20"}, False),
        ({"place": "other.py:3"}, False),
        ({"place_there": "correct.py:12"}, True),
        ({"aspect": "momentum"}, True),
        ({"aspect": "momenta"}, False),
        ({"here": "0.9", "there": "0.1"}, True),
        ({}, False),
    ],
)
def test_a_difference_points_at_the_bug_by_its_line_or_its_words(
    fields: dict[str, str], expected: bool, pair: Pair
) -> None:
    assert is_shown(pair, [deviation(**fields)]) == expected


def test_only_the_first_differences_count(pair: Pair) -> None:
    told = [deviation() for _ in range(4)]
    assert is_shown(pair, [*told, deviation(aspect="momentum")])
    assert not is_shown(pair, [*told, deviation(), deviation(aspect="momentum")])
