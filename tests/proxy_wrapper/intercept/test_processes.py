"""Other processes: each goes on in a file of its own, whatever started it; one that loads data stays silent."""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import AnyEvent, CallModule, Module, OptimizerStep, Run, RunEnd
from tests.proxy_wrapper.programs import Plain, images
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from collections.abc import Callable

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


PROGRAM = Path(__file__).parents[1] / "processes_program.py"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """`processes_program.py`, run once: processes of every kind, one after another."""
    logdir, found = tmp_path_factory.mktemp("trace"), tmp_path_factory.mktemp("found")
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = run_python([PROGRAM, logdir, found, "fork", "spawn", "forkserver"], env=environment)
    assert done.returncode == 0, done.stderr
    return Program(traces(str(logdir)), {path.stem: torch.load(path) for path in found.glob("*.pt")}, done.stderr)


class Program(NamedTuple):
    """What a program left: its traces by process id, what its processes noted by name, and its errors."""

    traces: dict[int, list[AnyEvent]]
    noted: dict[str, dict[str, Any]]
    stderr: str

    def trace(self, name: str) -> list[AnyEvent]:
        return self.traces[self.noted[name]["pid"]]

    def header(self, name: str) -> Run:
        header = self.trace(name)[0]
        assert isinstance(header, Run)
        return header


def names(events: list[AnyEvent]) -> set[str]:
    """The roots in a trace."""
    return {event.name for event in events if isinstance(event, Module) and not event.parent}


def test_all_processes_of_a_program_are_one_run_and_those_of_another_are_not(program: Program) -> None:
    others = {"fork", "spawn", "forkserver", "failed", "pool", "rank0", "rank1"}
    parent = program.header("parent")
    assert {program.header(name).run for name in others} == {parent.run}
    assert {program.header(name).parent_pid for name in others} == {parent.pid}
    assert parent.parent_pid == 0
    assert program.header("other").run != parent.run
    assert set(program.traces) == {noted["pid"] for noted in program.noted.values()}  # No worker that loads data.


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_model_that_is_sent_is_proxied_where_it_arrives(method: str, program: Program) -> None:
    assert program.noted[method]["is_proxied"]
    events = program.trace(method)
    modules = {event.name: event for event in events if isinstance(event, Module)}
    assert names(events) == {"net", "own"}
    assert modules["net.inner"].level == "WARNING"
    assert modules["net"].level == modules["net.head"].level == "INFO"
    called = [event.module for event in events if isinstance(event, CallModule)]
    assert [called.count(modules[name].id) for name in ("net", "net.head", "net.inner", "own")] == [2, 2, 0, 1]
    assert sum(isinstance(event, OptimizerStep) for event in events) == 3


def test_a_model_in_shared_memory_is_trained_by_all_as_without_tracing(program: Program) -> None:
    assert all(program.noted[method]["is_shared"] for method in ("fork", "spawn", "forkserver"))
    assert program.noted["parent"]["changed"]


def test_a_model_that_comes_back_is_proxied_too(program: Program) -> None:
    assert program.noted["pool"]["is_proxied"]
    assert names(program.trace("parent")) == {"net", "net_1"}


def test_every_process_ends_in_order_and_says_how(program: Program) -> None:
    ends = {name: program.trace(name)[-1] for name in program.noted}
    assert {name: (end.reason, end.error) for name, end in ends.items() if isinstance(end, RunEnd)} == {
        **dict.fromkeys(program.noted, ("exit", "")),
        "failed": ("exception", "ValueError"),
    }
    assert program.noted["failed"]["code"] == 1
    assert program.stderr.endswith("ValueError: mine\n")
    assert "proxy_wrapper: " not in program.stderr


def test_a_rank_that_becomes_known_only_later_is_in_the_header_and_the_name(program: Program) -> None:
    for rank in range(2):
        header = program.header(f"rank{rank}")
        assert (header.rank, header.world_size) == (rank, 2)
        assert "replica" in names(program.trace(f"rank{rank}"))


def test_pickle_does_not_know_of_proxies(logdir: str) -> None:
    model = Plain()
    before = pickle.dumps(model)
    Proxy.Proxy(model, recurse=True, logdir=logdir)
    assert pickle.dumps(model) == before
    sent = bytes(ForkingPickler.dumps(model))
    assert b"restore_proxied" in sent
    assert b"restore_proxied" not in before
    Proxy.unproxy(model)
    assert b"restore_proxied" not in bytes(ForkingPickler.dumps(model))
    assert "reducer_override" not in vars(ForkingPickler)


class Peculiar(nn.Module):
    """Says itself how it is pickled."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.inner = nn.Linear(size, size)

    def __reduce__(self) -> Any:
        return Peculiar, (self.size,)


class Stateful(nn.Linear):
    """Says itself what its state is."""

    def __getstate__(self) -> Any:
        return {"weight": self.weight.detach()}

    def __setstate__(self, state: Any) -> None:
        nn.Linear.__init__(self, 2, 2, bias=False)
        self.weight = nn.Parameter(state["weight"] * 2)


@pytest.mark.parametrize(
    "make", [lambda: Peculiar(2), lambda: Stateful(2, 2, bias=False)], ids=["__reduce__", "__setstate__"]
)
def test_what_a_class_says_of_its_pickles_holds(make: Callable[[], nn.Module], logdir: str) -> None:
    model = make()
    plain = pickle.loads(pickle.dumps(model))
    Proxy.Proxy(model, recurse=True, name="net", logdir=logdir)
    sent = pickle.loads(ForkingPickler.dumps([model, model]))
    assert sent[0] is sent[1]
    assert type(sent[0]) is type(model)
    assert Proxy.is_proxied(sent[0])
    assert [value.shape for value in sent[0].state_dict().values()] == [
        value.shape for value in plain.state_dict().values()
    ]
    if isinstance(model, Stateful):
        assert all(map(torch.equal, sent[0].parameters(), plain.parameters()))


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
