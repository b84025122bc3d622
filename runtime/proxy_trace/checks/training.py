"""Checks that backward passes have led to changes: a run with backward passes has changed some parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.evidence import is_recorded, of
from proxy_trace.checks.finding import ERROR
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

NO_EFFECT: Final = Rule(
    "no-effect",
    ERROR,
    "Backward passes that changed nothing",
    "The run had backward passes, but by exact fingerprints no parameter of the traced models changed. This requires "
    "that parameters were compared (level INFO or DEBUG), and were examined after the last backward pass.",
    "Check that `optimizer.step()` is called, and that the optimizer has the parameters of this model.",
    "show {run} --kind optimizer_step,gradient,update",
    sources=("Humbatova et al., Taxonomy of Real Faults in Deep Learning Systems, ICSE 2020",),
    explains=("never-updated", "optimizer-misses-parameters", "untrained"),
)


def _look(evidence: Evidence) -> Sight:
    passes = sum(process.backward_passes for process in evidence.processes)
    if not passes:
        return Sight((), evidence.level_words or ["no backward pass was traced"], has_looked=False)
    parameters = evidence.parameters
    if any(tensor.changes for tensor in parameters):
        return Sight()
    unknown = sum(not (tensor.is_compared and tensor.watched) for tensor in parameters)
    if unknown:
        words = [f"the values of {of(unknown, len(parameters), 'parameter')} were not compared"]
        return Sight((), words, has_looked=False, is_doubtful=any(tensor.freed for tensor in parameters))
    if not all(map(is_recorded, evidence.modules)):
        return Sight((), evidence.level_words, has_looked=False)
    if not any(process.was_looked_at for process in evidence.processes):
        # A single step by hand, in a function whose end frees the model, leaves no trace.
        words = ["no parameter was examined after the last backward pass"]
        return Sight((), words, has_looked=False, is_doubtful=True)
    roots = dict.fromkeys(root.name for tree in evidence.trees for root in tree.roots if not root.removed)
    made = "1 backward pass" if passes == 1 else f"{passes:,} backward passes"
    steps = sum(process.steps for process in evidence.processes)
    if steps:
        made += f" and {steps:,} step{'' if steps == 1 else 's'} of an optimizer"
    ranks = sorted({process.rank for process in evidence.processes})
    reason = f"{made}, but no parameter was seen to change"
    return Sight([NO_EFFECT.finding(", ".join(roots), reason, ranks, place=_place(evidence))])


def _place(evidence: Evidence) -> str:
    """Where an optimizer stepped, or else where a backward pass began; "" if neither is known."""
    steps = (each.place for one in evidence.of_processes for each in one.training.optimizers.values() if each.steps)
    losses = (each.place for one in evidence.of_processes for each in one.training.losses.values() if each.passes)
    return next((place for place in (*steps, *losses) if place), "")


CHECK: Final = Check("training", "backward passes have led to changed parameters", _look, (NO_EFFECT,))
