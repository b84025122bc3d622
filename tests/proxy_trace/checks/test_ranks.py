"""When a summary says that ranks part, and when that is not known."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy_trace.cli import run_command
from proxy_trace.reading.selection import Period, StepRange
from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize
from proxy_wrapper import events
from proxy_wrapper.events import Statistics
from tests.proxy_trace.checks.judged import CALLS, NET, find, of_code, said, weight

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

    Values = Callable[[int, int], int]
    """What a tensor holds in a rank after a step."""


def holds(value: int) -> Statistics:
    return Statistics(-1.0, 1.0, 2.0, bits=f"{value:016x}")


def same(rank: int, step: int) -> int:
    return 10 + step


def part_at(first: int) -> Values:
    return lambda rank, step: 10 + step + 100 * rank * (step >= first)


def steps_of(rank: int, steps: range, values: Mapping[int, Values]) -> list[events.Event]:
    records: list[events.Event] = []
    for step in steps:
        records += [events.Backward(step, step), events.BackwardEnd(step, step)]
        records += [
            events.Gradient(step, step, tensor=id_, statistics=holds(of(rank, step))) for id_, of in values.items()
        ]
        records += [
            events.Update(step, step, tensor=id_, statistics=holds(of(rank, step))) for id_, of in values.items()
        ]
        records.append(events.OptimizerStepEnd(step, step, optimizer="SGD"))
    return records


@pytest.fixture
def write_rank(tmp_path: Path, write_trace: WriteTrace) -> Callable[..., Path]:
    """Writes the file of a rank of a run in `tmp_path`: a model with two weights, and what it trains."""

    def write(rank: int, *records: events.Event, **run: Any) -> Path:
        fields = {"rank": rank, "world_size": 2, "pid": 100 + rank, **run}
        definitions = (NET, weight(), weight(2, "model.v"), *CALLS)
        return write_trace(tmp_path / f"rank{rank}-{fields['pid']}.jsonl", *definitions, *records, **fields).parent

    return write


def test_ranks_that_agree_pass(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, *steps_of(rank, range(4), {1: same, 2: same}))
    assert find(path) == []
    assert said(path, "ranks") == ("passed", [])


@pytest.mark.parametrize(
    ("first", "reason"),
    [(2, "the same before, and different since then"), (0, "the same at the start, and different since then")],
)
def test_ranks_that_part_are_told_with_the_step(first: int, reason: str, write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, *steps_of(rank, range(4), {1: part_at(first), 2: same}))
    (finding,) = find(path)
    assert (finding.code, finding.name, finding.step, finding.ranks) == ("ranks-part", "model.w", first, [0, 1])
    assert finding.reason == f"{reason} (rank 0 | rank 1)"
    assert said(path, "ranks") == ("finding", [])


def rates_set(*rates: tuple[int, float]) -> list[events.Event]:
    """An optimizer of the first weight, created with the first rate, and with each other one from a step on."""
    made = events.Location(3, "train.py", 20, "main")
    plateau = events.Location(4, "train.py", 42, "main")
    records: list[events.Event] = [made, plateau]
    for step, rate in rates:
        groups = [events.ParameterGroup({"lr": rate}, [] if len(records) > 2 else [1])]
        records.append(events.Optimizer(step, step, id=1, optimizer="SGD", groups=groups, indices=[0], made=3))
        if step:
            records.append(events.RateReduced(step, step, location=4, id=1, optimizer_id=1, mode="min"))
    return records


@pytest.mark.parametrize(
    ("rates", "place"),
    [
        pytest.param([[(0, 0.2)], [(0, 0.2), (2, 0.1)]], "train.py:42", id="one rank lowers its rate"),
        pytest.param([[(0, 0.2)], [(0, 0.1)]], "train.py:20", id="created with different rates"),
        pytest.param([[(0, 0.2), (2, 0.1)], [(0, 0.2), (2, 0.1)]], "", id="all lower it"),
        pytest.param([[(0, 0.2)], [(0, 0.2), (3, 0.1)]], "", id="one lowers it later, as a consequence"),
    ],
)
def test_ranks_that_part_by_their_learning_rates_are_told_with_these(
    rates: list[list[tuple[int, float]]], place: str, write_rank: Callable[..., Path]
) -> None:
    for rank in range(2):
        path = write_rank(rank, *rates_set(*rates[rank]), *steps_of(rank, range(4), {1: part_at(2), 2: same}))
    (finding,) = [each for each in find(path) if each.code == "ranks-part"]
    told = ["learning rate at that step: 0.2 in rank 0 | 0.1 in rank 1"] if place else []
    assert (finding.step, finding.place, finding.evidence) == (2, place, told)


@pytest.mark.parametrize(("type_", "severity"), [("Net", "note"), ("DistributedDataParallel", "error")])
def test_a_model_that_parts_at_once_may_be_meant_to_unless_a_wrapper_keeps_it_equal(
    write_rank: Callable[..., Path],
    type_: str,
    severity: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As where weights are averaged by hand every few steps, which leaves no mark on them."""
    wrapper = events.Module(9, "wrapper", type_, 9)
    for rank in range(2):
        path = write_rank(rank, wrapper, *steps_of(rank, range(4), {1: part_at(0), 2: part_at(0)}))
    assert [each.severity for each in find(path) if each.code == "ranks-part"] == [severity]
    assert run_command(["summary", str(path)]) == 0
    assert f"{severity}[ranks-part]" in capsys.readouterr().out
    assert run_command(["report", str(path), "-o", str(tmp_path / "report.html")]) == 0
    assert f'<div class="rule {severity}"><h3>' in (tmp_path / "report.html").read_text("utf-8")


