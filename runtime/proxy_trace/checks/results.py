"""Checks that training code uses what it computes.

The statement `scores.masked_fill(mask, float("-inf"))` changes nothing: it returns a new tensor, and the old one stays
without a mask. Methods that change a tensor in place have a name that ends with an underscore. `identity = x`, without
`out + identity`, is a residual connection that was forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

DISCARDED: Final = Rule(
    "result-discarded",
    WARNING,
    "Tensors that are computed and discarded",
    "A statement in training code, or in a module's `forward`, calls a function that only computes another tensor, and "
    "discards the result: a method that only tensors have, such as `masked_fill`; a function of torch, such as "
    "`F.dropout`; or a layer of PyTorch that does not work in place. Or the statement changes what a mask selects, "
    "`labels[mask].fill_(-100)`, which is a copy. The statement has no effect. Calls of a script that are in no loop "
    "and no function are not judged.",
    "Assign the result, `scores = scores.masked_fill(...)`, or use the in-place method, `scores.masked_fill_(...)`. "
    "Assign what a mask selects: `labels[mask] = -100`.",
    "show {run} --kind discarded_result,source_pattern",
    sources=(
        "https://github.com/lucidrains/flamingo-pytorch/issues/10",
        "https://github.com/facebookresearch/ParlAI/pull/3068",
        "https://github.com/espnet/espnet/pull/1273",
    ),
)
RESIDUAL: Final = Rule(
    "residual-not-added",
    WARNING,
    "Residual connections that are not added",
    "A module's `forward` assigns a variable called `identity`, `residual`, `shortcut`, `skip` or `x_orig`, and never "
    "reads it. The residual connection is missing, or something else was added in its place.",
    "Add it, `out = out + identity`; or delete the variable if no connection is meant.",
    "show {run} --kind source_pattern",
    sources=("https://github.com/yilundu/improved_contrastive_divergence/issues/7",),
)

_SOURCES: Final = {
    "residual-unread": (RESIDUAL, "`forward` never reads it"),
    "copy-changed": (DISCARDED, "a copy is changed, and not used"),
}
"""For each pattern in the source, its rule, and the reason of its findings."""


def _look(evidence: Evidence) -> Sight:
    findings = [
        DISCARDED.finding(
            discard.event.function, "its result is not used", [of_process.process.rank], place=discard.place
        )
        for of_process in evidence.of_processes
        for discard in of_process.acts.discards
    ]
    for of_process in evidence.of_processes:
        for source in of_process.acts.sources:
            if source.event.what in _SOURCES:
                rule, reason = _SOURCES[source.event.what]
                rank = [of_process.process.rank]
                findings.append(rule.finding(source.event.names[0], reason, rank, place=source.place))
    if not any(process.backward_passes for process in evidence.processes):
        return Sight((), evidence.level_words or ["no backward pass was traced"], has_looked=False)
    return Sight(findings)


CHECK: Final = Check("results", "what is computed is used", _look, (DISCARDED, RESIDUAL))
