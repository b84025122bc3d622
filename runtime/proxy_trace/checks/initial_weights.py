"""Checks that initial weights keep the scale of their input.

A layer with `n` inputs whose weights have mean square `s` multiplies the scale of its input by `sqrt(n * s)`. PyTorch's
initialisations keep this factor between 0.5 and 1.5. If four or more layers have a factor of at least 4, gradients
are thousands of times too large at the first step. If each has a factor of at most 0.2, almost nothing passes through.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.progress import EXPLODING, VANISHING

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence, TensorSummary
    from proxy_trace.process.training_summary import LossValues, OptimizerSummary

_LAYER: Final = re.compile(r"Linear|Conv\dd")
_NORMALISATION: Final = re.compile(r".*(Batch|Layer|Group|Instance|RMS)Norm|.*Normalization")
_SIZES: Final = re.compile(r"\[(\d+), .*\d\]$")
_LARGE: Final = 4.0
_SMALL: Final = 0.2
_FEWEST_LAYERS: Final = 4
_LARGE_GRADIENT: Final = 1e3
_FEWEST_VALUES: Final = 40
_NOT_FALLEN: Final = 0.98


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    is_any = False
    for of_process in evidence.of_processes:
        optimizers = [each for each in of_process.training.optimizers.values() if each.steps]
        is_any |= bool(optimizers)
        values = list(of_process.training.values.items())
        if len(optimizers) == 1 and len(values) == 1:
            findings += _judge(optimizers[0], of_process, *values[0])
    if not is_any:
        return Sight((), evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings, evidence.sampling_words)


def _judge(optimizer: OptimizerSummary, of_process: ProcessEvidence, place: str, values: LossValues) -> list[Finding]:
    """Findings about the initial weights of one optimizer's parameters."""
    modules = {module.id: module for module in of_process.process.modules}
    own = optimizer.tensors
    weights = [each for each in of_process.process.tensors if each.id in own and not each.removed and each.has_changed]
    layers = [each for each in weights if _is_weight_of(each, modules, _LAYER)]
    rank = [of_process.process.rank]
    large = [each for each in layers if _factor(each) >= _LARGE]
    has_norm = any(_NORMALISATION.match(module.type) and module.calls for module in modules.values())
    if len(large) >= _FEWEST_LAYERS and optimizer.first_gradient >= _LARGE_GRADIENT and not has_norm:
        numbers = [f"{len(large):,} layers multiply their input by {_factor(large[0]):.3g} or more at first"]
        numbers.append(f"largest element of the first gradients {optimizer.first_gradient:.3g}")
        reason = "its first gradients were too large by orders of magnitude"
        return [EXPLODING.finding(optimizer.name, reason, rank, place=place, evidence=numbers)]
    if not _is_stuck(values):
        return []
    small = [each for each in layers if 0 < _factor(each) <= _SMALL]
    states = [
        each
        for each in weights
        if _is_weight_of(each, modules, re.compile("RNN$")) and "weight_hh" in each.name and 0 < _factor(each) <= _SMALL
    ]
    found = small if len(small) >= _FEWEST_LAYERS else states
    if not found:
        return []
    numbers = [f"it passes on {_factor(found[0]):.2g} of its input at first"]
    numbers.append(f"loss {values.first[0]:.4g} at first, {sum(values.last) / len(values.last):.4g} at last")
    return [VANISHING.finding(found[0].name, "its initial weights are too small", rank, place=place, evidence=numbers)]


def _is_stuck(values: LossValues) -> bool:
    """Whether a loss has not decreased."""
    last = sum(values.last) / len(values.last) if values.last else 0.0
    return values.count >= _FEWEST_VALUES and values.first[0] > 0 and last >= _NOT_FALLEN * values.first[0]


def _is_weight_of(tensor: TensorSummary, modules: dict[int, ModuleSummary], types: re.Pattern[str]) -> bool:
    """Whether a parameter is a weight matrix of a module of such a type."""
    module = modules.get(tensor.module)
    return module is not None and types.match(module.type) is not None and _SIZES.search(tensor.type) is not None


def _factor(weight: TensorSummary) -> float:
    """The factor by which an initial weight multiplies the scale of its input; 0 if unknown."""
    units, first = _SIZES.search(weight.type), weight.first
    if units is None or first is None or not isinstance(first.norm, float):
        return 0.0
    return first.norm / math.sqrt(int(units[1])) if int(units[1]) else 0.0


CHECK: Final = Check(
    "initial weights", "layers neither amplify nor suppress their input", _look, (EXPLODING, VANISHING)
)
