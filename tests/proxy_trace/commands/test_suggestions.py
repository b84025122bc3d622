"""A name that nothing has is answered with the nearest that there are, by every command that takes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.cli import run_command

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_wrapper import events
    from tests.proxy_trace.conftest import WriteTrace


@pytest.fixture
def runs(tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]) -> tuple[str, str]:
    for run in ("a", "b"):
        for rank in range(2):
            write_trace(tmp_path / run / f"rank{rank}-1.jsonl", *small_run, ends=True, run=run, rank=rank)
    return str(tmp_path / "a"), str(tmp_path / "b")


@pytest.mark.parametrize("command", ["show", "log"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--name", "fc.weight"], "did you mean model.fc.weight"),
        (["--name", "modell.fc.weigth"], "did you mean model.fc.weight"),
        (["--module", "spare"], "did you mean model.spare"),
        (["--name", "train.py:21"], "near 'train.py:21' are train.py:10, train.py:20"),
    ],
)
def test_of_events(
    command: str, options: list[str], said: str, runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([command, runs[0], *options]) == 0
    assert said in capsys.readouterr().err


def test_names_that_there_are_need_no_suggestion(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["show", runs[0], "--name", "model.fc.weight", "--step", "99"]) == 0
    assert capsys.readouterr().err == "proxy-trace: no event in this trace matches all these options\n"


@pytest.mark.parametrize("command", ["ranks", "report", "compare"])
def test_of_parameters(command: str, runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = runs if command == "compare" else runs[:1]
    assert run_command([command, *arguments, "--name", "fc.weight"]) == 2
    said = capsys.readouterr().err
    assert "no parameter or buffer of this run is called 'fc.weight'. Did you mean model.fc.weight" in said
    assert run_command([command, *arguments, "--name", "nothing-like-it"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


def test_of_a_history(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["history", runs[0], "fc.weight"]) == 2
    assert "Did you mean model.fc.weight" in capsys.readouterr().err
    assert run_command(["history", runs[0], "train.py:15"]) == 2
    assert "Places near it: train.py:10, train.py:20" in capsys.readouterr().err
