"""Checks that dropout follows the mode of its module.

`torch.nn.functional.dropout` has `training=True` by default, regardless of the module's mode: without
`training=self.training`, it drops in evaluation too. So does `scaled_dot_product_attention` with a constant
`dropout_p`, and an `nn.Dropout` created in `forward`, because a new module is in training mode. The first evaluation
calls of each model are examined. Dropout with `training=True`, and a dropout module that was put into training mode,
are assumed to be on purpose.
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
    "Dropout that ignores evaluation mode",
    "A module in evaluation mode, called by a model in evaluation mode, dropped values. It called a functional dropout "
    "without the argument `training`, which is true by default; or an attention with a `dropout_p` that does not "
    "depend on the mode; or a dropout module that it had just created, which is in training mode.",
    "Pass `training=self.training`, or `dropout_p=self.dropout if self.training else 0.0`; or create an `nn.Dropout` "
    "in `__init__`.",
    "show {run} --kind active_dropout",
    sources=("https://github.com/rixwew/pytorch-fm/issues/21", "https://github.com/karpathy/nanoGPT/pull/240"),
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


CHECK: Final = Check("dropout", "dropout follows the mode", _look, (ALWAYS_ON,))
