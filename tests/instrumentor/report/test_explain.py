"""The table of decisions."""

from __future__ import annotations

import io
import re

import pytest
from msgspec.structs import replace

from instrumentor.decision import Decision
from instrumentor.report.explain import Explained, describe_object, render_decisions
from instrumentor.report.relevance import may_pass_for_model

WRAP = Decision(
    verdict="wrap",
    line=126,
    column=4,
    target='models["g"]',
    object="torch.nn.Linear",
    reason="makes a module and binds it here for the first time in this script, " * 3,
    reason_code="constructed",
    aliases=(("net", 130), ("self.net", 141)),
)
MERGED = Decision("merged", 130, 4, "net", "Net", "the same object as model, line 126", "merged", 126, "same")


class Stdout(io.StringIO):
    encoding = "utf-8"

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture
def stdout(monkeypatch: pytest.MonkeyPatch) -> Stdout:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Stdout(is_terminal=False)


def test_piped_each_decision_is_one_line(stdout: Stdout) -> None:
    header, rule, first, second = (
        render_decisions([Explained("mnist.py", WRAP), Explained("mnist.py", MERGED)], stdout).decode().splitlines()
    )
    assert header.split() == ["File", "Line", "Binding", "Object", "Verdict", "Confidence", "Reason", "Aliases"]
    assert set(rule) <= {"─", " "}
    assert first.startswith('mnist.py   126  models["g"]  torch.nn.Linear  wrap     certain     makes a module')
    assert first.endswith("net (line 130), self.net (line 141)")
    assert (
        second
        == "mnist.py   130  net          Net              merged   certain     the same object as model, line 126"
    )


def test_nothing_is_nothing(stdout: Stdout) -> None:
    assert render_decisions([], stdout) == b""


def test_lines_of_a_notebook_are_those_of_its_cells(stdout: Stdout) -> None:
    decision = replace(
        MERGED, line=7, reason="another name of the object wrapped at line 4 or 7", aliases=(("net", 5),)
    )
    table = render_decisions([Explained("a.ipynb", decision, cells=((1, 2), (4, 5)))], stdout).decode()
    assert re.search(r"a\.ipynb:cell 5 +4 ", table)
    assert "wrapped at cell 5 line 1 or cell 5 line 4" in table
    assert "net (cell 5 line 2)" in table


def test_piped_it_has_no_colours(stdout: Stdout) -> None:
    assert b"\x1b" not in render_decisions([Explained("mnist.py", WRAP)], stdout)


def test_piped_columns_are_honoured(stdout: Stdout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = render_decisions([Explained("mnist.py", WRAP)], stdout).decode().splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 100


def test_a_terminal_gets_its_width_and_colours(stdout: Stdout, monkeypatch: pytest.MonkeyPatch) -> None:
    stdout.is_terminal = True
    monkeypatch.setenv("COLUMNS", "100")
    table = render_decisions([Explained("mnist.py", MERGED)], stdout)
    assert b"\x1b[33mmerged" in table


def test_a_narrow_terminal_gets_a_list(stdout: Stdout, monkeypatch: pytest.MonkeyPatch) -> None:
    stdout.is_terminal = True
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [Explained("mnist.py", WRAP), Explained("zoo/a.ipynb", replace(MERGED, line=3), cells=((1, 2), (3, 5)))]
    lines = render_decisions(rows, stdout).decode().splitlines()
    assert lines[:2] == ['mnist.py:126 models["g"] wrap, certain', "    torch.nn.Linear"]
    assert "    also self.net, line 141" in lines
    assert "zoo/a.ipynb:cell 5:1 net merged, certain" in lines
    assert max(map(len, lines)) <= 50


def test_no_color_is_honoured(stdout: Stdout, monkeypatch: pytest.MonkeyPatch) -> None:
    stdout.is_terminal = True
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    assert b"\x1b" not in render_decisions([Explained("mnist.py", MERGED)], stdout)


def test_an_ascii_stream_gets_ascii(stdout: Stdout) -> None:
    stdout.encoding = "ascii"
    table = render_decisions([Explained("modèle.py", MERGED)], stdout)
    assert table.isascii()
    assert b"mod\\xe8le.py" in table


def test_what_the_script_says_is_no_markup_and_no_command(stdout: Stdout) -> None:
    decision = Decision("wrap", 1, 0, "a[red]", ":smile:", "\x1b[31mred", "constructed")
    table = render_decisions([Explained("[bold]m.py", decision)], stdout).decode()
    assert "[bold]m.py" in table
    assert "a[red]" in table
    assert ":smile:" in table
    assert "\\x1b[31mred" in table


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        pytest.param(
            replace(WRAP, object="Net", class_names=("net.Net",), read_at="net.py:3"),
            "net.Net (net.py:3)",
            id="a class",
        ),
        pytest.param(
            replace(WRAP, object="lib.build", class_names=("lib.net.A", "lib.net.B", "lib.net.C"), read_at="lib.py:1"),
            "lib.build: lib.net.A or lib.net.B or 1 more (lib.py:1)",
            id="a factory of several",
        ),
        pytest.param(
            replace(WRAP, class_names=("torch.nn.Linear",), read_at="catalogue"),
            "torch.nn.Linear (catalogue)",
            id="known without reading",
        ),
        pytest.param(replace(WRAP, object="make()"), "make()", id="known by its use only"),
    ],
)
def test_what_an_object_is(decision: Decision, text: str) -> None:
    assert describe_object(decision) == text


def not_wrapped(code: str, target: str, made: str) -> Decision:
    return Decision("not wrapped", 1, 0, target, made, "because", code)


@pytest.mark.parametrize(
    ("decision", "is_shown"),
    [
        (WRAP, True),
        (MERGED, True),
        (not_wrapped("not-module", "optimizer", "torch.optim.SGD"), False),
        (not_wrapped("not-module", "loader", "torch.utils.data.DataLoader"), False),
        (not_wrapped("not-module", "internet_speed", "float"), False),
        (not_wrapped("not-module", "trainer", "Trainer"), True),
        (not_wrapped("not-module", "thing", "lib.ResNet"), True),
        (not_wrapped("submodule", "self.conv1", "torch.nn.Conv2d"), False),
        (not_wrapped("submodule", "head", "model.head"), True),
        (not_wrapped("no-params", "criterion", "torch.nn.CrossEntropyLoss"), True),
    ],
    ids=lambda value: f"{value.target} {value.object}" if isinstance(value, Decision) else "",
)
def test_what_is_told_without_being_asked(decision: Decision, is_shown: bool) -> None:
    passes = may_pass_for_model(decision.verdict, decision.reason_code, decision.target, decision.object)
    assert passes is is_shown
