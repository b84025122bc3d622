"""Distributed training: the same bits, one run, a file for each rank, and no word between them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import torch.distributed

from proxy_trace.comparison.ranks import compare_ranks
from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize
from proxy_wrapper.events import AnyEvent, Gradient, Module, Parameter, Problem, ReturnModule, Run, RunEnd, Update
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")

WORKER = Path(__file__).with_name("distributed_worker.py")
# FSDP2 needs the CPU's stand-ins for streams to record events, which they do since PyTorch 2.7.
STRATEGIES = ("ddp", "fsdp", "tp") if hasattr(torch.cpu.Stream, "record_event") else ("ddp", "tp")


def torchrun(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run torchrun, which must succeed."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = run_python(["-m", "torch.distributed.run", *arguments], env=environment)
    assert done.returncode == 0, done.stderr
    return done


def events_by_rank(folder: Path) -> dict[int, list[AnyEvent]]:
    """The events of the one run in a logdir, by rank."""
    found: dict[int, list[AnyEvent]] = {}
    (run,) = (path for path in folder.iterdir() if not path.name.startswith("."))
    for path in run.glob("*.jsonl"):
        records = msgspec.json.Decoder(AnyEvent).decode_lines(path.read_bytes())
        header = records[0]
        assert isinstance(header, Run)
        assert header.run == run.name
        assert path.name == f"rank{header.rank}-{header.pid}.jsonl"
        assert header.rank not in found
        found[header.rank] = records
    return found


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `distributed_worker.py` left, which compares the bits itself; two processes on one machine."""
    folder = tmp_path_factory.mktemp("distributed") / "trace"
    torchrun("--standalone", "--nproc-per-node=2", WORKER, folder, *STRATEGIES)
    return folder


def test_all_ranks_are_one_run_and_each_ends_in_order(logdir: Path) -> None:
    found = events_by_rank(logdir)
    assert sorted(found) == [0, 1]
    for records in found.values():
        header, end = records[0], records[-1]
        assert isinstance(header, Run)
        assert header.world_size == 2
        assert isinstance(end, RunEnd)
        assert end.reason == "exit"
        assert [event.message for event in records if isinstance(event, Problem)] == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_names_are_those_of_the_model_without_its_wrapper(strategy: str, logdir: Path) -> None:
    for records in events_by_rank(logdir).values():
        root = f"{strategy}_INFO"
        names = {event.name for event in records if isinstance(event, Parameter) and event.name.startswith(f"{root}.")}
        layers = ("up", "norm", "down")
        assert names == {f"{root}.{layer}.{key}" for layer in layers for key in ("weight", "bias")}
        modules = {event.name: event.id for event in records if isinstance(event, Module)}
        assert (f"DistributedDataParallel({root})" in modules) == (strategy == "ddp")
        called = {event.module for event in records if isinstance(event, ReturnModule)}
        assert {modules[f"{root}.{layer}"] for layer in layers} <= called


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_step_of_every_parameter_is_recorded_in_every_rank(strategy: str, logdir: Path) -> None:
    for records in events_by_rank(logdir).values():
        for level in ("INFO", "DEBUG"):
            root = f"{strategy}_{level}."
            ids = {event.id for event in records if isinstance(event, Parameter) and event.name.startswith(root)}
            assert len(ids) == 6
            steps: list[Update] = [event for event in records if isinstance(event, Update) and event.tensor in ids]
            gradients = [event for event in records if isinstance(event, Gradient) and event.tensor in ids]
            assert sum(event.cause == "step" for event in steps) == 3 * len(ids)
            assert len(gradients) == 3 * len(ids)
            assert all(event.statistics is not None for event in steps)
            assert all(event.statistics is not None for event in gradients)


def placements(records: list[AnyEvent], root: str) -> dict[str, str]:
    """How the parameters below `root` lay at last."""
    defined = (event for event in records if isinstance(event, Parameter))
    return {event.name.removeprefix(root): event.placements for event in defined if event.name.startswith(root)}


def test_the_layout_of_parameters_is_in_the_trace(logdir: Path) -> None:
    for rank, records in events_by_rank(logdir).items():
        part = f"Shard(0)[{rank}/2]"
        assert set(placements(records, "ddp_INFO.").values()) == {""}
        assert set(placements(records, "fsdp_INFO.").values()) == ({part} if "fsdp" in STRATEGIES else set())
        split = placements(records, "tp_INFO.")
        assert split == {
            "up.weight": part,
            "up.bias": part,
            "norm.weight": "",
            "norm.bias": "",
            "down.weight": f"Shard(1)[{rank}/2]",
            "down.bias": "Replicate()",
        }


def test_the_ranks_agree_in_what_they_replicate(logdir: Path) -> None:
    found = compare_ranks(Trace.open(logdir))
    assert found.agrees
    assert found.parameters == 2 * (6 + 3)  # At two levels: all of DDP's, and three under tensor parallelism.
    assert found.own_parts == 2 * ((6 if "fsdp" in STRATEGIES else 0) + 3)
    assert {name.partition(".")[2] for name in (buffer.name for buffer in found.buffers)} <= {
        "norm.running_mean",
        "norm.running_var",
    }


def test_a_summary_finds_nothing_in_ranks_that_agree(logdir: Path) -> None:
    summary = summarize(Trace.open(logdir))
    assert [finding for finding in summary.findings if finding.code == "ranks-part"] == []
    (ranks,) = (check for check in summary.checks if check.name == "ranks")
    own_parts = 2 * ((6 if "fsdp" in STRATEGIES else 0) + 3)
    assert (ranks.state, ranks.unseen) == ("passed", [f"{own_parts} parameters sharded, or in one rank only"])


PARTING = """
import sys
import torch, torch.distributed as dist
from torch import nn
import proxy_wrapper.proxy as Proxy

dist.init_process_group("gloo")
rank = dist.get_rank()


def train(name, seed, averages):
    torch.manual_seed(seed)
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, name=name, logdir=sys.argv[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(5, 4, generator=torch.Generator().manual_seed(10 * step + rank))).square().mean().backward()
        for parameter in model.parameters() if averages(step) else ():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    return model


models = [
    train("averaged", 0, lambda step: True),
    train("never", 0, lambda step: False),
    train("until_two", 0, lambda step: step < 2),
    train("apart", rank, lambda step: False),
]
dist.destroy_process_group()
"""


def test_a_summary_finds_ranks_that_part_and_says_of_others_that_it_does_not_know(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PARTING)
    torchrun("--standalone", "--nproc-per-node=2", program, tmp_path / "trace")
    summary = summarize(Trace.open(tmp_path / "trace"))
    found = [(each.name, each.reason, each.step) for each in summary.findings if each.code == "ranks-part"]
    assert found == [
        # Each model has made four steps before the next.
        ("never.*", "the same at the start, and different since then (rank 0 | rank 1)", 4),
        ("until_two.*", "the same before, and different since then (rank 0 | rank 1)", 10),
    ]
    (ranks,) = (check for check in summary.checks if check.name == "ranks")
    assert ranks.unseen == ["2 of 8 parameters not known to have been the same at the start"]
    compared = compare_ranks(Trace.open(tmp_path / "trace"))
    assert {each.name for each in compared.never_agreed} == {"apart.weight", "apart.bias"}
    assert {each.same_start for each in compared.never_agreed} == {False}
