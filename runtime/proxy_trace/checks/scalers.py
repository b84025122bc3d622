"""Checks that the gradient scalers of mixed precision step, and that clipping and steps come after unscaling.

A scaler multiplies the loss so that small gradients do not vanish in half precision, and divides the gradients before
the step. It skips a step with non-finite gradients, and lowers the scale in `update()`. A few skips at the start are
normal.

| the scaler | code |
| --- | --- |
| skipped three steps, none with a smaller scale than the previous skip | scaler-skips-steps |
| is one of three created at one place for one optimizer, which all skipped steps | \
scaler-skips-steps |
| skipped at least 32 steps, and more than half of all | scaler-skips-steps |
| divided gradients that had been clipped since the backward pass, in two steps | clip-before-unscale |
| scaled a loss, and the optimizer stepped twice with the gradients as they were | step-before-unscale |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR, WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.acts_summary import ScalerSummary
    from proxy_trace.process.process_summary import ProcessEvidence

SKIPS: Final = Rule(
    "scaler-skips-steps",
    WARNING,
    "Gradient scalers that skip steps",
    "A gradient scaler found non-finite gradients and skipped the step: three times without a smaller scale than the "
    "time before, so nothing lowers it; or at least 32 times, and in more than half of all steps. Or several scalers "
    "were created one after another for one optimizer, and each starts with its initial scale, which is too large.",
    "Create one scaler before the loop, and call `scaler.update()` without arguments after each `scaler.step()`. If "
    "the scale keeps falling, look for the first non-finite value.",
    "show {run} --kind scaler_step",
    sources=("https://docs.pytorch.org/docs/stable/notes/amp_examples.html",),
    explains=("no-effect", "never-updated", "accumulation-never-stepped", "backward-without-step"),
)
BEFORE_UNSCALE: Final = Rule(
    "clip-before-unscale",
    ERROR,
    "Gradients clipped while they are scaled",
    "In at least two steps, gradients were clipped after the backward pass but before the scaler divided them by its "
    "scale, which was not 1: the limit was applied to gradients that were larger by that factor.",
    "Call `scaler.unscale_(optimizer)` before clipping.",
    "show {run} --kind clip,scaler_step",
    sources=("https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping",),
)

AROUND: Final = Rule(
    "step-before-unscale",
    ERROR,
    "Steps with gradients that are scaled",
    "A scaler multiplied the loss by its scale, which was not 1. The optimizer then stepped, at least twice, by "
    "`optimizer.step()`, with gradients that were larger by that factor, and a step with non-finite gradients would "
    "not have been skipped. Files that read the scale, perhaps to divide by it, are not reported.",
    "Step with the scaler, and let it adapt: `scaler.step(optimizer)`, then `scaler.update()`.",
    "show {run} --kind scaler_step",
    sources=("https://github.com/IAHispano/Applio/pull/860",),
)

_STUCK: Final = 3
_MANY: Final = 32
"""This many skips reduce the largest initial scale to less than 1."""
_FEWEST_SCALERS: Final = 3


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process in evidence.of_processes:
        scalers = of_process.acts.scalers.values()
        is_any |= bool(scalers)
        for scaler in scalers:
            findings += _of_scaler(scaler, of_process)
        findings += _made_anew(of_process)
    return Sight(findings, evidence.sampling_words) if is_any else None


def _of_scaler(scaler: ScalerSummary, of_process: ProcessEvidence) -> list[Finding]:
    """The findings about one scaler with one optimizer."""
    last, rank = scaler.last, [of_process.process.rank]
    optimizer = of_process.training.optimizers.get(scaler.optimizer)
    name = "GradScaler" if optimizer is None else f"GradScaler of {optimizer.name}"
    found = []
    numbers = [f"{last.skipped:,} of the first {last.count:,} steps"]
    if last.stuck >= _STUCK:
        reason = "it skipped steps, and its scale was not lowered"
        found.append(SKIPS.finding(name, reason, rank, step=last.step, place=scaler.place, evidence=numbers))
    elif last.skipped >= _MANY and last.skipped * 2 > last.count:
        found.append(SKIPS.finding(name, "it skipped most steps", rank, place=scaler.place, evidence=numbers))
    if last.undivided >= 2:
        numbers = [f"in at least {last.undivided:,} steps"]
        reason = "it stepped with gradients that were still multiplied by the scale"
        optimizer_name = "optimizer" if optimizer is None else optimizer.name
        found.append(AROUND.finding(optimizer_name, reason, rank, place=scaler.place, evidence=numbers))
    if last.clipped >= 2:
        numbers = [f"in at least {last.clipped:,} steps"]
        reason = "gradients were clipped before they were divided by the scale"
        found.append(BEFORE_UNSCALE.finding("clipping", reason, rank, place=scaler.clip_place, evidence=numbers))
    return found


def _made_anew(of_process: ProcessEvidence) -> list[Finding]:
    """The findings about scalers that were created repeatedly for one optimizer."""
    alike: dict[tuple[int, str], list[ScalerSummary]] = {}
    for scaler in of_process.acts.scalers.values():
        if scaler.optimizer and scaler.made and scaler.last.skipped:
            alike.setdefault((scaler.optimizer, scaler.made), []).append(scaler)
    return [
        SKIPS.finding(
            "GradScaler",
            "created repeatedly, and each skips its first steps",
            [of_process.process.rank],
            place=made,
            evidence=[f"{len(scalers):,} scalers skipped steps"],
        )
        for (_, made), scalers in alike.items()
        if len(scalers) >= _FEWEST_SCALERS
    ]


CHECK: Final = Check("scalers", "gradient scalers stepped", _look, (SKIPS, BEFORE_UNSCALE, AROUND))
"""Applies if a scaler skipped a step, or divided clipped gradients, or if a step was taken without it."""
