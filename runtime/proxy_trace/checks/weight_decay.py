"""Checks that weight decay does not erode the weights, nor reaches norms that are to be excepted.

A decay that was tuned for another way of applying it, or for a sum instead of a mean, pulls the weights to 0 faster
than gradients can build them.

The parameters to be excepted are often chosen by parts of their names. These differ between models: "LayerNorm.weight"
in one is "ln_1.weight" in another.
"""

from __future__ import annotations

import collections
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

NORMS: Final = Rule(
    "norms-decayed",
    WARNING,
    "Norms that are decayed because their names differ",
    "In the code of the training program, parameters are excepted from weight decay if their name contains a string of "
    "a list, and a string such as `LayerNorm.weight` stands for norms. No parameter of the models has such a name. "
    "There is a group without weight decay, and a group with some, which has the weights of the norms.",
    "Print the names, and write the strings as they are there; or except all parameters of fewer than two dimensions.",
    "show {run} --kind source_pattern,optimizer",
    sources=(
        "https://github.com/deepspeedai/DeepSpeedExamples/pull/755",
        "https://github.com/huggingface/transformers/issues/16908",
    ),
)

_OF_LAYERS: Final = re.compile(r"layer_?norm|rms_?norm|(^|[._])ln([._\d]|$)", re.IGNORECASE)
_OF_BATCHES: Final = re.compile(r"batch_?norm|(^|[._])bn([._\d]|$)", re.IGNORECASE)
_OF_ANY: Final = re.compile(r"norm", re.IGNORECASE)
_TYPES: Final = ((_OF_LAYERS, "(Layer|RMS|Rms)Norm"), (_OF_BATCHES, "BatchNorm"), (_OF_ANY, "Norm"))
"""Strings that stand for norms, each with a pattern of the classes that they stand for."""
_VECTOR: Final = re.compile(r"\[\d+\]$")
_BIASES: Final = ("bias", "beta")

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
            findings += _decayed_norms(optimizer, of_process)
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


def _decayed_norms(optimizer: OptimizerSummary, of_process: ProcessEvidence) -> list[Finding]:
    """Findings about an optimizer that decays norms which the program means to except."""
    decays = [group.settings.get("weight_decay") for group in optimizer.groups]
    listed = [each for each in of_process.acts.sources if each.event.what == "decay-excepted"]
    if not listed or 0 not in decays or not optimizer.steps or any(group.others for group in optimizer.groups):
        return []
    parameters = [each for each in of_process.process.tensors if not each.is_buffer]
    types = collections.defaultdict(str, ((module.id, module.type) for module in of_process.process.modules))
    own = {number for group in optimizer.groups if group.settings.get("weight_decay") for number in group.tensors}
    own = {each.id for each in parameters if each.id in own and not each.name.endswith(_BIASES)}
    vectors = [each for each in parameters if each.id in own and _VECTOR.search(each.type) and not each.removed]
    names = [name for each in parameters for name in (each.name, *each.aliases)]
    found = []
    for event, place, _ in listed:
        kinds = {text: kind for text in event.names if (kind := _norms_meant(text))}
        is_met = any(text in name for text in kinds for name in names)
        decayed = [each for each in vectors if any(re.search(kind, types[each.module]) for kind in kinds.values())]
        if decayed and not is_met:
            texts = " or ".join(f"'{text}'" for text in kinds)
            reason = f"no parameter's name contains {texts}; the weight decay reaches {decayed[0].name}"
            numbers = [f"{len(decayed)} weights of norms are decayed"] if len(decayed) > 1 else []
            rank = [of_process.process.rank]
            found.append(NORMS.finding(optimizer.name, reason, rank, place=place, evidence=numbers))
    return found


def _norms_meant(text: str) -> str:
    """A pattern of the classes of norms for which a part of a name stands; "" if it stands for none."""
    return next((kind for of_text, kind in _TYPES if of_text.search(text)), "")


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


CHECK: Final = Check("weight decay", "weight decay does not erode the weights", _look, (DOMINATES, NORMS))
"""Applies if an optimizer has a weight decay."""
