from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy_trace.events.show import EventLines, resolve, select_events
from proxy_trace.reading.selection import Selection
from proxy_trace.reading.trace import KINDS, Trace
from proxy_trace.terminal.colour import Palette
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

VALUES = events.Statistics(-0.25, 1.0, float(1 << 20))

DETAILS: list[tuple[events.Event, str]] = [
    (events.Module(9, "m.x", "Net", 9, 0, "DEBUG", 1), "Net, 1 parameter, level DEBUG"),
    (
        events.Parameter(9, "m.w", 1, "float32[3]", "cpu", True, ["m.v"], VALUES),
        "m.w = m.v: float32[3] on cpu, requires grad; min -0.25  max 1  norm 1.049e+06",
    ),
    (events.Buffer(9, "m.b", 1, "int64[]"), "m.b: int64[] on cpu; no values"),
    (
        events.OptimizerState(9, "m.w.exp_avg", 1, "float32[3]", statistics=VALUES, parameter=1, optimizer="Adam"),
        "m.w.exp_avg: float32[3] on cpu; min -0.25  max 1  norm 1.049e+06",
    ),
    (events.Location(9, "a.py", 5, "f", 1), "a.py:5 in f, called from train.py:10"),
    (events.CallModule(1, module=2, inputs=["float32[2]", "int64[]"]), "float32[2], int64[]  (eval)"),
    (events.CallModule(1, module=2, training=True), "()"),
    (
        events.ReturnModule(1, module=2, outputs=["float32[2]"], duration_us=1500, keywords={"mask": "bool[2]"}),
        "-> float32[2]  in 1.5 ms  mask=bool[2]",
    ),
    (
        events.ReturnModule(1, module=2, outputs=["float32[2]", "int64[]"], statistics=[VALUES, None]),
        "-> float32[2], int64[]  in 0 us: min -0.25  max 1  norm 1.049e+06; no values",
    ),
    (events.ReturnModule(1, module=2, raised=True, duration_us=3), "raised an exception after 3 us"),
    (
        events.Input(1, module=2, position=1, type="float32[2]", statistics=VALUES),
        "1: float32[2]: min -0.25  max 1  norm 1.049e+06",
    ),
    (events.SchedulerStep(1, id=1, scheduler="StepLR", follows="backward"), "StepLR #1, after a backward pass"),
    (events.SchedulerStep(1, id=1, scheduler="StepLR", follows="nothing"), "StepLR #1, before any step"),
    (events.Clip(1, parameters=2, gradients=1, limit=0.5), "1 gradients of 2 parameters to 0.5"),
    (events.Clip(1, parameters=2, gradients=2, is_late=True), "2 gradients of 2 parameters; after the step"),
    (
        events.Load(1, loaded=3, missing=["fc.w"], unexpected=["head.w"], strict=False),
        "3 keys; missing fc.w; unexpected head.w",
    ),
    (events.Load(1, loaded=3, is_own=True), "3 keys; its own tensors"),
    (
        events.ScalerStep(1, id=1, count=4, skipped=3, stuck=2, clipped=1, undivided=2),
        "#1: 4 steps, 3 skipped, 2 with no smaller scale, 1 with gradients clipped before, 2 without the scaler",
    ),
    (
        events.Loading(1, id=2, sampler="RandomSampler", batches=8, count=4, same_order=3),
        "#2: RandomSampler, 8 batches, iteration 4, 3 in the same order as before",
    ),
    (
        events.Loading(1, id=2, sampler="RandomSampler", workers=2, count=1, generator="rng"),
        "#2: RandomSampler, iteration 1, its 2 workers copy `rng`",
    ),
    (
        events.Loading(1, id=2, sampler="SequentialSampler", count=1, shared=3, samples=9),
        "#2: SequentialSampler, iteration 1, 3 of 9 samples are those of training",
    ),
    (
        events.Loading(1, id=2, sampler="RandomSampler", count=1, dropped=1200),
        "#2: RandomSampler, iteration 1, no batch, as it drops all 1,200 samples",
    ),
    (
        events.Loading(1, id=2, sampler="RandomSampler", count=2, shared=9, samples=9, held_out="val_loader"),
        "#2: RandomSampler, iteration 2, 9 of 9 samples are those of training, `val_loader`",
    ),
    (
        events.Loading(1, id=2, sampler="MySampler", count=4, first_only=2, given=9, same_batch=1),
        "#2: MySampler, iteration 4, 2 with only the first batch, 1 of 9 batches equal to the one before",
    ),
    (events.ActiveDropout(1, module=2, function="dropout"), "dropout, in evaluation mode"),
    (
        events.FreezeWithoutEffect(1, attribute="require_grad", tensor=1, count=2),
        "require_grad = False, model.fc.weight, 2 parameters",
    ),
    (
        events.FreezeWithoutEffect(1, attribute="requires_grad", tensor=1, count=1, unfreezes=True),
        "requires_grad = True, model.fc.weight, 1 parameter",
    ),
    (
        events.StatePattern(1, what="gradient-carried", tensor=1, values=[4, 5]),
        "the gradient of model.fc.weight was not cleared after a step by hand",
    ),
    (
        events.RateReduced(1, id=2, mode="min", never_better=True),
        "#2 lowers the rate, mode min; no value was better than the first",
    ),
    (
        events.RateWithoutEffect(1, optimizer_id=2, name="lr"),
        "`optimizer.lr` is set, and optimizer 2 does not read it",
    ),
    (
        events.StatePattern(1, what="gradient-left", tensor=1, values=[4], made=1),
        "the step of model.fc.weight has gradients that the pass at train.py:10 left",
    ),
    (
        events.ScheduleRestart(1, scheduler="LambdaLR", made=1, loaded_rate=0.01, rate=0.1, start=3),
        "LambdaLR, created at train.py:10, has set the rate from 0.01 to 0.1; the loop goes on from 3",
    ),
    (
        events.LoadedRate(1, optimizer_id=2, given_rate=0.1, rate=0.0001),
        "optimizer 2 was created with the rate 0.1, and begins with 0.0001, which was loaded",
    ),
    (
        events.StatePattern(1, what="state-is-gradient", tensor=1, name="momentum_buffer"),
        'state-is-gradient: "momentum_buffer" of model.fc.weight',
    ),
    (
        events.StatePattern(1, what="average", tensor=1, other=1, values=[0.01, 0.02, 16]),
        "model.fc.weight is an average of model.fc.weight: factors 0.01 to 0.02, in 16 steps",
    ),
    (events.GraphPattern(1, what="linear-linear", weights=[1, 1]), "linear-linear: model.fc.weight, model.fc.weight"),
    (
        events.DiscardedResult(1, function="scores.masked_fill", made=1),
        "`scores.masked_fill` at train.py:10: its result is not used",
    ),
    (
        events.SourcePattern(1, what="shuffled-apart", names=["x", "y"], made=1),
        "shuffled-apart: x; y at train.py:10",
    ),
    (events.GraphPattern(1, what="softmax", dim=0, shape=[4, 3]), "softmax over dimension 0 of [4, 3]"),
    (events.Backward(1, inputs=["float32[]"]), "backward of float32[]"),
    (events.Backward(1, inputs=["float32[]"], loss_value=0.25, loss=1), "backward of float32[] = 0.25"),
    (
        events.Loss(
            1,
            id=2,
            nodes=[
                events.LossNode("NllLossBackward0"),
                events.LossNode("LogSoftmaxBackward0", [2, 3], 0),
                events.LossNode("AddmmBackward0", [2, 3], 1, inside=True),
                events.LossNode("TBackward0", [3, 3], 2, inside=True),
            ],
        ),
        "#2: NllLoss of LogSoftmax of Addmm of the model",
    ),
    (events.BackwardEnd(1, duration_us=2), "in 2 us"),
    (
        events.Optimizer(
            1,
            id=1,
            optimizer="SGD",
            groups=[events.ParameterGroup({"lr": 0.1, "nesterov": False}, [1, 2], 1)],
            indices=[0],
        ),
        "SGD #1: group 0: lr = 0.1, nesterov = False (3 tensors)",
    ),
    (
        events.Optimizer(1, id=1, optimizer="SGD", groups=[events.ParameterGroup({"lr": 0.01})], indices=[1]),
        "SGD #1: group 1: lr = 0.01",
    ),
    (
        events.Optimizer(
            1, id=1, optimizer="SGD", groups=[events.ParameterGroup({"lr": 0.1})], indices=[0], rates=[0.1, 0.01]
        ),
        "SGD #1: group 0: lr = 0.1; created with the rates 0.1, 0.01",
    ),
    (
        events.OptimizerStep(1, optimizer="SGD", tensors=2, optimizer_id=1, carried=True),
        "SGD, 2 tensors; the last step's gradients were not cleared",
    ),
    (events.BackwardEnd(1, duration_us=2, raised=True), "raised an exception after 2 us"),
    (events.OptimizerStep(1, optimizer="SGD", tensors=2), "SGD, 2 tensors"),
    (events.OptimizerStepEnd(1, optimizer="SGD", duration_us=2), "SGD, in 2 us"),
    (
        events.OptimizerStepEnd(1, optimizer="LBFGS", duration_us=2, carried=True),
        "LBFGS, in 2 us; the last step's gradients were not cleared",
    ),
    (events.Gradient(1, tensor=1), "model.fc.weight: none"),
    (
        events.Gradient(1, tensor=1, statistics=events.Statistics("nan", "nan", "nan", 2)),
        "model.fc.weight: min nan  max nan  norm nan  non-finite 2",
    ),
    (
        events.Update(1, tensor=1, statistics=VALUES, cause="replaced", type="float32[4]"),
        "model.fc.weight (replaced) now float32[4]: min -0.25  max 1  norm 1.049e+06",
    ),
    (
        events.NonFinite(1, where="gradient", tensor=1, count=2, type="float32[3]"),
        "gradient model.fc.weight: 2 NaN or infinite elements of float32[3]",
    ),
    (events.CallFunction(1, target="torch.relu", inputs=["a"], outputs=["b"]), "torch.relu(a) -> b"),
    (
        events.CallMethod(1, target="mul_", inputs=["a", "b"], outputs=["a"], in_place=True),
        "mul_(a, b) -> a  (in place)",
    ),
    (
        events.CallMethod(1, target="__iadd__", inputs=["a", "b"], outputs=["a"], in_place=True),
        "__iadd__(a, b) -> a  (in place)",
    ),
    (
        events.CallMethod(1, target="mul_", inputs=["a"], outputs=["a"], in_place=True, statistics=[VALUES]),
        "mul_(a) -> a  (in place): min -0.25  max 1  norm 1.049e+06",
    ),
    (
        events.CallFunction(
            1, target="torch._foreach_mul_", inputs=["a", "b"], changed=[1], changed_statistics=[VALUES]
        ),
        "torch._foreach_mul_(a, b) -> (); changed b: min -0.25  max 1  norm 1.049e+06",
    ),
    (events.CallMethod(1, target="to", inputs=["a"], outputs=["a"], in_place=True), "to(a) -> a  (itself)"),
    (events.CallMethod(1, target="view", inputs=["a"], raised=True), "view(a) raised an exception"),
    (events.ReadValue(1, target="__bool__", inputs=["bool[]"], value=False), "__bool__(bool[]) = False"),
    (events.FlowStep(1, construct="while", text="x.sum() > 1", value=False), "while x.sum() > 1: False"),
    (events.FlowStep(1, construct="for", text="t in x", iterations=3), "for t in x: 3 iterations"),
    (events.ReadValue(1, target="tolist", inputs=["bool[1]"]), "tolist(bool[1])"),
    (events.GetAttr(1, target="grad", owner="model.w", value="None"), "model.w.grad -> None"),
    (
        events.GetAttr(1, target="grad", owner="model.w", value="float32[3]", statistics=VALUES),
        "model.w.grad -> float32[3]: min -0.25  max 1  norm 1.049e+06",
    ),
    (events.Configuration(1, settings={"threads": 4, "autocast.cpu": None}), "threads = 4, autocast.cpu = None"),
    (events.SetAttr(1, target="grad", owner="model.w", value="None"), "model.w.grad = None"),
    (events.DelAttr(1, target="grad", owner="model.w"), "model.w.grad"),
    (events.Problem(1, message="two\nlines"), "two lines"),
    (events.Gradient(1, tensor=1, cleared=True), "model.fc.weight (cleared): none"),
    (
        events.Gradient(1, tensor=1, statistics=VALUES, has_optimizer=False),
        "model.fc.weight (no optimizer): min -0.25  max 1  norm 1.049e+06",
    ),
    (
        events.NonFinite(1, where="loss", count=1, type="float32[]"),
        "loss: 1 NaN or infinite element of float32[]",
    ),
    (
        events.NonFinite(1, where="gradient", tensor=1, count=1, type="float32[]", operation="sqrt"),
        "gradient model.fc.weight: 1 NaN or infinite element of float32[], of sqrt",
    ),
    (events.Limit(1, max_size=2_000_000_000), "2,000,000,000 bytes: from here on, only state changes are recorded"),
    (events.RunEnd(1, reason="exception", error="ValueError"), "exception ValueError"),
]


