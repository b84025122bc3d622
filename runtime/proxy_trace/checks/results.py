"""The code that trains uses what it computes.

`scores.masked_fill(mask, float("-inf"))` as a statement of its own changes nothing: it gives a new tensor, and the old
one goes on without a mask. What changes a tensor in place has a name with an underscore at the end.
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
    "Tensors that are computed and not used",
    "A statement of the code that trains, or of a module's `forward`, calls a function that does nothing but to "
    "compute another tensor, and drops it: a method that only tensors have, as `masked_fill`; a function of torch, as "
    "`F.dropout`; or a layer of PyTorch's own that does not work in place. It is as if the statement were not there.",
    "Assign the result, `scores = scores.masked_fill(...)`, or call what works in place, `scores.masked_fill_(...)`.",
    "show {run} --kind discarded_result",
    sources=(
        "https://github.com/lucidrains/flamingo-pytorch/issues/10",
        "https://github.com/facebookresearch/ParlAI/pull/3068",
        "https://github.com/espnet/espnet/pull/1273",
    ),
)


def _look(evidence: Evidence) -> Sight:
    findings = [
        DISCARDED.finding(
            discard.event.function, "nothing uses what it gives", [of_process.process.rank], place=discard.place
        )
        for of_process in evidence.of_processes
        for discard in of_process.acts.discards
    ]
    if not any(process.backward_passes for process in evidence.processes):
        return Sight((), evidence.level_words or ["no backward pass was traced"], has_looked=False)
    return Sight(findings)


CHECK: Final = Check("results", "what is computed is used", _look, (DISCARDED,))
