"""The totals of a run: files by outcome, models and failures; and the exit code that follows from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from instrumentor.errors import InstrumentError
from instrumentor.plain_text import count

if TYPE_CHECKING:
    from instrumentor.engine.outcome import Outcome, Status
    from instrumentor.report.record import FileRecord

DONE = 0
WOULD_CHANGE = 1
FAILED = 2


@dataclass
class Tally:
    """Counts over all files of a run, including those that the interrupted run it resumes had finished.

    Attributes:
        files: how many, by outcome.
        models: how many are wrapped.
        in_factories: how many of these in public functions that return them.
        failures: one line for each failure.
    """

    files: Counter[Status] = field(default_factory=Counter)
    models: int = 0
    in_factories: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one file; its failure is recorded separately."""
        self._add(outcome.status, [each.reason_code for each in outcome.decisions if each.verdict == "wrap"])

    def restore(self, record: FileRecord) -> None:
        """Count one file that an interrupted run had finished."""
        self._add(record.status, [each.code for each in record.sites if each.decision == "wrap"])
        if (error := record.error) is not None:
            self.failures.append(
                str(InstrumentError(error.message, path=record.path, line=error.line, column=error.column))
            )

    def _add(self, status: Status, wrapped: list[str]) -> None:
        self.files[status] += 1
        if status == "changed":
            self.models += len(wrapped)
            self.in_factories += wrapped.count("factory")

    def exit_code(self, *, check: bool) -> int:
        """The exit code; with `check`, a file that would change also makes it non-zero."""
        if self.failures:
            return FAILED
        return WOULD_CHANGE if check and self.files["changed"] else DONE

    def describe(self, *, revert: bool, writes: bool) -> str:
        """All files in one line, to be followed by the failures: `5 files: 2 instrumented (2 models), 1 failed:`."""
        changed = self.files["changed"]
        if revert:
            parts = [f"{changed:,} {'reverted' if writes else 'to be reverted'}"]
        else:
            word = "instrumented" if writes else "to be instrumented"
            models = count(self.models, "model")
            if self.in_factories:
                models += f", {self.in_factories:,} of them in the functions that return them"
            parts = [f"{changed:,} {word} ({models})"]
            if already := self.files["already instrumented"]:
                parts.append(f"{already:,} already instrumented")
        if self.failures:
            parts.append(f"{len(self.failures):,} failed:")
        return f"{count(self.files.total(), 'file')}: {', '.join(parts)}"
