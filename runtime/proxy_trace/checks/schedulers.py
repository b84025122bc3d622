"""Checks that learning rate schedulers are advanced when they should be.

Since PyTorch 1.1, a scheduler is advanced after the optimizer's step; before it, the first rate of the schedule is
skipped. A schedule of epochs that is advanced with every batch ends almost at once, and a schedule of batches that is
advanced with every epoch never ends.

| the scheduler | code |
| --- | --- |
| was advanced before its optimizer had stepped | scheduler-before-optimizer |
| has reduced the rate to a hundredth for most steps | learning-rate-decays-per-batch |
| rises and falls with a period of less than an epoch | cosine-schedule-repeats |
| was created for as many advances as there were steps, and got at most a quarter of them | schedule-not-finished |
| continues while another optimizer trains the parameters of its own | scheduler-of-old-optimizer |
| treats a score as a loss, or the other way round | plateau-of-other-mode |
| multiplies the rate by the rate | learning-rate-squared |
| was created when training resumed, and began anew | schedule-restarts |
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule
from proxy_trace.terminal.units import format_number

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence
    from proxy_trace.process.training_summary import (
        OptimizerSummary,
        PlateauSummary,
        RestartSummary,
        SchedulerSummary,
    )

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

REPEATS: Final = Rule(
    "cosine-schedule-repeats",
    WARNING,
    "Cosine schedules that rise again within an epoch",
    "A `CosineAnnealingLR` was advanced with the steps of its optimizer, and reached the end of its half period, "
    "`T_max`, at least four times. `T_max` is less than the number of batches in an iteration over the data, or about "
    "the number of such iterations: it counts epochs. After `T_max`, the rate rises again.",
    "Set `T_max=epochs * len(loader)`, or advance it once per epoch.",
    "show {run} --kind optimizer,scheduler_step",
    sources=("https://discuss.pytorch.org/t/scheduler-step-after-each-epoch-or-after-each-minibatch/111249",),
)
NOT_FINISHED: Final = Rule(
    "schedule-not-finished",
    WARNING,
    "Schedules that are advanced too rarely",
    "A scheduler was created for exactly as many advances as its optimizer made steps (`total_steps`, `T_max` or "
    "`total_iters`), and was advanced at most a quarter as often: the run ends near the start of the schedule, for "
    "`OneCycleLR` in its warm-up.",
    "Call `scheduler.step()` after each `optimizer.step()`; or create the schedule for the number of epochs.",
    "show {run} --kind optimizer,scheduler_step",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.OneCycleLR.html",),
)
OTHER_MODE: Final = Rule(
    "plateau-of-other-mode",
    WARNING,
    "Plateaus with the wrong mode",
    "A `ReduceLROnPlateau` has lowered the rate, and no value that it received was better than the first, by its "
    '`mode`. Its mode is "min", the default, and the line that passes the value names a score (`acc`, `f1`, `auc`, '
    '`iou`, ...) and no loss; or it is "max", and the line names a loss and no score.',
    'Pass `mode="max"` to the scheduler for a value that should rise.',
    "show {run} --kind rate_reduced,optimizer",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ReduceLROnPlateau.html",),
)
OF_OLD_OPTIMIZER: Final = Rule(
    "scheduler-of-old-optimizer",
    WARNING,
    "Schedulers of optimizers that no longer step",
    "A scheduler was advanced repeatedly after the last step of its optimizer, or although that never stepped. Another "
    "optimizer with the same parameters steps instead, and has no scheduler, so its rate stays the same.",
    "Create a new scheduler for the new optimizer.",
    "show {run} --kind optimizer,scheduler_step",
)

SQUARED: Final = Rule(
    "learning-rate-squared",
    WARNING,
    "Learning rates that are multiplied by themselves",
    "The largest learning rate of an optimizer in the run was the square of the one that it was created with, the same "
    "for all its groups and at most 0.2. It has a `LambdaLR`, whose function, or one that it calls, reads a name such "
    "as `base_lr`: the function returns the rate itself, but PyTorch multiplies the rate by what it returns.",
    "Return a factor, 1 for the full rate. Or create the optimizer with `lr=1.0`.",
    "show {run} --kind optimizer,scheduler_step",
    sources=("https://github.com/pytorch/pytorch/issues/78917", "https://github.com/lhoyer/MIC/issues/60"),
    explains=("update-too-small", "never-updated"),
)

RESTARTS: Final = Rule(
    "schedule-restarts",
    WARNING,
    "Schedules that begin anew when training resumes",
    "Before an optimizer made its first step in this process, its state had been loaded: its rate was another one than "
    "that from which the schedule starts. Its first scheduler was created after that, with `last_epoch=-1`, and set "
    "the rate back. At the first step the rate was still that one, and the scheduler at its start, so that no state of "
    "its own had been loaded; and a loop around the step, `range(start, ...)`, goes on from a later epoch.",
    "Save and load the scheduler, too: create it before `optimizer.load_state_dict(...)`, and call "
    "`scheduler.load_state_dict(...)`; or create it with `last_epoch=start - 1`.",
    "show {run} --kind schedule_restart,optimizer",
    sources=(
        "https://github.com/ultralytics/yolov5/issues/292",
        "https://github.com/torch-points3d/torch-points3d/pull/630",
    ),
)

_FEWEST_STEPS: Final = 20
_FEWEST_REPEATS: Final = 4
_SELDOM: Final = 4
_PARTS: Final = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")
_SCORES: Final = frozenset(
    {"acc", "accuracy", "acc1", "top1", "f1", "auc", "auroc", "iou", "miou", "dice", "map", "bleu", "psnr", "ssim"}
    | {"recall", "precision", "r2", "reward", "correct"}
)
_LOSSES: Final = frozenset({"loss", "losses", "err", "error", "mse", "mae", "rmse", "nll", "perplexity", "ppl"})
"""Parts of names that show whether a value should rise or fall."""

_HORIZONS: Final = ("total_steps", "T_max", "total_iters")
"""The attributes with the number of advances that a schedule is created for."""

_STEPS_OF_ONE_RATE: Final = 8
_RATE: Final = re.compile(r"(.*_)?(lr|learning_?rate)0?|lr_(max|min|base|init|peak|start)", re.IGNORECASE)
_LARGEST_SQUARED: Final = 0.2
"""A larger rate is often created as a factor, such as 0.5 or 1, for a function that returns the rate."""
_ROUNDING: Final = 1e-6


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    is_any = False
    for of_process in evidence.of_processes:
        training, rank = of_process.training, [of_process.process.rank]
        is_any |= bool(training.optimizers)
        for number, optimizer in training.optimizers.items():
            if _has_decayed(optimizer):
                own = training.schedulers_of(number)
                place = own[-1].advances[-1][2] if own else optimizer.origin
                rates = [f"{group.largest_rate:.3g} to {group.last_rate:.3g}" for group in optimizer.groups[:1]]
                numbers = [f"in {optimizer.decayed:,} of {optimizer.steps:,} steps", *rates]
                reason = "its learning rate was below a hundredth of its maximum"
                findings.append(DECAYS_PER_BATCH.finding(optimizer.name, reason, rank, place=place, evidence=numbers))
        findings += [_of_restart(each, of_process) for each in training.restarts]
        findings += [_of_plateau(each, of_process) for each in training.plateaus.values() if _is_of_other_mode(each)]
        for scheduler in training.schedulers.values():
            if _is_early(scheduler):
                reason = "advanced before its optimizer had stepped"
                place = scheduler.advances[0][2]
                findings.append(BEFORE_OPTIMIZER.finding(scheduler.name, reason, rank, place=place))
            found = _repeats(scheduler, of_process) or _not_finished(scheduler, of_process)
            found = found or _of_old_optimizer(scheduler, of_process) or _squared(scheduler, of_process)
            if found is not None:
                findings.append(found)
    if not is_any:
        return Sight((), evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings, evidence.sampling_words)


def _has_decayed(optimizer: OptimizerSummary) -> bool:
    """Whether an optimizer made most steps with a tiny learning rate that had been lowered often."""
    rates = max((group.rates for group in optimizer.groups), default=0)
    return (
        optimizer.steps >= _FEWEST_STEPS
        and optimizer.decayed * 2 > optimizer.steps
        and rates * _STEPS_OF_ONE_RATE >= optimizer.steps
        and optimizer.steps_at_zero * 2 <= optimizer.steps
    )


def _is_early(scheduler: SchedulerSummary) -> bool:
    """Whether a scheduler was advanced before its optimizer had stepped, except because of a gradient scaler."""
    if not scheduler.advances or scheduler.advances[0][0] or scheduler.advances[0][1] == "step":
        return False
    if scheduler.followed_steps:
        return False  # The backward passes since then may have been another optimizer's.
    following = scheduler.advances[1:]
    if scheduler.advances[0][1] == "nothing" and not scheduler.followed_passes:
        return bool(following) and following[0][0] == 1  # After more, it was fast-forwarded.
    return all(follows == "backward" for _, follows, _ in following)


def _repeats(scheduler: SchedulerSummary, of_process: ProcessEvidence) -> Finding | None:
    """The finding if a cosine schedule's half period counts epochs, but it is advanced with every batch."""
    half = scheduler.settings.get("T_max")
    optimizer = of_process.training.optimizers.get(scheduler.optimizer)
    if scheduler.name != "CosineAnnealingLR" or type(half) is not int or half < 1 or optimizer is None:
        return None
    if scheduler.count < _FEWEST_REPEATS * half or scheduler.most < optimizer.steps:
        return None
    loaders = [each.last for each in of_process.acts.loaders.values() if each.last.trains and each.last.batches > 1]
    if not any(half < each.batches or each.count <= half < each.count * 2 for each in loaders):
        return None
    numbers = [f"T_max {half:,}", f"advanced at least {scheduler.count:,} times in {optimizer.steps:,} steps"]
    reason = f"its rate falls and rises every {2 * half:,} batches"
    place, rank = scheduler.made or scheduler.advances[-1][2], [of_process.process.rank]
    return REPEATS.finding(scheduler.name, reason, rank, place=place, evidence=numbers)


