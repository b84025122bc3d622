"""Forks: a child goes on in a file of its own; a worker that loads data stays silent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import AnyEvent, CallModule, Module, Run
from tests.proxy_wrapper.programs import Plain, images

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def traces(logdir: str) -> dict[int, list[AnyEvent]]:
    """The events of each process, by process id."""
    found: dict[int, list[AnyEvent]] = {}
    for path in Path(logdir).glob("*/*.jsonl"):
        events = msgspec.json.Decoder(AnyEvent).decode_lines(path.read_bytes())
        assert isinstance(events[0], Run)
        found[events[0].pid] = events
    return found


def run_in_child(function: object) -> int:
    """Fork, run `function` in the child, and wait for it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()  # type: ignore[operator]
            Proxy.flush()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    return child


def test_a_forked_child_goes_on_in_a_file_of_its_own(level: str, logdir: str) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=level)
    model(images())
    child = run_in_child(lambda: model(images()))
    model(images())
    Proxy.flush()
    found = traces(logdir)
    assert set(found) == {os.getpid(), child}
    mine, theirs = found[os.getpid()], found[child]
    assert isinstance(mine[0], Run)
    assert isinstance(theirs[0], Run)
    assert mine[0].run == theirs[0].run
    assert theirs[0].parent_pid == os.getpid()
    assert sum(isinstance(event, CallModule) for event in mine) == 10
    assert sum(isinstance(event, CallModule) for event in theirs) == 5
    assert [event.name for event in theirs if isinstance(event, Module)] == [
        event.name for event in mine if isinstance(event, Module)
    ]


def test_a_forked_child_that_does_nothing_leaves_no_file(logdir: str) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    model(images())
    run_in_child(lambda: None)
    Proxy.flush()
    assert set(traces(logdir)) == {os.getpid()}


class Doubled(TensorDataset):
    """Works with torch in the worker."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.relu(tensor[index]) * 2 for tensor in self.tensors)


SPAWNS = """
import multiprocessing, sys, torch
from torch import nn
import proxy_wrapper.proxy as Proxy

model = Proxy.Proxy(nn.Linear(2, 2), name="net", logdir=sys.argv[1])

def work():
    pass

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
    model(torch.ones(1, 2))
"""


def test_a_spawned_child_that_only_defines_a_model_leaves_no_file(logdir: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SPAWNS)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    subprocess.run([sys.executable, script, logdir], check=True, env={**os.environ, "PYTHONPATH": path})
    assert len(traces(logdir)) == 1


def test_a_trace_stays_where_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = Proxy.Proxy(Plain(), recurse=True, logdir="trace")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    model(images())
    Proxy.flush()
    assert len(traces(str(tmp_path / "trace"))) == 1


def test_workers_that_load_data_leave_no_file(level: str, logdir: str) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    for (batch,) in DataLoader(Doubled(images(8)), batch_size=4, num_workers=2, multiprocessing_context="fork"):
        model(batch)
    Proxy.flush()
    assert set(traces(logdir)) == {os.getpid()}
