"""A run is compared with several that differ in their seeds alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy_trace.cli import run_command
from proxy_trace.comparison.baseline.baseline_text import baseline_lines
from proxy_trace.comparison.baseline.compare_with_baseline import BaselineComparison, compare_with_baseline
from proxy_trace.errors import NothingInBaselineError, SameBaselinesError, SameRunError, TooFewBaselinesError
from proxy_trace.reading.selection import StepRange
from proxy_trace.reading.trace import Trace
from proxy_trace.reading.workers import Workers
from proxy_trace.terminal.colour import Palette
from proxy_wrapper import events
from proxy_wrapper.events import Number, Statistics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

STEPS = 20


def a_run(seed: int, *, gradient: float = 1.0, from_step: int = 0, steps: int = STEPS) -> list[events.Event]:
    """A weight, its gradient and what its module puts out; a gradient that is so much larger from a step on."""

    def values(number: Number) -> Statistics:
        return Statistics(0.0, 1.0, number, 0 if isinstance(number, float) else 1)

    made: list[events.Event] = [
        events.Configuration(0, settings={"seed": seed, "tf32": gradient != 2.0}),
        events.Module(1, "model", "Net", 1),
        events.Parameter(1, "model.weight", 1, "float32[2]", requires_grad=True, statistics=values(1.0 + seed / 100)),
        events.Parameter(2, "model.frozen", 1, "float32[2]", statistics=values(3.0)),
    ]
    for step in range(steps):
        spread = 1 + (seed * 7 % 11) / 50 + (seed * step) % 5 / 100
        factor = gradient if step >= from_step else 1.0
        made += [
            events.ReturnModule(1, step, 1, outputs=["float32[2]"], statistics=[values(4.0 * spread)]),
            events.Gradient(2, step, 1, tensor=1, statistics=values("nan" if factor < 0 else 2.0 * spread * factor)),
            events.Update(3, step, 1, tensor=1, statistics=values(1.0 * spread)),
            events.OptimizerStepEnd(4, step, optimizer="SGD"),
        ]
    return made


@pytest.fixture
def write(tmp_path: Path, write_trace: WriteTrace) -> Callable[..., Trace]:
    def write(name: str, made: list[events.Event], rank: int = 0) -> Trace:
        path = tmp_path / name / f"rank{rank}-{100 + rank}.jsonl"
        return Trace.open(write_trace(path, *made, ends=True, rank=rank, run=name).parent)

    return write


@pytest.fixture
def baselines(write: Callable[..., Trace]) -> list[Trace]:
    return [write(f"seed{seed}", a_run(seed)) for seed in range(1, 7)]


def names(found: BaselineComparison) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in found.outliers]


def text_of(found: BaselineComparison) -> str:
    return "\n".join(baseline_lines(found, Palette(enabled=False)))


def test_a_run_with_another_seed_is_not_named(write: Callable[..., Trace], baselines: list[Trace]) -> None:
    found = compare_with_baseline(write("new", a_run(9)), baselines)
    assert (found.agrees, found.outliers, found.configuration) == (True, [], {})
    assert (found.steps, found.quantities, found.left_out) == (STEPS, 4, 0)
    assert "Nothing is outside the range of the 6 baselines." in text_of(found)


@pytest.mark.parametrize("from_step", [0, 10])
def test_what_lies_outside_is_named_with_its_step(
    from_step: int, write: Callable[..., Trace], baselines: list[Trace]
) -> None:
    found = compare_with_baseline(write("new", a_run(9, gradient=20.0, from_step=from_step)), baselines)
    (outlier,) = found.outliers
    assert (outlier.kind, outlier.name, outlier.first_step) == ("gradient", "model.weight", from_step)
    assert isinstance(outlier.norm, float)
    assert outlier.norm > 10 * outlier.highest > 10 * outlier.lowest
    text = text_of(found)
    assert "1 value is outside the range of the 6 baselines." in text
    assert "at most 1 in 7" in text


def test_a_value_that_no_seed_changes_is_named_however_little_it_differs(
    write: Callable[..., Trace], baselines: list[Trace]
) -> None:
    run = a_run(9)
    run[3] = msgspec.structs.replace(run[3], statistics=Statistics(0.0, 1.0, 3.0001))
    (outlier,) = compare_with_baseline(write("new", run), baselines).outliers
    assert (outlier.kind, outlier.name, outlier.ranges) == ("parameter", "model.frozen", "inf")


def test_what_is_not_finite_in_this_run_alone_is_named(write: Callable[..., Trace], baselines: list[Trace]) -> None:
    found = compare_with_baseline(write("new", a_run(9, gradient=-1.0, from_step=7)), baselines)
    assert [(each.name, each.first_step, each.norm) for each in found.outliers] == [("model.weight", 7, "nan")]
    also = [*baselines[:5], write("other", a_run(8, gradient=-1.0, from_step=3))]
    assert compare_with_baseline(write("new", a_run(9, gradient=-1.0, from_step=7)), also).outliers == []


def test_a_setting_that_all_baselines_have_otherwise_is_named(
    write: Callable[..., Trace], baselines: list[Trace]
) -> None:
    found = compare_with_baseline(write("new", a_run(9, gradient=2.0)), baselines)
    assert found.configuration == {"tf32": ["False", "True"]}
    assert not found.agrees
    assert "tf32 is False, and True in all baselines" in text_of(found)


def test_runs_are_compared_as_far_as_the_shortest(write: Callable[..., Trace], baselines: list[Trace]) -> None:
    short = write("new", a_run(9, gradient=20.0, from_step=5, steps=5))
    found = compare_with_baseline(short, baselines)
    assert (found.steps, found.outliers) == (5, [])
    longer = write("long", a_run(9, gradient=20.0, from_step=10))
    assert compare_with_baseline(longer, baselines, steps=StepRange(0, 8)).outliers == []


def test_names_may_be_chosen(write: Callable[..., Trace], baselines: list[Trace]) -> None:
    new = write("new", a_run(9, gradient=20.0))
    found = compare_with_baseline(new, baselines, is_chosen="model.frozen".__eq__)
    assert (found.quantities, found.outliers) == (1, [])
    with pytest.raises(NothingInBaselineError):
        compare_with_baseline(new, baselines, is_chosen="nothing".__eq__)


def test_ranks_are_compared_with_their_like(write: Callable[..., Trace]) -> None:
    def of_two_ranks(name: str, seed: int, **fields: Any) -> Trace:
        write(name, a_run(seed), 0)
        return write(name, a_run(seed + 50, **fields), 1)

    baselines = [of_two_ranks(f"seed{seed}", seed) for seed in range(1, 7)]
    new = of_two_ranks("new", 9, gradient=20.0)
    found = compare_with_baseline(new, baselines)
    assert [(each.rank, each.kind) for each in found.outliers] == [(1, "gradient")]
    with Workers(2) as workers:
        again = compare_with_baseline(new, baselines, workers=workers)
    assert msgspec.to_builtins(again) == msgspec.to_builtins(found)


def test_what_nothing_can_be_told_from_is_refused(write: Callable[..., Trace], baselines: list[Trace]) -> None:
    new = write("new", a_run(9))
    with pytest.raises(TooFewBaselinesError, match="4 baselines: too few to know"):
        compare_with_baseline(new, baselines[:4])
    with pytest.raises(SameRunError):
        compare_with_baseline(new, [*baselines, new])
    with pytest.raises(SameBaselinesError, match="have the same values throughout"):
        compare_with_baseline(new, [*baselines, write("again", a_run(1))])


def test_the_command_takes_the_run_first(
    write: Callable[..., Trace], baselines: list[Trace], capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(each.path) for each in baselines]
    good, bad = str(write("good", a_run(9)).path), str(write("bad", a_run(9, gradient=20.0)).path)
    assert run_command(["compare", good, "--baseline", *paths]) == 0
    assert run_command(["compare", bad, "--baseline", *paths]) == 1
    capsys.readouterr()
    assert run_command(["compare", bad, "--baseline", *paths, "--format", "json"]) == 1
    assert msgspec.json.decode(capsys.readouterr().out)["outliers"][0]["name"] == "model.weight"
    assert run_command(["compare", bad, "--baseline", *paths[:3]]) == 2
