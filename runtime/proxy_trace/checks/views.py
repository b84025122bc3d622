"""Checks that views keep samples and classes apart, and that no sample is compared with itself.

`view` and `reshape` read the elements of a tensor in memory order. They can join adjacent dimensions or split one, but
not swap any. `h.view(batch, -1)` of a tensor of shape (2, batch, features), as returned by `nn.LSTM`, runs without an
error, and each row has features of several samples.

| the graph of a loss has, or | code |
| --- | --- |
| a view of a tensor (n, batch, features) as (batch, n * features) | view-mixes-samples |
| queries and keys (batch, tokens, features) viewed as (batch, heads, tokens, ...) | view-mixes-tokens |
| heads (batch, heads, tokens, features) viewed as (batch, tokens, heads * features) | view-mixes-tokens |
| a log-softmax of a view of scores (batch, classes, ...) as (-1, classes) | view-mixes-classes |
| a view of a convolution's output (batch, channels, ...) as (batch, positions, channels) | view-instead-of-permute |
| the source has a view whose sizes are those of the tensor itself, in another order | view-instead-of-permute |
| the graph has a `cross_entropy` of products of vectors with themselves, without a mask | self-similarity-not-masked |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence

SAMPLES: Final = Rule(
    "view-mixes-samples",
    WARNING,
    "Views that mix the samples of a batch",
    "In the graph of a loss, a tensor whose second dimension is the batch was viewed as one whose first dimension is "
    "the batch, as that of the model's input and output. A view moves nothing, so each row has elements of several "
    "samples. The first dimension, such as the number of layers and directions of a recurrent layer, is not a multiple "
    "of the batch size.",
    "Swap the dimensions first: `h.transpose(0, 1).reshape(batch, -1)`.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/timbmg/Sentence-VAE/issues/15",),
)
TOKENS: Final = Rule(
    "view-mixes-tokens",
    WARNING,
    "Attention heads that mix tokens",
    "The queries and keys of an attention, of shape (batch, tokens, features), were viewed as (batch, heads, tokens, "
    "...) or (batch * heads, tokens, ...), or its results, of shape (batch, heads, tokens, features), were viewed as "
    "(batch, tokens, heads * features). A view moves nothing, so what counts as one token afterwards has features of "
    "several tokens, or one token is several. The numbers of heads and tokens differ, so this is not a coincidence.",
    "Swap heads and tokens: `x.view(batch, tokens, heads, -1).transpose(1, 2)` to split the features into heads, and "
    "`x.transpose(1, 2).reshape(batch, tokens, -1)` to merge them.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/reczoo/FuxiCTR/issues/30",
        "https://github.com/jsbaan/transformer-from-scratch/pull/6",
    ),
)
CLASSES: Final = Rule(
    "view-mixes-classes",
    WARNING,
    "Views that mix the scores of classes",
    "A log-softmax, such as that of `F.cross_entropy`, was applied to a view of shape (-1, classes) of a tensor of "
    "shape (batch, classes, ...) whose last dimension has another size. A view moves nothing, so each row has scores "
    "of one class at several positions instead of those of all classes at one position.",
    "Pass `F.cross_entropy` the scores unchanged, as it accepts (batch, classes, ...); or move the classes to the end "
    "first: `scores.permute(0, 2, 3, 1).reshape(-1, classes)`.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/irfanICMLL/structure_knowledge_distillation/issues/11",),
)
SELF: Final = Rule(
    "self-similarity-not-masked",
    WARNING,
    "Contrastive losses in which samples compete with themselves",
    "`F.cross_entropy`, with classes as targets, received the products of vectors with themselves, at most scaled. In "
    "each row, the product of the vector with itself is among the candidates, and it is usually the largest. Nothing "
    "masks it.",
    "Fill the diagonal of the products with `float('-inf')` before the loss: "
    "`similarity.fill_diagonal_(float('-inf'))`.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/Lightning-Universe/lightning-bolts/issues/695",),
)

PERMUTED: Final = Rule(
    "view-instead-of-permute",
    WARNING,
    "Views where dimensions were to be permuted",
    "In the code of the training program, `view` or `reshape` gives a tensor of three or more dimensions its own sizes "
    "in another order, as in `h, w, c = image.shape; image.view(c, h, w)`. Or it gives an image that OpenCV or Pillow "
    "has read the sizes (3, height, width), or a data set gives an image that it stores the same sizes in another "
    "order. Or the input of a model is a view of the data with their sizes in another order. Or the output of a "
    "convolution, (batch, channels, height, width), is viewed as (batch, height * width, channels). This has the shape "
    "of the permuted tensor, but moves no element, so each channel has values of all channels. Functions that swap two "
    "sizes and also pad or concatenate are not reported: so are rows shifted against each other on purpose.",
    "Permute the dimensions: `image.permute(2, 0, 1)`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/Selen-Suyue/DensePolicy2D/issues/3",
        "https://github.com/ohtlab/headpose-fsanet-pytorch/issues/10",
    ),
)

_OF_HEADS: Final = frozenset({"heads-view", "heads-merge"})
_OF_PATTERNS: Final = _OF_HEADS | {"classes-view", "map-as-tokens", "self-similarity"}


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        findings += _of_samples(of_process)
        findings += _of_source(of_process)
        reported: set[tuple[str, str]] = set()
        for event, backward_place, made in of_process.acts.patterns:
            place = made or of_process.training.computed_at(backward_place)
            if event.what not in _OF_PATTERNS or (event.what, place) in reported:
                continue
            reported.add((event.what, place))
            shape, rank = tuple(event.shape), [of_process.process.rank]
            if event.what in _OF_HEADS:
                what = "queries and keys" if event.what == "heads-view" else "results"
                reason = f"a view of its {what}, of shape {shape}, mixes their tokens"
                findings.append(TOKENS.finding("attention", reason, rank, place=place))
            elif event.what == "map-as-tokens":
                reason = f"the output of a convolution, of shape {shape}, is viewed with the channels last"
                findings.append(PERMUTED.finding("view", reason, rank, place=place))
            elif event.what == "classes-view":
                reason = f"scores of shape {shape} are viewed as rows of {shape[1]:,}"
                findings.append(CLASSES.finding("loss", reason, rank, place=place))
            else:
                reason = f"nothing masks the diagonal of the products, of shape {shape}"
                findings.append(SELF.finding("loss", reason, rank, place=place))
    if not any(process.backward_passes for process in evidence.processes):
        return Sight((), evidence.level_words or ["no backward pass was traced"], has_looked=False)
    return Sight(findings, evidence.compiled_words)


def _of_samples(of_process: ProcessEvidence) -> list[Finding]:
    """The views of one process that mix samples, at their line or else at the call of the only recurrent layer."""
    recurrent = [
        each for each in of_process.process.modules if each.type in ("LSTM", "GRU", "RNN") and each.called_place
    ]
    findings = []
    for backward_place, mix in of_process.acts.views.items():
        if mix.mixed and not mix.kept:
            batch, first = mix.shape
            reason = f"a tensor of shape ({first:,}, {batch:,}, ...) is viewed as ({batch:,}, ...)"
            name, place = "view", backward_place
            if len(recurrent) == 1:
                name, place = recurrent[0].name, recurrent[0].called_place
            place = mix.made or place
            findings.append(SAMPLES.finding(name, reason, [of_process.process.rank], place=place))
    return findings


def _of_source(of_process: ProcessEvidence) -> list[Finding]:
    """The views in the source that permute the sizes of a tensor."""
    return [
        PERMUTED.finding(
            "view",
            f"a tensor of sizes ({source.event.names[0]}) is viewed as ({source.event.names[1]})",
            [of_process.process.rank],
            place=source.place,
        )
        for source in of_process.acts.sources
        if source.event.what == "sizes-permuted"
    ]


CHECK: Final = Check(
    "views", "views keep together what belongs together", _look, (SAMPLES, TOKENS, CLASSES, PERMUTED, SELF)
)
