from __future__ import annotations

import io

import pytest

from proxy_trace.colour import Palette


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_gets_colours() -> None:
    assert Palette.for_stream(Terminal()).paint("NaN", "red") == "\x1b[31mNaN\x1b[0m"


def test_nothing_is_painted_where_there_is_nothing() -> None:
    assert Palette.for_stream(Terminal()).paint("", "red") == ""


def test_a_pipe_gets_none() -> None:
    assert Palette.for_stream(io.StringIO()).paint("NaN", "red") == "NaN"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_can_turn_them_off(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert Palette.for_stream(Terminal()).paint("NaN", "red") == "NaN"


def test_a_pipe_gets_them_where_the_environment_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Palette.for_stream(io.StringIO()).paint("NaN", "red") == "\x1b[31mNaN\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Palette.for_stream(io.StringIO()).paint("NaN", "red") == "NaN"
