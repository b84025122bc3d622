from __future__ import annotations

import io
import json

import pytest

from proxy_trace.terminal.colour import Palette, for_terminal, json_for_terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_gets_colours() -> None:
    assert for_terminal(Palette.for_stream(Terminal()).paint("NaN", "red")) == "\x1b[31mNaN\x1b[0m"


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
    assert for_terminal(Palette.for_stream(io.StringIO()).paint("NaN", "red")) == "\x1b[31mNaN\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Palette.for_stream(io.StringIO()).paint("NaN", "red") == "NaN"


STEERING = [
    pytest.param("\x1b[31mred", r"\x1b[31mred", id="an escape sequence"),
    pytest.param("a\nb\r", r"a\nb\r", id="line ends"),
    pytest.param("\x07\x7f\x00", r"\x07\x7f\x00", id="other control characters"),
    pytest.param("\x9b31m", r"\x9b31m", id="a control character of eight bits"),
    pytest.param("\u202eevil\u2066", r"\u202eevil\u2066", id="what turns text around"),
    pytest.param("\u2028\u2029", r"\u2028\u2029", id="other line ends"),
    pytest.param("\udcff", r"\udcff", id="half a character"),
    pytest.param("\U000e0001", r"\U000e0001", id="an invisible character"),
]


@pytest.mark.parametrize(("text", "shown"), STEERING)
def test_what_would_steer_a_terminal_is_spelled_out(text: str, shown: str) -> None:
    assert for_terminal(text) == shown
    painted = for_terminal(Palette(enabled=True).paint(text, "red"))
    assert painted == f"\x1b[31m{shown}\x1b[0m"


def test_text_of_any_language_stays() -> None:
    assert for_terminal("größe\t模型 🙂") == "größe\t模型 🙂"


@pytest.mark.parametrize("text", [param.values[0] for param in STEERING if param.id != "half a character"])
def test_json_says_the_same_with_escapes(text: str) -> None:
    shown = json_for_terminal(json.dumps(["ü", text], ensure_ascii=False))
    assert shown.isprintable()
    assert json.loads(shown) == ["ü", text]
