"""An optimizer that steps with a learning rate of 0 is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def steps(rates: list[tuple[float, ...]]) -> list[events.Event]:
    """A step for each of these, the learning rates of the groups."""
    found: list[events.Event] = []
    known: tuple[float, ...] = ()
    for number, now in enumerate(rates):
        if now != known:
            indices = [index for index in range(len(now)) if not known or now[index] != known[index]]
            groups = [events.ParameterGroup({"lr": now[index]}, () if known else [1]) for index in indices]
            found.append(events.Optimizer(1, number, id=1, optimizer="SGD", groups=groups, indices=indices))
            known = now
        found.append(events.OptimizerStep(5, number, optimizer="SGD", optimizer_id=1))
    return found


@pytest.mark.parametrize(
    ("rates", "is_told"),
    [
        pytest.param([(0.0,)] * 4, True, id="zero throughout"),
        pytest.param([(0.1,), *[(0.0,)] * 9], True, id="zero after the first step"),
        pytest.param([(0.0,), (0.1,), (0.2,)], False, id="a warm-up from zero"),
        pytest.param([(0.1,), (0.05,), (0.0,)], False, id="a schedule down to zero"),
        pytest.param([(0.0, 0.1)] * 4, False, id="a group that is frozen by its rate"),
        pytest.param([(0.0,)], False, id="a single step"),
    ],
)
def test_zero_in_most_steps_is_told(
    tmp_path: Path, write_trace: WriteTrace, rates: list[tuple[float, ...]], is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *steps(rates))
    assert [each.name for each in find(path) if each.code == "learning-rate-zero"] == ["SGD"] * is_told
    assert said(path, "rates")[0] == ("finding" if is_told else "passed")


def test_a_rate_that_no_record_tells_was_not_checked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), events.OptimizerStep(5, optimizer="SGD"))
    assert said(path, "rates") == ("not checked", ["no record of an optimizer"])


BY_SCHEDULER = events.SchedulerStep(6, id=1, scheduler="StepLR", optimizer_id=1)


@pytest.mark.parametrize(
    ("rates", "others", "told"),
    [
        pytest.param([(0.1, 0.0), (0.2, 0.0), (0.3, 0.0)], [], ["group 1 stayed 0"], id="set by hand"),
        pytest.param(
            [(0.1, 0.0), (0.2, 0.0), (0.3, 0.0)], [BY_SCHEDULER], [], id="set by a scheduler, to which 0 is 0"
        ),
        pytest.param([(0.1, 0.0), (0.2, 0.1), (0.3, 0.2)], [], [], id="both set"),
    ],
)
def test_a_group_that_is_forgotten_by_a_schedule_by_hand_is_told(
    tmp_path: Path, write_trace: WriteTrace, rates: list[tuple[float, ...]], others: list[events.Event], told: list[str]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *steps(rates), *others)
    found = [each.reason for each in find(path) if each.code == "learning-rate-zero"]
    assert [reason.partition("of ")[2].partition(",")[0] for reason in found] == told


def scheduler(count: int, follows: str) -> events.SchedulerStep:
    """One that was made on line 11 and is advanced on line 20, for the next time after so many."""
    return events.SchedulerStep(
        6, location=3, id=1, scheduler="LambdaLR", optimizer_id=1, count=count, follows=follows, made=4
    )


@pytest.mark.parametrize(
    ("advances", "line"),
    [
        ([scheduler(0, "step")], 11),
        ([scheduler(0, "backward"), scheduler(1, "step"), scheduler(16, "step")], 20),
        ([], 7),
    ],
    ids=["where the scheduler was made", "where it is advanced too often", "where the optimizer steps"],
)
def test_a_rate_of_zero_is_told_where_it_comes_from(
    tmp_path: Path, write_trace: WriteTrace, advances: list[events.Event], line: int
) -> None:
    places = [events.Location(id_, "train.py", at, "main") for id_, at in ((3, 20), (4, 11), (5, 7))]
    first, *rest = steps([(0.1,), *[(0.0,)] * 9])
    path = write_trace(
        tmp_path / "a.jsonl", *places, NET, weight(), structs.replace(first, location=5), *_at(rest, 5), *advances
    )
    (found,) = [each for each in find(path) if each.code == "learning-rate-zero"]
    assert found.place == f"train.py:{line}"


def _at(happened: list[events.Event], location: int) -> list[events.Event]:
    return [structs.replace(each, location=location) for each in happened]


def test_a_rate_that_is_set_where_it_is_not_read_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    places = [events.Location(3, "train.py", 20, "main")]
    misplaced = events.RateWithoutEffect(6, optimizer_id=1, name="learning_rate", is_key=True, made=3)
    path = write_trace(tmp_path / "a.jsonl", *places, NET, weight(), *steps([(0.1,)] * 3), misplaced)
    (found,) = [each for each in find(path) if each.code == "learning-rate-not-read"]
    assert (found.reason, found.place) == ('`group["learning_rate"]` is not read', "train.py:20")


@pytest.mark.parametrize(
    ("rates", "is_told"),
    [
        pytest.param([(0.1, 0.1)] * 2, True, id="one rate for both"),
        pytest.param([(0.0, 0.0), (0.1, 0.01)], False, id="a warm-up from zero"),
        pytest.param([(0.1, 0.1)], False, id="a single step"),
    ],
)
def test_groups_that_lose_their_rates_are_told(
    tmp_path: Path, write_trace: WriteTrace, rates: list[tuple[float, ...]], is_told: bool
) -> None:
    place = events.Location(3, "train.py", 20, "adjust")
    first, *others = steps(rates)
    made = structs.replace(first, rates=[0.1, 0.01], overwrites=3)
    path = write_trace(tmp_path / "a.jsonl", place, NET, weight(), made, *others)
    found = [(each.place, each.evidence) for each in find(path) if each.code == "group-rates-overwritten"]
    assert found == [("train.py:20", ["created with 0.1, 0.01"])] * is_told


@pytest.mark.parametrize(
    ("rates", "decays", "is_told"),
    [
        pytest.param([(0.1, 0.1), (0.05, 0.1), (0.01, 0.1)], (0.01, 0.0), True, id="the first of two"),
        pytest.param([(0.1, 0.1), (0.05, 0.1), (0.01, 0.1)], (0.01, 0.01), False, id="groups of the same settings"),
        pytest.param([(0.1, 0.01), (0.05, 0.01), (0.02, 0.01)], (0.01, 0.0), False, id="rates that differ anyway"),
        pytest.param([(0.1, 0.1), (0.1, 0.1), (0.05, 0.1)], (0.01, 0.0), False, id="changed once"),
        pytest.param([(0.1, 0.1), (0.05, 0.05), (0.01, 0.05)], (0.01, 0.0), False, id="both at first"),
    ],
)
def test_rates_that_reach_the_first_group_alone_are_told(
    tmp_path: Path,
    write_trace: WriteTrace,
    rates: list[tuple[float, ...]],
    decays: tuple[float, float],
    is_told: bool,
) -> None:
    place = events.Location(3, "train.py", 20, "train")
    first, *others = steps(rates)
    assert isinstance(first, events.Optimizer)
    groups = [
        structs.replace(group, settings={**group.settings, "weight_decay": decay})
        for group, decay in zip(first.groups, decays, strict=True)
    ]
    told = [structs.replace(each, overwrites=3) if isinstance(each, events.Optimizer) else each for each in others]
    path = write_trace(tmp_path / "a.jsonl", place, NET, weight(), structs.replace(first, groups=groups), *told)
    found = [(each.place, each.evidence) for each in find(path) if each.code == "rate-of-one-group"]
    evidence = ["3 rates of group 0 in turn, the last 0.01", "0.1 in all other groups throughout"]
    assert found == [("train.py:20", evidence)] * is_told


def test_a_scheduler_may_move_one_group_alone(tmp_path: Path, write_trace: WriteTrace) -> None:
    first, *others = steps([(0.1, 0.1), (0.05, 0.1), (0.01, 0.1)])
    assert isinstance(first, events.Optimizer)
    groups = [
        structs.replace(group, settings={**group.settings, "weight_decay": float(index)})
        for index, group in enumerate(first.groups)
    ]
    path = write_trace(
        tmp_path / "a.jsonl", NET, weight(), structs.replace(first, groups=groups), *others, BY_SCHEDULER
    )
    assert [each for each in find(path) if each.code == "rate-of-one-group"] == []
