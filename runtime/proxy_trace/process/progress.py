"""How far a process has got in its trace, as its events tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.process.process_summary import ProcessSummary, StageSummary

if TYPE_CHECKING:
    from collections.abc import Collection

    from proxy_wrapper import events

MOST_NAMES: Final = 1000
"""The most stages, optimizers and threads with open calls that are told apart."""

_OTHERS: Final = "others"


class Progress:
    """What the collectors of a process share.

    Attributes:
        process: the summary that they fill.
        unfinished: what has begun and not ended, apart from calls of modules; "" for nothing.
        open_backward_passes: how many backward passes have begun and not ended.
        last_pass: the last backward pass that has begun.
        has_begun: whether there has been a backward pass or a step, which may lie outside of the selected period.
    """

    def __init__(self, process: ProcessSummary) -> None:
        self.process = process
        self.unfinished = ""
        self.open_backward_passes = 0
        self.last_pass: events.Backward | None = None
        self.has_begun = False

    def stage(self, event: events.Happening) -> StageSummary:
        """The summary of the stage of an event."""
        stages = self.process.stages
        stage = stages.get(event.stage)
        if stage is None:
            stage = stages.setdefault(known_name(event.stage, stages), StageSummary())
        return stage

    def trained_stages(self) -> set[str]:
        """The stages that have optimizer steps so far."""
        return {stage for stage, summary in self.process.stages.items() if summary.steps}


def known_name(name: str, known: Collection[str]) -> str:
    """`name`, or the common name of all others if there are too many."""
    return name if name in known or len(known) < MOST_NAMES else _OTHERS
