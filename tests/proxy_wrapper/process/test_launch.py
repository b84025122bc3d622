"""Processes of one launch find one run, those of another never, whatever starts them; no word passes between them."""

from __future__ import annotations

import os
import re
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from proxy_wrapper.process.launch import MEETING_FOLDER, Launch, Rank, RankFinder, _configuration, new_run_name
from proxy_wrapper.process.operating_system import has_ended, machine, process_identity, process_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LAUNCHERS = ("RANK", "WORLD_SIZE", "MASTER", "TORCHELASTIC", "SLURM", "OMPI", "PMI", "PMIX", "GROUP", "LOCAL", "NODE")
NOW = 1_763_712_000.0


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that no launcher started, and to which no parent has handed down anything."""
    for name in list(os.environ):
        if name.startswith(LAUNCHERS):
            monkeypatch.delenv(name)
    announced = _configuration().pop("proxy_wrapper", None)
    yield
    _configuration()["proxy_wrapper"] = announced


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launch]:
    """What a process finds that has these variables."""

    def launch(pid: int = 0, started: float = NOW, **variables: object) -> Launch:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, str(value))
            found = Launch.of_this_process()
        return found._replace(started_s=started, owner=f"{machine()}/{pid}/" if pid else found.owner)

    return launch


def torchrun(rank: int, **others: object) -> dict[str, object]:
    return {
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": 0,
        "RANK": rank,
        "WORLD_SIZE": 4,
        "GROUP_WORLD_SIZE": 2,
        "MASTER_ADDR": "node1",
        "MASTER_PORT": 29500,
        **others,
    }


def starting_itself(local_rank: int, **others: object) -> dict[str, object]:
    ranks = {"LOCAL_RANK": local_rank, "NODE_RANK": 0, "WORLD_SIZE": 4}
    return {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, **others}


def srun(rank: int, **others: object) -> dict[str, object]:
    return {
        "SLURM_JOB_ID": 77,
        "SLURM_STEP_ID": 0,
        "SLURM_PROCID": rank,
        "SLURM_STEP_NUM_TASKS": 2,
        **others,
    }


def test_a_process_by_itself_has_a_run_by_itself(tmp_path: Path) -> None:
    first, second = Launch.of_this_process(), Launch.of_this_process()
    assert first.key == ""
    assert first.join(tmp_path) != second.join(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_of_runs_sort_by_their_start() -> None:
    assert re.fullmatch(r"20251121T080000-[0-9a-f]{6}", new_run_name(NOW))
    assert new_run_name(NOW) < new_run_name(NOW + 1)


def test_what_was_announced_is_what_is_found_again() -> None:
    launch = Launch.of_this_process().announce()
    assert Launch.of_this_process() == launch
    renewed = launch.renewed()
    assert launch.run < renewed.run < renewed.renewed().run  # Also within a second.


def test_ranks_of_torchrun_on_several_nodes_meet(launched: Callable[..., Launch], tmp_path: Path) -> None:
    runs = {launched(pid=10 + rank, started=NOW + rank, **torchrun(rank)).join(tmp_path) for rank in range(4)}
    assert len(runs) == 1
    assert sorted(path.name.partition(".")[2] for path in (tmp_path / MEETING_FOLDER).iterdir()) == [
        "", "gitignore", "rank0", "rank1", "rank2", "rank3"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"TORCHELASTIC_RESTART_COUNT": 1}, id="restarted"),
        pytest.param({"TORCHELASTIC_RUN_ID": "other"}, id="another job"),
        pytest.param({"MASTER_PORT": 29501}, id="another port"),
    ],
)
def test_another_launch_of_torchrun_is_another_run(
    change: dict[str, object], launched: Callable[..., Launch], tmp_path: Path
) -> None:
    first = launched(pid=1, **torchrun(0)).join(tmp_path)
    assert launched(pid=2, **torchrun(1, **change)).join(tmp_path) != first


def test_the_same_command_started_again_is_another_run_for_all_its_ranks(
    launched: Callable[..., Launch], tmp_path: Path
) -> None:
    """torchrun has the same id and port each time; the first run's ranks took their places."""
    first = {launched(pid=10 + rank, **torchrun(rank)).join(tmp_path) for rank in range(4)}
    second = {launched(pid=20 + rank, started=NOW + 20, **torchrun(rank)).join(tmp_path) for rank in (2, 0, 3, 1)}
    assert len(first) == len(second) == 1
    assert first != second


def test_a_launch_that_came_half_way_is_not_joined_later(launched: Callable[..., Launch], tmp_path: Path) -> None:
    first = launched(pid=1, **torchrun(0)).join(tmp_path)
    late = {launched(pid=20 + rank, started=NOW + 3600, **torchrun(rank)).join(tmp_path) for rank in (1, 0, 2, 3)}
    assert len(late) == 1
    assert first not in late


