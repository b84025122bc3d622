"""Checks that losses were computed from the kind of input that they expect.

`F.cross_entropy` of probabilities, or `F.mse_loss` of a column and a row, gives a number that falls and a model that
learns little, without an error. The trace has the autograd graph from each loss back to the model's output, with its
shapes.

| the graph has | code |
| --- | --- |
| `log_softmax` (of `cross_entropy`) of a `softmax` or a `sigmoid` | softmax-before-cross-entropy |
| `log_softmax` (of `cross_entropy`) of a `log_softmax` | log-softmax-twice |
| `binary_cross_entropy_with_logits` of a `sigmoid` or a `softmax` | sigmoid-before-logits-loss |
| `nll_loss` of a `softmax`, or of a linear layer or a convolution | nll-without-log-softmax |
| `sum` or `mean` of a constant minus a `softmax` times something (of `kl_div`) | kl-div-of-probabilities |
| likewise of a linear layer or a convolution, if the code calls `kl_div` | kl-div-of-probabilities |
| `logits - logsumexp(logits)` (of `Categorical`) of a `softmax` | probabilities-as-logits |
| `1 - exp(-loss)` times the loss, if that is the mean of a batch | focal-loss-of-mean |
| a loss or a difference of shape (n, n, ...), of an output (n, 1) or (n, ...) | loss-broadcasts |
| `binary_cross_entropy_with_logits` of an output that the code compares with 0.5 | logits-compared-with-half |
| a difference of a `gather` of outputs, and arithmetic on a `max` of outputs | target-not-detached |

Views in between are ignored. A loss that is computed in compiled code, or by a custom C++ function, has none of these
nodes, and is not judged.
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
    from proxy_wrapper.events import LossNode

SOFTMAX_BEFORE: Final = Rule(
    "softmax-before-cross-entropy",
    WARNING,
    "Cross entropy of probabilities",
    "`F.cross_entropy` and `nn.CrossEntropyLoss` take logits: they apply a log-softmax themselves. Here, by the "
    "autograd graph of the loss, they received the output of a softmax or a sigmoid. Gradients are then small, and no "
    "probability can come close to 1.",
    "Pass the loss the values before the softmax; apply a softmax only where you need probabilities.",
    "show {run} --kind loss",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",
        "Humbatova et al., Taxonomy of Real Faults in Deep Learning Systems, ICSE 2020",
    ),
)
SIGMOID_BEFORE: Final = Rule(
    "sigmoid-before-logits-loss",
    WARNING,
    "Binary cross entropy with logits of probabilities",
    "`F.binary_cross_entropy_with_logits` and `nn.BCEWithLogitsLoss` apply a sigmoid themselves. Here, by the "
    "autograd graph of the loss, they received the output of a sigmoid or a softmax.",
    "Pass the loss the values before the sigmoid, or use `F.binary_cross_entropy`.",
    "show {run} --kind loss",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html",),
)
LOG_SOFTMAX_TWICE: Final = Rule(
    "log-softmax-twice",
    WARNING,
    "Cross entropy of log-probabilities",
    "`F.cross_entropy` and `nn.CrossEntropyLoss` apply a log-softmax themselves. Here, by the autograd graph of the "
    "loss, they received the output of a log-softmax. The second log-softmax changes nothing, but code that reads the "
    "outputs as scores, or a later change to one of the two, goes wrong.",
    "Pass the loss the values before the log-softmax, or use `F.nll_loss`.",
    "show {run} --kind loss",
    sources=("https://github.com/speedinghzl/Pytorch-Deeplab/issues/2",),
)
NO_LOGARITHM: Final = Rule(
    "nll-without-log-softmax",
    WARNING,
    "Negative log likelihood without a logarithm",
    "`F.nll_loss` and `nn.NLLLoss` take logarithms of probabilities. Here they received the output of a softmax, a "
    "linear layer or a convolution. The loss can then fall below 0 without bound, or cannot fall far.",
    "Apply `log_softmax` to the output, or use `F.cross_entropy`.",
    "show {run} --kind loss",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html",),
)
BROADCASTS: Final = Rule(
    "loss-broadcasts",
    WARNING,
    "Losses broadcast over all pairs",
    "An output of shape (n, 1) or (n,) was compared with a target that has a different number of dimensions, so both "
    "were broadcast to (n, n): each prediction is compared with the targets of all samples, and the model learns "
    "their mean. The same holds for outputs (n, 1, ...) or (n, ...) that were broadcast to (n, n, ...), if the mean "
    "over all elements is taken. This is reported if the output itself goes into such a difference, or if it or a part "
    "of it goes into such a loss, without a view in between that would indicate purpose.",
    "Give both the same shape: `output.squeeze(1)`, or `target.unsqueeze(1)`.",
    "show {run} --kind loss",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html",),
)
KL_OF_PROBABILITIES: Final = Rule(
    "kl-div-of-probabilities",
    WARNING,
    "Divergences without a logarithm",
    "`F.kl_div` and `nn.KLDivLoss` take logarithms of probabilities as their first argument. Here they received the "
    "output of a softmax, or of a linear layer or a convolution. The loss falls below 0: far below for a layer, whose "
    "output grows without bound, and for a softmax it pulls only towards the most probable class.",
    "Pass `F.kl_div` the student's `log_softmax` as the first argument, and the teacher's `softmax` as the second.",
    "show {run} --kind loss",
    sources=(
        "https://github.com/pytorch/pytorch/issues/5282",
        "https://github.com/microsoft/ProDA/issues/43",
    ),
)
PROBABILITIES_AS_LOGITS: Final = Rule(
    "probabilities-as-logits",
    WARNING,
    "Distributions of probabilities as logits",
    "A distribution such as `torch.distributions.Categorical(logits=...)` normalises scores by `logsumexp`. Here it "
    "received the output of a softmax or a sigmoid: no class can then be more than `e` times as probable as another.",
    "Pass `probs=` instead of `logits=`, or the values before the softmax.",
    "show {run} --kind loss",
    sources=("https://docs.pytorch.org/docs/stable/distributions.html#categorical",),
)
FOCAL_OF_MEAN: Final = Rule(
    "focal-loss-of-mean",
    WARNING,
    "Focal losses of the mean",
    "A cross entropy was averaged over the batch, and then weighted by `exp(-loss)` as the probability of the class: "
    "one weight for the whole batch, so that easy and hard samples count alike.",
    "Compute the cross entropy with `reduction='none'`, weight each sample, and then average.",
    "show {run} --kind loss",
    sources=("https://github.com/kaidic/LDAM-DRW/issues/6",),
)

TARGET_ATTACHED: Final = Rule(
    "target-not-detached",
    WARNING,
    "Q-learning targets with gradients",
    "A loss compares values picked from an output by `gather` with a scaled or shifted maximum of an output, as in "
    "Q-learning, and both sides are in its autograd graph. All parameters that had gradients are in optimizers, so the "
    "target is also moved towards the prediction.",
    "Compute the target under `torch.no_grad()`, or `detach()` it.",
    "show {run} --kind loss",
    sources=("https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html",),
)

LOGITS_HALVED: Final = Rule(
    "logits-compared-with-half",
    WARNING,
    "Logits that are compared with 0.5",
    "The code that calls a model compares its output with 0.5, as probabilities are, but the output are logits: the "
    "same code gives it to `nn.BCEWithLogitsLoss`. Or all losses with which the only trained model was trained are "
    "binary cross entropies with logits of its output, and nothing in its code or its layers makes probabilities. A "
    "logit of 0.5 is a probability of 0.62, so too few samples are counted as positive.",
    "Compare logits with 0, or `torch.sigmoid(logits)` with 0.5.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/FenTechSolutions/CausalDiscoveryToolbox/issues/38",
        "https://github.com/CompVis/adaptive-style-transfer/issues/4",
    ),
)

_VIEWS: Final = frozenset(
    {
        "View", "UnsafeView", "ReshapeAlias", "Transpose", "Permute", "T", "Squeeze", "Unsqueeze", "Select", "Slice",
        "Index", "ToCopy", "Clone", "Alias", "AsStrided", "Contiguous", "Expand",
    }
)  # fmt: skip
"""Calls that return their input in another shape or dtype."""

_PARTS: Final = frozenset({"Slice", "Select", "Index", "Gather", "Squeeze", "ToCopy", "Clone"})
"""Calls that return a part of an output, without a new dimension."""

_GATHERED: Final = frozenset({"Stack", "Cat"})
"""Calls that combine outputs of several calls of a model, such as those of an episode."""

_PROBABILITIES: Final = frozenset({"Softmax", "Sigmoid"})
_LINEAR: Final = frozenset({"Addmm", "Mm", "Convolution", "MkldnnConvolution", "Bmm", "Baddbmm", "Linear", "Addbmm"})
_NEGATIVE_LOG_LIKELIHOODS: Final = frozenset({"NllLoss", "NllLoss2D", "NllLossNd"})
_AVERAGED: Final = frozenset({"NllLoss", "NllLoss2D", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits"})
_WITH_LOGITS: Final = frozenset({"BinaryCrossEntropyWithLogits"})
_MAXIMA: Final = frozenset({"Max", "Amax"})
_ARITHMETIC: Final = frozenset({"Add", "Sub", "Rsub", "Mul", "Div", "Where"})
_DIFFERENCES: Final = frozenset(
    {"Sub", "Rsub", "MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy", *_WITH_LOGITS}
)
"""Calls that compare an output with a target, element by element."""

_CALLED: Final[dict[Rule, tuple[str, ...]]] = {
    SOFTMAX_BEFORE: ("cross_entropy",),
    LOG_SOFTMAX_TWICE: ("cross_entropy",),
    SIGMOID_BEFORE: ("binary_cross_entropy_with_logits",),
    NO_LOGARITHM: ("nll_loss",),
    KL_OF_PROBABILITIES: ("kl_div",),
    FOCAL_OF_MEAN: ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits"),
}
"""The functions of `torch.nn.functional` that a rule is about."""

_OF_PROBABILITIES: Final = (SOFTMAX_BEFORE, SIGMOID_BEFORE, LOG_SOFTMAX_TWICE)
_PROBABILITY_LAYERS: Final = frozenset({"Softmax", "LogSoftmax", "Sigmoid"})


def _look(evidence: Evidence) -> Sight:
    findings = []
    is_any_told = False
    for of_process in evidence.of_processes:
        for loss in of_process.training.losses.values():
            is_any_told |= loss.passes > 0
            found = _judge(loss.nodes) if loss.passes else []
            if loss.passes and loss.place_of_call(_CALLED[KL_OF_PROBABILITIES]) and _is_divergence_of_layer(loss.nodes):
                found.append((KL_OF_PROBABILITIES, "a divergence of the output of a layer without log-softmax"))
            for rule, words in found:
                if rule is TARGET_ATTACHED and any(each.is_without_optimizer for each in of_process.process.tensors):
                    continue  # A target network's, which nothing steps.
                numbers = [f"{loss_text(loss.nodes)}, in {loss.passes:,} backward passes"]
                # The shapes are chosen where a helper is called; the kind of loss, within the helper.
                computed = loss.place_of_call(_CALLED.get(rule, ())) or loss.computed
                place = loss.made if rule is BROADCASTS else computed
                if rule is BROADCASTS and computed and computed != place:
                    numbers.append(f"computed at {computed}")
                if rule in _OF_PROBABILITIES and _ends_with_probabilities(loss.nodes):
                    place = loss.activated or _probability_layer(of_process) or place
                rank = of_process.process.rank
                findings.append(
                    rule.finding("loss", words, [rank], step=loss.first_step, place=place, evidence=numbers)
                )
        findings += _halved(of_process)
    if not is_any_told:
        return Sight((), evidence.unseen_training("a loss"), has_looked=False)
    return Sight(_one_of_each_place(findings), [*evidence.sampling_words, *evidence.compiled_words])


def _halved(of_process: ProcessEvidence) -> list[Finding]:
    """The places of one process at which logits are compared with 0.5."""
    training = of_process.training
    trained = [number for number, root in training.roots.items() if root.trained_calls]
    losses = [loss.nodes for loss in training.losses.values() if loss.passes]
    are_logits = len(trained) == 1 and bool(losses) and all(map(_is_of_logits, losses))
    names = {module.id: module.name for module in of_process.process.modules}
    found = []
    for event, _, made in of_process.acts.patterns:
        is_beside = bool(event.values and event.values[0])
        if event.what == "half-threshold" and (is_beside or (are_logits and event.module == trained[0])):
            reason = "its output are logits, and is compared with 0.5"
            rank = [of_process.process.rank]
            found.append(LOGITS_HALVED.finding(names.get(event.module, ""), reason, rank, place=made))
    return found


def _is_of_logits(nodes: Sequence[LossNode]) -> bool:
    """Whether a loss is, but for what reduces it, a binary cross entropy with logits of what a model put out."""
    for number, node in enumerate(nodes):
        if call_of(node) in _WITH_LOGITS:
            below = _children(nodes, number)
            while len(below) == 1 and not nodes[below[0]].inside and call_of(nodes[below[0]]) in _VIEWS:
                below = _children(nodes, below[0])
            is_output = len(below) == 1 and nodes[below[0]].inside
            return is_output and _source_call(nodes, number) not in _PROBABILITIES
        if call_of(node) not in ("Mean", "Sum", "Mul", "Div") or len(_children(nodes, number)) != 1:
            return False
    return False


def _ends_with_probabilities(nodes: Sequence[LossNode]) -> bool:
    """Whether the first node inside the model, views aside, is a softmax or a sigmoid."""
    first = next((node for node in nodes if node.inside and call_of(node) not in _VIEWS), None)
    return first is not None and call_of(first) in _PROBABILITIES | {"LogSoftmax"}


def _probability_layer(of_process: ProcessEvidence) -> str:
    """Where the only softmax or sigmoid layer was created; "" if there is not exactly one."""
    layers = [each for each in of_process.process.modules if each.calls and each.type in _PROBABILITY_LAYERS]
    return layers[0].made if len(layers) == 1 else ""


def _one_of_each_place(findings: list[Finding]) -> list[Finding]:
    """Merge findings with several shapes, such as that of the last batch, into the first."""
    found: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        found.setdefault((finding.code, finding.place), finding)
    return list(found.values())


def _judge(nodes: Sequence[LossNode]) -> list[tuple[Rule, str]]:
    """The rules that a loss breaks, each with its reason."""
    found: list[tuple[Rule, str]] = []
    for number, node in enumerate(nodes):
        call = call_of(node)
        of = _source_call(nodes, number)
        if call == "LogSoftmax" and of in _PROBABILITIES and _goes_into_loss(nodes, number):
            found.append((SOFTMAX_BEFORE, f"cross entropy of the output of a {of.lower()}"))
        elif call == of == "LogSoftmax" and _goes_into_loss(nodes, number):
            found.append((LOG_SOFTMAX_TWICE, "cross entropy of the output of a log-softmax"))
        elif call in _WITH_LOGITS and of in _PROBABILITIES:
            found.append((SIGMOID_BEFORE, f"it received the output of a {of.lower()}"))
        elif call in _NEGATIVE_LOG_LIKELIHOODS and of in (_LINEAR | _PROBABILITIES):
            what = f"a {of.lower()}" if of in _PROBABILITIES else "a layer without log-softmax"
            found.append((NO_LOGARITHM, f"it received the output of {what}"))
        elif call == "Sub" and _is_divergence_of_probabilities(nodes, number):
            found.append((KL_OF_PROBABILITIES, "a divergence of the output of a softmax"))
        elif call == "Sub" and _is_normalised_probabilities(nodes, number):
            found.append((PROBABILITIES_AS_LOGITS, "probabilities are normalised like logits"))
        elif call == "Exp" and _is_focal_of_mean(nodes, number):
            found.append((FOCAL_OF_MEAN, "one weight for the mean of the batch"))
        shapes = _broadcast(nodes, number) if call in _DIFFERENCES and not node.inside else None
        if shapes is not None:
            found.append((BROADCASTS, shapes))
        if call in _DIFFERENCES and _is_attached(nodes, number):
            found.append((TARGET_ATTACHED, "its target, computed from a maximum of outputs, has a gradient"))
    return found


def _is_attached(nodes: Sequence[LossNode], number: int) -> bool:
    """Whether a node compares gathered outputs with arithmetic on a maximum."""
    sides = [_chain(nodes, each) for each in _children(nodes, number)]
    if len(sides) != 2:
        return False
    picked = [side for side in sides if "Gather" in side and not side & _MAXIMA]
    reckoned = [side for side in sides if side & _MAXIMA and side & _ARITHMETIC]
    return len(picked) == len(reckoned) == 1


def _chain(nodes: Sequence[LossNode], number: int) -> set[str]:
    """The calls from a node down to the first that has several inputs in the graph, or none."""
    found = {call_of(nodes[number])}
    while len(below := _children(nodes, number)) == 1:
        (number,) = below
        found.add(call_of(nodes[number]))
    return found


def _is_divergence_of_probabilities(nodes: Sequence[LossNode], number: int) -> bool:
    """Whether a node is a constant minus something times a softmax, and is then summed."""
    node = nodes[number]
    if node.inside or not 0 <= node.parent < number or call_of(nodes[node.parent]) not in ("Sum", "Mean"):
        return False
    below = _children(nodes, number)
    if len(below) != 1 or call_of(nodes[below[0]]) != "Mul" or nodes[below[0]].shape != node.shape:
        return False
    factors = _children(nodes, below[0])
    return len(factors) == 1 and call_of(nodes[factors[0]]) == "Softmax" and nodes[factors[0]].shape == node.shape


def _is_divergence_of_layer(nodes: Sequence[LossNode]) -> bool:
    """Whether a node is a constant minus something times what a layer put out, perhaps scaled, and is then summed."""
    for number, node in enumerate(nodes):
        is_summed = 0 <= node.parent < number and call_of(nodes[node.parent]) in ("Sum", "Mean")
        below = _children(nodes, number)
        if call_of(node) != "Sub" or node.inside or not is_summed or len(below) != 1:
            continue
        factor = call_of(nodes[below[0]])
        source = _source_call(nodes, below[0])
        scaled = _children(nodes, below[0])
        if source in ("Mul", "Div") and len(scaled) == 1:
            source = _source_call(nodes, scaled[0])
        if factor == "Mul" and nodes[below[0]].shape == node.shape and source in _LINEAR:
            return True
    return False


def _is_normalised_probabilities(nodes: Sequence[LossNode], number: int) -> bool:
    """Whether a node subtracts their own `logsumexp` from probabilities; the graph lists shared nodes once."""
    below = _children(nodes, number)
    calls = [call_of(nodes[index]) for index in below]
    if len(below) != 2 or calls[1] != "Logsumexp" or calls[0] not in _PROBABILITIES or _children(nodes, below[1]):
        return False
    shape, normaliser = nodes[below[0]].shape, nodes[below[1]].shape
    return list(normaliser) == [*shape[:-1], 1] and list(nodes[number].shape) == list(shape)


def _is_focal_of_mean(nodes: Sequence[LossNode], number: int) -> bool:
    """Whether `1 - exp(...)` of one number multiplies the mean of a loss over several samples."""
    rest = nodes[number].parent
    if nodes[number].shape or not 0 <= rest < number or call_of(nodes[rest]) not in ("Rsub", "Sub"):
        return False
    above = _above(nodes, rest)
    for index, node in enumerate(nodes):
        if call_of(node) not in _AVERAGED or node.shape:
            continue
        below = _children(nodes, index)
        is_of_several = len(below) == 1 and len(nodes[below[0]].shape) > 1 and nodes[below[0]].shape[0] > 1
        common = next((each for each in _above(nodes, index) if each in above), None)
        if is_of_several and common is not None and call_of(nodes[common]) == "Mul":
            return True
    return False


def _above(nodes: Sequence[LossNode], number: int) -> list[int]:
    """The nodes above one, the nearest first."""
    found = []
    parent = nodes[number].parent
    while 0 <= parent < number:
        found.append(parent)
        number, parent = parent, nodes[parent].parent
    return found


def _source_call(nodes: Sequence[LossNode], number: int) -> str:
    """The call whose output a node uses, views aside; "" if that is unknown or there are several."""
    while True:
        children = _children(nodes, number)
        if len(children) != 1:
            calls = {call_of(nodes[index]) for index in children}
            # All nodes below a linear layer are its own: input, weight and bias.
            return calls.pop() if len(calls) == 1 else ""
        (number,) = children
        call = call_of(nodes[number])
        if call not in _VIEWS:
            return call


def _children(nodes: Sequence[LossNode], number: int) -> list[int]:
    """The nodes directly below one. In breadth-first order, they come after it, whatever else a trace may say."""
    return [index for index in range(number + 1, len(nodes)) if nodes[index].parent == number]


def _goes_into_loss(nodes: Sequence[LossNode], number: int) -> bool:
    """Whether a node's output goes into a negative log likelihood, views aside."""
    parent = nodes[number].parent
    while 0 <= parent < number:
        call = call_of(nodes[parent])
        if call in _NEGATIVE_LOG_LIKELIHOODS:
            return True
        if call not in _VIEWS:
            return False
        number, parent = parent, nodes[parent].parent
    return False