def _not_finished(scheduler: SchedulerSummary, of_process: ProcessEvidence) -> Finding | None:
    """The finding if a schedule for all steps of an optimizer was advanced only a few times."""
    optimizer = of_process.training.optimizers.get(scheduler.optimizer)
    whole = next((value for name in _HORIZONS if type(value := scheduler.settings.get(name)) is int), 0)
    if optimizer is None or optimizer.steps < _FEWEST_STEPS or whole != optimizer.steps:
        return None
    if scheduler.most * _SELDOM > whole or not scheduler.advances:
        return None
    numbers = [f"created for {whole:,} advances, but advanced at most {scheduler.most:,} times"]
    reason = f"its optimizer made {optimizer.steps:,} steps"
    rank = [of_process.process.rank]
    return NOT_FINISHED.finding(scheduler.name, reason, rank, place=scheduler.advances[-1][2], evidence=numbers)


def _of_old_optimizer(scheduler: SchedulerSummary, of_process: ProcessEvidence) -> Finding | None:
    """The finding if a scheduler continues while another optimizer has replaced its own."""
    training = of_process.training
    old = training.optimizers.get(scheduler.optimizer)
    if old is None or not old.tensors:
        return None
    for number, new in training.optimizers.items():
        if number == scheduler.optimizer or not new.steps or training.schedulers_of(number):
            continue
        is_taken = new.first_at > old.last_at and len(new.tensors & old.tensors) * 2 > len(old.tensors)
        if is_taken and scheduler.last_step > new.first_at and scheduler.count >= 2:
            numbers = [f"{old.name} made {old.steps:,} steps, all before", f"advanced at {scheduler.advances[-1][2]}"]
            reason = f"{scheduler.name} belongs to another optimizer, and this one has none"
            rank = [of_process.process.rank]
            return OF_OLD_OPTIMIZER.finding(new.name, reason, rank, place=new.origin, evidence=numbers)
    return None


