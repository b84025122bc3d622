"""Checks that optimizers had a learning rate other than 0, and the one that the program set.

A rate of 0 changes nothing, and raises no error: a scheduler received epochs although it counts steps, a warm-up never
leaves its first value, a rate was divided as an integer. Nor is there an error if the rate is set where the optimizer
does not read it, as only `param_group["lr"]` counts, if one rate is set for groups that were to have different ones, or
if the rate of only one group is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR, WARNING
from proxy_trace.checks.rule import Rule
from proxy_trace.reading.folded_names import fold_names
from proxy_trace.terminal.units import format_number

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence
    from proxy_trace.process.training_summary import OptimizerSummary, TrainingSummary

ZERO: Final = Rule(
    "learning-rate-zero",
    ERROR,
    "Learning rates of 0",
    "The learning rate of every group was 0 in more than half of an optimizer's steps, and in at least two. A warm-up "
    "that starts at 0, or a schedule that ends at 0, has fewer such steps. Or the rate of one group was 0 in all "
    "steps, while the program set the rates of other groups itself, without a scheduler.",
    "Print `scheduler.get_last_lr()`. Check the number of steps that was passed to the scheduler, whether it is "
    "stepped per batch or per epoch, and whether the rate was meant to be 0.",
    "show {run} --kind optimizer",
    explains=("no-effect", "never-updated"),
)
WITHOUT_EFFECT: Final = Rule(
    "learning-rate-not-read",
    ERROR,
    "Learning rates that the optimizer does not read",
    "The program set an attribute of one of PyTorch's optimizers, such as `optimizer.lr`, to another number than its "
    "learning rate. Or it repeatedly set another key of its groups, such as `learning_rate`, while the rate itself "
    "stayed the same.",
    'Set it in each group: `for group in optimizer.param_groups: group["lr"] = rate`.',
    "show {run} --kind optimizer,rate_without_effect",
    sources=("https://discuss.pytorch.org/t/adaptive-learning-rate/320",),
)

OVERWRITTEN: Final = Rule(
    "group-rates-overwritten",
    WARNING,
    "Learning rates of groups that are overwritten by one",
    "The groups of an optimizer were created with different learning rates, but in all of its steps, and at least two, "
    "they had all the same: the program, or a scheduler, sets one rate for every group.",
    'Scale the rate of each group: `for group in optimizer.param_groups: group["lr"] = factor * group["initial_lr"]`, '
    "where `initial_lr` is the rate that the group was created with. `OneCycleLR` takes a list as `max_lr`.",
    "show {run} --kind optimizer",
    sources=(
        "https://github.com/JUGGHM/PENet_ICRA2021/issues/29",
        "https://github.com/katsura-jp/pytorch-cosine-annealing-with-warmup/issues/14",
    ),
)

OF_ONE_GROUP: Final = Rule(
    "rate-of-one-group",
    WARNING,
    "Learning rates that the program sets for one group",
    "The groups of an optimizer began with one learning rate and differ in their weight decay alone. The program, "
    "without a scheduler, changed the rate of the first group at least twice; all other groups kept theirs.",
    'Set it in each group: `for group in optimizer.param_groups: group["lr"] = rate`.',
    "show {run} --kind optimizer",
    sources=("https://github.com/yu-changqian/TorchSeg/issues/84",),
)

_OWN: Final = frozenset({"lr", "initial_lr", "weight_decay", "name"})
"""The settings in which groups may differ that were to have one rate."""

LOADED: Final = Rule(
    "learning-rate-loaded",
    WARNING,
    "Learning rates that a checkpoint brings back",
    "Before an optimizer made its first step, the state of an earlier training had been loaded, and with it a rate "
    "that is at most a hundredth of the one that the optimizer was created with. It had this rate in all of its steps, "
    "and at least ten: it has no scheduler, and no code of the program that may run in training assigns a rate. "
    "`load_state_dict` restores the rates, too, and the earlier training had ended with a small one.",
    'After loading, set the rate: `for group in optimizer.param_groups: group["lr"] = rate`. To go on with the '
    "earlier training, load its scheduler, too.",
    "show {run} --kind loaded_rate,optimizer",
    sources=(
        "https://github.com/pytorch/examples/issues/816",
        "https://github.com/naoto0804/pytorch-inpainting-with-partial-conv/issues/11",
        "https://github.com/mapbox/robosat/issues/169",
    ),
    explains=("never-updated", "no-effect"),
)

_FEWEST_STEPS: Final = 10


def _look(evidence: Evidence) -> Sight:
    findings = []
    is_any = False
    for of_process in evidence.of_processes:
        for number, optimizer in of_process.training.optimizers.items():
            is_any |= any(group.rates for group in optimizer.groups)
            if optimizer.steps_at_zero >= 2 and optimizer.steps_at_zero * 2 > optimizer.steps:
                place, words = _cause(number, optimizer, of_process.training)
                numbers = [f"in {optimizer.steps_at_zero:,} of {optimizer.steps:,} steps", *words]
                rank = of_process.process.rank
                reason = "every learning rate was 0"
                findings.append(ZERO.finding(optimizer.name, reason, [rank], place=place, evidence=numbers))
            else:
                findings += _of_groups(number, optimizer, of_process)
            if optimizer.given_rates and not optimizer.steps_apart and optimizer.steps >= 2:
                place, ranks = optimizer.overwritten or optimizer.origin, [of_process.process.rank]
                reason = "its groups were created with different learning rates, and step with one"
                numbers = [f"created with {', '.join(map(format_number, optimizer.given_rates))}"]
                findings.append(OVERWRITTEN.finding(optimizer.name, reason, ranks, place=place, evidence=numbers))
            if _moves_first_alone(optimizer) and not of_process.training.schedulers_of(number):
                first, other = optimizer.groups[:2]
                numbers = [
                    f"{first.rates:,} rates of group 0 in turn, the last {format_number(first.last_rate or 0.0)}",
                    f"{format_number(other.last_rate or 0.0)} in all other groups throughout",
                ]
                place, ranks = optimizer.overwritten or optimizer.origin, [of_process.process.rank]
                reason = "the program sets the learning rate of group 0 alone"
                findings.append(OF_ONE_GROUP.finding(optimizer.name, reason, ranks, place=place, evidence=numbers))
            findings += _of_loaded(number, optimizer, of_process)
            findings += [
                WITHOUT_EFFECT.finding(optimizer.name, f"`{what}` is not read", [of_process.process.rank], place=place)
                for what, place in optimizer.misplaced
            ]
    if not is_any:
        return Sight((), evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings, evidence.sampling_words)


def _of_loaded(number: int, optimizer: OptimizerSummary, of_process: ProcessEvidence) -> list[Finding]:
    """An optimizer that has stepped with a decayed rate of the training that it was loaded from."""
    loaded, training = optimizer.loaded_rate, of_process.training
    is_constant = all(group.rates == 1 for group in optimizer.groups)
    if loaded is None or optimizer.steps < _FEWEST_STEPS or not is_constant or training.schedulers_of(number):
        return []
    given, rate = format_number(loaded.given_rate), format_number(loaded.rate)
    reason = f"it was created with the learning rate {given}, but steps with {rate}, which was loaded"
    numbers = [f"{rate} in all of {optimizer.steps:,} steps"]
    rank = [of_process.process.rank]
    return [LOADED.finding(optimizer.name, reason, rank, place=optimizer.origin, evidence=numbers)]


def _cause(number: int, optimizer: OptimizerSummary, training: TrainingSummary) -> tuple[str, list[str]]:
    """Where the rate became 0, as far as known, and a scheduler's part in it, in words.

    A scheduler that is advanced between the backward passes of one step ends too early. Otherwise, the place is where
    the scheduler was created, or else the optimizer.
    """
    for scheduler in training.schedulers_of(number):
        early = next((place for _, follows, place in scheduler.advances if follows == "backward"), "")
        if early and scheduler.count * 2 > optimizer.steps * 3:
            words = f"{scheduler.name} was advanced at least {scheduler.count:,} times, between backward passes"
            return early, [words]
        if scheduler.made:
            return scheduler.made, []
    return optimizer.origin, []


def _of_groups(number: int, optimizer: OptimizerSummary, of_process: ProcessEvidence) -> list[Finding]:
    """Findings about groups whose rate stayed 0 while the program, without a scheduler, set other groups' rates."""
    changed = [group for group in optimizer.groups if group.rates > 1]
    if not changed or of_process.training.schedulers_of(number) or optimizer.steps < 2:
        return []
    tensors = [each for each in of_process.process.tensors if not each.is_buffer]
    names = [each.name for each in tensors]
    found = []
    for index, group in enumerate(optimizer.groups):
        if group.largest_rate == 0.0 == group.last_rate and group.rates == 1:
            own = set(group.tensors)
            concerns = [name for name, _ in fold_names([each.name for each in tensors if each.id in own], names)]
            reason = f"the learning rate of group {index} stayed 0, while the program set other groups"
            rank, place = [of_process.process.rank], optimizer.origin
            found.append(ZERO.finding(optimizer.name, reason, rank, place=place, concerns=concerns))
    return found


def _moves_first_alone(optimizer: OptimizerSummary) -> bool:
    """Whether the rate of the first group alone moves, though the groups were only to differ in their decay."""
    if len(optimizer.groups) < 2 or optimizer.steps < 3:
        return False
    first, *others = optimizer.groups
    alike = [{key: value for key, value in group.settings.items() if key not in _OWN} for group in optimizer.groups]
    return (
        first.rates > 2
        and all(each.rates == 1 and each.first_rate == first.first_rate for each in others)
        and all(each == alike[0] for each in alike)
        and len({group.settings.get("weight_decay") for group in optimizer.groups}) > 1
        and all(group.tensors or group.others for group in optimizer.groups)
    )


CHECK: Final = Check(
    "rates",
    "optimizers had a learning rate other than 0, as set by the program",
    _look,
    (ZERO, WITHOUT_EFFECT, OVERWRITTEN, OF_ONE_GROUP, LOADED),
)
