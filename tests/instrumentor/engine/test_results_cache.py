"""Outcomes of earlier runs: found while nothing they depend on has changed, and never longer."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from instrumentor.engine import results_cache
from instrumentor.engine.outcome import Task
from instrumentor.engine.results_cache import ResultsCache
from instrumentor.engine.work import process
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

NET = (
    b"import torch.nn as nn\n\nclass Net(nn.Module):\n    def __init__(self):\n"
    b"        super().__init__()\n        self.fc = nn.Linear(2, 2)\n"
)
TRAIN = b"from net import Net\n\nthing = Net()\nprint(thing)\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    write(folder / "net.py", NET)
    write(folder / "train.py", TRAIN)
    return folder


def write(path: Path, content: bytes, age_s: int = 3600) -> None:
    path.write_bytes(content)
    then = path.stat().st_mtime - age_s
    os.utime(path, (then, then))


def task_of(project: Path, **more: object) -> Task:
    return Task(str(project / "train.py"), "train.py", "train.py", Settings(**more))  # type: ignore[arg-type]


@pytest.fixture
def cache_dir(tmp_path: Path, project: Path) -> Path:
    task = task_of(project)
    with ResultsCache(tmp_path / "cache") as cache:
        assert cache.find(task) is None
        outcome = process(task)
        assert outcome.status == "changed"
        cache.add(task, outcome)
    return tmp_path / "cache"


def find(cache_dir: Path, task: Task) -> object:
    with ResultsCache(cache_dir) as cache:
        return cache.find(task)


class TestFound:
    def test_without_the_bytes_and_what_it_depends_on(self, cache_dir: Path, project: Path) -> None:
        task = task_of(project)
        assert find(cache_dir, task) == replace(process(task), original=None, result=None, dependencies=())

    def test_when_only_the_times_have_changed(self, cache_dir: Path, project: Path) -> None:
        for name in ("net.py", "train.py"):
            (project / name).touch()
        assert find(cache_dir, task_of(project)) is not None


class TestNotFound:
    def test_when_the_script_has_changed(self, cache_dir: Path, project: Path) -> None:
        write(project / "train.py", TRAIN + b"# more\n")
        assert find(cache_dir, task_of(project)) is None

    def test_when_a_neighbour_has_changed(self, cache_dir: Path, project: Path) -> None:
        write(project / "net.py", b"def Net(): return 3\n")
        assert find(cache_dir, task_of(project)) is None

    def test_when_a_neighbour_has_gone(self, cache_dir: Path, project: Path) -> None:
        (project / "net.py").unlink()
        assert find(cache_dir, task_of(project)) is None

    def test_when_a_neighbour_has_come_that_is_looked_at_first(self, cache_dir: Path, project: Path) -> None:
        (project / "net").mkdir()
        write(project / "net" / "__init__.py", b"Net = int\n")
        assert find(cache_dir, task_of(project)) is None

    def test_with_other_settings(self, cache_dir: Path, project: Path) -> None:
        assert find(cache_dir, task_of(project, logdir="elsewhere")) is None

    def test_with_another_goal(self, cache_dir: Path, project: Path) -> None:
        assert find(cache_dir, replace(task_of(project), goal="explain")) is None

    def test_with_another_version_of_the_code(
        self, cache_dir: Path, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(results_cache, "__version__", "0.0.0")
        assert find(cache_dir, task_of(project)) is None

    def test_when_it_was_cleared(self, cache_dir: Path, project: Path) -> None:
        results_cache.clear(cache_dir)
        assert find(cache_dir, task_of(project)) is None

    def test_when_a_file_changed_within_the_grain_of_its_time(self, tmp_path: Path, project: Path) -> None:
        path = project / "train.py"
        path.write_bytes(TRAIN)  # just now
        with ResultsCache(tmp_path / "fresh") as cache:
            cache.add(task_of(project), process(task_of(project)))
        status = path.stat()
        path.write_bytes(TRAIN.replace(b"Net()", b"int()"))  # of the same size
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert find(tmp_path / "fresh", task_of(project)) is None

    def test_failures_are_not_kept(self, tmp_path: Path, project: Path) -> None:
        write(project / "train.py", b"x = (\n")
        with ResultsCache(tmp_path / "fresh") as cache:
            cache.add(task_of(project), process(task_of(project)))
            assert cache.find(task_of(project)) is None


class TestTrouble:
    def test_a_broken_file_costs_time_only(self, cache_dir: Path, project: Path) -> None:
        for path in cache_dir.iterdir():
            path.write_bytes(b"no database" * 100)
        assert find(cache_dir, task_of(project)) is None

    def test_an_outcome_of_another_shape_is_passed_over(self, cache_dir: Path, project: Path) -> None:
        database = next(cache_dir.glob("*.sqlite"))
        with sqlite3.connect(database) as connection:
            connection.execute("update results set details = x'90'")
        connection.close()
        assert find(cache_dir, task_of(project)) is None

    def test_a_place_that_cannot_be(self, tmp_path: Path, project: Path) -> None:
        (tmp_path / "file").write_text("")
        with ResultsCache(tmp_path / "file" / "cache") as cache:
            cache.add(task_of(project), process(task_of(project)))
            assert cache.find(task_of(project)) is None

    def test_runs_at_the_same_time_share_it(self, cache_dir: Path, project: Path) -> None:
        with ResultsCache(cache_dir) as first, ResultsCache(cache_dir) as second:
            assert first.find(task_of(project)) is not None
            assert second.find(task_of(project)) is not None
