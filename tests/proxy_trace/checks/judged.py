"""What a summary says of a trace, and the values that hand-made traces are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize
from proxy_wrapper import events
from proxy_wrapper.events import Statistics

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_trace.checks.check import Check, CheckResult
    from proxy_trace.checks.finding import Finding

STEP = events.OptimizerStepEnd(100, optimizer="SGD")
VALUES = Statistics(-1.0, 1.0, 2.0, bits="00000000000000aa")
OTHER_VALUES = Statistics(-1.0, 1.0, 2.0, bits="00000000000000bb")
"""Other than `VALUES`, though minimum, maximum and norm are the same."""

NET = events.Module(1, "model", "Net", 1)
CALLS = (events.CallModule(1, module=1, training=True), events.ReturnModule(2, module=1))
BACKWARD = (events.Backward(3, inputs=["float32[]"]), events.BackwardEnd(4))


def weight(id_: int = 1, name: str = "model.w", module: int = 1) -> events.Parameter:
    """A trainable parameter that starts with `VALUES`."""
    return events.Parameter(id_, name, module, "float32[2]", requires_grad=True, statistics=VALUES)


def find(path: Path, *checks: Check) -> list[Finding]:
    """What is found in a run; by some checks alone, if they are given, so that others explain nothing away."""
    return summarize(Trace.open(path), checks=checks or None).findings


def of_code(path: Path, kind: str, *checks: Check) -> list[tuple[str, str]]:
    """The names and reasons of the findings of a kind."""
    return [(finding.name, finding.reason) for finding in find(path, *checks) if finding.code == kind]


def check(path: Path, name: str) -> CheckResult:
    """What the check called `name` says of a run."""
    return next(result for result in summarize(Trace.open(path)).checks if result.name == name)


def said(path: Path, name: str) -> tuple[str, list[str]]:
    """The state of a check, and what it did not look at."""
    result = check(path, name)
    return result.state, result.unseen
