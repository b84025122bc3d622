"""Where two runs part first, record by record; and how far runs are compared that are not alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy_trace.cli import run_command
from proxy_trace.comparison.records.compare_records import RecordComparison, compare_records
from proxy_trace.comparison.records.records_text import record_lines
from proxy_trace.errors import NothingAlikeError, SameRunError
from proxy_trace.reading.selection import StepRange
from proxy_trace.reading.trace import Trace
from proxy_trace.reading.workers import Workers
from proxy_trace.terminal.colour import Palette
from proxy_wrapper import events
from proxy_wrapper.events import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

Run = list[events.Event]
STEPS = 3


def values(number: float) -> Statistics:
    return Statistics(-number, number, number, bits=f"{int(number * 1000):016x}")


def a_run(*, line: int = 20, root: str = "model", level: str = "DEBUG", steps: int = STEPS) -> Run:
    """A model of two layers at DEBUG; the lines of its script begin at `line`."""
    made: Run = [
        events.Location(1, "train.py", line, "main"),
        events.Location(2, "net.py", line + 1, "Net.forward", 1),
        events.Location(3, "net.py", line + 2, "Net.forward", 1),
        events.Module(1, root, "Net", 1, 0, level, location=1),
        events.Module(2, f"{root}.a", "Linear", 1, 1, level, 4, location=1),
        events.Module(3, f"{root}.b", "Linear", 1, 1, level, 4, location=1),
        events.Parameter(1, f"{root}.a.weight", 2, "float32[2, 2]", "cpu", True, statistics=values(1.0)),
        events.Parameter(2, f"{root}.b.weight", 3, "float32[2, 2]", "cpu", True, statistics=values(1.0)),
    ]
    for step in range(steps):
        made += a_step(step, root)
    return made


def a_step(step: int, root: str) -> Run:
    common: dict[str, Any] = {"step": step, "stage": "train"}
    x, types = 10 * step, ["float32[2, 2]"]
    return [
        events.CallModule(1, module=1, location=1, inputs=types, input_ids=[x + 1], **common),
        events.CallModule(2, module=2, location=2, inputs=types, input_ids=[x + 1], **common),
        events.CallFunction(
            3, module=2, location=2, target="torch.linear", inputs=[*types, f"{root}.a.weight"], input_ids=[x + 1, 0],
            outputs=types, output_ids=[x + 2], **common,
        ),
        events.ReturnModule(4, module=2, outputs=types, output_ids=[x + 2], statistics=[values(2.0)], **common),
        events.CallFunction(
            5, module=1, location=3, target="torch.relu", inputs=types, input_ids=[x + 2], outputs=types,
            output_ids=[x + 3], **common,
        ),
        events.CallModule(6, module=3, location=3, inputs=types, input_ids=[x + 3], **common),
        events.ReturnModule(7, module=3, outputs=types, output_ids=[x + 4], statistics=[values(3.0)], **common),
        events.ReturnModule(8, module=1, outputs=types, output_ids=[x + 4], statistics=[values(3.0)], **common),
        events.Backward(9, location=1, inputs=types, input_ids=[x + 4], **common),
        events.BackwardEnd(10, location=1, **common),
        events.OptimizerStep(11, location=1, optimizer="SGD", tensors=2, **common),
        events.Gradient(12, module=2, location=1, tensor=1, statistics=values(5.0), **common),
        events.Gradient(12, module=3, location=1, tensor=2, statistics=values(6.0), **common),
        events.Update(13, module=2, location=1, tensor=1, statistics=values(7.0 + step), version=1, **common),
        events.Update(13, module=3, location=1, tensor=2, statistics=values(8.0 + step), version=1, **common),
        events.OptimizerStepEnd(14, location=1, optimizer="SGD", **common),
    ]  # fmt: skip


@pytest.fixture
def write(tmp_path: Path, write_trace: WriteTrace) -> Callable[..., Path]:
    """Writes a run of one process, or a rank of a run; it ends in order unless `ends` is false."""

    def write(name: str, made: Run, rank: int = 0, *, ends: bool = True, **run: Any) -> Path:
        path = tmp_path / name / f"rank{rank}-{100 + rank}.jsonl"
        return write_trace(path, *made, ends=ends, rank=rank, run=name, pid=100 + rank, **run).parent

    return write


Compare = Any


@pytest.fixture
def compare(write: Callable[..., Path]) -> Compare:
    """Compares two runs of one process each."""

    def compare(first: Run, second: Run, **options: Any) -> RecordComparison:
        return compare_records(Trace.open(write("a", first)), Trace.open(write("b", second)), **options)

    return compare


def changed(run: Run, kind: type, at: int, **fields: Any) -> Run:
    """A run of which the `at`-th record of a kind has other fields."""
    found = [number for number, event in enumerate(run) if type(event) is kind][at]
    return [*run[:found], msgspec.structs.replace(run[found], **fields), *run[found + 1 :]]


def text_of(found: RecordComparison) -> str:
    return "\n".join(record_lines(found, Palette(enabled=False)))


def test_runs_of_two_versions_of_a_script_agree(compare: Compare) -> None:
    found = compare(a_run(line=20), a_run(line=45))
    assert (found.agrees, found.records) == (True, 2 + 16 * STEPS)
    assert "The runs agree in every record compared." in text_of(found)
    assert (found.limits, found.by_statistics) == ([], 0)


def test_another_value_is_told_with_both_lines_and_what_it_was_made_from(compare: Compare) -> None:
    other = changed(a_run(line=30), events.ReturnModule, 4, statistics=[values(3.5)])
    found = compare(a_run(), other)
    parting = found.partings[0]
    assert (parting.kind, parting.step, parting.module, parting.what) == ("value", 1, "model.b", "statistics")
    assert [str(record.place) for record in parting.records] == ["net.py:22", "net.py:32"]
    assert parting.records[0].made_from == ["float32[2, 2] of relu at net.py:22"]
    assert parting.values == ["norm 3", "norm 3.5"]
    (series,) = found.series
    assert (series.module, series.kind, series.first_step) == ("model.b", "output", 1)
    assert series.distances[0].largest == pytest.approx(0.5 / 3.5)
    assert "The runs part at step 1, in model.b: another value of return_module model.b" in text_of(found)


def test_values_with_the_same_norm_differ_by_their_bits(compare: Compare) -> None:
    same_norm = msgspec.structs.replace(values(7.0), bits="ffffffffffffffff")
    found = compare(a_run(), changed(a_run(), events.Update, 0, statistics=same_norm))
    assert found.partings[0].name == "model.a.weight"
    assert found.partings[0].values == ["bits 0000000000001b58", "bits ffffffffffffffff"]
    assert [each.largest for each in found.series[0].distances] == [0.0]
    assert "bits" in text_of(found)


def test_runs_without_fingerprints_are_compared_by_norms_and_that_is_said(compare: Compare) -> None:
    def old(run: Run) -> Run:
        encoded = msgspec.json.Encoder().encode_lines(run)
        return [
            msgspec.json.decode(line.replace(b'"bits"', b'"unknown"'), type=events.AnyEvent)
            for line in encoded.splitlines()
        ]

    found = compare(old(a_run()), a_run())
    assert (found.agrees, found.by_statistics) == (True, 2)
    assert "by norms   2 tensors without fingerprints in one of the traces" in text_of(found)
    nearly = Statistics(-7.0, 7.0, 7.0 * (1 + 2**-22))
    assert compare(old(a_run()), changed(old(a_run()), events.Update, 0, statistics=nearly)).agrees


def test_another_shape_comes_before_the_values(compare: Compare) -> None:
    other = changed(a_run(), events.ReturnModule, 0, outputs=["float32[3, 2]"], statistics=[values(9.0)])
    found = compare(a_run(), other)
    assert [(each.kind, each.what) for each in found.partings] == [("shape", "outputs")]
    assert found.partings[0].values == ["float32[2, 2]", "float32[3, 2]"]


def test_another_weight_in_the_place_of_one_is_no_shape(compare: Compare) -> None:
    other = changed(a_run(), events.CallFunction, 0, inputs=["float32[2, 2]", "model.b.weight"])
    assert compare(a_run(), other).partings[0].kind == "tensor"


def test_another_mode_is_a_circumstance(compare: Compare) -> None:
    found = compare(a_run(), changed(a_run(), events.CallModule, 0, training=True))
    assert [(each.kind, each.what, each.values) for each in found.partings] == [
        ("circumstance", "training", ["False", "True"])
    ]


def test_one_more_call_is_told_with_what_the_other_run_does_instead(compare: Compare) -> None:
    run = a_run()
    more = events.CallFunction(5, 1, module=1, location=2, target="torch.sin", inputs=["float32[2, 2]"], input_ids=[12])
    at = next(number for number, event in enumerate(run) if event == a_step(1, "model")[4])
    found = compare(run, [*run[:at], more, *run[at:]])
    (parting,) = found.partings
    assert (parting.kind, parting.only_in, parting.step, parting.name) == ("more", 1, 1, "torch.sin")
    assert [str(record.place) for record in parting.records] == ["net.py:22", "net.py:21"]
    assert [record.name for record in parting.records] == ["torch.relu", "torch.sin"]
    assert parting.records[1].made_from == ["float32[2, 2] of model.a"]
    assert "only the second run has call_function torch.sin here" in text_of(found)
    assert compare([*run[:at], more, *run[at:]], run).partings[0].only_in == 0


def test_another_call_is_told_with_both(compare: Compare) -> None:
    found = compare(a_run(), changed(a_run(), events.CallFunction, 1, target="torch.gelu"))
    (parting,) = found.partings
    assert (parting.kind, [record.name for record in parting.records]) == ("call", ["torch.relu", "torch.gelu"])
    assert found.counts == {"call": 1}
    assert "another call (torch.relu | torch.gelu)" in text_of(found)


def test_a_call_that_one_run_makes_more_often_at_its_end_is_told(compare: Compare) -> None:
    last = events.CallModule(99, STEPS, module=1, location=1, inputs=["float32[2, 2]"])
    found = compare(a_run(), [*a_run(), last])
    (parting,) = found.partings
    assert (parting.kind, parting.only_in, parting.records[0]) == ("more", 1, None)
    assert "  first   has nothing more" in text_of(found)


def test_settings_come_before_all_else(compare: Compare) -> None:
    def with_setting(value: bool, run: Run) -> Run:
        return [*run[:8], events.Configuration(1, settings={"tf32": value, "threads": 2}), *run[8:]]

    other = changed(a_run(), events.Parameter, 0, statistics=values(1.5))
    found = compare(with_setting(True, a_run()), with_setting(False, other))
    assert [each.kind for each in found.partings] == ["configuration", "value"]
    assert (found.partings[0].what, found.partings[0].values) == ("tf32", ["True", "False"])
    text = text_of(found)
    assert "The runs differ in torch's settings. They part before the first call, in model.a: another value" in text
    assert "  tf32: True | False" in text
    alone = compare(with_setting(True, a_run()), with_setting(False, a_run()))
    assert "The runs differ in torch's settings alone" in text_of(alone)
    assert not alone.agrees


def test_a_setting_that_only_one_run_changes_later_is_told(compare: Compare) -> None:
    run = a_run()
    settings = [events.Configuration(1, settings={"tf32": True})]
    later = events.Configuration(1, 2, settings={"tf32": False})
    found = compare([*settings, *run], [*settings, *run[:-16], later, *run[-16:]])
    (parting,) = found.partings
    assert (parting.kind, parting.what, parting.values, parting.step) == (
        "configuration",
        "tf32",
        ["True", "False"],
        2,
    )


def test_a_run_that_was_killed_is_compared_as_far_as_it_came(write: Callable[..., Path]) -> None:
    whole = a_run()
    found = compare_records(Trace.open(write("a", whole)), Trace.open(write("b", whole[: -STEPS * 4 - 1], ends=False)))
    assert found.agrees
    assert found.limits == [
        "13 records of the first run, from step 2: the second run ended there (killed, or still running)"
    ]
    assert "not compared: 13 records of the first run" in text_of(found)


def test_a_run_that_trained_longer_agrees_as_far_as_the_other_went(compare: Compare) -> None:
    found = compare(a_run(), a_run(steps=STEPS + 2))
    assert found.agrees
    assert found.limits == ["32 records of the second run, from step 3: the first run ended there (exit)"]


def test_a_run_recorded_at_info_is_compared_in_what_info_has(compare: Compare) -> None:
    of_info = [event for event in a_run(level="INFO") if not isinstance(event, events.CallFunction)]
    found = compare(a_run(), of_info)
    assert (found.agrees, found.records) == (True, 2 + 14 * STEPS)
    assert found.limits == [
        "what only one run recorded, at its higher level: calls of torch functions, attributes, values read"
    ]
    assert not compare(a_run(), changed(of_info, events.Update, 3, statistics=values(0.5))).agrees


def test_renamed_modules_are_taken_for_each_other_and_that_is_said(compare: Compare) -> None:
    found = compare(a_run(), a_run(root="net"))
    assert (found.agrees, found.renamed) == (True, [("model", "net")])
    assert "matched by position: model | net" in text_of(found)
    other = changed(a_run(root="net"), events.Update, 2, statistics=values(0.5))
    parting = compare(a_run(), other).partings[0]
    assert (parting.name, [record.name for record in parting.records]) == (
        "model.a.weight",
        ["model.a.weight", "net.a.weight"],
    )


def test_ranks_are_compared_with_their_like(write: Callable[..., Path]) -> None:
    for rank in range(2):
        first = write("a", a_run(), rank)
        second = write("b", changed(a_run(), events.Gradient, 3, statistics=values(9.0)) if rank else a_run(), rank)
    write("b", a_run(), 2)
    found = compare_records(Trace.open(first), Trace.open(second))
    assert [(each.rank, each.kind, each.name, each.step) for each in found.partings] == [
        (1, "value", "model.b.weight", 1)
    ]
    assert found.limits == ["rank 2: only the second run has it"]
    with Workers(2) as workers:
        again = compare_records(Trace.open(first), Trace.open(second), workers=workers)
    assert msgspec.to_builtins(again) == msgspec.to_builtins(found)


def test_a_thread_of_its_own_is_compared_with_its_like(compare: Compare) -> None:
    def in_thread(number: int, run: Run) -> Run:
        return [
            msgspec.structs.replace(event, thread=number) if isinstance(event, events.CallFunction) else event
            for event in run
        ]

    assert compare(in_thread(4711, a_run()), in_thread(815, a_run())).records == 2 + 16 * STEPS
    other = changed(in_thread(815, a_run()), events.CallFunction, 1, target="torch.gelu")
    assert compare(in_thread(4711, a_run()), other).partings[0].kind == "call"


def test_several_threads_are_not_compared_and_that_is_said(compare: Compare) -> None:
    extra = [events.CallFunction(99, STEPS, thread=number, target="torch.ones") for number in (7, 8)]
    found = compare([*a_run(), *extra], [*a_run(), *reversed(extra)])
    assert found.agrees
    assert found.limits == ["records of threads other than the main one: these threads cannot be matched"]


def test_other_sampling_is_compared_in_the_steps_that_both_recorded(compare: Compare) -> None:
    def sampled(run: Run) -> Run:
        every = [
            msgspec.structs.replace(event, every=2) if isinstance(event, events.Module) else event for event in run
        ]
        return [event for event in every if not isinstance(event, events.Happening) or event.step % 2 == 0]

    found = compare(a_run(), sampled(a_run()))
    assert (found.agrees, found.records) == (True, 2 + 16 * 2)
    assert found.limits == ["steps that only one run recorded (first=, every=)"]


def test_steps_and_names_may_be_chosen(compare: Compare) -> None:
    other = changed(a_run(), events.Gradient, 1, statistics=values(9.0))
    assert not compare(a_run(), other).agrees
    assert compare(a_run(), other, steps=StepRange(1, None)).agrees
    assert compare(a_run(), other, is_chosen="model.a.weight".__eq__).agrees
    assert not compare(a_run(), other, is_chosen="model.b.weight".__eq__).agrees


def test_one_run_is_not_compared_with_itself(write: Callable[..., Path]) -> None:
    path = write("a", a_run())
    with pytest.raises(SameRunError):
        compare_records(Trace.open(path), Trace.open(path.parent))


def test_runs_with_nothing_alike_are_refused(compare: Compare) -> None:
    with pytest.raises(NothingAlikeError):
        compare(a_run(), a_run(), steps=StepRange(99, None))


def test_the_command_says_by_its_exit_code_whether_runs_agree(
    write: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = write("a", a_run()), write("b", a_run(line=99))
    other = write("c", changed(a_run(), events.CallFunction, 1, target="torch.gelu"))
    assert run_command(["compare", str(first), str(second), "--records"]) == 0
    assert run_command(["compare", str(first), str(other), "--records"]) == 1
    capsys.readouterr()
    assert run_command(["compare", str(first), str(other), "--records", "--format", "json"]) == 1
    found = msgspec.json.decode(capsys.readouterr().out)
    assert found["partings"][0]["records"][1]["place"]["line"] == 22
    assert run_command(["compare", str(first), str(other), "--records", "--baseline"]) == 2
    assert run_command(["compare", str(first)]) == 2
    assert run_command(["compare", str(first), str(second), str(other)]) == 2


def test_addresses_are_no_values(compare: Compare) -> None:
    def reading(target: str, value: int) -> Run:
        return [*a_run(), events.ReadValue(99, STEPS, target=target, inputs=["float32[2, 2]"], value=value)]

    assert compare(reading("data_ptr", 140_000), reading("data_ptr", 150_000)).agrees
    found = compare(reading("item", 140_000), reading("item", 150_000))
    assert [(each.kind, each.what, each.values) for each in found.partings] == [
        ("value", "value", ["140000", "150000"])
    ]


def test_lines_that_are_no_records_are_told(write: Callable[..., Path]) -> None:
    first = write("a", a_run())
    second = write("b", a_run())
    (file,) = second.iterdir()
    file.write_bytes(file.read_bytes() + b"broken\n{}\n")
    found = compare_records(Trace.open(first), Trace.open(second))
    assert found.agrees
    assert found.limits == ["2 lines of the second run that are not records of this version"]


def test_calls_moved_within_a_step_are_in_another_order(compare: Compare) -> None:
    def in_order(*names: str) -> Run:
        calls: Run = []
        for number, name in enumerate(names):
            calls += [
                events.CallFunction(number, 1, location=number % 3 + 1, target=f"torch.{name}{part}")
                for part in range(6)
            ]
        return [*a_run(), *calls]

    found = compare(in_order("a", "b", "c"), in_order("b", "a", "c"))
    assert [(each.kind, each.name) for each in found.partings] == [("order", "torch.b0")]
    assert [str(record.place) for record in found.partings[0].records] == ["net.py:21", "train.py:20"]
    assert found.counts == {"order": 6}


def test_a_gradient_is_made_by_a_backward_pass_and_an_update_by_a_step(compare: Compare) -> None:
    other = changed(a_run(), events.Gradient, 2, statistics=values(5.5))
    gradient = compare(a_run(), other).partings[0]
    assert [record.made_from for record in gradient.records] == [
        ["backward at train.py:20", "float32[2, 2] of model.b"]
    ] * 2
    update = compare(a_run(), changed(a_run(), events.Update, 2, statistics=values(0.5))).partings[0]
    assert [record.made_from for record in update.records] == [
        ["a step of SGD at train.py:20", "a gradient of norm 5.0"]
    ] * 2


def test_values_that_only_one_run_recorded_are_not_compared_and_that_is_said(compare: Compare) -> None:
    without = [
        msgspec.structs.replace(event, statistics=None) if isinstance(event, events.ReturnModule) else event
        for event in a_run()
    ]
    found = compare(a_run(), without)
    assert found.agrees
    assert found.limits == ["values of outputs, calls and attributes that only one run recorded (statistics=)"]


def test_other_settings_of_an_optimizer_are_told_and_the_ids_of_its_parameters_are_not_compared(
    compare: Compare,
) -> None:
    def with_rate(rate: float, tensor: int) -> Run:
        groups = [events.ParameterGroup({"lr": rate}, [tensor])]
        return [*a_run(), events.Optimizer(99, STEPS, id=1, optimizer="SGD", groups=groups)]

    assert compare(with_rate(0.1, 1), with_rate(0.1, 2)).agrees
    (parting,) = compare(with_rate(0.1, 1), with_rate(0.2, 1)).partings
    assert (parting.kind, parting.name, parting.what) == ("circumstance", "SGD", "groups")
    assert parting.values == ["{'lr': 0.1}", "{'lr': 0.2}"]
