"""Dropout follows the mode of its module.

`torch.nn.functional.dropout` takes `training=True` by default, whatever the mode of the module that calls it: without
`training=self.training` it drops in evaluation, too. The first calls of each model in evaluation mode are looked at. A
call that says `training=True`, and a dropout module that was put into training mode, are taken for meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

ALWAYS_ON: Final = Rule(
    "dropout-always-on",
    ERROR,
    "Functional dropout in evaluation",
    "A module in evaluation mode, called by a model in evaluation mode, called a functional dropout without the "
    "argument `training`, which is true by default, and values were dropped.",
    "Pass `training=self.training`, or create an `nn.Dropout` in `__init__`.",
    "show {run} --kind active_dropout",
    sources=("https://github.com/rixwew/pytorch-fm/issues/21",),
)


def _look(evidence: Evidence) -> Sight | None:
    findings = []
    for of_process in evidence.of_processes:
        names = {module.id: module.name for module in of_process.process.modules}
        for event, place in of_process.acts.dropouts:
            reason, rank = f"its {event.function} drops values in evaluation mode", [of_process.process.rank]
            name = names.get(event.module, event.function)
            findings.append(ALWAYS_ON.finding(name, reason, rank, step=event.step, place=place))
    is_any = any(root.evaluated_calls for each in evidence.of_processes for root in each.training.roots.values())
    if not is_any:
        return Sight((), evidence.level_words, has_looked=False) if evidence.level_words else None
    return Sight(findings, evidence.compiled_words)


CHECK: Final = Check("dropout", "functional dropout follows the mode", _look, (ALWAYS_ON,))
