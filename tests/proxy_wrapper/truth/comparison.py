"""Whether a trace says what is true."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tests.proxy_wrapper.truth.numbers import disagreement, has_nonzero

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from proxy_wrapper.events import Statistics
    from tests.proxy_wrapper.truth.account import GradientSeen
    from tests.proxy_wrapper.truth.counted_run import Truth
    from tests.proxy_wrapper.truth.numbers import Values
    from tests.proxy_wrapper.truth.traced_account import Traced


def untruths(truth: Truth, traced: Traced, *, in_order: bool = True) -> list[str]:
    """In what the trace differs from the truth, in words.

    Args:
        truth: what was counted.
        traced: what the trace says.
        in_order: whether steps have numbers that can be compared: threads that train at once may take any turn.
    """
    return [
        *_calls(truth, traced),
        *_steps(truth, traced),
        *_gradients(truth, traced, in_order=in_order),
        *_left_gradients(truth, traced),
        *_step_updates(truth, traced, in_order=in_order),
        *_other_updates(truth, traced, in_order=in_order),
        *_values(truth, traced),
        *_findings(truth, traced, in_order=in_order),
    ]


def _calls(truth: Truth, traced: Traced) -> Iterator[str]:
    yield from _differences("calls of", truth.account.calls, traced.account.calls)
    yield from _differences("calls ended by an exception of", truth.account.raised, traced.account.raised)
    summed = {module.name: module.calls for process in traced.summary.processes for module in process.modules}
    yield from _differences("calls in the summary of", truth.account.calls, summed)


def _steps(truth: Truth, traced: Traced) -> Iterator[str]:
    yield from _differences("steps of", truth.account.optimizer_steps, traced.account.optimizer_steps)
    if truth.account.steps != traced.account.steps:
        yield f"{traced.account.steps} steps where there were {truth.account.steps}"
    if truth.account.backward_passes != traced.account.backward_passes:
        yield f"{traced.account.backward_passes} backward passes where there were {truth.account.backward_passes}"


def _gradients(truth: Truth, traced: Traced, *, in_order: bool) -> Iterator[str]:
    for name in _names(truth.account.gradients, traced.account.gradients):
        true, said = truth.account.gradients.get(name, []), traced.account.gradients.get(name, [])
        if len(true) != len(said):
            yield f"{len(said)} gradients of {name} where there were {len(true)}"
            continue
        was_bereft = False
        for expected, found in zip(true, said, strict=True):
            wrong = _wrong_gradient(expected, found, in_order=in_order)
            if expected.cleared and was_bereft and not found.cleared:
                wrong = "not said to have been cleared"  # It is looked at only where the last step found none, either.
            was_bereft = not has_nonzero(expected.values)
            if wrong:
                yield f"gradient of {name} in step {expected.step}: {wrong}"


def _wrong_gradient(true: GradientSeen[Values], said: GradientSeen[Statistics], *, in_order: bool) -> str:
    if in_order and true.step != said.step:
        return f"recorded in step {said.step}"
    if said.cleared and not true.cleared:
        return "said to have been cleared"
    if true.values is None or said.values is None:
        return "" if true.values is None and said.values is None else f"{said.values} where there was {true.values}"
    return disagreement(true.values, said.values)


def _left_gradients(truth: Truth, traced: Traced) -> Iterator[str]:
    for name in _names(truth.account.left_gradients, traced.account.left_gradients):
        true, said = truth.account.left_gradients.get(name, []), traced.account.left_gradients.get(name, [])
        if len(true) != len(said):
            yield f"{len(said)} gradients of {name}, which no optimizer has, where there were {len(true)}"
            continue
        for number, (expected, found) in enumerate(zip(true, said, strict=True)):
            wrong = disagreement(expected, found)
            if wrong:
                yield f"gradient of {name}, which no optimizer has, after backward pass {number}: {wrong}"


def _step_updates(truth: Truth, traced: Traced, *, in_order: bool) -> Iterator[str]:
    """Each step that changed values is told, and no other; of some, that the change may have come before the step."""
    for name in _names(truth.account.step_updates, traced.account.step_updates):
        changed, said = truth.account.step_updates[name], traced.account.step_updates[name]
        unsure = traced.unsure_updates[name]
        if not in_order:
            if not len(said) <= len(changed) <= len(said) + len(unsure):
                yield f"{len(said)} updates of {name} by steps where there were {len(changed)}"
        elif not set(said) <= set(changed) <= {*said, *unsure} or len(set(said)) < len(said):
            yield f"updates of {name} by steps {said} where steps {changed} changed it"


def _other_updates(truth: Truth, traced: Traced, *, in_order: bool) -> Iterator[str]:
    """As many changes outside of steps are told as there were; where several threads look, one may be told in parts."""
    for name in _names(_names(truth.changes, traced.other_updates), traced.unsure_updates):
        said, unsure = traced.other_updates[name].total(), len(traced.unsure_updates[name])
        by_steps = len(truth.account.step_updates[name]) - len(traced.account.step_updates[name])
        surely, at_most = truth.changes[name].surely, truth.changes[name].at_most
        if at_most and not in_order:
            at_most = max(at_most, said + unsure)
        # A change that is told at the end of a step may have been the step's, one before it, or both.
        overlaid = truth.changes[name].unmarked
        if in_order:  # Else the first looks may have been those of any thread.
            overlaid -= truth.changes[name].unmarked_early
        if not surely - unsure - overlaid <= said <= at_most or said + unsure - by_steps > at_most:
            due = str(surely) if surely == at_most else f"{surely} to {at_most}"
            causes = dict(traced.other_updates[name])
            yield f"{said} updates of {name} outside of steps {causes} where there were {due}"


def _values(truth: Truth, traced: Traced) -> Iterator[str]:
    """The last values are told, and no value was told that the tensor never had."""
    for name, values in truth.account.final.items():
        said = traced.account.final.get(name)
        wrong = "nothing is said" if said is None else disagreement(values, said)
        if wrong:
            yield f"{name} at the end: {wrong}"
    for name, told in traced.update_statistics.items():
        unknown = {statistics.bits for statistics in told} - truth.all_bits[name] - {None}
        if unknown:
            yield f"{name} was said to have values that it never had: {', '.join(sorted(map(str, unknown)))}"


def _findings(truth: Truth, traced: Traced, *, in_order: bool) -> Iterator[str]:
    trained = [name for name in truth.account.final if _is_trained(truth, name)]
    # Of these it is said that they were the same after each step; what is done behind the last one is not judged.
    changed_at_steps = [name for name, bits in truth.bits_at_steps.items() if len(bits) > 1]
    for finding in traced.summary.findings:
        if finding.code == "tracing-problem":
            yield f"a problem that is none: {finding.reason}"
        elif finding.code == "never-updated":
            judged = changed_at_steps if finding.reason.startswith("in an optimizer") else trained
            wrong = [name for name in judged if fnmatchcase(name, finding.name)]
            if wrong:
                yield f"{finding.name}: {finding.reason!r} is said of {', '.join(wrong)}"
        elif finding.code == "never-called" and any(
            count and f"{name}.".startswith(f"{finding.name}.") for name, count in truth.account.calls.items()
        ):
            yield f"{finding.name}: {finding.reason!r}"
    for where, name in sorted(truth.nonfinite_state ^ traced.nonfinite_state):
        verb = "is not said" if (where, name) in truth.nonfinite_state else "is said"
        yield f"{where} {name} {verb} to have been non-finite"
    true_loss, said_loss = truth.account.nonfinite_loss, traced.account.nonfinite_loss
    if (true_loss is None) is not (said_loss is None) or (in_order and true_loss != said_loss):
        yield f"the loss is said to be non-finite from step {said_loss} on where it is from step {true_loss} on"
    if traced.nonfinite_outputs != list(truth.nonfinite_outputs):
        yield f"non-finite outputs of {traced.nonfinite_outputs} where they were of {list(truth.nonfinite_outputs)}"


def _is_trained(truth: Truth, name: str) -> bool:
    """Whether values of a parameter have changed since training began."""
    return name not in truth.buffers and bool(
        truth.account.step_updates.get(name) or truth.changes[name].surely_in_training
    )


def _names(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _differences(what: str, true: Mapping[str, int], said: Mapping[str, int]) -> Iterator[str]:
    for name in _names(true, said):
        if true.get(name, 0) != said.get(name, 0):
            yield f"{said.get(name, 0)} {what} {name} where there were {true.get(name, 0)}"
