"""Losses compare with what they are meant to, and attention leaves out what it is meant to.

| what losses and attention were given | code |
| --- | --- |
| targets of a language model that are the very tokens it reads, though it sees no later ones | target-shift-wrong |
| targets of a language model that are the tokens after the next ones | target-shift-wrong |
| targets that end with the padding of the embedding, which the loss does not ignore | padding-in-loss |
| targets of a language model that are the next tokens, which its attention sees | causal-mask-missing |
| scores with weights for nothing but the padding | attention-mask-inverted |
| targets of a binary cross entropy such as -1 or 2; targets such as 0 where 1 and -1 are meant | labels-of-other-set |
| targets of a cross entropy that are several classes in some rows, and none in others | multi-hot-in-softmax |
| the last step of what a recurrent layer gave for padded sequences | last-step-is-padding |

That is decided by the values themselves, in the first backward passes at a place. They are read on the CPU only, and
not of tensors that the program has saved by hooks of its own.
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
    "The classes that a cross entropy was given are, all of them, tokens that the model reads, with the same "
    "vocabulary: at the same place, although the model sees no later tokens there, so that it only has to copy them; "
    "or two places ahead, since both the data and the loss shift them. A model is known to see no later tokens by the "
    "weights of its attention, or if it has a single recurrent layer, of one direction, besides linear ones.",
    "Compare the outputs for `tokens[:, :-1]` with `tokens[:, 1:]`, and shift in one place only.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/huggingface/transformers/issues/32944",),
)
PADDING: Final = Rule(
    "padding-in-loss",
    WARNING,
    "Losses that count padding",
    "The embedding of a model has a `padding_idx`. The classes that a cross entropy was given end with that very "
    "token, two times or more in some sequences, and neither `ignore_index` nor weights of classes leave it out. The "
    "longer the padding, the less do the other tokens count.",
    "Give the loss `ignore_index=` the index of the padding.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/DaoyuanLi2816/Molecule-Generator/pull/20",
        "https://github.com/voidism/DiffCSE/issues/25",
    ),
)
MASK: Final = Rule(
    "attention-mask-inverted",
    WARNING,
    "Attention to nothing but padding",
    "In an attention over the tokens that an embedding was given, exactly one token gets any weight, in all sequences. "
    "It comes two or more times at the end of one, and nowhere else; all others are left out. The mask is inverted: "
    "`scaled_dot_product_attention` takes True for what is to be attended to, the layers of `torch.nn` take it for "
    "what is to be left out.",
    "Give the layer `~mask`.",
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
    "Language models that see the tokens which they predict",
    "The classes that a cross entropy was given are, all of them, the next tokens of the text that the model reads. "
    "Every attention of these tokens to themselves lets some of them see later ones, so the model can copy what it is "
    "to predict. No recurrent layer and no other text is involved. The loss falls to almost 0, and what the model "
    "writes by itself is no text.",
    "Use `scaled_dot_product_attention(..., is_causal=True)`; give the layers of `torch.nn` the mask that "
    "`nn.Transformer.generate_square_subsequent_mask(length)` makes.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/huggingface/transformers/issues/48745",
        "https://github.com/facebookresearch/xformers/issues/103",
    ),
)
LABELS: Final = Rule(
    "labels-of-other-set",
    WARNING,
    "Labels that a loss does not know",
    "A binary cross entropy takes targets from 0 to 1; here some are below -0.5 or above 1.5, as labels of -1 are. Or "
    "`cosine_embedding_loss`, `hinge_embedding_loss` or `soft_margin_loss`, which take 1 and -1, were given other "
    "targets, such as 0: these count for nothing, or for both.",
    "Convert the labels: `2 * y - 1` makes -1 and 1 of 0 and 1, `(y + 1) / 2` the other way round.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html",
    ),
)
MULTI_HOT: Final = Rule(
    "multi-hot-in-softmax",
    WARNING,
    "Softmax over labels that do not exclude one another",
    "`F.cross_entropy` received targets of zeros and ones, several ones in some rows and none in others: each sample "
    "has any number of labels. A softmax makes the classes compete, so that no two can be likely at a time, and a row "
    "without ones counts for nothing. The scores are the output of a linear or convolutional layer.",
    "Use `nn.BCEWithLogitsLoss`, and `torch.sigmoid` to predict.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/hypnopump/rgn2-replica/pull/12",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",
    ),
)
LAST_STEP: Final = Rule(
    "last-step-is-padding",
    WARNING,
    "Last steps of recurrent layers that are padding",
    "The embedding of a model has a `padding_idx`, and at least half of the sequences of a batch end with that token, "
    "but not all. A recurrent layer reads them as they are, and the model takes its output at the last step, as in "
    "`out[:, -1]`: for most samples it is what is left after all the padding, and it depends on how long the other "
    "sequences of the batch are.",
    "Take the output at the last token, `out[torch.arange(len(out)), lengths - 1]`; or pack the sequences with "
    "`pack_padded_sequence` and use the last hidden state.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/thtrieu/qclass_dl/issues/1",
        "https://github.com/bentrevett/pytorch-pos-tagging/issues/8",
    ),
    explains=("dead-units",),
)

_RECURRENT: Final = frozenset({"RNN", "LSTM", "GRU"})
_BESIDE: Final = frozenset({"Embedding", "Linear", "Dropout", "LayerNorm"})
"""What moves nothing from one place of a sequence to another."""


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        told: set[tuple[str, str]] = set()
        for event, backward_place, made in of_process.acts.patterns:
            place = of_process.training.computed_at(backward_place)
            found = _judge(event, of_process)
            if found is None or (found[0].code, place) in told:
                continue
            rule, name, reason = found
            told.add((rule.code, place))
            rank = [of_process.process.rank]
            place = made or (_attention_place(of_process) if rule in (MASK, CAUSAL) else "") or place
            findings.append(rule.finding(name, reason, rank, step=event.step, place=place))
    if not any(process.backward_passes for process in evidence.processes):
        return Sight((), evidence.level_words or ["no backward pass was traced"], has_looked=False)
    return Sight(findings, [*evidence.device_words, *evidence.compiled_words])


def _judge(event: GraphPattern, of_process: ProcessEvidence) -> tuple[Rule, str, str] | None:
    """The rule that a pattern breaks, what it is about, and what is said."""
    first, last = (event.values[0], event.values[-1]) if event.values else (0.0, 0.0)
    if event.what == "token-targets":
        if event.dim:
            return SHIFT, "loss", f"its targets are {event.dim} tokens ahead of what the model reads"
        is_causal = bool(first) or _has_one_direction(of_process)
        return (
            (SHIFT, "loss", "its targets are the tokens that the model reads at the same place") if is_causal else None
        )
    if event.what == "later-tokens-seen":
        has_recurrent = any(
            each.calls and each.type.removesuffix("Cell") in _RECURRENT for each in of_process.process.modules
        )
        return None if has_recurrent else (CAUSAL, "attention", "tokens see those that are to be predicted")
    if event.what == "padding-targets":
        return PADDING, "loss", f"{first:,.0f} of the first {last:,.0f} targets are padding"
    if event.what == "padding-attended":
        return MASK, "attention", f"of all tokens, only number {first:.0f}, the padding, is attended to"
    if event.what == "binary-targets":
        return LABELS, "loss", f"a binary cross entropy had targets from {first:.3g} to {last:.3g}"
    if event.what == "sign-targets":
        return LABELS, "loss", f"{first:,.0f} of {last:,.0f} targets are neither 1 nor -1"
    if event.what == "multi-hot-targets" and len(event.values) > 1:
        none = event.values[1]
        reason = f"of {last:,.0f} rows of targets {first:,.0f} have several ones, and {none:,.0f} have none"
        return MULTI_HOT, "loss", reason
    if event.what == "last-step-padding":
        return LAST_STEP, "model", f"in {first:,.0f} of {last:,.0f} sequences, the last step that it takes is padding"
    return None


def _has_one_direction(of_process: ProcessEvidence) -> bool:
    """Whether a process calls one recurrent layer, of one direction, and otherwise layers that mix no places."""
    parents = {module.parent for module in of_process.process.modules}
    called = [each for each in of_process.process.modules if each.calls and each.id not in parents and not each.removed]
    recurrent = [each for each in called if each.type in _RECURRENT]
    is_one = len(recurrent) == 1 and recurrent[0].settings.get("bidirectional") is False
    return is_one and all(each.type in _RECURRENT | _BESIDE for each in called)


def _attention_place(of_process: ProcessEvidence) -> str:
    """Where the outermost layer of torch with an attention is called; "" if there is none, or several."""
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
    """Whether a module is one of some, or lies below one."""
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
    "losses compare with what they are meant to",
    _look,
    (SHIFT, PADDING, MASK, CAUSAL, LABELS, MULTI_HOT, LAST_STEP),
)
