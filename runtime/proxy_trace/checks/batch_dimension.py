"""Checks that the samples of a batch are kept apart.

PyTorch's recurrent layers and attention take `(sequence, batch, features)` unless they are created with
`batch_first=True`. Given `(batch, sequence, features)`, they mix samples and keep the positions of a sequence apart.
Similarly, a softmax over the first dimension makes the weights of a batch sum to 1 instead of those of a sample.
Positions added along the batch number the samples, so that all items of a sequence get the same vector.

Sizes show which dimension is the batch: the first one of both the model's input and its output. If the second dimension
of the input is absent from the output, it was the sequence. Calls in which both dimensions have the same size show
nothing; all other calls must agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule
from proxy_trace.events.loss_text import call_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.acts_summary import MixSummary
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence
    from proxy_wrapper.events import LossNode

MIXED: Final = Rule(
    "batch-dimension-mixed",
    WARNING,
    "Layers that treat the batch as the sequence",
    "A recurrent or attention layer with `batch_first=False` received a tensor whose first dimension is the batch: "
    "the input and the output of the model have the same first dimension, while the second dimension is absent from "
    "the output.",
    "Create the layer with `batch_first=True`, or transpose its input and output.",
    "show {run} --kind call_module,return_module",
    sources=("https://github.com/Exorust/TorchLeet/issues/5",),
)
OVER_BATCH: Final = Rule(
    "softmax-over-batch",
    WARNING,
    "Softmax over the samples of a batch",
    "The graph of a loss has a softmax over the first dimension of a tensor, which is the batch: the input and the "
    "output of the model have the same first dimension, while the second dimension is absent from the output. Or its "
    "result is a matrix of the probabilities of classes: it goes into a loss for class labels, or into a distribution, "
    "which divides each row by its sum. Or the code that calls a classifier, which is trained with a cross entropy, "
    "computes a softmax over the rows of its output, of which there is one for each sample.",
    "Apply the softmax over the dimension of the items, usually `dim=-1`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/PetrochukM/PyTorch-NLP/issues/2",
        "https://github.com/mrdbourke/pytorch-deep-learning/issues/163",
    ),
)
POSITIONS: Final = Rule(
    "positions-along-batch",
    WARNING,
    "Positions added along the batch",
    "A module adds positions along a dimension of its input, as in `x + self.pe[:x.size(0)]` with `pe` of shape "
    "(positions, 1, features), and that dimension is the batch. The layers show this: all recurrent and attention "
    "layers that receive tensors of this size have `batch_first=True`, and the model receives tokens, or its output "
    "lacks the sequence dimension. Without such layers, the sizes show it: the input and the output of the model have "
    "the same first dimension, and the second dimension is absent from the output. Or positions are added along the "
    "second dimension, and the layers have `batch_first=False`. All items of a sequence receive the same vector. So "
    "the model does not know their order, and its output for a sample depends on the index in the batch. Calls in "
    "which both sizes are equal are not judged.",
    "Add positions along the sequence: `x + self.pe[:x.size(1)].transpose(0, 1)` if the batch comes first.",
    "show {run} --kind graph_pattern,call_module",
    sources=(
        "https://github.com/songyangco/GETNext/issues/2",
        "https://github.com/cmu-l3/anlp-fall2025-code/issues/1",
    ),
)

_FEWEST: Final = 2


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        acts, rank = of_process.acts, [of_process.process.rank]
        is_any |= bool(acts.sequences or acts.softmaxes or acts.positions or acts.matrices)
        is_any |= any(each.event.what == "class-softmax" for each in acts.patterns)
        findings += _of_layers(of_process, tree)
        for place, mix in acts.softmaxes.items():
            if _is_mixed(mix):
                reason = f"a softmax over the samples, of shape {mix.shape}"
                layers = [each for each in of_process.process.modules if _is_softmax_over_batch(each)]
                name, where = ("softmax", mix.made or place)
                if len(layers) == 1:
                    name, where = layers[0].name, layers[0].called_place
                findings.append(OVER_BATCH.finding(name, reason, rank, place=where))
        findings += _of_outputs(of_process)
        findings += _of_classes(of_process, {each.place for each in findings})
        findings += _of_positions(of_process, tree)
    return Sight(findings) if is_any else None


def _of_classes(of_process: ProcessEvidence, told: set[str]) -> list[Finding]:
    """The softmaxes over samples that make the probabilities of classes, one per place."""
    found: dict[str, Finding] = {}
    layers = [each.called_place for each in of_process.process.modules if _is_softmax_over_batch(each)]
    for event, place, made in of_process.acts.patterns:
        where = made or (layers[0] if len(layers) == 1 else place)
        if event.what == "class-softmax" and where not in told:
            reason = f"the probabilities of classes sum to 1 over the samples, of shape {tuple(event.shape)}"
            rank = [of_process.process.rank]
            found.setdefault(where, OVER_BATCH.finding("softmax", reason, rank, step=event.step, place=where))
    return list(found.values())


def _of_outputs(of_process: ProcessEvidence) -> list[Finding]:
    """The softmaxes over the samples of what a classifier put out, one per place."""
    losses = [loss.nodes for loss in of_process.training.losses.values() if loss.passes]
    classes = {node.shape[1] for nodes in losses if _is_of_classes(nodes) for node in nodes if _is_of_scores(node)}
    names = {module.id: module.name for module in of_process.process.modules}
    trained = {number for number, root in of_process.training.roots.items() if root.last_step >= 0}
    found: dict[str, Finding] = {}
    for (event, _, made), shape in of_process.acts.matrices:
        if event.module in trained and shape[1] in classes:
            reason = f"the probabilities of {shape[1]:,} classes sum to 1 over the {shape[0]:,} samples"
            name, rank = names.get(event.module, ""), [of_process.process.rank]
            found.setdefault(made, OVER_BATCH.finding(name, reason, rank, step=event.step, place=made))
    return list(found.values())


def _is_of_classes(nodes: Sequence[LossNode]) -> bool:
    """Whether a loss has a negative log likelihood of classes."""
    return any(call_of(node) == "NllLoss" for node in nodes)


def _is_of_scores(node: LossNode) -> bool:
    return call_of(node) == "LogSoftmax" and len(node.shape) == _FEWEST


def _of_positions(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The modules of one process that add positions along the batch, one per place."""
    places = {each.event.module: each for each in of_process.acts.patterns if each.event.what == "position-slice"}
    found: dict[str, Finding] = {}
    for module, mix in of_process.acts.positions.items():
        if not _is_mixed(mix) or module not in places:
            continue
        name = next((each.name for each in tree.upwards(module)), "")
        size = mix.shape[places[module].event.dim]
        reason = f"it adds positions along the {size:,} samples of a tensor of shape {mix.shape}"
        made, rank = places[module].made, [of_process.process.rank]
        found.setdefault(made, POSITIONS.finding(name, reason, rank, place=made))
    return list(found.values())


def _of_layers(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The layers of one process that mix samples, grouped by where they were created."""
    found: dict[str, list[tuple[str, MixSummary]]] = {}
    for module, mix in of_process.acts.sequences.items():
        if _is_mixed(mix):
            above = list(tree.upwards(module))
            made = next((each.made for each in above if each.made), "") or mix.place
            found.setdefault(made, []).append((above[0].name if above else "", mix))
    return [
        MIXED.finding(
            layers[0][0],
            f"it treats the {layers[0][1].shape[0]:,} samples of shape {layers[0][1].shape} as a sequence",
            [of_process.process.rank],
            len(layers),
            place=made,
        )
        for made, layers in found.items()
    ]


def _is_softmax_over_batch(module: ModuleSummary) -> bool:
    return module.type in ("Softmax", "LogSoftmax") and module.settings.get("dim") == 0 and module.called_place != ""


def _is_mixed(mix: MixSummary) -> bool:
    return mix.mixed >= _FEWEST and not mix.kept


CHECK: Final = Check("samples", "samples of a batch are kept apart", _look, (MIXED, OVER_BATCH, POSITIONS))
"""Applies if a layer takes the first dimension as the sequence, a softmax runs over it, or positions are added."""
