"""Which parameters differ between ranks, since when, and what is no difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy_trace.cli import run_command
from proxy_trace.comparison.ranks import compare_ranks
from proxy_trace.comparison.ranks_text import ranks_lines
from proxy_trace.errors import OneRankError
from proxy_trace.open_trace import open_trace
from proxy_trace.reading.selection import StepRange
from proxy_trace.reading.trace import Trace
from proxy_trace.terminal.colour import Palette
from proxy_wrapper import events
from proxy_wrapper.events import Statistics
from tests.proxy_trace.checks.judged import said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from proxy_trace.comparison.ranks import Comparison
    from tests.proxy_trace.conftest import WriteTrace

    Values = Callable[[int, int], float]
    """The norm of a tensor in a rank after a step."""

WEIGHT = events.Parameter(1, "net.weight", 1, "float32[2]", requires_grad=True, statistics=Statistics(0.0, 1.0, 1.0))
NORM = events.Parameter(2, "net.norm", 1, "float32[2]", requires_grad=True, statistics=Statistics(0.0, 1.0, 1.0))
MEAN = events.Buffer(3, "net.mean", 1, "float32[2]", statistics=Statistics(0.0, 0.0, 0.0))


def same(rank: int, step: int) -> float:
    return 10.0 + step


def statistics(norm: float) -> Statistics:
    return Statistics(-1.0, 1.0, norm)


def steps_of(
    rank: int, steps: Sequence[int], values: Mapping[int, Values], gradients: Mapping[int, Values]
) -> list[events.Event]:
    """What a rank records in `steps`, of tensors by id."""
    records: list[events.Event] = []
    for step in steps:
        records.append(events.OptimizerStep(100 * step, step, optimizer="SGD"))
        records += [
            events.Gradient(0, step, tensor=id_, statistics=statistics(of(rank, step))) for id_, of in gradients.items()
        ]
        records += [
            events.Update(0, step, tensor=id_, statistics=statistics(of(rank, step))) for id_, of in values.items()
        ]
        records.append(events.OptimizerStepEnd(100 * step + 1, step, optimizer="SGD"))
    return records


@pytest.fixture
def write_rank(tmp_path: Path, write_trace: WriteTrace) -> Callable[..., Path]:
    """Writes the file of a rank into the run in `tmp_path / "run"`."""

    def write(rank: int, *records: events.Event, world_size: int = 2, ends: bool = True, **run: Any) -> Path:
        fields = {"rank": rank, "world_size": world_size, "pid": 100 + rank, **run}
        path = tmp_path / "run" / f"rank{rank}-{fields['pid']}.jsonl"
        return write_trace(path, *records, ends=ends, **fields).parent

    return write


def compare(path: Path, **options: Any) -> Comparison:
    return compare_ranks(Trace.open(path), **options)


def text_of(path: Path) -> str:
    return "\n".join(ranks_lines(compare(path), Palette(enabled=False)))


def test_ranks_that_agree(write_rank: Callable[..., Path]) -> None:
    for rank in range(3):
        path = write_rank(rank, WEIGHT, NORM, *steps_of(rank, range(4), {1: same, 2: same}, {1: same}), world_size=3)
    found = compare(path)
    assert found.agrees
    assert (found.parameters, found.steps, found.own_parts) == (2, 4, 0)
    assert (found.drifted, found.never_agreed, found.gradients, found.buffers) == ([], [], [], [])
    assert "All 2 parameters agree between the ranks after each of the 4 steps compared." in text_of(path)


def fingerprint(value: float) -> Statistics:
    """Values that nothing but their bits tells apart."""
    return Statistics(-1.0, 1.0, 2.0, bits=f"{int(value):016x}")


def test_where_there_are_fingerprints_they_decide(write_rank: Callable[..., Path]) -> None:
    """Neither is a norm that was summed in another order a difference, nor are equal extremes and norms agreement."""
    for rank in range(2):
        records: list[events.Event] = []
        for step in range(4):
            one = Statistics(-1.0, 1.0, 2.0 + rank / 1000, bits="aa")
            other = fingerprint(step + rank * (step > 1))
            records += [events.Update(step, step, tensor=1, statistics=one), events.OptimizerStep(step, step)]
            records += [events.Update(step, step, tensor=2, statistics=other), events.OptimizerStepEnd(step, step)]
        path = write_rank(rank, WEIGHT, NORM, *records)
    found = compare(path)
    assert [(each.name, each.first_step) for each in found.drifted + found.never_agreed] == [("net.norm", 2)]
    assert found.by_statistics == 0
    assert "bits 0000000000000002 | 0000000000000003" in text_of(path)


@pytest.mark.parametrize(
    ("starts", "drifted", "words"),
    [
        pytest.param(
            [fingerprint(1), fingerprint(1)], True, "same at the start", id="alike: they never agreed after it"
        ),
        pytest.param([fingerprint(1), fingerprint(2)], False, "different at the start", id="differently"),
        pytest.param([statistics(1.0), statistics(1.0)], False, "values at the start are unknown", id="unknown how"),
    ],
)
def test_before_ranks_are_said_never_to_have_agreed_it_is_asked_how_they_started(
    starts: list[Statistics], drifted: bool, words: str, write_rank: Callable[..., Path]
) -> None:
    for rank, start in enumerate(starts):
        weight = msgspec.structs.replace(WEIGHT, statistics=start)
        path = write_rank(rank, weight, *steps_of(rank, range(3), {1: lambda r, s: 1.0 + r}, {}))
    found = compare(path)
    differences = found.drifted if drifted else found.never_agreed
    assert [each.name for each in differences] == ["net.weight"]
    assert len(found.drifted) + len(found.never_agreed) == 1
    assert words in text_of(path)
    is_known_to_differ = words == "different at the start"
    assert ("Parameters that never agreed (initialised differently, or" in text_of(path)) is is_known_to_differ


def test_ranks_without_a_step_agree_in_how_they_start(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, WEIGHT, NORM)
    assert compare(path).steps == 0
    text = "\n".join(ranks_lines(compare(path), Palette(enabled=True)))
    assert "All 2 parameters agree between the ranks at the start; no step was compared" in text
    assert Palette(enabled=True).paint("All", "green").partition("All")[0] not in text


def test_a_parameter_that_drifts_apart_is_named_with_its_first_step(write_rank: Callable[..., Path]) -> None:
    def drifts(rank: int, step: int) -> float:
        return 10.0 + step + (0.5 if rank == 2 and step >= 5 else 0.0)

    for rank in range(4):
        records = steps_of(rank, range(8), {1: same, 2: drifts}, {1: same, 2: drifts})
        path = write_rank(rank, WEIGHT, NORM, *records, world_size=4)
    found = compare(path)
    (difference,) = found.drifted
    assert not found.agrees
    assert (difference.name, difference.kind, difference.first_step, difference.last_step) == (
        "net.norm",
        "parameter",
        5,
        7,
    )
    assert (difference.steps, difference.compared, difference.agreed) == (3, 8, 5)
    assert difference.groups == [[0, 1, 3], [2]]
    assert [values.norm for values in difference.values if values] == [15.0, 15.5]
    assert difference.gradient_step == 5
    assert found.gradients == []
    assert (
        text_of(path)
        == """\
