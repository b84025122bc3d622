"""Checks that weight decay does not erode the weights.

A decay that was tuned for another way of applying it, or for a sum instead of a mean, pulls the weights to 0 faster
than gradients can build them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary
    from proxy_trace.process.training_summary import OptimizerSummary

DOMINATES: Final = Rule(
    "weight-decay-dominates",
    WARNING,
    "Weight decay that erodes the weights",
    "An optimizer has a weight decay of at least 0.01, and the weight matrices that it decays (at least two) have "
    "together shrunk to a tenth of their initial norm or less, while the loss did not fall below half of its first "
    "values. Or the decay is excessive: each step removes at least 2 % of the weights (with decoupled decay or SGD), "
    "and they have shrunk by a tenth; or, with decay that another optimizer adds to the gradient, it is at least 1, "
    "and they have shrunk to a third.",
    "Try a tenth or a hundredth of the decay. Common values are 0.01 to 0.1 for decoupled decay (`AdamW`), and 1e-5 "
    "to 5e-4 for decay in the gradient (`Adam`, `SGD`).",
    "history {run} {name}",
    sources=("Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019",),
    explains=("vanishing-gradients",),
)

_WEIGHT: Final = re.compile(r"\[\d+, .*\d\]$")
_LEAST_DECAY: Final = 0.01
_SHRUNK: Final = 0.1
_HUGE: Final = 1.0
_LITTLE: Final = 0.3
_HUGE_PART: Final = 0.02
_LESS: Final = 0.9
_DECOUPLED: Final = re.compile(r"W$|Lion|SGDW")
"""Classes that do not add the decay to the gradient, and are used with larger decays."""
_FEWEST_WEIGHTS: Final = 2
_NOT_LEARNED: Final = 0.5


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process in evidence.of_processes:
        for optimizer in of_process.training.optimizers.values():
            decay = _decay(optimizer)
            is_any |= decay > 0 and optimizer.steps > 0
            most_left = _most_left(optimizer, decay)
            if decay < _LEAST_DECAY or not optimizer.steps or (_has_learned(of_process) and most_left == _SHRUNK):
                continue
            weights = _decayed(optimizer, of_process)
            left = _left(weights)
            if len(weights) >= _FEWEST_WEIGHTS and left <= most_left:
                numbers = [f"weight decay {decay:.3g}", f"the weights shrank to {left:.1%} of their initial norm"]
                rank, reason = [of_process.process.rank], "it pulls the weights to 0"
                findings.append(
                    DOMINATES.finding(optimizer.name, reason, rank, place=optimizer.origin, evidence=numbers)
                )
    return Sight(findings, evidence.sampling_words) if is_any else None


def _most_left(optimizer: OptimizerSummary, decay: float) -> float:
    """The fraction of their initial norm below which weights count as eroded, for an optimizer with such a decay."""
    rate = max((group.largest_rate for group in optimizer.groups), default=0.0)
    if _DECOUPLED.search(optimizer.name) or optimizer.name == "SGD":
        return _LESS if rate * decay >= _HUGE_PART else _SHRUNK
    return _LITTLE if decay >= _HUGE else _SHRUNK


def _decay(optimizer: OptimizerSummary) -> float:
    """The largest weight decay of an optimizer's groups."""
    decays = [group.settings.get("weight_decay") for group in optimizer.groups]
    return max((float(each) for each in decays if isinstance(each, (int, float))), default=0.0)


def _decayed(optimizer: OptimizerSummary, of_process: ProcessEvidence) -> list[TensorSummary]:
    """The weight matrices that an optimizer decays."""
    own = {number for group in optimizer.groups if group.settings.get("weight_decay") for number in group.tensors}
    return [
        each
        for each in of_process.process.tensors
        if each.id in own and _WEIGHT.search(each.type) and each.is_stepped and not each.removed
    ]


def _left(weights: list[TensorSummary]) -> float:
    """The joint norm of some weights, relative to the initial one; 1 if unknown."""
    firsts = [None if each.first is None else each.first.norm for each in weights]
    lasts = [None if each.last is None else each.last.norm for each in weights]
    first = sum(norm**2 for norm in firsts if isinstance(norm, float))
    last = sum(norm**2 for norm in lasts if isinstance(norm, float))
    is_known = all(isinstance(norm, float) for norm in (*firsts, *lasts))
    return math.sqrt(last / first) if is_known and first > 0 else 1.0


def _has_learned(of_process: ProcessEvidence) -> bool:
    """Whether some loss has decreased, or none is known."""
    values = [each for each in of_process.training.values.values() if len(each.first) > 1]
    return not values or any(
        sum(each.last) / len(each.last) < _NOT_LEARNED * sum(each.first) / len(each.first) for each in values
    )


CHECK: Final = Check("weight decay", "weight decay does not erode the weights", _look, (DOMINATES,))
"""Applies if an optimizer has a weight decay."""
