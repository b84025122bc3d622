"""Engines: found by name, and Ray gives what this machine gives, whoever dies."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from instrumentor.engine.batch import BatchRunner
from instrumentor.engine.executors import REMOTE_BATCH, Engine, find_engine
from instrumentor.engine.outcome import Task
from instrumentor.errors import EngineError
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
MODEL = b"import torch.nn as nn\n\nmodel = nn.Linear(2, 2)\nprint(model(model.weight))\n"


def unknown(task: Task) -> None:
    return None


def test_the_local_engine_is_there() -> None:
    assert find_engine("local").is_local


def test_an_engine_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(EngineError, match="there is no engine 'slurm'; there are: local"):
        find_engine("slurm")


def test_packages_offer_engines_as_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name, value = "threads", "some.package:make"

        def load(self) -> Any:
            from concurrent.futures import ThreadPoolExecutor

            return ThreadPoolExecutor

    class Missing(Point):
        name, value = "ray", "instrumentor.engine.ray_executor:RayExecutor"

        def load(self) -> Any:
            raise ModuleNotFoundError("No module named 'ray'", name="ray")

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point(), Missing()])
    engine = find_engine("threads")
    assert (engine.is_local, engine.batch >= 64) == (False, True)
    with engine.make(1) as executor:
        assert executor.submit(len, "ab").result() == 2
    with pytest.raises(EngineError, match=r"pip install 'instrumentor\[ray\]'"):
        find_engine("ray")


@pytest.mark.skipif(sys.platform != "linux", reason="looks for Ray's workers in /proc")
def test_ray_with_a_worker_killed_gives_what_this_machine_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="the extra [ray]")
    from instrumentor.engine.ray_executor import RayExecutor

    tasks = []
    for number in range(REMOTE_BATCH * 6):
        path = tmp_path / f"f{number:03}.py"
        path.write_bytes(MODEL + b"# %d\n" % number if number % 5 else b"x = (\n")
        os.utime(path, (1e9, 1e9))  # outcomes say of a file written just now that its time means nothing
        tasks.append(Task(str(path), path.name, path.name, Settings()))
    with BatchRunner(find_engine("local"), jobs=1) as runner:
        here = [done.outcome for done in runner.run(tasks, unknown)]

    # What workers import has to be found by them too, as it is where this package is installed.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "runtime")]))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with BatchRunner(Engine("ray", RayExecutor, REMOTE_BATCH, is_local=False), jobs=2) as runner:
        killed: list[int] = []
        ended = threading.Event()
        killer = threading.Thread(target=kill_a_worker, args=(ray, killed, ended))
        killer.start()
        try:
            found = [done.outcome for done in runner.run(tasks, unknown)]
        finally:
            ended.set()
            killer.join()
    assert len(killed) == 1
    assert found == here
    assert {outcome.status for outcome in found} == {"changed", "failed"}
    assert not ray.is_initialized()


def kill_a_worker(ray: Any, killed: list[int], ended: threading.Event) -> None:
    """Kill the first process of Ray that is seen to run our work, while others are at work and more wait."""
    while not ended.wait(0.005):
        if not ray.is_initialized():
            continue
        session = os.path.basename(ray._private.worker._global_node.get_session_dir_path())  # noqa: PTH119
        for pid in workers(session):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            return


def workers(session: str) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            title = (entry / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            above = (Path("/proc") / str(parent) / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # it ended meanwhile
            continue
        if title.startswith("ray::process_batch") and session in above:
            yield int(entry.name)
