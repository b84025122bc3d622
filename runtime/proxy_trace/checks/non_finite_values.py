"""The findings of NaN and infinities, shared by several checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.finding import ERROR
from proxy_trace.checks.rule import Rule
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence

LOSS: Final = "start of a backward pass"

NON_FINITE: Final = Rule(
    "non-finite",
    ERROR,
    "Non-finite values",
    "An output, a loss, a gradient, a parameter or a buffer contains a NaN or an infinity, or has an infinite norm "
    "although each element is finite. The first one is where to look. Its consequences in the loss, the gradients, "
    "the weights and the outputs are listed as its evidence; in another model, only if they occurred in the same step "
    "or the next. If the autograd graph tells which operation it came from, such as a division by 0, or a square root "
    "of 0, whose derivative is infinite, this is evidence, too, and the place is the line that calls it. A buffer that "
    "was created with infinities, such as a mask, is left out.",
    "Look at how the first one was computed: a logarithm or a division near 0, an overflow in half precision, a "
    "learning rate that is too high. At level DEBUG the trace names the calls that computed it, with their lines.",
    "show {run} --kind non_finite",
    sources=("Wardat et al., DeepLocalize: Fault Localization for Deep Neural Networks, ICSE 2021",),
)


_WITHOUT_DERIVATIVE: Final = {
    "sqrt": "a square root of 0, whose derivative is infinite",
    "pow": "a root of 0, whose derivative is infinite",
    "acos": "an arc cosine of 1 or -1, whose derivative is infinite",
    "asin": "an arc sine of 1 or -1, whose derivative is infinite",
    "log": "a logarithm of 0 or a negative number",
    "div": "a division by 0",
    "reciprocal": "a division by 0",
    "rsqrt": "a division by a square root of 0",
    "exp": "an exponential that is infinite",
    "softmax": "a softmax that is NaN",
}
"""What operations near the loss do to gradients."""
_WITHOUT_RESULT: Final = _WITHOUT_DERIVATIVE | {
    "sqrt": "a square root of a negative number",
    "pow": "a root of a negative number",
    "acos": "an arc cosine of a number above 1 or below -1",
    "asin": "an arc sine of a number above 1 or below -1",
    "softmax": "a softmax that is NaN: all values of a row are masked",
}
"""What operations give NaN or infinities."""


def find_non_finite(evidence: Evidence, *places: str) -> list[Finding]:
    """The first NaN or infinity of each output, loss, gradient, parameter or buffer; `places` says which of these."""
    found = []
    for of_process in evidence.of_processes:
        names, rank = of_process.names, of_process.process.rank
        for event, trail in zip(of_process.non_finite, of_process.trails, strict=True):
            if event.where not in places:
                continue
            name, what = _subject(event, of_process)
            size = f" of {event.type}" if event.type else ""
            reason = f"{what}: {event.count:,} non-finite element{'' if event.count == 1 else 's'}{size}"
            time_us = event.time_us + of_process.started_us - evidence.first_us
            place = names.place(event.computed or event.location)
            numbers = [f"`{event.variable}` is the first variable that contains a NaN"] if event.variable else []
            words = (_WITHOUT_DERIVATIVE if event.where == "gradient" else _WITHOUT_RESULT).get(event.operation)
            numbers += [f"its graph has {words}"] if words else []
            one = NON_FINITE.finding(
                name, reason, [rank], step=event.step, time_us=time_us, place=place, trail=trail, evidence=numbers
            )
            found.append(one)
    return found


def _subject(event: events.NonFinite, of_process: ProcessEvidence) -> tuple[str, str]:
    """The name of a value's owner, and which of its values it is."""
    if event.where == "output":
        module = of_process.names.modules.get(event.module)
        return of_process.names.module_name(event.module), f"output{f' ({module.type})' if module else ''}"
    if event.where == "loss":
        return of_process.names.module_name(event.module) or "loss", LOSS
    return of_process.names.tensor_name(event.tensor), event.where


def find_overflows(evidence: Evidence, *kinds: type[events.Event]) -> list[Finding]:
    """The first infinite norm of each tensor with finite elements, in records of these kinds."""
    found = []
    for of_process in evidence.of_processes:
        names, rank = of_process.names, of_process.process.rank
        for event in of_process.overflows:
            if type(event) not in kinds:
                continue
            what = "gradient" if isinstance(event, events.Gradient) else "values"
            time_us = event.time_us + of_process.started_us - evidence.first_us
            reason = f"{what}: the norm is infinite, although each element is finite"
            name, place = names.tensor_name(event.tensor), names.place(event.location)
            found.append(NON_FINITE.finding(name, reason, [rank], step=event.step, time_us=time_us, place=place))
    return found


def find_at_start(evidence: Evidence, told: Iterable[Finding]) -> list[Finding]:
    """The parameters that had non-finite values at the start, except those in `told`."""
    names_told = {(finding.name, rank) for finding in told for rank in finding.ranks}
    found = []
    for process in evidence.processes:
        for tensor in process.tensors:
            first = tensor.first
            if tensor.is_buffer or tensor.removed or first is None or (tensor.name, process.rank) in names_told:
                continue
            if first.nonfinite:
                elements = f"{first.nonfinite:,} non-finite element{'' if first.nonfinite == 1 else 's'}"
                reason = f"parameter: {elements} of {tensor.type}, from the start"
            elif first.norm == "inf":
                reason = "values: the norm is infinite from the start, although each element is finite"
            else:
                continue
            found.append(NON_FINITE.finding(tensor.name, reason, [process.rank]))
    return found
