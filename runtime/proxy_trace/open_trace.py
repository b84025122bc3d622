"""The reader in Python: a trace, and what can be asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.history import follow
from proxy_trace.ranks import compare_ranks
from proxy_trace.records.compare_records import compare_records
from proxy_trace.runs import compare_runs
from proxy_trace.summary import summarize
from proxy_trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy_trace.history import HistoryEntry
    from proxy_trace.ranks import Comparison
    from proxy_trace.records.compare_records import RecordComparison
    from proxy_trace.runs import RunComparison
    from proxy_trace.summary import Summary


class OpenTrace(Trace):
    """A run and the questions to it. `files` are those of its processes, each with its events."""

    def history(self, what: str) -> Iterator[HistoryEntry]:
        """Follow one variable through the whole run.

        Args:
            what: a parameter, buffer or module by name ("model.fc.weight"; globs such as "model.fc*" too): every
                definition, gradient and update, and every call that takes it; for a module its calls. Or
                "model.fc.weight.grad" for the gradients alone. Or a place in the script as "file:line",
                "file:line:ordinal", "file:line:target" or "file:line:target:ordinal": the tensor that is made there
                anew in each iteration. Lines are those of the original script.

        Returns:
            What happened to it, by time over all processes: each with step, stage, place, shape, and, for a tensor that
            was made, what took it.

        Raises:
            UnknownNameError: if nothing has that name.
            UnknownPlaceError: if nothing was recorded there.
            UnreadableFileError: if the file system refuses.
        """
        return follow(self, what)

    def summary(self) -> Summary:
        """What was called and updated, and what looks wrong: reads the whole run once.

        Raises:
            UnreadableFileError: if the file system refuses.
        """
        return summarize(self)

    def compare_ranks(self) -> Comparison:
        """Which parameters differ between ranks that should agree, and since when: reads the whole run once.

        Raises:
            OneRankError: if there is only one rank.
            NothingToCompareError: if the ranks have nothing in common, and no parts of their own either.
            UnreadableFileError: if the file system refuses.
        """
        return compare_ranks(self)

    def compare_with(self, other: Trace) -> RunComparison:
        """Up to which step this run and another one are the same, and what differs first: reads both once.

        Raises:
            SameRunError: if the two are one.
            NothingInCommonError: if they have no parameter and no buffer in common.
            UnreadableFileError: if the file system refuses.
        """
        return compare_runs(self, other)

    def compare_records_with(self, other: Trace) -> RecordComparison:
        """The first record in which this run and another one part, and how far they go apart: reads both twice.

        Raises:
            SameRunError: if the two are one.
            NothingAlikeError: if no record of one stands for one of the other.
            UnreadableFileError: if the file system refuses.
        """
        return compare_records(self, other)


def open_trace(path: Path | str) -> OpenTrace:
    """Open the run at `path`: a run directory, one .jsonl file, or a logdir, of which the newest run is taken.

    Raises:
        TraceError: if there is no trace that can be read; each subclass is a reason.
    """
    return OpenTrace.open(path)
