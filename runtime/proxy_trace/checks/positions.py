"""Checks that the positions of a sequence differ from each other.

Half precision holds every whole number up to 256 (bfloat16) or 2,048 (float16) only. Beyond, neighbouring positions
become equal, and so do the rows of sines and cosines that are computed from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

REPEAT: Final = Rule(
    "positions-repeat",
    WARNING,
    "Positions that are counted in half precision",
    "In a call of a module in training mode, its `forward`, or a function that this calls, counted more positions "
    "than the type in which it holds them has whole numbers, as in `torch.arange(n, dtype=torch.bfloat16)`. Their "
    "number and their type are those of the call. The function computes sines or cosines, or a variable has the name "
    "of positions. Or, in a table that the module keeps, neighbouring rows repeat each other exactly as positions do "
    "in such a type, and a sequence was long enough to read them.",
    "Count in float32, `torch.arange(n, dtype=torch.float32)`, compute the sines and cosines in it, and convert these.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/EleutherAI/gpt-neox/issues/1003",
        "https://github.com/huggingface/transformers/issues/25681",
    ),
)


def _look(evidence: Evidence) -> Sight | None:
    findings = []
    for of_process in evidence.of_processes:
        names = {module.id: module.name for module in of_process.process.modules}
        for event, place, made in of_process.acts.patterns:
            if event.what != "positions-repeat" or not event.shape:
                continue
            exact, name = event.dim, names.get(event.module, "")
            reason = f"of {event.shape[0]:,} positions, those above {exact:,} are rounded"
            numbers = [f"{exact:,} and {exact + 1:,} are the same number"]
            rank = [of_process.process.rank]
            findings.append(REPEAT.finding(name, reason, rank, step=event.step, place=made or place, evidence=numbers))
    return Sight(findings) if findings else None


CHECK: Final = Check("positions", "positions differ from each other", _look, (REPEAT,))
"""Present only if it finds something."""