run 20261121T080911-3f2a9c
  ranks       ranks 0-3 of 4
  compared    2 parameters after 8 steps

Parameters that drifted apart (1)
  from step  name      ranks                  differs       values then
          5  net.norm  ranks 0-1, 3 | rank 2  3 of 8 steps  norm 15 | 15.5  its gradient differs from step 5"""
    )


def test_the_first_to_differ_comes_first(write_rank: Callable[..., Path]) -> None:
    def from_step(first: int) -> Values:
        return lambda rank, step: 1.0 + step + rank * (step >= first)

    for rank in range(2):
        path = write_rank(rank, WEIGHT, NORM, *steps_of(rank, range(6), {1: from_step(4), 2: from_step(2)}, {}))
    assert [(each.name, each.first_step) for each in compare(path).drifted] == [("net.norm", 2), ("net.weight", 4)]


def test_ranks_that_are_averaged_now_and_then_agree_again(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, WEIGHT, *steps_of(rank, range(6), {1: lambda r, s: 1.0 + s + r * (s % 3 != 2)}, {}))
    (difference,) = compare(path).never_agreed
    assert (difference.first_step, difference.last_step, difference.steps, difference.compared) == (0, 4, 4, 6)
    assert "4 of 6 steps, last 4" in text_of(path)


def test_a_difference_that_is_repaired_before_the_first_step_ends_is_none(write_rank: Callable[..., Path]) -> None:
    """`DistributedDataParallel` sends rank 0's parameters to all when it is made."""
    for rank in range(2):
        defined = msgspec.structs.replace(WEIGHT, statistics=statistics(float(rank)))
        repaired = events.Update(1, 0, tensor=1, statistics=statistics(0.0), cause="in-place")
        path = write_rank(rank, defined, *([repaired] if rank else []), *steps_of(rank, range(2), {}, {}))
    assert compare(path).agrees


def test_parameters_that_never_agreed_are_told_apart(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, WEIGHT, *steps_of(rank, range(3), {1: lambda r, s: 1.0 + r}, {}))
    found = compare(path)
    assert not found.agrees
    assert [each.name for each in found.never_agreed] == ["net.weight"]
    assert "Parameters that never agreed (1)" in text_of(path)


