"""Checks that training makes progress: gradients, weights and the loss stay in range, and the first layers learn.

Only processes with one stepping optimizer are judged, and by several signs together, since none is enough alone:

| signs | code |
| --- | --- |
| a weight grew fifty-fold, and the loss by half, or the rate of an adaptive optimizer is 0.5 or more | \
learning-rate-too-high |
| the loss grew ten-fold, and then something became non-finite, in a model without recurrence | \
learning-rate-too-high |
| gradients grew a thousand-fold, and then something became non-finite, in a model with recurrence | \
exploding-gradients |
| the first weight had a thousandth of the gradient of the last, and the loss did not fall | vanishing-gradients |
| at least four backward passes at one place per step, with an unscaled loss | \
accumulation-not-scaled |
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import NOTE, WARNING
from proxy_trace.checks.rule import Rule
from proxy_trace.events.loss_text import call_of

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary
    from proxy_trace.process.training_summary import LossValues, OptimizerSummary

RATE_TOO_HIGH: Final = Rule(
    "learning-rate-too-high",
    WARNING,
    "Learning rates that are too high",
    "There is only one optimizer that steps. It made a weight at least fifty times as large as at the start, and the "
    "loss ended at least 50 % above its first value, or the optimizer is of the Adam family with a learning rate of "
    "at least 0.5. Weights that started close to zero (root mean square below 0.005) are exempt. Or the loss grew to "
    "ten times its first value, and then a loss, a gradient or a parameter became non-finite.",
    "Try a tenth of the rate, or several rates in short runs; for Adam, start with 1e-3.",
    "show {run} --kind optimizer,backward",
    sources=("Zhang et al., AUTOTRAINER: An Automatic DNN Training Problem Detection and Repair System, ICSE 2021",),
    explains=("non-finite",),
)
EXPLODING: Final = Rule(
    "exploding-gradients",
    WARNING,
    "Gradients that explode",
    "In a recurrent model, the largest element of the gradients grew to a thousand times that of the first steps, "
    "nothing clipped them, and then a loss, a gradient or a parameter became non-finite. Or the first gradients had "
    "elements above 1,000, no normalisation was called, and the initial weights of at least four layers were so large "
    "that each amplifies its input by a factor of four or more.",
    "Clip the gradients between `backward()` and `step()` with `torch.nn.utils.clip_grad_norm_`; or use shorter "
    "sequences, or a smaller learning rate.",
    "show {run} --kind gradient,non_finite",
    sources=("Pascanu et al., On the difficulty of training recurrent neural networks, ICML 2013",),
    explains=("non-finite", "learning-rate-too-high"),
)
VANISHING: Final = Rule(
    "vanishing-gradients",
    WARNING,
    "Gradients that vanish",
    "In a model with at least four weight matrices, the gradient of the first was at most a thousandth of that of the "
    "last, each was smaller than that of the next, and the loss did not fall below 98 % of its first value. Or the "
    "loss did not fall below that, and the initial weights of four layers, or the recurrent weights of an `nn.RNN`, "
    "were so small that each passes on less than a fifth of its input.",
    "Use ReLU or GELU instead of sigmoid and tanh, residual connections or normalisation layers, and an "
    "initialisation that suits the activation.",
    "show {run} --kind gradient",
    sources=("Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010",),
)
NOT_SCALED: Final = Rule(
    "accumulation-not-scaled",
    WARNING,
    "Accumulated gradients that are not scaled",
    "Before at least nine of ten steps of an SGD optimizer there was the same number of backward passes at one place, "
    "at least four, each with the unscaled loss, or one with known factors that are larger than 1 by the number of "
    "passes, as by a temperature. The step uses the sum of their gradients, so the effective learning "
    "rate is that many times larger. For other optimizers, most of which normalise by the size of the gradients, this "
    "is a note.",
    "Divide the loss by the number of passes before `backward()`.",
    "show {run} --kind backward,optimizer_step",
    sources=("https://discuss.pytorch.org/t/why-do-we-need-to-set-the-gradients-manually-to-zero-in-pytorch/4903",),
    explains=("learning-rate-too-high",),
)
_UNSURE: Final = NOT_SCALED._replace(severity=NOTE)

_ADAPTIVE: Final = re.compile(r"(N|R|Sparse)?Adam(W|ax)?$|Lion$|Adagrad$")
_RECURRENT: Final = re.compile(r"(RNN|LSTM|GRU)(Cell)?$")
_SCALED: Final = frozenset({"Div", "Mul", "Sum"})
_FACTORS: Final = frozenset({"Div", "Mul"})
_NEARLY_ONE: Final = 1.01
_WEIGHT: Final = re.compile(r"\[\d+, .*\d\]$")
"""The end of the description of a tensor with two or more dimensions."""

_SIZES: Final = re.compile(r"\[([\d, ]*)\]$")

_GROWN: Final = 50.0
_SMALLEST: Final = 0.005
_HIGH_RATE: Final = 0.5
_EXPLODED: Final = 1e3
_VANISHED: Final = 1e-3
_FEWEST_WEIGHTS: Final = 4
_FEWEST_VALUES: Final = 40
_FEWEST_PASSES: Final = 4


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    is_any = False
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        optimizers = [each for each in of_process.training.optimizers.values() if each.steps]
        is_any |= bool(optimizers)
        findings += [found for each in optimizers if (found := _unscaled(each, of_process)) is not None]
        if len(optimizers) == 1:
            judge = _Judge(optimizers[0], of_process, tree)
            findings += [
                found for found in (judge.exploding(), judge.too_high(), judge.vanishing()) if found is not None
            ]
    if not is_any:
        return Sight((), evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings, evidence.sampling_words)


class _Judge:
    """Judges a process with one stepping optimizer."""

    def __init__(self, optimizer: OptimizerSummary, of_process: ProcessEvidence, tree: ModuleTree) -> None:
        self._optimizer = optimizer
        self._of_process = of_process
        self._rank = [of_process.process.rank]
        own = optimizer.tensors
        self._weights = [
            each
            for each in of_process.process.tensors
            if each.id in own and _WEIGHT.search(each.type) and not each.removed
        ]
        self._roots = {tree.root_of(each.module) for each in self._weights}
        values = [each for each in of_process.training.values.values() if each.count >= _FEWEST_PASSES]
        self._values: LossValues | None = values[0] if len(values) == 1 else None
        self._is_non_finite = any(each.where != "output" for each in of_process.non_finite)

    def exploding(self) -> Finding | None:
        """The finding if gradients of a recurrent model grew until something became non-finite."""
        optimizer = self._optimizer
        growth = optimizer.largest_gradient / optimizer.first_gradient if optimizer.first_gradient else 0.0
        is_clipped = any(clip.in_time for clip in self._of_process.training.clips.values())
        if not self._is_non_finite or growth < _EXPLODED or is_clipped or not self._is_recurrent():
            return None
        numbers = [f"largest element {optimizer.first_gradient:.3g} at first, {optimizer.largest_gradient:.3g} later"]
        reason = "its gradients grew by orders of magnitude"
        return EXPLODING.finding(optimizer.name, reason, self._rank, place=optimizer.place, evidence=numbers)

    def too_high(self) -> Finding | None:
        """The finding if weights and the loss grew, or the loss grew until something became non-finite."""
        values, optimizer = self._values, self._optimizer
        if values is None:
            return None
        first, last = values.first[0], sum(values.last) / len(values.last)
        growth = max((_growth(each) for each in self._weights if _root_mean_square(each) >= _SMALLEST), default=0.0)
        rate = max((group.largest_rate for group in optimizer.groups), default=0.0)
        is_bold = rate >= _HIGH_RATE and bool(_ADAPTIVE.match(optimizer.name))
        has_grown = growth >= _GROWN and values.count >= _FEWEST_VALUES and (is_bold or last > 1.5 * first > 0)
        has_diverged = self._is_non_finite and values.count >= 3 and max(values.last) > 10 * first > 0
        if not has_grown and not has_diverged:
            return None
        numbers = [f"learning rate {rate:.3g}", f"loss {first:.3g} at first, {last:.3g} at last"]
        if has_grown:
            numbers.append(f"a weight {growth:.3g} times as large")
        reason = "weights and loss grew" if has_grown else "the loss grew until something became non-finite"
        return RATE_TOO_HIGH.finding(optimizer.name, reason, self._rank, place=optimizer.origin, evidence=numbers)

    def vanishing(self) -> Finding | None:
        """The finding if gradients almost vanish in the first layer of a model that does not learn."""
        values = self._values
        weights = [each for each in self._weights if each.largest_gradient]
        if values is None or values.count < _FEWEST_VALUES or len(self._roots) != 1 or len(weights) < _FEWEST_WEIGHTS:
            return None
        first, last = values.first[0], sum(values.last) / len(values.last)
        ratio = weights[0].largest_gradient / weights[-1].largest_gradient
        is_steady = all(one.largest_gradient < next_.largest_gradient for one, next_ in pairwise(weights))
        if ratio > _VANISHED or not is_steady or last < 0.98 * first or last > 2 * first or self._is_non_finite:
            return None
        numbers = [f"{ratio:.1g} of that of {weights[-1].name}", f"loss {first:.4g} at first, {last:.4g} at last"]
        place = next(iter(self._of_process.training.values))
        reason = "its gradient was close to zero"
        return VANISHING.finding(weights[0].name, reason, self._rank, place=place, evidence=numbers)

    def _is_recurrent(self) -> bool:
        """Whether the model has recurrent layers, or is called several times per backward pass."""
        process, training = self._of_process.process, self._of_process.training
        called = max(
            (root.trained_calls for number, root in training.roots.items() if number in self._roots), default=0
        )
        return called >= 4 * max(1, process.backward_passes) or any(
            _RECURRENT.match(module.type) and module.calls for module in process.modules
        )


def _unscaled(optimizer: OptimizerSummary, of_process: ProcessEvidence) -> Finding | None:
    """The finding if an optimizer uses the summed gradients of several unscaled losses."""
    passes, steps = max(optimizer.passes.items(), key=lambda each: each[1], default=(0, 0))
    loss = of_process.training.losses.get(optimizer.loss)
    if optimizer.dropped * 10 > optimizer.steps:
        return None
    if passes < _FEWEST_PASSES or steps < 2 or steps * 10 < optimizer.steps * 9 or loss is None or not loss.nodes:
        return None
    call = call_of(loss.nodes[0])
    is_scaled = call in _SCALED and (call not in _FACTORS or _is_divided(loss.place, passes, of_process))
    if is_scaled or loss.nodes[0].shape or loss.nodes[0].inside:
        return None
    rule = NOT_SCALED if optimizer.name == "SGD" else _UNSURE
    reason = f"each step uses the sum of the gradients of {passes:,} losses"
    numbers = [f"in {steps:,} of {optimizer.steps:,} steps"]
    return rule.finding(optimizer.name, reason, [of_process.process.rank], place=loss.place, evidence=numbers)


def _is_divided(place: str, passes: int, of_process: ProcessEvidence) -> bool:
    """Whether the losses at a place may be divided by the number of passes, by the factors that are known."""
    factors = [
        float(event.values[0])
        for event, where, _ in of_process.acts.patterns
        if event.what == "loss-factor" and where == place
    ]
    return not factors or min(factors) * passes <= _NEARLY_ONE


def _growth(weight: TensorSummary) -> float:
    """The ratio of a weight's last norm to its first; 0 if unknown."""
    first = None if weight.first is None else weight.first.norm
    last = None if weight.last is None else weight.last.norm
    return last / first if isinstance(first, float) and isinstance(last, float) and first > 0.01 else 0.0


def _root_mean_square(weight: TensorSummary) -> float:
    """The root mean square of a weight's initial elements; 0 if unknown."""
    norm = None if weight.first is None else weight.first.norm
    sizes = _SIZES.search(weight.type)
    count = 0 if sizes is None else math.prod(int(size) for size in sizes[1].split(",") if size.strip())
    return norm / math.sqrt(count) if isinstance(norm, float) and count else 0.0


CHECK: Final = Check(
    "progress",
    "gradients, weights and losses stayed within range",
    _look,
    (RATE_TOO_HIGH, EXPLODING, VANISHING, NOT_SCALED),
)
