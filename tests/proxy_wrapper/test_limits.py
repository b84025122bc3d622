"""`ranks` and `max_size`: which processes write a trace, and how large it may grow."""

from __future__ import annotations

import json
import os
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.comparison.ranks import compare_ranks
from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize
from proxy_wrapper.errors import SettingsValueError
from proxy_wrapper.limits import Ranks, parse_size
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("ranks", "inside", "outside"),
    [
        ("0,8-15", [0, 8, 12, 15], [1, 7, 16]),
        (3, [3], [0, 4]),
        ([1, 2], [1, 2], [0, 3]),
        (" 2 - 2 ".replace(" ", ""), [2], [1]),
    ],
)
def test_ranks_are_numbers_and_spans(ranks: Any, inside: list[int], outside: list[int]) -> None:
    found = Ranks.parse(ranks)
    assert [rank in found for rank in inside] == [True] * len(inside)
    assert [rank in found for rank in outside] == [False] * len(outside)
    assert str(Ranks.parse(str(found))) == str(found)


def test_ranks_that_follow_each_other_are_one_span() -> None:
    assert str(Ranks.parse([3, 0, 1, 2, 9, 1, -4])) == "0-3,9"
    assert str(Ranks.parse("8-4,6,5-7")) == "5-7"
    assert Ranks.parse("0,3-1000").below(5) == {0, 3, 4}


@pytest.mark.parametrize("ranks", ["", "a", "1-", "-1", "1,,2", 1.5, [True], ["1"]])
def test_what_is_no_rank_is_refused(ranks: Any) -> None:
    with pytest.raises(SettingsValueError, match="numbers and spans of numbers"):
        Proxy.Proxy(1, ranks=ranks)


@pytest.mark.parametrize(
    ("size", "number"), [("2G", 2 * 10**9), ("1.5k", 1500), (7, 7), ("500MB", 5 * 10**8), ("9", 9)]
)
def test_sizes_are_in_powers_of_a_thousand(size: Any, number: int) -> None:
    assert parse_size(size) == number


@pytest.mark.parametrize("size", ["", "G", "2X", -1, True, None, "1e9"])
def test_what_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(SettingsValueError, match='a text such as "2G"'):
        parse_size(size)


def train(model: nn.Module, steps: int) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        Proxy.flush()
    return losses


def new_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def records_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*/*.jsonl")) for line in file.read_text().splitlines()]


def test_a_trace_that_is_full_keeps_changes_of_state_and_says_so_once(tmp_path: Path) -> None:
    plain = new_model()
    expected = train(plain, 40)
    model = Proxy.Proxy(new_model(), recurse=True, name="model", logdir=tmp_path, max_size="50K")
    assert train(model, 40) == expected
    assert all(
        torch.equal(first, second)
        for first, second in zip(plain.state_dict().values(), model.state_dict().values(), strict=True)
    )
    Proxy.unproxy(model)
    records = records_in(tmp_path)
    (place,) = (number for number, record in enumerate(records) if record["kind"] == "limit")
    assert records[place]["max_size"] == 50_000
    before, after = records[:place], records[place + 1 :]
    assert {"call_module", "gradient", "backward"} <= {record["kind"] for record in before}
    assert {record["kind"] for record in after} == {"update", "optimizer_step", "optimizer_step_end", "run_end"}
    of_weight = [record for record in records if record["kind"] == "update" and record.get("cause", "step") == "step"]
    assert {record.get("step", 0) for record in of_weight} == set(range(40))
    size = sum(len(json.dumps(record, separators=(",", ":"))) + 1 for record in before)
    assert 50_000 <= size < 60_000


def test_of_a_trace_that_is_full_nothing_wrong_is_said(tmp_path: Path) -> None:
    model = Proxy.Proxy(new_model(), recurse=True, name="model", logdir=tmp_path, max_size=20_000)
    train(model, 40)
    Proxy.unproxy(model)
    summary = summarize(Trace.open(tmp_path))
    assert [finding for finding in summary.findings if finding.severity != "note"] == []
    assert summary.steps == 40


def test_a_limit_that_is_not_reached_changes_nothing(tmp_path: Path) -> None:
    model = Proxy.Proxy(new_model(), recurse=True, name="model", logdir=tmp_path, max_size="1G")
    train(model, 3)
    Proxy.unproxy(model)
    kinds = {record["kind"] for record in records_in(tmp_path)}
    assert "limit" not in kinds
    assert "gradient" in kinds


def run_ranks(tmp_path: Path, program: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(dedent(program))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = run_python([script], env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_only_the_chosen_ranks_of_a_launch_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"""
        import os, subprocess, sys
        if "RANK" not in os.environ:
            common = {{**os.environ, "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999"}}
            ranks = [subprocess.Popen([sys.executable, __file__], env={{**common, "RANK": str(n)}}) for n in range(3)]
            sys.exit(max(each.wait() for each in ranks))
        import torch
        import proxy_wrapper.proxy as Proxy
        model = Proxy.Proxy(torch.nn.Linear(2, 2), logdir={str(tmp_path / "trace")!r}, ranks="0,2-7")
        assert Proxy.is_proxied(model) == (os.environ["RANK"] != "1")
        model(torch.ones(1, 2))
        """
    run_ranks(tmp_path, program)
    assert sorted(file.name[:5] for file in (tmp_path / "trace").glob("*/*.jsonl")) == ["rank0", "rank2"]
    (comparison,) = [compare_ranks(Trace.open(run)) for run in (tmp_path / "trace").iterdir() if run.name[0] != "."]
    assert (comparison.not_asked, comparison.absent) == ([1], [])


def test_a_rank_that_is_known_late_takes_back_what_it_has_written(tmp_path: Path) -> None:
    program = f"""
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as multiprocessing
        import proxy_wrapper.proxy as Proxy


        def work(rank):
            model = Proxy.Proxy(torch.nn.Linear(2, 2), logdir={str(tmp_path / "trace")!r}, ranks=1)
            model(torch.ones(1, 2))
            Proxy.flush()
            dist.init_process_group("gloo", init_method="file://{tmp_path}/meeting", rank=rank, world_size=2)
            model(torch.ones(1, 2)).sum().backward()
            torch.optim.SGD(model.parameters()).step()
            dist.barrier()
            dist.destroy_process_group()


        if __name__ == "__main__":
            multiprocessing.spawn(work, nprocs=2)
        """
    run_ranks(tmp_path, program)
    assert [file.name[:5] for file in (tmp_path / "trace").glob("*/*.jsonl")] == ["rank1"]


@pytest.mark.parametrize(("ranks", "files"), [("0", 1), ("8-15", 0)])
def test_a_process_that_stands_alone_has_rank_0(ranks: str, files: int, tmp_path: Path) -> None:
    program = f"""
        import torch
        import proxy_wrapper.proxy as Proxy
        model = Proxy.Proxy(torch.nn.Linear(2, 2), logdir={str(tmp_path / "trace")!r}, ranks={ranks!r})
        model(torch.ones(1, 2))
        Proxy.flush()
        """
    run_ranks(tmp_path, program)
    assert len(list((tmp_path / "trace").glob("*/*.jsonl"))) == files
