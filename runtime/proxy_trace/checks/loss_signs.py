"""Checks that losses are minimised, not maximised.

The first two need a process with one stepping optimizer, so that there is no adversary:

| the loss | severity |
| --- | --- |
| is a standard loss of `torch.nn.functional` times -1, and fell | warning |
| is any other, and fell below 0, ever faster, to ten times the size of its first values | warning |
| has log-probabilities of actions, times returns, with a plus sign | warning |
| is the mean of a critic's values, with a plus sign, and the critic learns rewards | warning |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule
from proxy_trace.events.loss_text import call_of, loss_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence
    from proxy_trace.process.training_summary import LossValues
    from proxy_wrapper.events import LossNode

WRONG_SIGN: Final = Rule(
    "wrong-loss-sign",
    WARNING,
    "Losses that are maximised",
    "There is only one optimizer that steps. Either the loss is the negative of a standard loss such as "
    "`cross_entropy`, and fell; or it is any other loss that fell below 0 without bound: it fell more than twice as "
    "much in the second half of the run as in the first, to ten times the size of its first values. Or, with any "
    "number of optimizers, the loss is the sum of log-probabilities of actions times returns or advantages, by their "
    "names, and neither the graph nor the code negates one of these: it makes rewarded actions less likely. Or the "
    "code computes an actor's loss as the mean of a critic's values of its actions, not negated, and trains the critic "
    "with rewards, by their name.",
    "Remove the minus sign: a loss function returns a value to minimise. Check whether the model returns a loss or a "
    "log-likelihood. A policy loss needs the minus sign, `-(log_probs * returns).mean()`, and so does that of an "
    "actor, `-critic(state, actor(state)).mean()`.",
    "show {run} --kind loss,backward,graph_pattern",
    sources=("https://github.com/KanishJebaMathewM/Truxify/pull/11885",),
    explains=("learning-rate-too-high", "non-finite"),
)

_STANDARD: Final = frozenset(
    {"MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits",
     "NllLoss", "NllLoss2D", "NllLossNd"}
)  # fmt: skip
_SCALINGS: Final = frozenset({"Mean", "Sum", "Div"})
_FEWEST_VALUES: Final = 20
_LARGE: Final = 10.0


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    is_any = False
    for of_process in evidence.of_processes:
        stepping = [each for each in of_process.training.optimizers.values() if each.steps]
        is_any |= bool(stepping)
        if len(stepping) == 1 and stepping[0].tensors and not sum(each.others for each in stepping[0].groups):
            findings += _negative(of_process)
        if not any(group.settings.get("maximize") for each in stepping for group in each.groups):
            findings += _of_policies(of_process)
    if not is_any:
        return Sight((), evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings)


def _negative(of_process: ProcessEvidence) -> list[Finding]:
    """The findings about losses of one process that are maximised."""
    found: dict[str, Finding] = {}
    for loss in of_process.training.losses.values():
        values = of_process.training.values.get(loss.place)
        is_stepped = loss.steps * 2 >= loss.passes > 0  # Excludes losses of a search for adversarial examples.
        if not is_stepped or values is None or values.count < _FEWEST_VALUES or loss.computed in found:
            continue
        is_standard = _is_negative_of_standard(loss.nodes)
        first, last = values.first[0], sum(values.last) / len(values.last)
        if (is_standard and last < first) or _falls_without_bound(values):
            numbers = [loss_text(loss.nodes), f"{first:.4g} at first, {last:.4g} at last"]
            reason = "the negative of a loss is minimised" if is_standard else "it falls below 0 faster and faster"
            rank = [of_process.process.rank]
            found[loss.computed] = WRONG_SIGN.finding("loss", reason, rank, place=loss.computed, evidence=numbers)
    return list(found.values())


def _of_policies(of_process: ProcessEvidence) -> list[Finding]:
    """The findings about losses of one process that make rewarded actions less likely, or lead away from them."""
    found: dict[str, Finding] = {}
    for event, _, made in of_process.acts.patterns:
        if event.what == "probability-lowered":
            reason = "log-probabilities times returns are minimised"
            found[made] = WRONG_SIGN.finding("loss", reason, [of_process.process.rank], step=event.step, place=made)
    rank = [of_process.process.rank]
    for source, place, _ in of_process.acts.sources:
        if source.what == "values-lowered":
            reason = "the critic's values of the actor's actions are minimised"
            found.setdefault(place, WRONG_SIGN.finding("loss", reason, rank, place=place))
    return list(found.values())


def _is_negative_of_standard(nodes: Sequence[LossNode]) -> bool:
    """Whether a loss is -1 times a loss of torch, possibly averaged."""
    calls = [call_of(node) for node in nodes]
    place = next((index for index, call in enumerate(calls) if call not in _SCALINGS), len(calls))
    if place >= len(calls) or calls[place] != "Neg" or nodes[place].inside:
        return False
    below = next((index for index in range(place + 1, len(calls)) if calls[index] not in _SCALINGS), len(calls))
    is_chain = all(nodes[index].parent == index - 1 for index in range(1, min(below + 1, len(nodes))))
    return below < len(calls) and is_chain and calls[below] in _STANDARD


def _falls_without_bound(values: LossValues) -> bool:
    """Whether a loss has fallen below 0, more than twice as much in the second half as in the first."""
    curve = values.curve
    size = len(curve)
    if size < _FEWEST_VALUES:
        return False
    few = max(1, size // 10)
    start, middle = sum(curve[:few]) / few, sum(curve[size // 2 : size // 2 + few]) / few
    end = sum(curve[-few:]) / few
    is_large = -end > _LARGE * max(abs(value) for value in curve[:few])
    return end < middle < start and end < 0 and is_large and middle - end > 2 * (start - middle)


CHECK: Final = Check("signs", "losses were minimised", _look, (WRONG_SIGN,))
