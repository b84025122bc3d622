"""Programs of many threads compute what they compute untraced, and their traces say what they have done.

Each of `thread_programs/` runs in a process of its own, plain and traced, its threads taking turns as often as can be.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proxy_trace.reading.trace import TraceFile
from proxy_wrapper.events import CallModule, Module, OptimizerStepEnd, Parameter, Problem, RunEnd, Update
from tests.python_process.run_python import run_python

PROGRAMS = Path(__file__).parent / "thread_programs"
_STAMP = re.compile(r"^([A-Z]\d{4}) \d\d:\d\d:\d\d\.\d+ \d+ ", re.MULTILINE)


class Run(NamedTuple):
    """What a program has left.

    Attributes:
        shown: its exit code, its output, and what it wrote to standard error, less the times that torch puts there.
        truth: what it says it has done.
    """

    shown: tuple[int, str, str]
    truth: dict[str, int]


def run(program: str, level: str | None, folder: Path) -> Run:
    environment = {**os.environ, "LOGDIR": str(folder / "trace"), "TRUTH": str(folder / "truth.json")}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROGRAMS.parents[2])}
    if level is not None:
        environment["LEVEL"] = level
    done = run_python(["-W", "ignore::DeprecationWarning", *program.split()], cwd=PROGRAMS, env=environment)
    assert not done.returncode, done.stderr
    truth = json.loads((folder / "truth.json").read_text())
    return Run((done.returncode, done.stdout, _STAMP.sub(r"\1 ", done.stderr)), truth)


def names_and_events(folder: Path) -> tuple[dict[int, str], list[Any]]:
    """What the modules are called, by number, and all events of the one process that the one run has."""
    (path,) = (folder / "trace").glob("*/rank*.jsonl")
    events = list(TraceFile.open(path).read())
    return {event.id: event.name for event in events if isinstance(event, Module)}, events


class Runs:
    """Runs programs; each plain once."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._plain: dict[str, Run] = {}

    def compare(self, program: str, level: str, folder: Path) -> Run:
        """Run `program` plain and traced, and give back the traced run, which must show the same."""
        if program not in self._plain:
            self._plain[program] = run(program, None, self._folders.mktemp("plain"))
        traced = run(program, level, folder)
        assert traced.shown == self._plain[program].shown
        return traced


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory)


def test_the_first_models_are_made_in_several_threads_at_once(level: str, tmp_path: Path, runs: Runs) -> None:
    truth = runs.compare("first_models.py", level, tmp_path).truth
    assert truth["hooks"] == 1
    names, events = names_and_events(tmp_path)
    calls = Counter(names[event.module] for event in events if isinstance(event, CallModule))
    assert sum(calls.values()) == 5 * truth["calls"]  # The net and its four layers.
    assert set(calls.values()) == {5}
    assert sum(isinstance(event, OptimizerStepEnd) for event in events) == truth["steps"]
    updates = Counter(event.tensor for event in events if isinstance(event, Update) and event.cause == "step")
    assert set(updates.values()) == {5}
    assert not any(isinstance(event, Problem) for event in events)


def test_models_come_and_go_and_with_the_last_one_the_hooks(level: str, tmp_path: Path, runs: Runs) -> None:
    runs.compare("come_and_go.py", level, tmp_path)
    for path in (tmp_path / "trace").glob("*/rank*.jsonl"):
        *_, last = TraceFile.open(path).read()
        assert isinstance(last, RunEnd)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["model", "breaks", "hooks", "step"])
def test_a_thread_that_compiles_hides_no_other_one(kind: str, level: str, tmp_path: Path, runs: Runs) -> None:
    truth = runs.compare(f"compile_beside.py {kind}", level, tmp_path).truth
    names, events = names_and_events(tmp_path)
    calls = Counter(names[event.module] for event in events if isinstance(event, CallModule))
    problems = [event.message for event in events if isinstance(event, Problem)]
    # Hooks on a module are guarded by what hooks all modules have, the hooks of a step by what all steps have.
    missing = {"hooks": "calls of modules", "step": "steps of optimizers"}.get(kind)
    is_missing = bool(missing) and any(f", {missing}" in problem for problem in problems)
    expected_problems = is_missing + (level == "DEBUG" and any("attributes" in problem for problem in problems))
    assert len(problems) == expected_problems
    if kind != "hooks":
        assert calls["eager"] == calls["eager.0"] == truth["eager"]
    elif calls["eager"] != truth["eager"]:
        assert is_missing
    steps = sum(isinstance(event, OptimizerStepEnd) for event in events)
    if kind != "step":
        assert steps == truth["eager"] + 8
    elif steps != truth["eager"] + 8:
        assert is_missing
        assert steps >= 8
    assert calls["OptimizedModule(compiled)"] == 4


@pytest.mark.sample(1)
def test_each_thread_of_a_pool_compiles_a_model_of_its_own(level: str, tmp_path: Path, runs: Runs) -> None:
    truth = runs.compare("compiled_sweep.py", level, tmp_path).truth
    names, events = names_and_events(tmp_path)
    calls = Counter(names[event.module] for event in events if isinstance(event, CallModule))
    assert set(calls.values()) == {4}
    assert sum(calls.values()) == truth["calls"]
    assert sum(isinstance(event, OptimizerStepEnd) for event in events) == truth["steps"]
    parameters = {event.id for event in events if isinstance(event, Parameter)}
    updates = Counter(event.tensor for event in events if isinstance(event, Update) and event.cause == "step")
    assert updates == dict.fromkeys(parameters, 4)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["loop", "unrolled"])
def test_a_whole_training_loop_is_compiled(kind: str, level: str, tmp_path: Path, runs: Runs) -> None:
    """The same graphs and breaks; what has changed in there is found; what is not traced is said not to be."""
    runs.compare(f"compiled_loop.py {kind}", level, tmp_path)
    names, events = names_and_events(tmp_path)
    assert "other" not in names.values()
    parameters = {event.id for event in events if isinstance(event, Parameter)}
    assert {event.tensor for event in events if isinstance(event, Update)} == parameters
    (problem,) = (event.message for event in events if isinstance(event, Problem))
    assert problem.startswith("Models that are created in compiled code are not traced")
