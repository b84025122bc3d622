"""Checks that schedulers of learning rates are used.

A scheduler changes nothing until it is advanced. One that is created and forgotten leaves the rate as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

NEVER_ADVANCED: Final = Rule(
    "scheduler-never-advanced",
    WARNING,
    "Schedulers that are never advanced",
    "The program created a scheduler of learning rates and kept it in a variable, in an attribute, or under a key of "
    "a dictionary. Nothing reads it, except for the rate or to save the scheduler's state, while optimizers stepped. "
    "So the learning rate stays where it was. The source of the function that creates it tells this for a variable, "
    "and that of its callers if they get it; the files of the program for an attribute or a key.",
    "Call `scheduler.step()`: once per epoch, or after each `optimizer.step()` if the schedule counts batches.",
    "show {run} --kind source_pattern,optimizer",
    sources=("https://github.com/thu-ml/tianshou/issues/774",),
)

_FEWEST: Final = 2
"""The least number of steps. Before the second, nothing could have been advanced."""


def _look(evidence: Evidence) -> Sight | None:
    places = set()
    for of_process in evidence.of_processes:
        advanced = {each.made for each in of_process.training.schedulers.values() if each.advances}
        for event, place, _ in of_process.acts.sources:
            is_unread = event.what == "scheduler-unread" and place not in advanced
            if is_unread and of_process.process.steps >= _FEWEST:
                places.add((place, event.names[0], of_process.process.rank))
    findings = [
        NEVER_ADVANCED.finding(name, "no code advances it, so the learning rate stays", [rank], place=place)
        for place, name, rank in sorted(places)
    ]
    return Sight(findings) if findings else None


CHECK: Final = Check("unused schedulers", "schedulers of learning rates are advanced", _look, (NEVER_ADVANCED,))
"""Applies if the source shows one that is not."""
