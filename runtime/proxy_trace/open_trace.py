"""The reader in Python: a trace, and what can be asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.comparison.ranks import compare_ranks
from proxy_trace.comparison.records.compare_records import compare_records
from proxy_trace.comparison.runs import compare_runs
from proxy_trace.errors import NoGraphError
from proxy_trace.history.variable_history import follow
from proxy_trace.order.run_order import find_order
from proxy_trace.reading.selection import Period, StepRange
from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Never

    from proxy_trace.comparison.ranks import Comparison
    from proxy_trace.comparison.records.compare_records import RecordComparison
    from proxy_trace.comparison.runs import RunComparison
    from proxy_trace.history.variable_history import HistoryEntry
    from proxy_trace.order.execution_order import ExecutionOrder, LeafRule
    from proxy_trace.summary.run_summary import Summary


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

    def summary(self, against: Trace | None = None) -> Summary:
        """What was called and updated, and what looks wrong: reads the whole run once.

        Args:
            against: a good run of the same script; the summary then also tells what that had and this one has not.

        Raises:
            SameRunError: if the good run is this one.
            NothingAlikeError: if the good run has nothing in common with this one.
            UnreadableFileError: if the file system refuses.
        """
        return summarize(self, good=against)

    def execution_order(self, step: int | None = None, leaf_rule: LeafRule = "fsdp") -> ExecutionOrder:
        """In which order the first call of the model ran its modules, and first used its parameters.

        Args:
            step: the first call in this step, which a call that no optimizer step came after may be in, too; None for
                the first call of the run.
            leaf_rule: "fsdp" takes modules of torch.nn for one thing each, as FSDP does; None looks into them.

        Raises:
            NoCallError: if there is no such call.
            UnknownClassesError: if the trace is too old to follow the leaf rule.
            OrderTooLongError: if the call holds more than is kept.
            UnreadableFileError: if the file system refuses.
        """
        period = Period() if step is None else Period(StepRange(step, step))
        return find_order(self, period, leaf_rule=leaf_rule).order

    def graph(self) -> Never:
        """Nothing: a trace has no values.

        Raises:
            NoGraphError: always; it says why, and what to do instead.
        """
        raise NoGraphError

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