def test_a_launch_of_which_a_process_has_ended_is_not_joined(launched: Callable[..., Launch], tmp_path: Path) -> None:
    """Ranks started by hand, of which one crashed before the other came: then started again at once."""
    by_hand = {"WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": 1}
    crashed = launched(RANK=0, **by_hand)._replace(owner=f"{machine()}/{os.getpid()}/1")
    first = crashed.join(tmp_path)
    second = launched(RANK=1, **by_hand)._replace(owner=process_identity(os.getpid())).join(tmp_path)
    if process_identity(os.getpid()).endswith("/"):
        pytest.skip("this system does not tell when processes started")
    assert second != first
    assert launched(pid=3, RANK=0, **by_hand).join(tmp_path) == second


def test_the_same_port_on_two_machines_is_two_launches(
    launched: Callable[..., Launch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone_on_its_node = torchrun(0, GROUP_WORLD_SIZE=1, MASTER_ADDR="localhost")
    here = launched(**alone_on_its_node)
    monkeypatch.setattr("proxy_wrapper.process.launch.machine", lambda: "another")
    assert launched(**alone_on_its_node).key != here.key


def test_tasks_of_srun_meet_and_those_of_the_next_step_too(launched: Callable[..., Launch], tmp_path: Path) -> None:
    first = {launched(pid=1 + rank, **srun(rank)).join(tmp_path) for rank in range(2)}
    second = {launched(pid=3 + rank, **srun(rank, SLURM_STEP_ID=1)).join(tmp_path) for rank in range(2)}
    again = {launched(pid=5 + rank, started=NOW + 9, **srun(rank)).join(tmp_path) for rank in range(2)}
    requeued = {launched(pid=7 + rank, **srun(rank, SLURM_RESTART_COUNT=1)).join(tmp_path) for rank in range(2)}
    assert [len(runs) for runs in (first, second, again, requeued)] == [1, 1, 1, 1]
    assert len(first | second | again | requeued) == 4


def test_a_batch_script_of_slurm_is_no_launch(launched: Callable[..., Launch]) -> None:
    """What it starts without srun stands alone, whatever the job's size."""
    assert launched(SLURM_JOB_ID=77, SLURM_PROCID=0, SLURM_NTASKS=8).key == ""


def test_processes_of_mpirun_meet(launched: Callable[..., Launch], tmp_path: Path) -> None:
    def mpirun(rank: int, job: str) -> dict[str, object]:
        return {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": 2, "PMIX_NAMESPACE": job}

    first = {launched(pid=1 + rank, **mpirun(rank, "a")).join(tmp_path) for rank in range(2)}
    second = {launched(pid=1 + rank, **mpirun(rank, "b")).join(tmp_path) for rank in range(2)}
    assert (len(first), len(second), len(first | second)) == (1, 1, 2)


def test_children_of_a_process_that_does_not_trace_meet(
    launched: Callable[..., Launch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under `torch.multiprocessing.spawn`, where only the function that is spawned makes a model."""
    monkeypatch.setattr("multiprocessing.parent_process", lambda: SimpleNamespace(pid=os.getppid()))
    runs = {launched(pid=1 + child, started=NOW + child).join(tmp_path) for child in range(3)}
    assert len(runs) == 1
    monkeypatch.setattr("multiprocessing.parent_process", lambda: SimpleNamespace(pid=os.getpid()))
    assert launched(pid=9).join(tmp_path) not in runs


def test_a_program_that_a_rank_starts_has_a_run_of_its_own(launched: Callable[..., Launch], tmp_path: Path) -> None:
    """It inherits the environment, with the rank in it."""
    ranks = [launched(pid=1 + rank, **torchrun(rank)) for rank in range(2)]
    first = ranks[0].join(tmp_path)
    started = launched(pid=50, started=NOW + 30, **torchrun(0)).join(tmp_path)
    assert started != first
    assert ranks[1].join(tmp_path) == first


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="this system has no /proc")  # noqa: PTH110
@pytest.mark.parametrize(
    ("local_rank", "file", "age_s", "meets"),
    [
        pytest.param(1, "rank0-{parent}.jsonl", 0, True, id="a further rank"),
        pytest.param(0, "rank0-{parent}.jsonl", 0, False, id="a program that the first rank starts"),
        pytest.param(1, "rank1-{parent}.jsonl", 0, False, id="a program that another rank starts"),
        pytest.param(1, "rank0-1.jsonl", 0, False, id="of a parent that does not trace"),
        pytest.param(1, "rank0-{parent}.jsonl", 1e6, False, id="a process that had the parent's number before"),
    ],
)
def test_a_further_rank_that_a_program_starts_of_itself_belongs_to_its_run(
    launched: Callable[..., Launch], tmp_path: Path, local_rank: int, file: str, age_s: float, meets: bool
) -> None:
    trace = tmp_path / "20261122T101010-abcdef" / file.format(parent=os.getppid())
    trace.parent.mkdir()
    trace.touch()
    os.utime(trace, (time.time() - age_s,) * 2)
    launch = launched(**starting_itself(local_rank))
    assert (launch.join(tmp_path) == trace.parent.name) is meets


def test_what_a_process_was_before_it_starts_further_ranks_does_not_count(
    launched: Callable[..., Launch], tmp_path: Path
) -> None:
    alone = Launch.of_this_process().announce()
    first = launched(**starting_itself(0))
    assert first.run == alone.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getppid", os.getpid)
        _configuration().pop("proxy_wrapper")
        other = launched(**starting_itself(1))
    assert other.join(tmp_path) == first.join(tmp_path) == other.run


def test_ranks_that_a_program_starts_of_itself_meet(launched: Callable[..., Launch], tmp_path: Path) -> None:
    others = [launched(started=NOW + 10_000, **starting_itself(rank)).join(tmp_path) for rank in (1, 2)]
    assert others[0] == others[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", os.getppid)  # The process that the others are children of.
        assert launched(**starting_itself(0)).join(tmp_path) == others[0]
    assert launched(**starting_itself(0)).join(tmp_path) != others[0]
    nodes = [
        launched(pid=node + 1, **starting_itself(0, NODE_RANK=node, MASTER_ADDR="node0")).join(tmp_path)
        for node in range(2)
    ]
    assert nodes[0] == nodes[1] != others[0]


@pytest.mark.parametrize(
    "claim",
    [
        f"../outside {NOW}",
        f"/outside {NOW}",
        f"{'x' * 300} {NOW}",
        f"20261121T080911-3f2a9c/.. {NOW}",
        "no number",
        "\udcff",
    ],
)
def test_a_meeting_point_names_no_path(claim: str, launched: Callable[..., Launch], tmp_path: Path) -> None:
    launched(pid=1, **torchrun(0)).join(tmp_path)
    meeting = next(path for path in (tmp_path / MEETING_FOLDER).iterdir() if "." not in path.name)
    for path in (tmp_path / MEETING_FOLDER).iterdir():
        path.unlink()
    meeting.write_bytes(claim.encode("utf-8", "surrogateescape"))
    run = launched(pid=1, **torchrun(0)).join(tmp_path)
    assert re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{6}", run)
    assert launched(pid=2, **torchrun(1)).join(tmp_path) == run


def test_a_node_is_a_number(launched: Callable[..., Launch], tmp_path: Path) -> None:
    node = launched(pid=1, **starting_itself(0, NODE_RANK="../../../outside", MASTER_ADDR="node0"))
    (tmp_path / "logdir").mkdir()
    node.join(tmp_path / "logdir")
    assert node.place == "rank0.0"
    assert [path.name for path in tmp_path.iterdir()] == ["logdir"]


def test_a_process_that_asks_again_gets_the_same_answer(launched: Callable[..., Launch], tmp_path: Path) -> None:
    launch = launched(pid=1, **torchrun(0))
    assert launch.join(tmp_path) == launch.join(tmp_path)


def test_what_old_launches_left_is_removed(launched: Callable[..., Launch], tmp_path: Path) -> None:
    launched(pid=1, **torchrun(0)).join(tmp_path)
    old = list((tmp_path / MEETING_FOLDER).iterdir())
    for path in old:
        os.utime(path, (time.time() - 100_000,) * 2)
    launched(pid=2, **torchrun(0, MASTER_PORT=1)).join(tmp_path)
    assert not any(path.exists() for path in old)


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        pytest.param({}, Rank(0, 1), id="none"),
        pytest.param({"RANK": "3", "WORLD_SIZE": "8"}, Rank(3, 8), id="torchrun"),
        pytest.param({"RANK": "x", "WORLD_SIZE": "8"}, Rank(0, 1), id="no number"),
        pytest.param({"RANK": "3"}, Rank(0, 1), id="half of it"),
        pytest.param({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Rank(1, 2), id="Open MPI"),
        pytest.param({"PMI_RANK": "1", "PMI_SIZE": "2"}, Rank(1, 2), id="MPICH"),
        pytest.param({key: str(value) for key, value in srun(1).items()}, Rank(1, 2), id="srun"),
        pytest.param({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, Rank(0, 1), id="Slurm without a step"),
    ],
)
def test_the_rank_is_what_the_launcher_says(
    variables: dict[str, str], rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert RankFinder().look() == rank


def test_the_rank_stays_known_when_the_program_has_left_its_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = RankFinder()
    with monkeypatch.context() as patch:
        patch.setattr(torch.distributed, "is_available", lambda: True)
        patch.setattr(torch.distributed, "is_initialized", lambda: True)
        patch.setattr(torch.distributed, "get_rank", lambda: 3)
        patch.setattr(torch.distributed, "get_world_size", lambda: 4)
        ranks.note()
    assert ranks.look() == Rank(3, 4)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="this system has no /proc")  # noqa: PTH110
def test_a_process_that_has_ended_is_known_from_one_that_runs() -> None:
    mine = process_identity(os.getpid())
    assert not has_ended(mine)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    other = process_identity(child)
    assert not has_ended(other)
    os.kill(child, 9)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # It has ended, and is there yet: a zombie.
    assert has_ended(other)
    os.waitpid(child, 0)
    assert has_ended(other)
    assert not has_ended("elsewhere/boot/ns/1/2")
    assert not has_ended("")


def test_this_process_started_a_while_ago() -> None:
    assert 0 < time.time() - process_start() < 86_400
