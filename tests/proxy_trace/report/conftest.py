"""A run to be drawn: three hundred steps, with a spike, losses, rates, and calls."""

from __future__ import annotations

from typing import Any

from proxy_wrapper import events

STEPS = 300
SPIKE = 123


def norm_at(step: int) -> float:
    """The norm of the weight after a step: anything with many digits, and a spike."""
    return 1000.5 if step == SPIKE else 2.0 + (step * 37 % 101) / 1024


def gradient_at(step: int) -> float:
    return 0.5 + (step * 53 % 97) / 512


def loss_at(step: int) -> float:
    return 3.0 / (step + 1)


def rate_at(step: int) -> float:
    return 0.5 if step < 100 else 0.125


def drawn_records(
    name: str = "model", file: str = "train.py", steps: int = STEPS, momentum: float = 0.0
) -> list[events.Event]:
    """The records of the run, whose model, script and functions are called as asked for."""
    settings: dict[str, Any] = {"lr": rate_at(0), "momentum": momentum, "dampening": 0, "weight_decay": 0}
    settings["nesterov"] = False
    start = events.Statistics(-0.5, 0.5, 2.0, bits="00000000000000aa")
    records: list[events.Event] = [
        events.Location(1, file, 4, "main"),
        events.Location(2, file, 5, "main"),
        events.Location(3, file, 6, "main"),
        events.Module(1, name, "Net", 1, 0, "INFO", 12, 1),
        events.Module(2, f"{name}.fc", "Linear", 1, 1, "INFO", 12, 1),
        events.Parameter(1, f"{name}.fc.weight", 2, "float32[3, 3]", "cpu", True, statistics=start),
        events.Buffer(2, f"{name}.mean", 1, "float32[3]", "cpu", statistics=start),
        events.Optimizer(0, 0, 0, 3, id=1, optimizer="SGD", groups=[events.ParameterGroup(settings, [1])], indices=[0]),
    ]
    for step in range(steps):
        t = 1000 * (step + 1)
        if step == 100:
            changed = events.ParameterGroup({"lr": rate_at(step)})
            records.append(events.Optimizer(t, step, id=1, optimizer="SGD", groups=[changed], indices=[0]))
        gradient = events.Statistics(-1.0, 1.0, gradient_at(step), bits=f"{step + 7000:016x}")
        moved = events.Statistics(-0.5 - step / 1024, 0.5, norm_at(step), bits=f"{step + 1:016x}")
        records += [
            events.CallModule(t, step, 1, 1, inputs=["float32[2, 3]"], training=True),
            events.CallModule(t + 10, step, 2, 2, inputs=["float32[2, 3]"], training=True),
            events.ReturnModule(t + 50, step, 2, outputs=["float32[2, 3]"], duration_us=40),
            events.ReturnModule(t + 100, step, 1, outputs=["float32[2, 3]"], duration_us=100),
            events.Backward(t + 200, step, location=2, inputs=["float32[]"], loss_value=loss_at(step), loss=1),
            events.BackwardEnd(t + 300, step, location=2, duration_us=100),
            events.OptimizerStep(t + 400, step, location=3, optimizer="SGD", tensors=1, optimizer_id=1),
            events.Gradient(t + 410, step, 2, 3, tensor=1, statistics=gradient),
            events.Update(t + 420, step, 2, 3, tensor=1, statistics=moved, version=step + 1),
            events.OptimizerStepEnd(t + 430, step, location=3, optimizer="SGD", duration_us=30),
        ]
    return records
