"""Checks that both directions of a recurrent layer are read where they have seen the whole sequence.

The reverse direction ends at the first step. At the last step, it has seen one step only: `out[:, -1]` is then the
whole sequence in one direction, and the last element in the other. Its recurrent weights have no effect on the loss,
so their gradients are exactly zero.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence, TensorSummary

ONE_STEP: Final = Rule(
    "reverse-reads-one-step",
    WARNING,
    "Reverse directions that have read one step",
    "In a bidirectional recurrent layer, every gradient of a reverse direction's recurrent weights "
    "(`weight_hh_l0_reverse`) was exactly zero in two or more steps, while its input weights and the recurrent "
    "weights of the forward direction had others: the loss depends on the reverse direction only where it has read "
    "one step and has no state yet.",
    "Take each direction where it ends: `torch.cat([out[:, -1, :hidden], out[:, 0, hidden:]], 1)` with "
    "`batch_first=True`, or the last layer's states, `torch.cat([h_n[-2], h_n[-1]], 1)`.",
    "history {run} {name}",
    sources=(
        "https://github.com/yunjey/pytorch-tutorial/pull/174",
        "https://github.com/prabhuomkar/pytorch-cpp/pull/13",
    ),
    explains=("dead-units", "never-updated"),
)

_RECURRENT: Final = frozenset({"RNN", "LSTM", "GRU"})
_REVERSE: Final = re.compile(r"weight_hh_l\d+_reverse$")
_FEWEST: Final = 2
"""The least number of gradients. In a single step, a gradient may be zero for other reasons."""


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process in evidence.of_processes:
        layers = {each.id: each for each in of_process.process.modules if each.type in _RECURRENT}
        for tensor in of_process.process.tensors:
            layer = layers.get(tensor.module)
            if layer is None or tensor.removed or not _REVERSE.search(tensor.name) or not tensor.gradients:
                continue
            is_any = True
            if _is_unread(tensor, of_process):
                reason = "the loss depends on the reverse direction only where it has read one step"
                place = _place(layer, of_process)
                rank = [of_process.process.rank]
                findings.append(ONE_STEP.finding(tensor.name, reason, rank, place=place, concerns=[tensor.name]))
    return Sight(findings, evidence.sampling_words) if is_any else None


def _is_unread(tensor: TensorSummary, of_process: ProcessEvidence) -> bool:
    """Whether recurrent weights of a reverse direction never had a gradient but zero, while those around had."""
    others = {each.name: each for each in of_process.process.tensors if each.module == tensor.module}
    forward = others.get(tensor.name.removesuffix("_reverse"))
    inputs = others.get(tensor.name.replace("weight_hh", "weight_ih"))
    are_others_read = all(each is not None and each.has_nonzero_gradient for each in (forward, inputs))
    return tensor.gradients >= _FEWEST and not tensor.has_nonzero_gradient and are_others_read


def _place(layer: ModuleSummary, of_process: ProcessEvidence) -> str:
    """The line that takes the last step of both directions, if there is one, or where the layer was called."""
    lines = {each.made for each in of_process.acts.patterns if each.event.what == "last-step-of-both" and each.made}
    return next(iter(lines)) if len(lines) == 1 else layer.called_place


CHECK: Final = Check("directions", "both directions of recurrent layers are read", _look, (ONE_STEP,))
"""Applies if a bidirectional layer had gradients."""
