"""Checks that parameters which the script freezes are frozen, and those that it unfreezes are not.

`parameter.require_grad = False` and `module.requires_grad = False` create a new attribute, and freeze nothing. Neither
does `module.requires_grad = True` unfreeze anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR, WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

NO_EFFECT: Final = Rule(
    "freeze-has-no-effect",
    ERROR,
    "Freezing that has no effect",
    "Parameters have an attribute that is a misspelt `requires_grad`, or a module that contains them has an attribute "
    "of that name, and it is `False`; an optimizer changed the parameters nevertheless. Or a module was given such an "
    "attribute during training, and it is `True`, but frozen parameters of the module, which an optimizer has, stayed "
    "frozen and never changed. Or, as a warning: the source sets `requires_grad` of some parameters of a model to "
    "`False`, and a loop over all of them, before anything is trained, sets it to `True` again.",
    "Call `requires_grad_(False)`, or `requires_grad_(True)`, on the module or the parameter. Freeze after all that "
    "unfreezes.",
    "history {run} {name}",
    "parameter",
    ("https://github.com/HengyiWang/Co-SLAM/issues/12",),
)
_UNDONE: Final = NO_EFFECT._replace(severity=WARNING)


def _look(evidence: Evidence) -> Sight:
    findings = []
    for of_process in evidence.of_processes:
        tensors = {tensor.id: tensor for tensor in of_process.process.tensors}
        for event, place in of_process.acts.freezings:
            tensor = tensors.get(event.tensor)
            if tensor is None:
                continue
            is_trained = tensor.has_changed and not 0 <= tensor.last_gradient_step < event.step
            stays_frozen = not (tensor.requires_grad or is_trained)
            if stays_frozen if event.unfreezes else tensor.is_stepped and tensor.has_changed:
                does_not = "unfreeze" if event.unfreezes else "freeze"
                reason = f"`{event.attribute} = {event.unfreezes}` does not {does_not} it"
                rank = [of_process.process.rank]
                findings.append(NO_EFFECT.finding(tensor.name, reason, rank, event.count, place=place))
        for source, place, other in of_process.acts.sources:
            if source.what == "freeze-undone":
                reason = f"a loop over all parameters unfreezes what was frozen at {other}"
                rank = [of_process.process.rank]
                findings.append(_UNDONE.finding(source.names[0], reason, rank, place=place))
    if not any(each.training.optimizers for each in evidence.of_processes):
        return Sight(findings, evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings)


CHECK: Final = Check("freezing", "what the script freezes is frozen, and what it unfreezes is not", _look, (NO_EFFECT,))
