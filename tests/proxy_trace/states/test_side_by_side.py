"""Ranks side by side: the same found in any number of groups and windows, and what counting by hand finds."""

from __future__ import annotations

import pickle
import tempfile
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy_trace.comparison.ranks import compare_ranks
from proxy_trace.comparison.runs import compare_runs
from proxy_trace.errors import TraceError
from proxy_trace.reading.selection import StepRange
from proxy_trace.reading.trace import Trace
from proxy_trace.reading.workers import Workers
from proxy_trace.states import side_by_side
from proxy_trace.summary.run_summary import summarize
from proxy_trace.summary.state_digest import StateDigest
from proxy_wrapper import events
from proxy_wrapper.events import Statistics
from tests.proxy_trace.conftest import make_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy_trace.reading.trace import TraceFile

WINDOWS = (1, 3, 7, side_by_side.MOST_ENTRIES)


class Elsewhere(Workers):
    """Works in this process as if in others: what goes there and comes back is pickled."""

    def map(self, function: Callable[..., Any], inputs: Sequence[Any]) -> Iterator[Any]:
        for each in inputs:
            result = pickle.loads(pickle.dumps(function))(pickle.loads(pickle.dumps(each)), lambda _: None)
            yield pickle.loads(pickle.dumps(result))


values = st.one_of(
    st.none(),
    st.builds(lambda norm: Statistics(-1.0, 1.0, norm), st.sampled_from([1.0, 2.0])),
    st.builds(lambda bits: Statistics(-1.0, 1.0, 2.0, bits=f"{bits:016x}"), st.integers(0, 2)),
)
TENSORS = ("n.a", "n.b", "n.c", "n.mean")


@st.composite
def one_rank(draw: st.DrawFn) -> list[events.Event]:
    """What a rank records: steps that are lost or counted anew, tensors that are renamed, made late or never read."""
    made: list[events.Event] = []
    for id_, name in enumerate(TENSORS, 1):
        kind = events.Buffer if name == "n.mean" else events.Parameter
        part = draw(st.sampled_from(["", "Shard(0)[0/2]", "Shard(0)[1/2]"])) if name == "n.c" else ""
        made.append(kind(id_, name, 1, "float32[2]", placements=part, statistics=draw(values)))
    step = 0
    for _ in range(draw(st.integers(0, 6))):
        made.append(draw(st.sampled_from([events.Backward(0, step), events.OptimizerStep(0, step)])))
        kinds = st.sampled_from([events.Update, events.Gradient])
        made += [
            draw(kinds)(0, step, tensor=id_, statistics=draw(values))
            for id_ in draw(st.lists(st.integers(1, 5), max_size=4))
        ]
        if draw(st.integers(0, 7)) == 0:
            id_, name = draw(st.sampled_from([(1, "big.n.a"), (5, "late"), (2, "n.b"), (6, "n.a")]))
            made.append(events.Parameter(id_, name, 1, "float32[2]", statistics=draw(values)))
        if draw(st.integers(0, 9)):
            made.append(events.OptimizerStepEnd(0, step))
        step = max(0, step + draw(st.sampled_from([1, 1, 1, 1, 3, 1000, -2])))
    return [*made, *([events.RunEnd(1, step)] if draw(st.booleans()) else [])]


@st.composite
def some_ranks(draw: st.DrawFn) -> list[list[events.Event]]:
    """A few ranks, of which most are the same but for a record or two."""
    ranks: list[list[events.Event]] = [draw(one_rank())]
    for _ in range(draw(st.integers(1, 4))):
        other = list(ranks[draw(st.integers(0, len(ranks) - 1))]) if draw(st.integers(0, 3)) else draw(one_rank())
        changeable = [place for place, each in enumerate(other) if isinstance(each, events.Update)]
        if len(changeable) > 0 and draw(st.booleans()):
            place = changeable[draw(st.integers(0, len(changeable) - 1))]
            other[place] = msgspec.structs.replace(other[place], statistics=draw(values))
        ranks.append(other)
    return ranks


def write(folder: Path, ranks: Sequence[Sequence[events.Event]]) -> Trace:
    folder.mkdir()
    for rank, made in enumerate(ranks):
        header = make_run(rank=rank, world_size=len(ranks), pid=100 + rank)
        encoded = msgspec.json.Encoder().encode_lines([header, *made])
        (folder / f"rank{rank:04}-{100 + rank}.jsonl").write_bytes(encoded)
    return Trace.open(folder)


def outcome(ask: Callable[[], Any]) -> Any:
    try:
        return msgspec.to_builtins(ask())
    except TraceError as error:
        return str(error)