def _squared(scheduler: SchedulerSummary, of_process: ProcessEvidence) -> Finding | None:
    """The finding if a function returns a rate where its scheduler takes a factor."""
    optimizer = of_process.training.optimizers.get(scheduler.optimizer)
    names = [word for word in scheduler.words if _RATE.fullmatch(word)]
    if optimizer is None or not names or not optimizer.groups:
        return None
    given = {group.settings.get("initial_lr") for group in optimizer.groups}
    rate = given.pop()
    largest = max(group.largest_rate for group in optimizer.groups)
    if given or type(rate) is not float or not 0 < rate <= _LARGEST_SQUARED:
        return None
    if not math.isclose(largest, rate * rate, rel_tol=_ROUNDING):
        return None
    numbers = [f"created with {rate:.3g}, at most {largest:.3g} in {optimizer.steps:,} steps"]
    reason = f"its function returns a rate, by {names[0]}, not a factor"
    place, rank = scheduler.made or optimizer.origin, [of_process.process.rank]
    return SQUARED.finding(scheduler.name, reason, rank, place=place, evidence=numbers)


def _of_restart(restart: RestartSummary, of_process: ProcessEvidence) -> Finding:
    event = restart.event
    reason = f"training goes on from {event.start}, and its schedule begins anew"
    loaded, rate = format_number(event.loaded_rate), format_number(event.rate)
    numbers = [f"the loaded rate was {loaded}, and {event.scheduler} set {rate}"]
    rank = [of_process.process.rank]
    return RESTARTS.finding(event.scheduler, reason, rank, step=event.step, place=restart.place, evidence=numbers)


def _is_of_other_mode(plateau: PlateauSummary) -> bool:
    """Whether a scheduler waits for a score to fall or a loss to rise, by the words of the line that passes it."""
    is_score, is_loss = bool(_telling(plateau, _SCORES)), bool(_telling(plateau, _LOSSES))
    is_wrong = {"min": is_score and not is_loss, "max": is_loss and not is_score}.get(plateau.last.mode, False)
    return is_wrong and plateau.last.never_better


def _telling(plateau: PlateauSummary, parts: frozenset[str]) -> list[str]:
    """The words of the line that contain one of these parts."""
    return [word for word in plateau.last.words if parts & {part.lower() for part in _PARTS.split(word)}]


def _of_plateau(plateau: PlateauSummary, of_process: ProcessEvidence) -> Finding:
    reason = f'its mode is "{plateau.last.mode}", and no value was better than the first'
    numbers = [f"it received {', '.join(_telling(plateau, _SCORES | _LOSSES))} at {plateau.place}"]
    rank, place = [of_process.process.rank], plateau.made or plateau.place
    return OTHER_MODE.finding("ReduceLROnPlateau", reason, rank, place=place, evidence=numbers)


CHECK: Final = Check(
    "schedulers",
    "schedulers are advanced when they should be",
    _look,
    (BEFORE_OPTIMIZER, DECAYS_PER_BATCH, REPEATS, NOT_FINISHED, OTHER_MODE, OF_OLD_OPTIMIZER, SQUARED, RESTARTS),
)
