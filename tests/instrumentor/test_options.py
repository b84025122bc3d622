"""The options of `instrument` and `instrument run`: what their help says can be read at 80 columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from instrumentor.cli import app
from instrumentor.running.command_line import run_app

if TYPE_CHECKING:
    import typer

WIDTH = 80
BORDERS = re.compile("[│╭╮╰╯─]")


def help_of(command: typer.Typer, columns: int) -> str:
    result = CliRunner().invoke(command, ["--help"], env={"COLUMNS": str(columns)})
    assert result.exit_code == 0
    return result.stdout


def words_of(text: str) -> set[str]:
    return set(BORDERS.sub(" ", text).split())


@pytest.mark.parametrize("command", [app, run_app], ids=["instrument", "instrument run"])
def test_no_line_of_the_help_is_longer_and_no_word_is_broken(command: typer.Typer) -> None:
    wide, narrow = help_of(command, 400), help_of(command, WIDTH)
    assert [line for line in narrow.splitlines() if len(line) > WIDTH] == []
    assert words_of(wide) - words_of(narrow) == set()
    assert words_of(narrow) - words_of(wide) == set()
    # An example, or a line of a list, that went on at the margin would be read as text.
    assert [line for line in wide.splitlines() if line.startswith("   ") and len(line.rstrip()) > WIDTH] == []


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        (
            app,
            ["--nonsense"],
            "No such option: --nonsense (Possible options: --min-confidence). Try 'instrument --help'.",
        ),
        (app, ["x.py", "--first", "-3"], "Invalid value for '--first': Input should be greater than or equal to 0."),
        (app, ["x.py", "--in-place", "-o", "y.py"], "Invalid value for --in-place: cannot be combined with --output;"),
        (run_app, ["--every"], "Option '--every' requires an argument. Try 'instrument run --help'."),
    ],
    ids=["unknown option", "bad value", "contradiction", "missing value"],
)
def test_wrong_usage_is_one_line(command: typer.Typer, arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(command, arguments, prog_name="instrument run" if command is run_app else "instrument")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"instrument: error: {words}")
    assert line.endswith(" --help'.")
