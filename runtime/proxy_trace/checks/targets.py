"""Checks the targets of losses and the masks of attention.

| the loss or attention received | code |
| --- | --- |
| targets of a causal language model that are the tokens that it reads | target-shift-wrong |
| targets of a language model that are the tokens after the next ones | target-shift-wrong |
| targets that end with the embedding's padding token, which the loss does not ignore | padding-in-loss |
| labels of the padding tokens that the model reads, which the loss does not ignore | padding-in-loss |
| targets of a language model that are the next tokens, which its attention sees | causal-mask-missing |
| a mask that leaves only the padding | attention-mask-inverted |
| binary targets such as -1 or 2; targets such as 0 instead of 1 and -1 | labels-of-other-set |
| a tenth of the targets of a regression lie where the last activation cannot go | targets-out-of-range |
| targets of a softmax with several classes in some rows and none in others | multi-hot-in-softmax |
| the last step of a recurrent layer's output for padded sequences | last-step-is-padding |

The values are read in the first backward passes at a place. They are read only on the CPU, and not if the program saved
the tensors through its own hooks.
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
    from proxy_wrapper.events import GraphPattern

SHIFT: Final = Rule(
    "target-shift-wrong",
    WARNING,
    "Targets of language models that are not the next tokens",
    "All target classes of a cross entropy are tokens that the model reads, from the same vocabulary. Either they are "
    "at the same position, although the model is causal, so that it only has to copy them. Or they are two positions "
    "ahead, because both the data and the loss shift them. A model is causal if its attention weights show it, or if "
    "it has a single unidirectional recurrent layer besides linear ones. A model that reads two texts, such as a "
    "translator, has one such layer for each text, and the targets are in only one of the texts.",
    "Compare the outputs for `tokens[:, :-1]` with `tokens[:, 1:]`, and shift in one place only.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/huggingface/transformers/issues/32944",),
)
PADDING: Final = Rule(
    "padding-in-loss",
    WARNING,
    "Losses that count padding",
    "The embedding of a model has a `padding_idx`. Some target sequences of a cross entropy end with at least two of "
    "these tokens, and neither `ignore_index` nor class weights exclude them. Or the targets are one label for each "
    "token that the model reads, and all padding tokens have the same label, which is not `ignore_index`. "
    "The longer the padding, the less the other tokens count.",
    "Set `ignore_index` of the loss to the padding index, and give padding that label.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/DaoyuanLi2816/Molecule-Generator/pull/20",
        "https://github.com/voidism/DiffCSE/issues/25",
    ),
)
MASK: Final = Rule(
    "attention-mask-inverted",
    WARNING,
    "Attention to padding only",
    "Attention over the tokens of an embedding gives weight to a single token of the vocabulary, in all sequences. "
    "That token occurs only at the ends of sequences, at least twice in one of them. All other tokens are masked. The "
    "mask is inverted: `scaled_dot_product_attention` expects True for tokens to attend to, but the layers of "
    "`torch.nn` expect True for tokens to mask.",
    "Pass `~mask`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/InseeFrLab/torchTextClassifiers/pull/92",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
    ),
    explains=("dead-units", "never-updated"),
)
CAUSAL: Final = Rule(
    "causal-mask-missing",
    WARNING,
    "Language models that see the tokens to predict",
    "All target classes of a cross entropy are the next tokens of the text that the model reads. Every self-attention "
    "over these tokens lets some of them see later ones, so the model can copy what it should predict. The model has "
    "no recurrent layer and reads no other text. The loss falls to almost 0, but generated text is meaningless.",
    "Use `scaled_dot_product_attention(..., is_causal=True)`; pass the layers of `torch.nn` the mask from "
    "`nn.Transformer.generate_square_subsequent_mask(length)`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/huggingface/transformers/issues/48745",
        "https://github.com/facebookresearch/xformers/issues/103",
    ),
)
LABELS: Final = Rule(
    "labels-of-other-set",
    WARNING,
    "Labels outside the set of a loss",
    "A binary cross entropy expects targets from 0 to 1, but some are below -0.5 or above 1.5, such as labels of -1. "
    "Or `cosine_embedding_loss`, `hinge_embedding_loss` or `soft_margin_loss` received targets other than 1 and -1, "
    "such as 0. These count as neither class, or as both.",
    "Convert the labels: `2 * y - 1` turns 0 and 1 into -1 and 1; `(y + 1) / 2` does the reverse.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html",
    ),
)
MULTI_HOT: Final = Rule(
    "multi-hot-in-softmax",
    WARNING,
    "Softmax over labels that are not mutually exclusive",
    "`F.cross_entropy`, or a binary cross entropy of the result of a softmax, received targets of zeros and ones, with "
    "several ones in some rows and none in others: each sample has any number of labels. With a softmax, no two "
    "classes can both be almost certain, and a row without ones adds nothing to the cross entropy. The scores are the "
    "output of a linear or convolutional layer.",
    "Use `nn.BCEWithLogitsLoss`, and `torch.sigmoid` to predict.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/hypnopump/rgn2-replica/pull/12",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",
    ),
)
RANGE: Final = Rule(
    "targets-out-of-range",
    WARNING,
    "Targets that the last activation cannot reach",
    "A tenth or more of the targets of `mse_loss`, `smooth_l1_loss` or `huber_loss` lie outside the range of the "
    "activation behind the last layer: below 0 for ReLU and softplus, outside 0 to 1 for sigmoid, outside -1 to 1 for "
    "tanh. The model cannot predict them. If a ReLU is at 0, it gets no gradient either.",
    "Remove the activation behind the last layer, or scale the targets into its range.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/mikesj-public/convolutional_autoencoder/pull/9",
        "https://github.com/tsinghua-rll/VoxelNet-tensorflow/issues/10",
    ),
    explains=("dead-units",),
)
LAST_STEP: Final = Rule(
    "last-step-is-padding",
    WARNING,
    "Last steps of recurrent layers that are padding",
    "The embedding of a model has a `padding_idx`. At least half of the sequences of a batch, but not all, end with "
    "that token. A recurrent layer reads them without packing, and the model takes its output at the last step, as in "
    "`out[:, -1]`. For most samples this is the output after the padding, which also depends on the lengths of the "
    "other sequences in the batch.",
    "Take the output at the last token, `out[torch.arange(len(out)), lengths - 1]`; or pack the sequences with "
    "`pack_padded_sequence` and use the last hidden state.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/thtrieu/qclass_dl/issues/1",
        "https://github.com/bentrevett/pytorch-pos-tagging/issues/8",
    ),
    explains=("dead-units",),
)
IGNORED: Final = Rule(
    "class-ignored",
    WARNING,
    "Classes that a loss ignores",
    "The `ignore_index` of a cross entropy is one of the classes that it has scores for, and samples of a batch are of "
    "that class: the model never learns it. Only losses with one target for each sample are judged, whose scores come "
    "straight from a layer, not those of the items of sequences or of pixels. If there are more than two classes, at "
    "most half of the samples are of that class, and the loss is the only one. A model with an embedding of as many "
    "rows as there are classes may write padding, and is not judged.",
    "Leave `ignore_index` at its default, -100. If labels begin with 1, subtract 1 from them.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/codertimo/BERT-pytorch/issues/98",
        "https://github.com/nyu-mll/jiant/issues/925",
        "https://github.com/lucidrains/parti-pytorch/issues/8",
    ),
)

_IN_WORDS: Final = {
    "padding-targets": (PADDING, "loss", "{first:,.0f} of the first {last:,.0f} targets are padding"),
    "padding-labels": (PADDING, "loss", "{first:,.0f} of the first {last:,.0f} labels are those of padding tokens"),
    "padding-attended": (MASK, "attention", "only token {first:.0f}, the padding, is attended to"),
    "binary-targets": (LABELS, "loss", "a binary cross entropy received targets from {first:.3g} to {last:.3g}"),
    "sign-targets": (LABELS, "loss", "{first:,.0f} of {last:,.0f} targets are neither 1 nor -1"),
    "last-step-padding": (
        LAST_STEP,
        "model",
        "it takes the last step, which is padding in {first:,.0f} of {last:,.0f} sequences",
    ),
    "class-ignored": (IGNORED, "loss", "{first:,.0f} of {last:,.0f} targets are of class {dim}, which it ignores"),
}
"""For patterns that tell all: the rule, the name of the finding, and the reason, with the first and the last value."""

_RECURRENT: Final = frozenset({"RNN", "LSTM", "GRU"})
_BESIDE: Final = frozenset({"Embedding", "Linear", "Dropout", "LayerNorm"})
"""Layers that move nothing between the positions of a sequence."""


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        reported: set[tuple[str, str]] = set()
        for event, backward_place, made in of_process.acts.patterns:
            place = of_process.training.computed_at(backward_place)
            found = _judge(event, of_process)
            if found is None or (found[0].code, place) in reported:
                continue
            rule, name, reason = found
            reported.add((rule.code, place))
            rank = [of_process.process.rank]
            place = made or (_attention_place(of_process) if rule in (MASK, CAUSAL) else "") or place
            findings.append(rule.finding(name, reason, rank, step=event.step, place=place))
    if not any(process.backward_passes for process in evidence.processes):
        return Sight((), evidence.level_words or ["no backward pass was traced"], has_looked=False)
    return Sight(findings, [*evidence.device_words, *evidence.compiled_words])


def _judge(event: GraphPattern, of_process: ProcessEvidence) -> tuple[Rule, str, str] | None:
    """The rule that a pattern breaks, the name of the finding, and the reason; None if it breaks none."""
    first, last = (event.values[0], event.values[-1]) if event.values else (0.0, 0.0)
    if event.what == "token-targets":
        if event.dim:
            return SHIFT, "loss", f"its targets are {event.dim} tokens ahead of the tokens that the model reads"
        is_causal = bool(first) or _has_one_direction(of_process, 1 + int(last))
        return (
            (SHIFT, "loss", "its targets are the tokens that the model reads at the same position")
            if is_causal
            else None
        )
    if event.what == "later-tokens-seen":
        has_recurrent = any(
            each.calls and each.type.removesuffix("Cell") in _RECURRENT for each in of_process.process.modules
        )
        return None if has_recurrent else (CAUSAL, "attention", "tokens see the later ones that they should predict")
    if event.what in _IN_WORDS:
        rule, name, words = _IN_WORDS[event.what]
        return rule, name, words.format(first=first, last=last, dim=event.dim)
    if event.what in ("multi-hot-targets", "multi-hot-probabilities") and len(event.values) > 1:
        none = event.values[1]
        reason = f"of {last:,.0f} target rows, {first:,.0f} have several ones and {none:,.0f} have none"
        return MULTI_HOT, "loss", reason
    if event.what == "targets-out-of-range" and len(event.values) > 2:
        lowest, *highest = event.values[2:]
        bounds = f"from {lowest:g} to {highest[0]:g}" if highest else f"from {lowest:g} on"
        reason = f"{first:,.0f} of {event.values[1]:,.0f} targets are no possible outputs, which are {bounds}"
        return RANGE, "loss", reason
    return None


def _has_one_direction(of_process: ProcessEvidence, texts: int) -> bool:
    """Whether a process calls one unidirectional recurrent layer per text, and no other layer that mixes positions."""
    parents = {module.parent for module in of_process.process.modules}
    called = [each for each in of_process.process.modules if each.calls and each.id not in parents and not each.removed]
    recurrent = [each for each in called if each.type in _RECURRENT]
    are_of_one = all(each.settings.get("bidirectional") is False for each in recurrent)
    return are_of_one and len(recurrent) == texts and all(each.type in _RECURRENT | _BESIDE for each in called)


def _attention_place(of_process: ProcessEvidence) -> str:
    """Where the outermost layer of torch with attention is called; "" if there is not exactly one."""
    layers = [
        each
        for each in of_process.process.modules
        if each.called_place and each.type in ("MultiheadAttention", "TransformerEncoderLayer", "TransformerEncoder")
    ]
    ids = {each.id for each in layers}
    outer = {
        each.called_place for each in layers if each.parent not in ids and not _is_below(each.parent, ids, of_process)
    }
    return next(iter(outer)) if len(outer) == 1 else ""


def _is_below(module: int, ids: set[int], of_process: ProcessEvidence) -> bool:
    """Whether a module is one of `ids`, or below one."""
    parents = {each.id: each.parent for each in of_process.process.modules}
    seen: set[int] = set()
    while module and module not in seen:
        if module in ids:
            return True
        seen.add(module)
        module = parents.get(module, 0)
    return False


CHECK: Final = Check(
    "targets",
    "targets and masks look as intended",
    _look,
    (SHIFT, PADDING, MASK, CAUSAL, LABELS, RANGE, MULTI_HOT, LAST_STEP, IGNORED),
)