@given(some_ranks(), some_ranks(), st.sampled_from([None, StepRange(1, 3)]))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_neither_groups_nor_windows_change_what_is_found(
    ranks: list[list[events.Event]], others: list[list[events.Event]], steps: StepRange | None
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        trace, other = write(Path(folder, "a"), ranks), write(Path(folder, "b"), others)

        def find(most: int, workers: Workers) -> list[Any]:
            patch.setattr(side_by_side, "MOST_ENTRIES", most)
            return [
                outcome(lambda: compare_ranks(trace, steps, workers=workers)),
                outcome(lambda: compare_runs(trace, other, steps)),
                outcome(lambda: summarize(trace, workers)),
            ]

        found = [find(most, workers) for most in WINDOWS for workers in (Workers(), Elsewhere(2))]
    assert all(each == found[0] for each in found)


@given(some_ranks(), st.sampled_from([None, StepRange(1, 3)]))
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_of_ranks_that_say_the_same_one_tells_of_all(ranks: list[list[events.Event]], steps: StepRange | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = write(Path(folder, "run"), ranks)
        digests = {str(file.path): digest_of(file) for file in trace.files}
        told = outcome(lambda: compare_ranks(trace, steps, with_gradients=False, digests=digests))
        assert told == outcome(lambda: compare_ranks(trace, steps, with_gradients=False))
    for rank, made in enumerate(ranks):
        assert digests[str(trace.files[rank].path)] == digests[str(trace.files[ranks.index(made)].path)]


def digest_of(file: TraceFile) -> bytes:
    digest = StateDigest()
    for event in file.read():
        digest.note(event)
    return digest.digest()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda made: [*made, events.Update(9, 3, tensor=1)], id="an update"),
        pytest.param(lambda made: made[:-1], id="no end"),
        pytest.param(lambda made: made[:-2], id="a step that did not end"),
        pytest.param(lambda made: [msgspec.structs.replace(made[0], name="net.x"), *made[1:]], id="a name"),
        pytest.param(
            lambda made: [msgspec.structs.replace(made[0], placements="Shard(0)[0/2]"), *made[1:]], id="a part"
        ),
        pytest.param(lambda made: [made[1], made[0], *made[2:]], id="another order"),
    ],
)
def test_a_digest_tells_what_matters_apart(
    change: Callable[[list[events.Event]], list[events.Event]], tmp_path: Path
) -> None:
    made = [*training(0, 2, 2), events.RunEnd(9)]
    elsewhere = [msgspec.structs.replace(made[0], device="cuda:7", time_us=5), *made[1:]]
    trace = write(tmp_path / "run", [made, elsewhere, change(made)])
    one, same, other = map(digest_of, trace.files)
    assert one == same != other


plain = st.integers(0, 2).map(lambda bits: Statistics(-1.0, 1.0, 2.0, bits=f"{bits:016x}"))


@given(st.data(), st.integers(2, 5), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_the_first_difference_is_the_one_that_a_look_at_all_values_finds(
    data: st.DataObject, count: int, steps: int
) -> None:
    """Each rank as a table of what each parameter holds after each step, compared cell by cell."""
    base = [[data.draw(plain) for _ in range(2)] for _ in range(steps + 1)]
    ranks: list[list[events.Event]] = []
    tables = []
    for _ in range(count):
        table = [list(row) for row in base]
        for _ in range(data.draw(st.integers(0, 2))):
            table[data.draw(st.integers(0, steps))][data.draw(st.integers(0, 1))] = data.draw(plain)
        made: list[events.Event] = [
            events.Parameter(id_, name, 1, "float32[2]", statistics=table[0][id_ - 1])
            for id_, name in ((1, "n.a"), (2, "n.b"))
        ]
        for step in range(steps):
            made.append(events.OptimizerStep(0, step))
            for id_ in (1, 2):
                now, before = table[step + 1][id_ - 1], table[step][id_ - 1]
                if now != before:  # What does not change is not recorded.
                    made.append(events.Update(0, step, tensor=id_, statistics=now))
            made.append(events.OptimizerStepEnd(0, step))
        ranks.append(made)
        tables.append(table)
    expected = {}
    for column, name in enumerate(("n.a", "n.b")):
        apart = [step for step in range(steps) if len({table[step + 1][column].bits for table in tables}) > 1]
        if apart:
            groups: dict[str | None, list[int]] = {}
            for rank, table in enumerate(tables):
                groups.setdefault(table[apart[0] + 1][column].bits, []).append(rank)
            started_alike = len({table[0][column].bits for table in tables}) == 1
            expected[name] = (apart[0], list(groups.values()), apart[0] > 0 or started_alike)
    with tempfile.TemporaryDirectory() as folder:
        found = compare_ranks(write(Path(folder, "run"), ranks))
    has_drifted = {each.name for each in found.drifted}
    assert {
        each.name: (each.first_step, each.groups, each.name in has_drifted)
        for each in (*found.drifted, *found.never_agreed)
    } == expected
    assert found.steps == steps


def training(rank: int, steps: int, tensors: int) -> list[events.Event]:
    """Data parallelism: parameters that agree, and one that does not in rank 1 from step 3 on."""
    made: list[events.Event] = [
        events.Parameter(id_, f"net.{id_}.weight", 1, "float32[2]", device=f"cuda:{rank}", statistics=Statistics(0.0))
        for id_ in range(1, tensors + 1)
    ]
    for step in range(steps):
        made.append(events.OptimizerStep(0, step))
        for id_ in range(1, tensors + 1):
            is_apart = rank == 1 and id_ == 1 and step >= 3
            numbers = Statistics(-1.0, 1.0, float(step), bits=f"{1000 * step + id_ + 500 * is_apart:016x}")
            made += [
                events.Gradient(0, step, tensor=id_, statistics=numbers),
                events.Update(0, step, tensor=id_, statistics=numbers),
            ]
        made.append(events.OptimizerStepEnd(0, step))
    return made


def test_memory_grows_neither_with_ranks_nor_with_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "MOST_ENTRIES", 512)

    def peak(count: int, steps: int) -> int:
        trace = write(tmp_path / f"{count}-{steps}", [training(rank, steps, 120) for rank in range(count)])
        tracemalloc.start()
        try:
            found = compare_ranks(trace)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            assert [(each.name, each.first_step) for each in found.drifted] == [("net.1.weight", 3)]

    peak(2, 8)
    small, many, long = peak(4, 8), peak(40, 8), peak(4, 60)
    assert many < 1.25 * small
    assert long < 1.25 * small


def test_other_processes_find_the_same(tmp_path: Path) -> None:
    trace = write(tmp_path / "run", [training(rank, 5, 3) for rank in range(5)])
    found, summary = compare_ranks(trace), summarize(trace)
    with Workers(2) as workers:
        assert compare_ranks(trace, workers=workers) == found
        assert summarize(trace, workers) == summary
