"""Learning rate schedulers are advanced when they should be.

Since PyTorch 1.1 a scheduler is advanced behind the optimizer's step: before it, the first rate of the schedule is
never used. And a schedule that counts epochs, advanced with every batch, is at its end before the training has begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.training_summary import OptimizerSummary, SchedulerSummary

BEFORE_OPTIMIZER: Final = Rule(
    "scheduler-before-optimizer",
    WARNING,
    "Schedulers advanced before the first step",
    "A scheduler was advanced before its optimizer had stepped: once before any backward pass, or every time between "
    "the backward pass and the step. Steps that a gradient scaler skips at the start, and schedules that are "
    "fast-forwarded when a run is resumed, are not reported.",
    "Call `scheduler.step()` after `optimizer.step()`.",
    "show {run} --kind scheduler_step,optimizer_step",
    sources=("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",),
)
DECAYS_PER_BATCH: Final = Rule(
    "learning-rate-decays-per-batch",
    WARNING,
    "Learning rates that decay too early",
    "In more than half of an optimizer's steps, and at least 20, every learning rate was below a hundredth of its "
    "maximum, and it had been lowered at least once in eight steps. Schedules that are meant to be advanced per step "
    "only reach such a small rate at their end.",
    "Advance a schedule that counts epochs once per epoch, or configure it for the number of batches times the number "
    "of epochs.",
    "show {run} --kind optimizer,scheduler_step",
    sources=("https://discuss.pytorch.org/t/scheduler-step-after-each-epoch-or-after-each-minibatch/111249",),
)

_FEWEST_STEPS: Final = 20
_STEPS_OF_ONE_RATE: Final = 8


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    is_any = False
    for of_process in evidence.of_processes:
        training, rank = of_process.training, [of_process.process.rank]
        is_any |= bool(training.optimizers)
        for number, optimizer in training.optimizers.items():
            if _has_decayed(optimizer):
                own = [each for each in training.schedulers.values() if each.optimizer == number and each.advances]
                place = own[-1].advances[-1][2] if own else optimizer.origin
                rates = [f"{group.largest_rate:.3g} to {group.last_rate:.3g}" for group in optimizer.groups[:1]]
                numbers = [f"in {optimizer.decayed:,} of {optimizer.steps:,} steps", *rates]
                reason = "its learning rate was less than a hundredth of the largest"
                findings.append(DECAYS_PER_BATCH.finding(optimizer.name, reason, rank, place=place, evidence=numbers))
        for scheduler in training.schedulers.values():
            if _is_early(scheduler):
                reason = "advanced before its optimizer had stepped"
                place = scheduler.advances[0][2]
                findings.append(BEFORE_OPTIMIZER.finding(scheduler.name, reason, rank, place=place))
    if not is_any:
        return Sight((), evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings, evidence.sampling_words)


def _has_decayed(optimizer: OptimizerSummary) -> bool:
    """Whether an optimizer made most of its steps with next to no learning rate, after it was lowered often."""
    rates = max((group.rates for group in optimizer.groups), default=0)
    return (
        optimizer.steps >= _FEWEST_STEPS
        and optimizer.decayed * 2 > optimizer.steps
        and rates * _STEPS_OF_ONE_RATE >= optimizer.steps
        and optimizer.steps_at_zero * 2 <= optimizer.steps
    )


def _is_early(scheduler: SchedulerSummary) -> bool:
    """Whether a scheduler was advanced before its optimizer had stepped, and not as a gradient scaler has it."""
    if not scheduler.advances or scheduler.advances[0][0] or scheduler.advances[0][1] == "step":
        return False
    following = scheduler.advances[1:]
    if scheduler.advances[0][1] == "nothing" and not scheduler.followed_passes:
        return bool(following) and following[0][0] == 1  # Of more, it was wound on.
    return all(follows == "backward" for _, follows, _ in following)


CHECK: Final = Check(
    "schedulers", "schedulers are advanced when they should be", _look, (BEFORE_OPTIMIZER, DECAYS_PER_BATCH)
)