def _broadcast(nodes: Sequence[LossNode], number: int) -> str | None:
    """The shapes in words, if a node compares an output (n, 1) or (n,) with something that broadcasts it to (n, n)."""
    children = _children(nodes, number)
    if len(children) != 1:
        return None
    index, shape = children[0], list(nodes[number].shape)
    size_of = nodes[index].shape
    if (
        call_of(nodes[index]) == "Expand" and not nodes[index].inside
    ):  # The losses of `torch.nn.functional` expand first.
        below, shape = _children(nodes, index), list(nodes[index].shape)
        if len(below) != 1:
            return None
        index, size_of = below[0], nodes[below[0]].shape
        index = _below_views(nodes, index)
    if call_of(nodes[index]) in _GATHERED and not nodes[index].inside:
        index = _below_views(nodes, next(iter(_children(nodes, index)), index))
    if not nodes[index].inside or len(shape) < 2 or shape[0] != shape[1] or shape[0] < 2:
        return None
    size, *rest = shape[1:]
    if list(size_of) not in ([size, *rest], [size, 1, *rest]):
        return None
    if rest and not _is_averaged_over_all(nodes, number):
        return None
    return f"an output of shape {tuple(size_of)} became {tuple(shape)}"


def _is_averaged_over_all(nodes: Sequence[LossNode], number: int) -> bool:
    """Whether errors of vectors are averaged at once: distances between all pairs would be summed per pair."""
    if call_of(nodes[number]) not in ("Sub", "Rsub"):
        return not nodes[number].shape  # A loss function that averages.
    parent = nodes[number].parent
    while 0 <= parent < number and call_of(nodes[parent]) in ("Pow", "Abs", "Mul"):
        number, parent = parent, nodes[parent].parent
    return 0 <= parent < number and call_of(nodes[parent]) == "Mean" and not nodes[parent].shape


def _below_views(nodes: Sequence[LossNode], number: int) -> int:
    """The node below the views that only take a part, which do not suggest that all pairs are meant."""
    while call_of(nodes[number]) in _PARTS and not nodes[number].inside:
        below = _children(nodes, number)
        if len(below) != 1:
            break
        (number,) = below
    return number


CHECK: Final = Check(
    "loss functions",
    "losses received the kind of input that they expect",
    _look,
    (
        SOFTMAX_BEFORE,
        LOG_SOFTMAX_TWICE,
        SIGMOID_BEFORE,
        NO_LOGARITHM,
        KL_OF_PROBABILITIES,
        PROBABILITIES_AS_LOGITS,
        FOCAL_OF_MEAN,
        BROADCASTS,
        TARGET_ATTACHED,
        LOGITS_HALVED,
    ),
)
