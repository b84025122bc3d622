"""From which step on two runs differ, what differs first, and what is no difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy_trace.cli import run_command
from proxy_trace.comparison.runs import compare_runs
from proxy_trace.comparison.runs_text import run_lines
from proxy_trace.errors import NothingInCommonError, SameRunError
from proxy_trace.open_trace import open_trace
from proxy_trace.reading.selection import GlobMatcher, StepRange
from proxy_trace.reading.trace import Trace
from proxy_trace.reading.workers import Workers
from proxy_trace.terminal.colour import Palette
from proxy_wrapper import events
from proxy_wrapper.events import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from proxy_trace.comparison.runs import RunComparison
    from tests.proxy_trace.conftest import WriteTrace

STEPS = 5


def numbers(norm: float) -> Statistics:
    return Statistics(-1.0, 1.0, norm)


def records(
    *, start: float = 1.0, gradient: Sequence[float] = (), weight: Sequence[float] = (), mean: Sequence[float] = ()
) -> list[events.Event]:
    """A run of a model with one weight and one buffer; what is not given is 1, step for step."""
    made: list[events.Event] = [
        events.Parameter(1, "net.weight", 1, "float32[2]", requires_grad=True, statistics=numbers(start)),
        events.Buffer(2, "net.mean", 1, "float32[2]", statistics=numbers(1.0)),
    ]
    for step in range(STEPS):
        values = [each[step] if each else 1.0 for each in (gradient, weight, mean)]
        made += [
            events.OptimizerStep(100 * step, step, optimizer="SGD"),
            events.Gradient(0, step, tensor=1, statistics=numbers(values[0])),
            events.Update(0, step, tensor=1, statistics=numbers(values[1])),
            events.Update(0, step, tensor=2, statistics=numbers(values[2]), cause="data"),
            events.OptimizerStepEnd(100 * step + 1, step, optimizer="SGD"),
        ]
    return made


def from_step(step: int) -> list[float]:
    """Values that are those of the other run before `step`, and others from there on."""
    return [1.0 + (index >= step) for index in range(STEPS)]


@pytest.fixture
def write_run(tmp_path: Path, write_trace: WriteTrace) -> Callable[..., Path]:
    """Writes a run of one process, or a rank of a run."""

    def write(name: str, *made: events.Event, rank: int = 0, **run: Any) -> Path:
        path = tmp_path / name / f"rank{rank}-{100 + rank}.jsonl"
        return write_trace(path, *made, ends=True, rank=rank, run=name, pid=100 + rank, **run).parent

    return write


def compare(first: Path, second: Path, **options: Any) -> RunComparison:
    return compare_runs(Trace.open(first), Trace.open(second), **options)


def text_of(found: RunComparison) -> str:
    return "\n".join(run_lines(found, Palette(enabled=False)))


def test_runs_that_agree(write_run: Callable[..., Path]) -> None:
    found = compare(write_run("a", *records()), write_run("b", *records()))
    assert found.agrees
    assert (found.steps, found.tensors, found.differences) == (STEPS, 2, [])
    assert "The runs agree after each of the 5 steps compared." in text_of(found)


@pytest.mark.parametrize(
    ("other", "expected", "words"),
    [
        pytest.param(
            {"start": 2.0, "gradient": from_step(0), "weight": from_step(0)},
            [("start", -1), ("gradient", 0)],
            "The runs differ from the start. They were initialised, or loaded, differently",
            id="another seed",
        ),
        pytest.param(
            {"gradient": from_step(2), "weight": from_step(2), "mean": from_step(3)},
            [("gradient", 2), ("parameter", 2), ("buffer", 3)],
            "The runs differ from step 2 on. The same parameters had other gradients",
            id="other data",
        ),
        pytest.param(
            {"weight": from_step(1), "gradient": from_step(2)},
            [("parameter", 1), ("gradient", 2)],
            "The runs differ from step 1 on. The same gradients made other parameters",
            id="another learning rate",
        ),
        pytest.param(
            {"mean": from_step(4)},
            [("buffer", 4)],
            "The runs differ from step 4 on. The parameters agree so far",
            id="buffers alone",
        ),
    ],
)
def test_what_differs_first_says_where_to_look(
    other: dict[str, Any], expected: list[tuple[str, int]], words: str, write_run: Callable[..., Path]
) -> None:
    found = compare(write_run("a", *records()), write_run("b", *records(**other)))
    assert [(each.kind, each.first_step) for each in found.differences] == expected
    assert words in text_of(found)


def test_a_difference_has_its_values_and_how_often_it_was_there(write_run: Callable[..., Path]) -> None:
    first, second = write_run("a", *records()), write_run("b", *records(weight=[1.0, 1.0, 3.0, 1.0, 3.0]))
    (found,) = compare(first, second).differences
    assert (found.first_step, found.last_step, found.steps, found.compared) == (2, 4, 2, STEPS)
    assert [each.norm for each in found.values if each is not None] == [1.0, 3.0]
    assert "2 of 5 steps, last 4  norm 1 | 3" in text_of(compare(first, second))


def test_what_was_loaded_before_training_is_the_start(write_run: Callable[..., Path]) -> None:
    weight, mean, *steps = records()
    loaded = events.Update(1, 0, tensor=1, statistics=numbers(7.0), cause="in-place")
    other = msgspec.structs.replace(weight, statistics=numbers(9.0))
    first, second = write_run("a", weight, mean, loaded, *steps), write_run("b", other, mean, loaded, *steps)
    assert compare(first, second).agrees


def test_any_number_of_jobs_finds_the_same(write_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(5):
        write_run("a", *records(weight=[1.0 + rank] * STEPS), rank=rank)
        write_run("b", *records(weight=[1.0 + rank] * STEPS, mean=from_step(rank), gradient=from_step(3)), rank=rank)
    a, b = (write_run("a", *records(start=2.0), rank=5).parent / name for name in "ab")
    found = compare(a, b)
    assert len(found.differences) == 10
    for jobs in (2, 3):
        with Workers(jobs) as workers:
            assert compare(a, b, workers=workers, is_chosen=GlobMatcher(["net.*"])) == found
    assert run_command(["compare", str(a), str(b)]) == 1
    alone = capsys.readouterr()
    assert run_command(["compare", str(a), str(b), "--jobs", "2"]) == 1
    assert capsys.readouterr() == alone


def test_steps_and_names_may_be_chosen(write_run: Callable[..., Path]) -> None:
    first, second = write_run("a", *records()), write_run("b", *records(start=2.0, weight=from_step(3)))
    assert compare(first, second, steps=StepRange(0, 2)).agrees
    assert compare(first, second, is_chosen="net.mean".__eq__).agrees
    assert not compare(first, second, steps=StepRange(3, None)).agrees


def test_ranks_are_compared_with_their_like(write_run: Callable[..., Path]) -> None:
    for rank in range(2):
        first = write_run("a", *records(weight=[1.0 + rank] * STEPS), rank=rank)
        second = write_run("b", *records(weight=[1.0 + rank] * STEPS, mean=from_step(5 - rank)), rank=rank)
    write_run("b", *records(), rank=2)
    found = compare(first, second)
    assert [(each.rank, each.name, each.first_step) for each in found.differences] == [(1, "net.mean", 4)]
    assert "only in the second run: rank 2" in text_of(found)


def test_what_only_one_has_or_has_in_another_shape_is_told(write_run: Callable[..., Path]) -> None:
    extra = events.Parameter(3, "net.extra", 1, "float32[1]", requires_grad=True, statistics=numbers(1.0))
    weight, *rest = records()
    wider = msgspec.structs.replace(weight, type="float32[3]")
    found = compare(write_run("a", weight, *rest), write_run("b", wider, extra, *rest))
    assert not found.agrees
    assert (found.only_in, found.other_shape) == ([[], ["net.extra"]], ["net.weight"])
    text = text_of(found)
    assert "What both runs have agrees after each of the 5 steps compared; but not all is in both." in text
    assert "only in the second run: net.extra" in text
    assert "of another shape, dtype or place: net.weight" in text


def test_runs_of_which_one_has_more_do_not_agree(write_run: Callable[..., Path]) -> None:
    extra = events.Parameter(3, "net.extra", 1, "float32[1]", requires_grad=True, statistics=numbers(1.0))
    first, second = write_run("a", *records()), write_run("b", extra, *records())
    found = compare(first, second)
    assert (found.agrees, found.differences, found.only_in) == (False, [], [[], ["net.extra"]])
    assert compare(first, second, is_chosen="net.weight".__eq__).agrees


def test_what_is_not_asked_for_may_have_another_shape(write_run: Callable[..., Path]) -> None:
    weight, *rest = records()
    wider = msgspec.structs.replace(weight, type="float32[3]")
    first, second = write_run("a", weight, *rest), write_run("b", wider, *rest)
    assert compare(first, second, is_chosen="net.mean".__eq__).agrees


def test_a_parameter_that_gets_a_longer_name_is_in_both_runs(write_run: Callable[..., Path]) -> None:
    weight, *rest = records()
    renamed = msgspec.structs.replace(weight, name="model.net.weight")
    found = compare(write_run("a", weight, *rest, renamed), write_run("b", renamed, *rest))
    assert found.only_in == [[], []]


def test_a_run_that_ends_early_is_compared_up_to_there(write_run: Callable[..., Path]) -> None:
    whole = records()
    found = compare(write_run("a", *whole), write_run("b", *whole[: 2 + 5 * 3]))
    assert found.agrees
    assert found.steps == 3
    assert "the second run ended after step 2 (exit), the other after step 4" in text_of(found)


def test_runs_without_an_optimizer_are_compared_at_their_start_and_end(write_run: Callable[..., Path]) -> None:
    def by_hand(last: float) -> list[events.Event]:
        update = events.Update(2, 1, tensor=1, statistics=numbers(last), cause="in-place")
        return [*records()[:2], events.Backward(1), update]

    first = write_run("a", *by_hand(3.0))
    assert "The runs agree at their start and end." in text_of(compare(first, write_run("b", *by_hand(3.0))))
    assert [each.kind for each in compare(first, write_run("c", *by_hand(4.0))).differences] == ["parameter"]


def test_other_versions_are_told(write_run: Callable[..., Path]) -> None:
    found = compare(write_run("a", *records()), write_run("b", *records(), torch="2.13.0"))
    assert "torch      2.8.0 | 2.13.0" in text_of(found)


def test_one_run_is_not_compared_with_itself(write_run: Callable[..., Path]) -> None:
    path = write_run("a", *records())
    with pytest.raises(SameRunError, match="are the same run, a"):
        compare(path, path.parent)


def test_runs_of_different_models_have_nothing_to_compare(write_run: Callable[..., Path]) -> None:
    other = [msgspec.structs.replace(each, name="other") for each in records()[:1]]
    with pytest.raises(NothingInCommonError):
        compare(write_run("a", *records()), write_run("b", *other))


def test_the_command_says_by_its_exit_code_whether_runs_agree(
    write_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = write_run("a", *records()), write_run("b", *records(weight=from_step(3)))
    assert run_command(["compare", str(first), str(second)]) == 1
    assert "  from step  what       name        differs" in capsys.readouterr().out
    assert run_command(["compare", str(first), str(second), "--step", "-2", "--name", "net.*", "--rank", "0"]) == 0
    assert run_command(["compare", str(first), str(first)]) == 2
    capsys.readouterr()
    assert run_command(["compare", str(first), str(second), "--format", "json"]) == 1
    (found,) = msgspec.json.decode(capsys.readouterr().out)["differences"]
    assert (found["name"], found["first_step"]) == ("net.weight", 3)


def test_an_open_trace_compares_itself_with_another(write_run: Callable[..., Path]) -> None:
    first, second = write_run("a", *records()), write_run("b", *records())
    assert open_trace(first).compare_with(open_trace(second)).agrees


def test_settings_that_differ_are_named_first(write_run: Callable[..., Path]) -> None:
    def with_settings(**settings: events.Setting) -> list[events.Event]:
        return [events.Configuration(0, settings=settings), *records()]

    first = write_run("a", *with_settings(tf32=True, threads=4, only_here=1))
    found = compare(first, write_run("b", *with_settings(tf32=False, threads=4)))
    assert [(each.name, each.values, each.step) for each in found.configuration] == [("tf32", ["True", "False"], 0)]
    assert (found.agrees, found.differences) == (False, [])
    text = text_of(found)
    assert text.index("  tf32: True | False") < text.index("Their values agree after each of the 5 steps compared.")
    assert compare(first, write_run("c", *with_settings(tf32=True, threads=4))).agrees


def test_a_setting_that_is_changed_later_is_told_with_its_step(write_run: Callable[..., Path]) -> None:
    start = events.Configuration(0, settings={"tf32": True})
    later = events.Configuration(0, 2, settings={"tf32": False})
    made = records()
    found = compare(write_run("a", start, *made), write_run("b", start, *made[: 2 + 5 * 2], later, *made[2 + 5 * 2 :]))
    assert [(each.name, each.step) for each in found.configuration] == [("tf32", 2)]
    assert "tf32: True | False, from step 2 on" in text_of(found)


@pytest.mark.parametrize(("step", "words"), [(1, "from step 1 on: 5 | 6"), (STEPS, "from step 5 on: 5 | 6")])
def test_runs_of_which_one_calls_its_model_once_more_do_not_agree(
    step: int, words: str, write_run: Callable[..., Path]
) -> None:
    made = records()
    for number in range(STEPS):
        made.insert(2 + 6 * number, events.CallModule(1, number, module=1))
    at = 2 + 6 * step
    first, second = write_run("a", *made), write_run("b", *made[:at], events.CallModule(1, step, module=1), *made[at:])
    found = compare(first, second)
    assert (found.agrees, found.differences) == (False, [])
    assert [(each.first_step, each.calls) for each in found.calls] == [(step, [5, 6])]
    text = text_of(found)
    assert f"The number of calls differs {words}. --records shows which." in text
    assert "Their values agree after each of the 5 steps compared." in text


def test_calls_that_only_one_run_recorded_are_not_counted(write_run: Callable[..., Path]) -> None:
    def at_level(level: str) -> list[events.Event]:
        return [events.Module(1, "net", "Net", 1, level=level), *records()]

    first = write_run("a", *at_level("INFO"))
    found = compare(first, write_run("b", *at_level("DEBUG"), events.CallFunction(1, STEPS, target="torch.relu")))
    assert found.agrees
    assert "the number of calls: the runs did not record the same" in text_of(found)


@pytest.mark.parametrize("calls", [1, 100])
def test_outputs_of_modules_are_compared(calls: int, write_run: Callable[..., Path]) -> None:
    def with_outputs(last: str) -> list[events.Event]:
        made = [events.Module(1, "net", "Net", 1), *records()]
        returns = [
            events.ReturnModule(
                1, 1, 1, outputs=["float32[2]"], statistics=[Statistics(bits=last if call == calls - 1 else "aa")]
            )
            for call in range(calls)
        ]
        return [*made[: 3 + 5], *returns, *made[3 + 5 :]]

    first = write_run("a", *with_outputs("aa"))
    assert compare(first, write_run("b", *with_outputs("aa"))).agrees
    without = compare(first, write_run("d", *records()))
    assert "values of outputs: only one run recorded them (statistics=)" in without.limits
    (found,) = compare(first, write_run("c", *with_outputs("bb"))).differences
    assert (found.kind, found.name, found.first_step) == ("output", "net", 1)
    assert "The parameters agree so far: look at what went into this module" in text_of(
        compare(first, write_run("c", *with_outputs("bb")))
    )


def test_what_changes_after_the_last_step_is_compared(write_run: Callable[..., Path]) -> None:
    first = write_run("a", *records(), events.Update(1, STEPS, tensor=2, statistics=numbers(1.0), cause="in-place"))
    second = write_run("b", *records(), events.Update(1, STEPS, tensor=2, statistics=numbers(2.0), cause="in-place"))
    assert [(each.name, each.first_step) for each in compare(first, second).differences] == [("net.mean", STEPS)]


def test_traces_without_fingerprints_are_compared_by_norms_and_that_is_said(write_run: Callable[..., Path]) -> None:
    found = compare(write_run("a", *records()), write_run("b", *records()))
    assert (found.agrees, found.by_statistics) == (True, 2)
    assert "by norms   2 tensors without fingerprints in one of the traces" in text_of(found)
    made = [
        msgspec.structs.replace(event, statistics=msgspec.structs.replace(event.statistics, bits="aa"))
        if isinstance(event, (events.StateTensor, events.Update, events.Gradient)) and event.statistics
        else event
        for event in records()
    ]
    found = compare(write_run("c", *made), write_run("d", *made))
    assert (found.agrees, found.by_statistics) == (True, 0)
    assert "by norms" not in text_of(found)