def test_a_parameter_that_one_rank_does_not_update_differs(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, WEIGHT, *steps_of(rank, range(3), {1: same} if rank else {}, {}))
    assert [each.name for each in compare(path).never_agreed] == ["net.weight"]


def test_parts_of_a_sharded_parameter_are_not_compared(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        part = msgspec.structs.replace(WEIGHT, placements=f"Shard(0)[{rank}/2]")
        whole = msgspec.structs.replace(NORM, placements="Replicate()")
        path = write_rank(rank, part, whole, *steps_of(rank, range(3), {1: lambda r, s: 1.0 + r, 2: same}, {}))
    found = compare(path)
    assert found.agrees
    assert (found.parameters, found.own_parts) == (1, 1)


def test_ranks_with_the_same_part_are_compared(write_rank: Callable[..., Path]) -> None:
    """Shards of two ranks each, as in hybrid sharding."""
    for rank in range(4):
        part = msgspec.structs.replace(WEIGHT, placements=f"Replicate(), Shard(0)[{rank % 2}/2]")
        values = {1: lambda r, s: 1.0 + r % 2 + (r == 3) * (s >= 1)}
        path = write_rank(rank, part, *steps_of(rank, range(3), values, {}), world_size=4)
    (difference,) = compare(path).drifted
    assert (difference.first_step, difference.groups) == (1, [[1], [3]])


def test_parameters_of_other_shapes_are_parts_too(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        part = msgspec.structs.replace(WEIGHT, type=f"float32[{2 + rank}]")
        path = write_rank(rank, part, *steps_of(rank, range(3), {1: lambda r, s: 1.0 + r}, {}))
    found = compare(path)
    assert found.agrees
    assert "No parameter was compared: none is in several ranks in the same shape and place." in text_of(path)


def test_buffers_and_gradients_that_differ_are_told_and_count_as_agreement(write_rank: Callable[..., Path]) -> None:
    def differs(rank: int, step: int) -> float:
        return 1.0 + rank

    for rank in range(2):
        path = write_rank(rank, WEIGHT, MEAN, *steps_of(rank, range(3), {1: same, 3: differs}, {1: differs}))
    found = compare(path)
    assert found.agrees
    assert [each.name for each in found.buffers] == ["net.mean"]
    assert [each.name for each in found.gradients] == ["net.weight"]
    assert "Buffers that differ (as those of batch norm may) (1)" in text_of(path)
    assert "Gradients that differ, of parameters that agree (1)" in text_of(path)


def test_a_missing_gradient_differs_from_one_that_is_there(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        records = steps_of(rank, range(2), {1: same}, {})
        records.insert(0, events.Gradient(0, 0, tensor=1, statistics=statistics(1.0) if rank else None))
        path = write_rank(rank, WEIGHT, *records)
    (gradient,) = compare(path).gradients
    assert gradient.values[0] is None


def test_a_rank_that_ends_early_is_compared_as_far_as_it_came(write_rank: Callable[..., Path]) -> None:
    write_rank(0, WEIGHT, *steps_of(0, range(9), {1: same}, {}))
    cut = events.Update(0, 4, tensor=1, statistics=statistics(99.0))
    path = write_rank(1, WEIGHT, *steps_of(1, range(4), {1: same}, {}), cut, ends=False)
    found = compare(path)
    assert found.agrees
    assert [(each.rank, each.last_step, each.end) for each in found.ranks] == [(0, 8, "exit"), (1, 3, "")]
    assert "rank 1  ended after step 3, others after step 8 (killed, or still running)" in text_of(path)


def test_steps_that_a_rank_lost_are_told_and_what_it_held_before_does_not_count(
    write_rank: Callable[..., Path],
) -> None:
    moved = events.Update(301, 3, tensor=2, statistics=statistics(7.0))
    write_rank(0, WEIGHT, NORM, *steps_of(0, range(4), {1: same}, {}), moved, *steps_of(0, range(4, 9), {1: same}, {}))
    path = write_rank(1, WEIGHT, NORM, *steps_of(1, [0, 1, 5, 6, 7, 8], {1: same}, {}))
    found = compare(path)
    assert found.agrees
    assert [each.missing_steps for each in found.ranks] == [0, 3]
    assert "rank 1  lacks 3 steps that others have" in text_of(path)


def test_ranks_without_a_file_and_further_processes_are_told(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        write_rank(rank, WEIGHT, *steps_of(rank, range(3), {1: same}, {}), world_size=5)
    path = write_rank(1, WEIGHT, world_size=5, pid=999)
    found = compare(path)
    assert found.absent == [2, 3, 4]
    assert found.left_out == [str(path / "rank1-999.jsonl")]
    assert "  ranks 2-4 left no trace" in text_of(path)


def test_ranks_that_were_to_leave_no_trace_are_told_apart(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, WEIGHT, *steps_of(rank, range(3), {1: same}, {}), world_size=6, ranks="0-2,5-9")
    found = compare(path)
    assert (found.not_asked, found.absent) == ([3, 4], [2, 5])
    assert "  ranks 3-4 left out, as `--ranks` says\n  ranks 2, 5 left no trace" in text_of(path)
    assert said(path, "ranks")[1][-2:] == ["ranks 3-4 left out", "no trace of ranks 2, 5"]


def test_a_run_without_steps_is_compared_at_its_end(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, msgspec.structs.replace(WEIGHT, statistics=statistics(float(rank))))
    assert [each.name for each in compare(path).never_agreed] == ["net.weight"]


def test_steps_and_names_narrow_down(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(
            rank, WEIGHT, NORM, *steps_of(rank, range(6), {1: same, 2: lambda r, s: 1.0 + r * (s > 2)}, {})
        )
    assert compare(path, steps=StepRange(0, 2)).agrees
    assert compare(path, is_chosen=lambda name: "weight" in name).agrees
    assert not compare(path, steps=StepRange(3, None)).agrees


def test_what_never_changes_is_compared_at_the_first_step_chosen(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        frozen = msgspec.structs.replace(NORM, statistics=statistics(1.0 + rank))
        path = write_rank(rank, WEIGHT, frozen, *steps_of(rank, range(6), {1: same}, {}))
    assert [each.name for each in compare(path, steps=StepRange(3, None)).never_agreed] == ["net.norm"]


def test_values_of_before_a_step_that_is_lost_are_compared_no_more(write_rank: Callable[..., Path]) -> None:
    for rank, steps in ((0, range(3)), (1, (0, 2))):
        records = steps_of(rank, steps, {1: same}, {})
        if rank == 0:  # the other rank may have done the same in the step that is lost
            records[-1:-1] = [events.Update(0, 2, tensor=2, statistics=statistics(5.0))]
        path = write_rank(rank, WEIGHT, NORM, *records)
    found = compare(path)
    assert found.agrees
    assert [each.missing_steps for each in found.ranks] == [0, 1]


def test_a_parameter_that_gets_a_longer_name_goes_on_under_it(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        before = steps_of(rank, range(2), {1: same}, {})
        after = steps_of(rank, range(2, 4), {1: lambda r, s: 1.0 + s + r * (s > 2)}, {})
        renamed = msgspec.structs.replace(WEIGHT, name="model.net.weight")
        path = write_rank(rank, WEIGHT, *before, renamed, *after)
    found = compare(path)
    assert [(each.name, each.first_step) for each in found.drifted] == [("model.net.weight", 3)]
    assert found.own_parts == 0


def test_an_open_trace_compares_its_ranks(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, WEIGHT, *steps_of(rank, range(2), {1: same}, {}))
    assert open_trace(path).compare_ranks() == compare(path)


def test_one_rank_is_an_error_that_says_what_to_give(small_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OneRankError, match="only rank 0 left a trace"):
        compare(small_trace)
    assert run_command(["ranks", str(small_trace)]) == 2
    assert "Give a run of several ranks" in capsys.readouterr().err


def test_buffers_may_be_compared_alone(write_rank: Callable[..., Path]) -> None:
    for rank in range(2):
        path = write_rank(rank, WEIGHT, MEAN, *steps_of(rank, range(3), {1: same, 3: same}, {1: same}))
    text = "\n".join(ranks_lines(compare(path, is_chosen="net.mean".__eq__), Palette(enabled=False)))
    assert "No parameter was compared: none was asked for, only buffers." in text


def test_the_command_says_by_its_exit_code_whether_ranks_agree(
    write_rank: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(2):
        path = write_rank(rank, WEIGHT, *steps_of(rank, range(6), {1: lambda r, s: 1.0 + r * (s > 2)}, {}))
    assert run_command(["ranks", str(path)]) == 1
    assert "Parameters that drifted apart (1)" in capsys.readouterr().out
    assert run_command(["ranks", str(path), "--step", "-2"]) == 0
    for nothing, words in ((["--name", "other.*"], "is called 'other.*'"), (["--step", "100-"], "nothing to compare")):
        assert run_command(["ranks", str(path), *nothing]) == 2
        assert words in capsys.readouterr().err
    capsys.readouterr()
    assert run_command(["ranks", str(path), "--format", "json"]) == 1
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["drifted"][0]["name"], found["drifted"][0]["first_step"]) == ("net.weight", 3)
    assert found["drifted"][0]["groups"] == [[0], [1]]
