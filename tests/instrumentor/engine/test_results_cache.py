"""Outcomes of earlier runs: found while nothing they depend on has changed, and never longer."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from instrumentor.engine import results_cache
from instrumentor.engine.outcome import Task
from instrumentor.engine.results_cache import ResultsCache
from instrumentor.engine.work import process
from instrumentor.resolve.search_path import SearchPaths
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
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


def forget(cache_dir: Path, table: str) -> None:
    (path,) = cache_dir.glob("results-*.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"delete from {table}")
        connection.commit()


class TestFound:
    def test_without_the_bytes_and_what_it_depends_on(self, cache_dir: Path, project: Path) -> None:
        task = task_of(project)
        assert find(cache_dir, task) == replace(process(task), original=None, result=None, dependencies=(), lookups=())

    def test_when_only_the_times_have_changed(self, cache_dir: Path, project: Path) -> None:
        for name in ("net.py", "train.py"):
            (project / name).touch()
        assert find(cache_dir, task_of(project)) is not None

    def test_by_the_new_times_from_then_on(
        self, cache_dir: Path, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("net.py", "train.py"):
            write(project / name, (project / name).read_bytes(), age_s=60)
        assert find(cache_dir, task_of(project)) is not None
        monkeypatch.setattr("instrumentor.engine.file_states.digest_of", lambda _: pytest.fail("was read again"))
        assert find(cache_dir, task_of(project)) is not None

    def test_when_a_neighbour_was_instrumented_in_place(self, cache_dir: Path, project: Path) -> None:
        made = NET + b"model = Net()\nmodel.train()\n"
        write(project / "net.py", made)
        task = task_of(project)
        before = process(task)
        with ResultsCache(cache_dir) as cache:
            cache.add(task, before)
        result = process(replace(task, path=str(project / "net.py"), name="net.py")).result
        assert result is not None
        write(project / "net.py", result)
        assert process(task).decisions == before.decisions
        assert find(cache_dir, task) is not None

    def test_in_a_folder_of_more_files_than_are_read_at_once(
        self, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(results_cache, "_PAGE", 2)
        tasks = []
        for number in range(7):
            write(project / f"f{number}.py", b"# %d\n" % number)
            path = project / f"f{number}.py"
            tasks.append(Task(str(path), path.name, path.name, Settings()))
        with ResultsCache(tmp_path / "fresh") as cache:
            for task in tasks[1:]:
                cache.add(task, process(task))
        with ResultsCache(tmp_path / "fresh") as cache:
            found = [cache.find(task) for task in (*tasks, *reversed(tasks))]
        assert [each is not None for each in found] == [False, *[True] * 12, False]


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

    def test_when_there_is_a_neighbour_that_another_script_missed(self, cache_dir: Path, project: Path) -> None:
        write(project / "other.py", b"import absent\nthing = absent.Net()\nprint(thing)\n")
        other = replace(task_of(project), path=str(project / "other.py"), name="other.py", shown="other.py")
        with ResultsCache(cache_dir) as cache:
            cache.add(other, process(other))
        assert find(cache_dir, other) is not None
        write(project / "absent.py", NET)
        assert find(cache_dir, other) is None
        assert find(cache_dir, task_of(project)) is not None  # which never looked for it

    def test_when_the_folder_became_part_of_a_project(self, cache_dir: Path, project: Path) -> None:
        (project.parent / "pyproject.toml").touch()
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


class TestPackagesInstalledToBeEdited:
    @pytest.fixture
    def package(self, tmp_path: Path) -> Path:
        """A package outside of the folder that installers fill, which names its folder in a `.pth` file."""
        package = tmp_path / "work" / "mine"
        package.mkdir(parents=True)
        write(package / "__init__.py", b"from .nets import Net\n")
        write(package / "nets.py", NET)
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "mine.pth").write_text(str(package.parent))
        return package

    @pytest.fixture
    def task(self, package: Path, project: Path) -> Task:
        write(project / "train.py", b"import mine\nthing = mine.Net()\nprint(thing)\n")
        packages = SearchPaths([str(package.parents[1] / "site")]).packages(str(project))
        return replace(task_of(project), packages=packages)

    @pytest.fixture
    def kept(self, tmp_path: Path, task: Task) -> Path:
        with ResultsCache(tmp_path / "cache") as cache:
            outcome = process(task)
            assert [decision.class_names for decision in outcome.decisions] == [("mine.nets.Net",)]
            cache.add(task, outcome)
        return tmp_path / "cache"

    def test_are_found_while_nobody_edits_them(self, kept: Path, task: Task) -> None:
        assert find(kept, task) is not None

    def test_are_not_found_once_a_module_is_edited(self, kept: Path, task: Task, package: Path) -> None:
        write(package / "nets.py", b"Net = int\n")
        assert find(kept, task) is None

    def test_are_not_found_once_a_module_has_gone(self, kept: Path, task: Task, package: Path) -> None:
        (package / "nets.py").unlink()
        assert find(kept, task) is None

    def test_are_not_found_once_a_package_comes_before_a_module(self, kept: Path, task: Task, package: Path) -> None:
        (package / "nets").mkdir()
        assert find(kept, task) is not None  # a folder alone does not
        write(package / "nets" / "__init__.py", NET)
        assert find(kept, task) is None

    def test_are_not_found_once_there_is_a_module_that_was_missing(
        self, tmp_path: Path, task: Task, package: Path
    ) -> None:
        (package / "nets.py").unlink()
        with ResultsCache(tmp_path / "fresh") as cache:
            cache.add(task, process(task))
            cache.find(task)
        assert find(tmp_path / "fresh", task) is not None
        write(package / "nets.py", NET)
        assert find(tmp_path / "fresh", task) is None


class TestInstalledPackages:
    """Two scripts and two folders of packages: what is installed makes old just what would be another outcome now."""

    @pytest.fixture
    def sites(self, tmp_path: Path) -> tuple[Path, Path]:
        first, second = tmp_path / "first", tmp_path / "second"
        (second / "lib" / "parts").mkdir(parents=True)
        write(second / "lib" / "__init__.py", b"from .nets import Net\n")
        write(second / "lib" / "nets.py", NET)
        write(second / "lib" / "parts" / "one.py", NET)
        first.mkdir()
        return first, second

    @pytest.fixture
    def tasks(self, project: Path, sites: tuple[Path, Path]) -> tuple[Task, Task]:
        """A script that uses a package, and one that uses a package that is not there."""
        packages = SearchPaths([str(site) for site in sites]).packages(str(project))
        write(project / "uses.py", b"import lib\nthing = lib.Net()\nprint(thing)\n")
        write(project / "misses.py", b"import extra.nets\nthing = extra.nets.Net()\nprint(thing)\n")
        uses, misses = (
            Task(str(project / name), name, name, Settings(), packages=packages) for name in ("uses.py", "misses.py")
        )
        return uses, misses

    @pytest.fixture
    def kept(self, tmp_path: Path, tasks: tuple[Task, Task]) -> Path:
        with ResultsCache(tmp_path / "cache") as cache:
            for task, count in zip(tasks, (1, 0), strict=True):
                outcome = process(task)
                assert sum(decision.verdict == "wrap" for decision in outcome.decisions) == count
                cache.add(task, outcome)
        return tmp_path / "cache"

    def found(self, kept: Path, tasks: tuple[Task, Task]) -> tuple[bool, bool]:
        with ResultsCache(kept) as cache:
            uses, misses = (cache.find(task) is not None for task in tasks)
        return uses, misses

    def test_are_found_while_nothing_happens(self, kept: Path, tasks: tuple[Task, Task]) -> None:
        assert self.found(kept, tasks) == (True, True)

    def test_are_looked_at_anew_where_another_run_has_forgotten_them(
        self, kept: Path, tasks: tuple[Task, Task]
    ) -> None:
        forget(kept, "lookups")
        assert self.found(kept, tasks) == (False, False)

    @pytest.mark.parametrize(
        "path",
        ["other/__init__.py", "other.py", "other-1.0.dist-info/METADATA", "extra_things.py", "lib2/nets.py", "a.pth"],
    )
    def test_one_that_nobody_looked_for_makes_nothing_old(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path], path: str
    ) -> None:
        for site in sites:
            (site / path).parent.mkdir(exist_ok=True)
            write(site / path, b"# new\n")
        assert self.found(kept, tasks) == (True, True)

    @pytest.mark.parametrize(
        "path", ["extra/nets/__init__.py", "extra/__init__.py", "extra.py", "extra/nets.py", "extra/other.py"]
    )
    def test_one_that_was_missing_makes_what_missed_it_old(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path], path: str
    ) -> None:
        (sites[1] / path).parent.mkdir(parents=True, exist_ok=True)
        write(sites[1] / path, NET)
        assert self.found(kept, tasks) == (True, False)

    @pytest.mark.parametrize("way", ["path file", "finder"])
    def test_one_that_is_installed_to_be_edited_makes_what_missed_it_old(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path], tmp_path: Path, way: str
    ) -> None:
        package = tmp_path / "work" / "extra"
        package.mkdir(parents=True)
        write(package / "__init__.py", b"")
        if way == "path file":
            (sites[0] / "extra.pth").write_text(str(package.parent))
        else:
            (sites[0] / "__editable___extra_1_0_finder.py").write_text(f"MAPPING = {{'extra': {str(package)!r}}}\n")
        assert self.found(kept, tasks) == (True, False)

    @pytest.mark.parametrize("path", ["lib/__init__.py", "lib.py"])
    def test_one_that_comes_before_another_makes_what_used_that_old(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path], path: str
    ) -> None:
        (sites[0] / path).parent.mkdir(exist_ok=True)
        write(sites[0] / path, b"Net = int\n")
        assert self.found(kept, tasks) == (False, True)

    def test_an_empty_folder_does_not_come_before_a_package(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path]
    ) -> None:
        (sites[0] / "lib").mkdir()
        assert self.found(kept, tasks) == (True, True)

    def test_one_that_comes_behind_another_makes_nothing_old(
        self, kept: Path, tasks: tuple[Task, Task], tmp_path: Path
    ) -> None:
        (tmp_path / "work" / "lib").mkdir(parents=True)
        write(tmp_path / "work" / "lib" / "__init__.py", b"")
        (tmp_path / "second" / "z.pth").write_text(str(tmp_path / "work"))
        assert self.found(kept, tasks) == (True, True)

    def test_an_upgrade_makes_what_used_it_old(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path]
    ) -> None:
        write(sites[1] / "lib" / "nets.py", NET + b"# better\n", age_s=1800)
        assert self.found(kept, tasks) == (False, True)

    def test_an_upgrade_of_what_was_not_read_makes_nothing_old(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path]
    ) -> None:
        write(sites[1] / "lib" / "parts" / "one.py", b"# other\n", age_s=1800)
        assert self.found(kept, tasks) == (True, True)

    def test_one_that_was_removed_makes_what_used_it_old(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path]
    ) -> None:
        (sites[1] / "lib").rename(sites[1] / "away")
        assert self.found(kept, tasks) == (False, True)

    def test_an_extension_module_has_nothing_that_is_read(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path]
    ) -> None:
        write(sites[0] / "extra.abi3.so", b"\x7fELF")
        before = process(tasks[1])
        assert self.found(kept, tasks) == (True, True)
        (sites[0] / "extra.abi3.so").unlink()
        assert process(tasks[1]) == before

    def test_what_was_made_anew_is_kept_beside_the_rest(
        self, kept: Path, tasks: tuple[Task, Task], sites: tuple[Path, Path]
    ) -> None:
        (sites[1] / "extra").mkdir()
        write(sites[1] / "extra" / "nets.py", NET)
        with ResultsCache(kept) as cache:
            assert cache.find(tasks[1]) is None
            outcome = process(tasks[1])
            assert outcome.status == "changed"
            cache.add(tasks[1], outcome)
        assert self.found(kept, tasks) == (True, True)


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

    @pytest.mark.parametrize("table", ["sources", "results"])
    def test_what_another_run_has_forgotten_is_looked_at_anew(self, table: str, cache_dir: Path, project: Path) -> None:
        task = task_of(project)
        write(project / "plain.py", b"print(1)\n")
        plain = replace(task, path=str(project / "plain.py"), shown="plain.py", name="plain.py")
        with ResultsCache(cache_dir) as cache:
            cache.add(plain, process(plain))
        with ResultsCache(cache_dir) as cache:
            assert cache.find(plain) is not None  # and with it come the rows of its neighbours
            forget(cache_dir, table)
            assert cache.find(task) is None
            cache.add(task, process(task))
        assert find(cache_dir, task) is not None

    def test_a_place_that_cannot_be(self, tmp_path: Path, project: Path) -> None:
        (tmp_path / "file").write_text("")
        with ResultsCache(tmp_path / "file" / "cache") as cache:
            cache.add(task_of(project), process(task_of(project)))
            assert cache.find(task_of(project)) is None

    def test_a_broken_file_is_taken_away_and_the_next_run_has_a_new_one(self, cache_dir: Path, project: Path) -> None:
        for path in cache_dir.iterdir():
            path.write_bytes(b"no database" * 100)
        task = task_of(project)
        with ResultsCache(cache_dir) as cache:
            cache.add(task, process(task))
        assert find(cache_dir, task) is not None

    def test_a_run_that_writes_keeps_no_other_from_writing(self, cache_dir: Path, project: Path) -> None:
        task, other = task_of(project), task_of(project, logdir="elsewhere")
        with ResultsCache(cache_dir) as first, ResultsCache(cache_dir) as second:
            first.add(other, process(other))
            second.add(task, process(task))
        assert find(cache_dir, task) is not None
        assert find(cache_dir, other) is not None

    def test_runs_at_the_same_time_share_it(self, cache_dir: Path, project: Path) -> None:
        with ResultsCache(cache_dir) as first, ResultsCache(cache_dir) as second:
            assert first.find(task_of(project)) is not None
            assert second.find(task_of(project)) is not None


class TestForgetting:
    """What nobody has asked for in thirty days goes, when the cache is opened."""

    @pytest.fixture
    def wait(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
        """Lets days go by."""
        now_s = time.time()

        def wait(days: int) -> None:
            nonlocal now_s
            now_s += 86_400 * days
            monkeypatch.setattr(time, "time", lambda: now_s)

        return wait

    @staticmethod
    def count(cache_dir: Path) -> int:
        (path,) = cache_dir.glob("results-*.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return int(connection.execute("select count(*) from results").fetchone()[0])

    def test_what_is_asked_for_now_and_then_stays(
        self, cache_dir: Path, project: Path, wait: Callable[[int], None]
    ) -> None:
        for _ in range(4):
            wait(20)
            assert find(cache_dir, task_of(project)) is not None

    def test_what_is_not_goes(self, cache_dir: Path, project: Path, wait: Callable[[int], None]) -> None:
        assert self.count(cache_dir) == 1
        wait(29)
        with ResultsCache(cache_dir):
            assert self.count(cache_dir) == 1
        wait(2)
        with ResultsCache(cache_dir):
            assert self.count(cache_dir) == 0
        assert find(cache_dir, task_of(project)) is None
