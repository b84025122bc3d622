"""Checks that the state of a recurrent layer is not carried into batches that do not continue those before.

Carrying the state is right if each batch continues the one before. If batches are shuffled, each sequence starts from
the state of an unrelated one. And within a sequence, the state must stay in its graph.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.process.acts_summary import PlacedSource
    from proxy_trace.process.process_summary import ProcessEvidence

NOT_RESET: Final = Rule(
    "hidden-state-not-reset",
    WARNING,
    "Recurrent states carried into shuffled batches",
    "In the code of the training program, a loop that trains passes a state to a model with recurrent layers and gets "
    "it back, or a module passes an attribute to a layer and sets it to the state that the layer returns. Nothing in "
    "the loop resets it. And the loop goes through a `DataLoader` with a random sampler, or through a random "
    "permutation, so each sequence starts from the state of an unrelated one.",
    "Start each batch from a new state: `hidden = None`, or `model.reset()`, at the top of the loop.",
    "show {run} --kind source_pattern,loading",
    sources=(
        "https://github.com/rafaljozefowicz/lm/issues/7",
        "https://github.com/tensorflow/tensorflow/issues/40067",
    ),
)
CUT: Final = Rule(
    "state-cut-at-each-step",
    WARNING,
    "Recurrent states that are detached at every step of a sequence",
    "In the code of the training program, a loop over the steps of a sequence passes the state of a recurrent cell, or "
    "of a formula with `tanh` or the like, to the next step, and detaches it in each pass, outside of any branch. The "
    "backward pass follows after the loop, or the loop is in a `forward`. So no gradient goes from a step to those "
    "before, and the cell never learns what to keep. Loops that go backward themselves, or that give a layer several "
    "steps at once, truncate the backpropagation on purpose, and are not reported.",
    "Detach the state once for each sequence, or part of one, outside of the loop over its steps.",
    "show {run} --kind source_pattern",
    sources=("https://github.com/yhs968/pyGRU4REC/issues/8",),
)

_RECURRENT: Final = re.compile(r"(RNN|LSTM|GRU)(Cell)?$")
_RANDOM: Final = frozenset({"RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler"})


def _look(evidence: Evidence) -> Sight | None:
    findings = [
        NOT_RESET.finding(
            source.event.names[0],
            "batches are shuffled, and each starts from the state of the one before",
            [of_process.process.rank],
            place=source.place,
        )
        for of_process in evidence.of_processes
        for source in of_process.acts.sources
        if _is_shuffled(source, of_process)
        and any(_RECURRENT.search(module.type) for module in of_process.process.modules)
    ]
    findings += [
        CUT.finding(
            source.event.names[0],
            f"it is detached in each pass of the loop at {source.other}",
            [of_process.process.rank],
            place=source.place,
        )
        for of_process in evidence.of_processes
        for source in of_process.acts.sources
        if source.event.what == "state-cut"
    ]
    return Sight(findings) if findings else None


def _is_shuffled(source: PlacedSource, of_process: ProcessEvidence) -> bool:
    """Whether a loop that carries a state has its batches in a random order."""
    if source.event.what != "state-carried":
        return source.event.what == "state-carried-shuffled"
    loaders = [loader.last for loader in of_process.acts.loaders.values() if loader.place == source.other]
    return bool(loaders) and all(loader.sampler in _RANDOM for loader in loaders)


CHECK: Final = Check(
    "states", "recurrent states are carried only to where they belong, with their graph", _look, (NOT_RESET, CUT)
)
"""Applies if the source shows that one is not."""
