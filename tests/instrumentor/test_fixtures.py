"""Every folder of fixtures: before.py becomes after.py to the byte, and both run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings
from instrumentor.source.undo import undo

if TYPE_CHECKING:
    from tests.instrumentor.conftest import Run

FIXTURES = Path(__file__).parents[2] / "fixtures"
CASES = sorted(folder.name for folder in FIXTURES.iterdir() if (folder / "before.py").exists())
FLAGS = b"# flags:"


def read_settings(source: bytes) -> Settings:
    """The settings that the first line of a fixture asks for, spelled as on the command line."""
    first = source.partition(b"\n")[0]
    words = iter(shlex.split(first.removeprefix(FLAGS).decode()) if first.startswith(FLAGS) else [])
    settings: dict[str, object] = {}
    for word in words:
        if word == "--no-recurse":
            settings["recurse"] = False
        elif word in {"--select", "--skip"}:
            settings[word[2:]] = (next(words),)
        elif word == "--factories":
            settings["wrap_factories"] = next(words)
        elif word in {"--logdir", "--log-level", "--statistics-of"}:
            settings[word[2:].replace("-", "_")] = next(words)
        else:
            pytest.fail(f"unknown flag {word}")
    return Settings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
def test_a_fixture_becomes_its_after(case: str) -> None:
    before = (FIXTURES / case / "before.py").read_bytes()
    after = FIXTURES / case / "after.py"
    result = instrument_source(before, read_settings(before), source_name="before.py")
    assert result.original == before
    assert result.instrumented.decode() == (after.read_bytes() if after.exists() else before).decode()
    assert result.changed is after.exists()
    assert not result.already_instrumented


@pytest.mark.parametrize("case", [case for case in CASES if (FIXTURES / case / "after.py").exists()])
def test_an_instrumented_fixture_stays_and_can_be_reverted(case: str) -> None:
    after = (FIXTURES / case / "after.py").read_bytes()
    again = instrument_source(after, Settings(), source_name="after.py")
    assert (again.instrumented, again.already_instrumented, again.decisions) == (after, True, ())
    reverted = undo(after, source_name="after.py")
    assert reverted.original == (FIXTURES / case / "before.py").read_bytes()
    assert reverted.recorded_source == "before.py"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("default")  # what torch deprecates is not this project's
def test_a_fixture_runs_before_and_after(case: str, run_script: Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = (FIXTURES / case / "before.py").read_bytes()
    after = FIXTURES / case / "after.py"
    names = set(run_script(before))
    printed = capsys.readouterr().out
    if after.exists():
        added = set(run_script(after.read_bytes())) - names
        assert added <= {"Proxy", "_Proxy", "_Proxy1"}
        assert capsys.readouterr().out == printed
