"""At 80 columns no line of a summary or a help is longer, and none is broken within a word or a number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import typer

import proxy_trace.cli
from proxy_trace.cli import run_command
from proxy_trace.terminal.colour import Palette, for_terminal
from proxy_trace.terminal.line_width import fitted, fitted_command
from proxy_wrapper import events
from tests.proxy_trace.report.conftest import drawn_records

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

WIDTH = 80
BORDERS = re.compile("[│╭╮╰╯─]")
SUBCOMMANDS = sorted(getattr(typer.main.get_command(proxy_trace.cli.app), "commands", {}))


def words_of(text: str) -> set[str]:
    return set(BORDERS.sub(" ", text).split())


@pytest.mark.parametrize("command", ["", *SUBCOMMANDS])
def test_the_help_of_every_command(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*([command] if command else []), "--help"]
    monkeypatch.setenv("COLUMNS", "400")
    assert run_command(arguments) == 0
    wide = capsys.readouterr().out
    monkeypatch.delenv("COLUMNS")  # As in a pipe.
    assert run_command(arguments) == 0
    narrow = capsys.readouterr().out
    assert narrow
    assert [line for line in narrow.splitlines() if len(line) > WIDTH] == []
    assert words_of(wide) - words_of(narrow) == set()
    # What is indented, as a list or an example, is one line each: going on at the margin it would be read as text.
    assert [line for line in wide.splitlines() if line.startswith("   ") and len(line.rstrip()) > WIDTH] == []


LONG = "model.encoder.layers.11.self_attention.output_projection.parametrizations"


def noted(name: str, **module: Any) -> list[events.Event]:
    """A run of a model of that name, with much to be said of it."""
    statistics = events.Statistics(-0.325850307, 0.332701742, 3.292062044, bits="00000000000000aa")
    records = drawn_records(name, steps=3)
    records += [
        events.Module(5, f"{name}.spare", "ParametrizedLinearWithBias", 1, 1, "INFO", 12_345_678, 1, **module),
        events.Parameter(9, f"{name}.spare.weight", 5, "float32[128, 9216]", "cpu", True, statistics=statistics),
        events.NonFinite(4000, 3, 2, 3, where="gradient", tensor=1, count=3_072, type="float32[48, 64]"),
        events.NonFinite(4001, 3, 2, 3, where="parameter", tensor=9, count=3_072, type="float32[128, 9216]"),
    ]
    return records


RUNS: dict[str, tuple[list[list[events.Event]], dict[str, Any]]] = {
    "a plain run": ([drawn_records(steps=3)], {}),
    "long names": ([noted(LONG)], {"argv": ["--data", "/mnt/a/long/path/to/the/data", "--epochs", "100"] * 2}),
    "findings": ([noted("model")], {"ends": False}),
    "several ranks": ([noted("model"), noted("model"), drawn_records(steps=2)], {"world_size": 3}),
    "level WARNING": (
        [
            [
                events.Location(1, "train.py", 10, "main"),
                events.Module(1, "model", "Net", 1, 0, "WARNING", 12, 1),
                events.Parameter(1, "model.weight", 1, "float32[3, 3]", "cpu", True),
            ]
        ],
        {},
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_summary_of_a_run(
    name: str,
    tmp_path: Path,
    write_trace: WriteTrace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    runs, fields = RUNS[name]
    for rank, records in enumerate(runs):
        write_trace(tmp_path / "run" / f"rank{rank}-1.jsonl", *records, **{"ends": True, **fields}, rank=rank)
    monkeypatch.setenv("COLUMNS", "1000")
    assert run_command(["summary", "run"]) == 0
    wide = capsys.readouterr().out
    monkeypatch.delenv("COLUMNS")
    assert run_command(["summary", "run"]) == 0
    narrow = capsys.readouterr().out
    too_long = [line for line in narrow.splitlines() if len(line) > WIDTH]
    assert [line for line in too_long if len(line.split()) > 1] == []
    assert words_of(wide) - words_of(narrow) == set()
    for number in re.findall(r"float32\[[^\]]*\]|-?\d+\.\d+(?:e[-+]\d+)?", wide):
        assert number in narrow


def test_at_level_warning_nothing_counts_as_none(
    tmp_path: Path, write_trace: WriteTrace, capsys: pytest.CaptureFixture[str]
) -> None:
    (records,), _ = RUNS["level WARNING"]
    path = write_trace(tmp_path / "run" / "rank0-1.jsonl", *records, ends=True)
    assert run_command(["summary", str(path)]) == 0
    text = capsys.readouterr().out
    assert "training   not recorded (level WARNING)" in text
    assert re.search(r"model +Net +not recorded", text)
    assert re.search(r"model.weight +float32\[3, 3\] +not recorded", text)


def test_colours_take_no_room() -> None:
    palette = Palette(enabled=True)
    line = f"{palette.paint('error[non-finite]', 'red')} " + "word " * 12
    (fits,) = fitted(line.rstrip(), WIDTH)
    assert for_terminal(fits).startswith("\x1b[31merror[non-finite]\x1b[0m word")


def test_words_are_moved_whole_and_types_are_words() -> None:
    line = "  model.fc  gradient: 3 of float32[48, 64], at step 7"
    assert list(fitted(line, 40)) == ["  model.fc  gradient: 3 of", "      float32[48, 64], at step 7"]
    assert list(fitted("a" * 50, 40)) == ["a" * 50]
    assert list(fitted("", 40)) == [""]


def test_a_command_that_goes_on_can_be_copied() -> None:
    lines = list(fitted_command("proxy-trace history /a/long/path/to/a/run model.fc.weight", 40, "  "))
    assert all(len(line) <= 40 for line in lines)
    assert [line.endswith(" \\") for line in lines] == [True, True, False]
    assert "".join(lines).replace("\\", "").split() == [
        "proxy-trace",
        "history",
        "/a/long/path/to/a/run",
        "model.fc.weight",
    ]
