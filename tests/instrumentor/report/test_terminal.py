"""What standard output can show."""

from __future__ import annotations

import io

import pytest

from instrumentor.report.terminal import line_width, uses_color


class Stream(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(
    ("environment", "is_terminal", "expected"),
    [
        pytest.param({}, True, True, id="a terminal has colours"),
        pytest.param({}, False, False, id="a pipe has none"),
        pytest.param({"NO_COLOR": "1"}, True, False, id="NO_COLOR"),
        pytest.param({"NO_COLOR": ""}, True, True, id="an empty NO_COLOR says nothing"),
        pytest.param({"FORCE_COLOR": "1"}, False, True, id="FORCE_COLOR"),
        pytest.param({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False, id="NO_COLOR wins"),
        pytest.param({"TERM": "dumb"}, True, False, id="a dumb terminal"),
    ],
)
def test_uses_color(
    environment: dict[str, str], is_terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert uses_color(Stream(is_terminal)) is expected


@pytest.mark.parametrize(
    ("columns", "expected"), [(None, None), ("120", 120), ("", None), ("0", None), ("wide", None), ("²", None)]
)
def test_line_width_of_a_pipe(columns: str | None, expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert line_width(Stream(is_terminal=False)) == expected


def test_line_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    assert line_width(Stream(is_terminal=True)) == 77
