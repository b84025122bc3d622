"""What a good run of the same script had, values aside, and another one has not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy_trace.cli import run_command
from proxy_trace.comparison.against.compare_with_good_run import compare_with_good_run
from proxy_trace.errors import NothingAlikeError, SameRunError
from proxy_trace.reading.selection import Period, StepRange
from proxy_trace.reading.trace import Trace
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy_trace.comparison.against.deviations import Deviation
    from tests.proxy_trace.conftest import WriteTrace

Run = list[events.Event]
STEPS = 5


def values(number: float) -> events.Statistics:
    return events.Statistics(-number, number, number, bits=f"{int(number * 1000):016x}")


def a_run(*, line: int = 10, factor: float = 1.0, steps: int = STEPS, rate: float = 0.1) -> Run:
    """A model of two layers that is clipped and stepped, at lines from `line` on, and evaluated in the end."""
    made: Run = [
        events.Location(1, "train.py", line, "main"),
        events.Location(2, "train.py", line + 1, "main"),
        events.Location(3, "train.py", line + 2, "main"),
        events.Location(4, "train.py", line + 3, "evaluate"),
        events.Location(5, "net.py", line + 4, "Net.__init__"),
        events.Module(1, "model", "Net", 1, location=1),
        events.Module(2, "model.a", "Linear", 1, 1, location=1, made=5, settings={"in_features": 2}),
        events.Module(3, "model.drop", "Dropout", 1, 1, location=1, made=5, settings={"p": 0.5}),
        events.Parameter(1, "model.a.weight", 2, "float32[2, 2]", requires_grad=True, statistics=values(factor)),
        events.Configuration(0, settings={"default_dtype": "float32", "seed": int(factor * 7)}),
    ]
    for step in range(steps):
        made += a_step(step, factor, rate)
    return [*made, *a_call(steps, training=False, location=4)]


def a_call(step: int, *, training: bool = True, location: int = 1) -> Run:
    common: dict[str, Any] = {"step": step, "stage": "train" if training else "eval"}
    types = ["float32[4, 2]"]
    return [
        events.CallModule(1, module=1, location=location, inputs=types, training=training, **common),
        events.CallModule(1, module=2, location=5, inputs=types, training=training, **common),
        events.ReturnModule(2, module=2, outputs=types, **common),
        events.CallModule(2, module=3, location=5, inputs=types, training=training, **common),
        events.ReturnModule(2, module=3, outputs=types, **common),
        events.ReturnModule(3, module=1, outputs=types, **common),
    ]


def a_step(step: int, factor: float, rate: float) -> Run:
    group = events.ParameterGroup({"lr": rate}, [1])
    optimizer = [events.Optimizer(4, step, location=2, id=1, optimizer="SGD", groups=[group], indices=[0], made=1)]
    clip = [events.Clip(6, step, location=2, parameters=1, gradients=1, limit=1.0)]
    return [
        *a_call(step),
        events.Backward(4, step, location=2, inputs=["float32[]"], loss_value=factor),
        *([] if step else optimizer),
        events.BackwardEnd(5, step, location=2),
        *([] if step else clip),
        events.OptimizerStep(7, step, location=3, optimizer="SGD", tensors=1, optimizer_id=1),
        events.Gradient(8, step, 2, 3, tensor=1, statistics=values(factor + step)),
        events.Update(9, step, 2, 3, tensor=1, statistics=values(factor + step + 1), version=step + 1),
        events.OptimizerStepEnd(9, step, location=3, optimizer="SGD"),
    ]


@pytest.fixture
def compare(tmp_path: Path, write_trace: WriteTrace) -> Callable[..., list[Deviation]]:
    """What a run deviates in from a good one; both end in order unless `ends` is false."""

    def compare(run: Run, good: Run, *, ends: bool = True, period: Period | None = None) -> list[Deviation]:
        here = write_trace(tmp_path / "here" / "rank0-1.jsonl", *run, ends=ends, run="here")
        there = write_trace(tmp_path / "good" / "rank0-1.jsonl", *good, ends=True, run="good")
        found = compare_with_good_run(Trace.open(here), Trace.open(there), period=period)
        return [each.deviation for each in found.deviations]

    return compare


def without(run: Run, *kinds: type) -> Run:
    return [event for event in run if not isinstance(event, kinds)]


def replaced(run: Run, kind: type, **fields: Any) -> Run:
    return [msgspec.structs.replace(event, **fields) if isinstance(event, kind) else event for event in run]


@pytest.mark.parametrize(
    "other",
    [a_run(), a_run(line=70), a_run(factor=3.0), a_run(steps=2 * STEPS)],
    ids=["the same", "lines have moved", "other values and another seed", "more steps"],
)
def test_nothing_is_said_of_runs_that_differ_in_nothing_but(
    other: Run, compare: Callable[..., list[Deviation]]
) -> None:
    assert compare(other, a_run()) == []
    assert compare(a_run(), other) == []


def test_a_call_that_is_missing_comes_first(compare: Callable[..., list[Deviation]]) -> None:
    first, *others = compare(without(a_run(line=70), events.Clip), a_run())
    assert (first.kind, first.here, first.there) == ("clip", "never", "once")
    assert (first.place, first.place_there) == ("", "train.py:11")
    assert all("comes after" in other.aspect for other in others)


def test_what_only_this_run_has_is_told_as_well(compare: Callable[..., list[Deviation]]) -> None:
    first = compare(a_run(), without(a_run(), events.Clip))[0]
    assert (first.kind, first.here, first.there, first.place) == ("clip", "once", "never", "train.py:11")


def test_a_mode_is_placed_where_this_run_calls_the_module_in_the_same_function(
    compare: Callable[..., list[Deviation]],
) -> None:
    (first, *_) = compare(replaced(a_run(line=70), events.CallModule, training=True), a_run())
    assert (first.name, first.aspect) == ("model", "mode")
    assert (first.here, first.there) == ("training", "training (5 times), evaluation (once)")
    assert (first.place, first.place_there) == ("train.py:73", "train.py:13")
    assert first.further == 2  # The layers below it.


def test_a_setting_is_told_with_the_line_that_made_what_has_it(compare: Callable[..., list[Deviation]]) -> None:
    (rate,) = compare(a_run(rate=10.0), a_run())
    assert (rate.name, rate.aspect, rate.here, rate.there) == ("of model", "lr", "10", "0.1")
    assert rate.place == "train.py:10"
    other = [
        msgspec.structs.replace(event, settings={"p": 0.9})
        if isinstance(event, events.Module) and event.type == "Dropout"
        else event
        for event in a_run()
    ]
    (p,) = compare(other, a_run())
    assert (p.name, p.aspect, p.here, p.there, p.place) == ("model.drop", "p", "0.9", "0.5", "net.py:14")


def test_of_a_module_that_is_missing_nothing_below_it_is_told(compare: Callable[..., list[Deviation]]) -> None:
    lacking = [
        event
        for event in a_run()
        if getattr(event, "module", 0) != 2 and not (isinstance(event, events.Module) and event.id == 2)
    ]
    told = compare(lacking, a_run())
    assert (told[0].kind, told[0].name, told[0].here) == ("module", "model.a", "missing")
    assert not [each for each in told[1:] if each.name.startswith("model.a")]


def test_shapes_are_told_where_they_begin_to_differ(compare: Callable[..., list[Deviation]]) -> None:
    other = replaced(a_run(), events.ReturnModule, outputs=["float32[4, 4]"])
    (shape,) = compare(other, a_run())
    assert (shape.name, shape.aspect, shape.here, shape.further) == ("model.a", "outputs", "float32[4, 4]", 2)


def test_gradients_of_the_step_before_are_told_with_their_share(compare: Callable[..., list[Deviation]]) -> None:
    (kept,) = compare(replaced(a_run(), events.OptimizerStep, carried=True), a_run())
    assert (kept.aspect, kept.here, kept.there) == ("gradients of the step before", "still there", "cleared")
    assert kept.place == "train.py:12"


def test_the_same_batch_in_each_call_is_no_value(compare: Callable[..., list[Deviation]]) -> None:
    def with_inputs(*numbers: float) -> Run:
        return a_run() + [events.Input(20, 5, 1, 1, type="float32[4, 2]", statistics=values(each)) for each in numbers]

    assert compare(with_inputs(1, 2, 3), with_inputs(4, 5, 6)) == []
    (same,) = compare(with_inputs(1, 1, 1), with_inputs(1, 2, 3))
    assert (same.aspect, same.here, same.there) == ("from call to call", "the same", "others")


def test_what_a_killed_run_had_no_time_for_is_not_missing(compare: Callable[..., list[Deviation]]) -> None:
    cut = a_run(steps=2)[: -len(a_call(0))]
    assert "clip" not in {each.kind for each in compare(cut, a_run(), ends=False)}
    assert not [each for each in compare(cut, a_run(), ends=False) if each.kind == "call"]
    assert [each.name for each in compare(cut, a_run()) if each.kind == "call"][:1] == ["model"]  # It did end.


def test_a_period_leaves_out_what_lies_outside(compare: Callable[..., list[Deviation]]) -> None:
    other = replaced(a_run(), events.Clip, is_late=True)
    assert compare(other, a_run())
    assert compare(other, a_run(), period=Period(StepRange(1, 2))) == []


def test_memory_does_not_grow_with_the_number_of_shapes(compare: Callable[..., list[Deviation]]) -> None:
    many = [
        msgspec.structs.replace(event, outputs=[f"float32[{number}]"])
        if isinstance(event, events.ReturnModule)
        else event
        for number, event in enumerate(a_run(steps=200))
    ]
    assert [each for each in compare(many, a_run(steps=200)) if each.aspect == "outputs"] == []


def test_what_cannot_be_compared_is_refused(tmp_path: Path, write_trace: WriteTrace) -> None:
    one = write_trace(tmp_path / "one" / "a.jsonl", *a_run(), ends=True)
    empty = write_trace(tmp_path / "empty" / "a.jsonl", events.Problem(1, message="no model"), ends=True)
    with pytest.raises(SameRunError):
        compare_with_good_run(Trace.open(one), Trace.open(one))
    with pytest.raises(NothingAlikeError):
        compare_with_good_run(Trace.open(one), Trace.open(empty))


class TestOnTheCommandLine:
    """`proxy-trace summary RUN --against GOOD_RUN`."""

    @pytest.fixture
    def paths(self, tmp_path: Path, write_trace: WriteTrace) -> list[str]:
        late = replaced(a_run(), events.Clip, is_late=True)
        return [
            str(write_trace(tmp_path / name / "a.jsonl", *made, ends=True, run=name))
            for name, made in (("bad", late), ("good", a_run()))
        ]

    def test_differences_are_notes_that_fail_nothing(
        self, paths: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        run, good = paths
        assert run_command(["summary", run, "--against", good, "--fail-on", "warning", "--ignore", "clip-*"]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert "note[differs-from-good-run] Differences from the good run (1)" in printed
        assert "when: after the step; in the good run before the step" in printed
        assert "good run good: 1 difference, values aside" in printed

    def test_a_run_is_not_blamed_for_being_like_the_good_one(
        self, tmp_path: Path, write_trace: WriteTrace, paths: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        again = write_trace(tmp_path / "again" / "a.jsonl", *a_run(line=40, factor=2.0), ends=True, run="again")
        assert run_command(["summary", str(again), "--against", paths[1]]) == 0
        printed = capsys.readouterr().out
        assert "differs-from-good-run" not in printed
        assert "0 differences" in printed

    def test_json_has_them_in_full(self, paths: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert run_command(["summary", paths[0], "--against", paths[1], "--format", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        ((deviation, rank),) = told["against"]["deviations"]
        assert rank == 0
        assert deviation["aspect"] == "when"
        assert deviation["place"] == "train.py:11"
        assert [each["place"] for each in told["findings"] if each["code"] == "differs-from-good-run"] == [
            "train.py:11"
        ]

    @pytest.mark.parametrize("form", ["sarif", "github"])
    def test_code_scanning_shows_them_at_their_lines(
        self, form: str, paths: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_command(["summary", paths[0], "--against", paths[1], "--format", form]) == 0
        assert "differs-from-good-run" in capsys.readouterr().out