def show(path: Path, selection: Selection | None = None) -> list[str]:
    trace = Trace.open(path)
    names = [file.names() for file in trace.files]
    lines = EventLines(names, Palette(enabled=False))
    return [lines.header(), *map(lines.line, select_events(trace, names, selection or Selection()))]


def test_events_are_lines_of_aligned_columns(small_trace: Path) -> None:
    lines = show(small_trace, Selection(["call_module", "return_module", "update", "run"], names=["model*"]))
    assert lines[:6] == [
        "      time/s    step  stage  kind                module       place        details",
        "    0.001000       0  train  call_module         model        train.py:10  float32[2, 3]",
        "    0.001010       0  train  call_module         model.fc     train.py:20  float32[2, 3]",
        "    0.001050       0  train  return_module       model.fc                  -> float32[2, 3]  in 40 us",
        "    0.001100       0  train  return_module       model                     -> float32[2, 3]  in 100 us",
        (
            "    0.001420       0  train  update              model.fc     train.py:10  "
            "model.fc.weight (step): min -0.75  max 0.5  norm 2"
        ),
    ]


def test_there_is_a_case_for_every_kind_of_event() -> None:
    assert {type(event) for event, _ in DETAILS} == set(KINDS.values()) - {events.Run}


@pytest.mark.parametrize(("event", "details"), DETAILS, ids=[type(event).__name__ for event, _ in DETAILS])
def test_details_are_readable(
    event: events.Event, details: str, tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", *small_run[:9], event)
    kind = str(event.__struct_config__.tag)
    assert show(path, Selection([kind]))[-1].endswith(f"  {details}")


def test_ids_become_names_in_records(small_trace: Path) -> None:
    trace = Trace.open(small_trace)
    names = [file.names() for file in trace.files]
    records = list(map(resolve, select_events(trace, names, Selection(["module", "update", "location"]))))
    assert records[1] == {
        "kind": "location",
        "rank": 0,
        "id": 2,
        "file": "train.py",
        "line": 20,
        "function": "Net.forward",
        "caller": {"file": "train.py", "line": 10, "function": "main"},
    }
    assert records[3] == {
        "kind": "module",
        "rank": 0,
        "id": 2,
        "name": "model.fc",
        "type": "Linear",
        "root": "model",
        "parent": "model",
        "level": "INFO",
        "parameters": 12,
        "location": {"file": "train.py", "line": 10, "function": "main"},
        "time_us": 0,
        "first": 0,
        "every": 1,
        "calls_seen": True,
        "removed": False,
        "module_of_type": "",
        "made": None,
        "settings": {},
        "repeated": 0,
    }
    update: dict[str, Any] = records[-1]
    assert (update["module"], update["tensor"], update["step"]) == ("model.fc", "model.fc.bias", 1)
    assert update["statistics"] == {
        "minimum": -1.0,
        "maximum": 0.5,
        "norm": 2.0,
        "nonfinite": 0,
        "bits": "0000000000000002",
    }
    assert records[2]["parent"] is None


def test_ranks_are_shown_together_by_time(tmp_path: Path, write_trace: WriteTrace) -> None:
    problems = [events.Problem(time, message=str(time)) for time in (100, 300)]
    write_trace(tmp_path / "0.jsonl", *problems, started="2026-11-21T08:00:00.000000+00:00")
    write_trace(tmp_path / "1.jsonl", *problems, rank=1, started="2026-11-21T08:00:00.000100+00:00")
    assert [line.split() for line in show(tmp_path, Selection(["problem"]))] == [
        ["time/s", "step", "stage", "rank", "kind", "module", "place", "details"],
        ["0.000100", "0", "train", "0", "problem", "100"],
        ["0.000200", "0", "train", "1", "problem", "100"],
        ["0.000300", "0", "train", "0", "problem", "300"],
        ["0.000400", "0", "train", "1", "problem", "300"],
    ]


def test_events_have_the_last_name_of_their_module(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "encoder", "Encoder", 1),
        events.CallModule(1, module=1),
        events.Module(2, "model", "Net", 2),
        events.Module(1, "model.encoder", "Encoder", 2, 2),
    )
    assert "model.encoder" in show(path, Selection(["call_module"], modules=["model.encoder"]))[1]