def test_a_model_that_parts_as_a_whole_is_one_finding(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, *steps_of(rank, range(4), {1: part_at(0), 2: part_at(0)}))
    assert [(finding.name, finding.names) for finding in find(path)] == [("model.*", 2)]


def test_ranks_that_are_averaged_now_and_then_do_not_part(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        values = {1: lambda r, s: 10 + s + 100 * r * (s % 2), 2: same}
        path = write_rank(rank, *steps_of(rank, range(4), values))
    assert find(path) == []
    assert said(path, "ranks") == ("passed", ["1 of 2 parameters the same at some steps only"])


def test_of_ranks_that_started_differently_nothing_is_said(tmp_path: Path, write_trace: WriteTrace) -> None:
    """Separate runs under one launcher; or the parts of a model that is split by hand."""
    for rank in range(2):
        start = msgspec.structs.replace(weight(), statistics=holds(rank))
        trained = steps_of(rank, range(3), {1: lambda r, s: 10 + s + 100 * r})
        write_trace(
            tmp_path / f"rank{rank}-{rank}.jsonl", NET, start, *CALLS, *trained, rank=rank, pid=rank, world_size=2
        )
    assert find(tmp_path) == []
    words = "the only parameter not known to have been the same at the start"
    assert said(tmp_path, "ranks") == ("not checked", [words])


def test_a_rank_that_ended_early_is_compared_at_the_last_common_step(write_rank: Callable[..., Path]) -> None:
    write_rank(0, *steps_of(0, range(9), {1: same, 2: same}))
    path = write_rank(
        1, *steps_of(1, range(4), {1: same, 2: same}), events.Update(9, 4, tensor=1, statistics=holds(99))
    )
    assert of_code(path, "ranks-part") == []
    assert said(path, "ranks") == ("passed", [])


def test_parts_of_sharded_parameters_are_no_replicas(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank in range(2):
        part = msgspec.structs.replace(weight(), placements=f"Shard(0)[{rank}/2]", statistics=holds(rank))
        trained = steps_of(rank, range(3), {1: lambda r, s: 10 + s + 100 * r, 2: same})
        records = [NET, part, weight(2, "model.v"), *CALLS, *trained]
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", *records, rank=rank, pid=rank, world_size=2)
    assert find(tmp_path) == []
    assert said(tmp_path, "ranks") == ("passed", ["1 parameter sharded, or in one rank only"])


def test_models_of_other_names_are_not_compared(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank, name in enumerate(("generator", "critic")):
        model = [events.Module(1, name, "Net", 1), weight(1, f"{name}.w"), *CALLS]
        trained = steps_of(rank, range(3), {1: part_at(0)})
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", *model, *trained, rank=rank, pid=rank, world_size=2)
    assert find(tmp_path) == []
    assert said(tmp_path, "ranks") == ("not checked", ["no parameter is in several ranks"])


def test_ranks_that_train_by_hand_are_compared_at_the_end_if_they_came_equally_far(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    def write(path: Path, steps: int) -> Path:
        for rank in range(2):
            update = events.Update(9, 1, tensor=1, statistics=holds(rank), cause="data")
            end = events.RunEnd(10, steps if rank else 1)
            records = [NET, weight(), *CALLS, events.Backward(3), events.BackwardEnd(4), update, end]
            write_trace(path / f"rank{rank}-{rank}.jsonl", *records, ends=False, rank=rank, pid=rank, world_size=2)
        return path

    reason = "the same at the start, not at the end (rank 0 | rank 1)"
    assert of_code(write(tmp_path / "together", 1), "ranks-part") == [("model.w", reason)]
    apart = write(tmp_path / "apart", 2)
    assert of_code(apart, "ranks-part") == []
    assert said(apart, "ranks") == ("not checked", ["the ranks have no step in common"])


def test_a_single_rank_has_nothing_to_compare(write_rank: Callable[..., Path]) -> None:
    path = write_rank(0, *steps_of(0, range(2), {1: same, 2: same}))
    assert said(path, "ranks") == ("not checked", ["only rank 0 of 2 was read"])
    alone = write_rank(0, world_size=1)
    assert "ranks" not in {check.name for check in summarize(Trace.open(alone)).checks}


def test_at_level_warning_ranks_are_not_compared(tmp_path: Path, write_trace: WriteTrace) -> None:
    quiet = msgspec.structs.replace(NET, level="WARNING")
    for rank in range(2):
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", quiet, weight(), rank=rank, pid=rank, world_size=2)
    assert said(tmp_path, "ranks") == ("not checked", ["level WARNING"])


def test_what_limits_the_comparison_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank in range(2):
        old = msgspec.structs.replace(weight(), statistics=Statistics(-1.0, 1.0, 2.0))
        trained = steps_of(rank, range(2), {2: same})
        records = [NET, old, weight(2, "model.v"), *CALLS, *trained]
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", *records, rank=rank, pid=rank, world_size=3)
    assert said(tmp_path, "ranks") == (
        "passed",
        ["1 of 2 parameters compared by extremes and norm only", "no trace of rank 2"],
    )


def test_a_period_of_steps_is_compared_alone_and_one_of_stages_not(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, *steps_of(rank, range(6), {1: part_at(3), 2: same}))
    summed_up = partial(summarize, Trace.open(path))
    kinds = {finding.code for finding in summed_up(period=Period(StepRange(2, 4))).findings}
    assert "ranks-part" in kinds
    kinds = {finding.code for finding in summed_up(period=Period(StepRange(0, 2))).findings}
    assert "ranks-part" not in kinds
    of_stage = summed_up(period=Period(stages=["train"]))
    assert of_stage.findings == []
    assert [check.unseen for check in of_stage.checks if check.name == "ranks"] == [["restricted to a stage"]]


def test_each_process_is_summed_up_once_in_the_order_of_the_files(write_rank: Callable[..., Path]) -> None:
    for rank, pid in ((0, 5), (0, 7), (1, 6)):
        path = write_rank(rank, *steps_of(rank, range(pid), {1: same, 2: same}), pid=pid)
    summary = summarize(Trace.open(path))
    assert [(process.rank, process.pid, process.steps) for process in summary.processes] == [
        (0, 5, 5),
        (0, 7, 7),
        (1, 6, 6),
    ]
