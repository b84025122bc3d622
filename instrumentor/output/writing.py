"""Writes results to their targets: beside the scripts, into a directory, into a mirror of the tree, or in place."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor import emit
from instrumentor.errors import EditedSinceError, InstrumentError, NotebookError, NotInstrumentedError
from instrumentor.messages import describe_models, describe_nothing
from instrumentor.notebooks.cells import is_notebook
from instrumentor.paths import files
from instrumentor.paths.file_state import digest_of

if TYPE_CHECKING:
    from instrumentor.engine.outcome import Outcome, Task
    from instrumentor.output.mirror import Mirror
    from instrumentor.paths.files import Script

_STDOUT_NAME = "standard output"


@dataclass(frozen=True)
class Change:
    """The result for one script, before it is written.

    Attributes:
        script: the script; its content only if it changes.
        content: its new bytes; None if they are known to be at the target already.
        target: where they go; None for standard output.
        in_place: the target is the script, on purpose.
        done: the message when they are written, after `a.py -> b.py: `.
        there_already: the message when the target holds them already.
        would: the message when they are not written, after `a.py: `.
    """

    script: Script
    content: bytes | None
    target: Path | None
    in_place: bool
    done: str
    there_already: str
    would: str

    @property
    def shown_target(self) -> str:
        """The path of the result in a diff."""
        return self.script.shown if self.target is None or self.in_place else str(self.target)

    def where(self) -> str:
        """The script and the target of its result: `a.py -> b.py`."""
        if self.in_place:
            return self.script.shown
        return f"{self.script.shown} -> {_STDOUT_NAME if self.target is None else self.target}"


class Writer:
    """Decides where each outcome's bytes go, and writes them; one instance serves a whole run."""

    def __init__(
        self, *, output: str | None, in_place: bool, force: bool, patches: bool, mirror: Mirror | None
    ) -> None:
        """Set what the user requested.

        Args:
            output: a file, a directory or `-`; None for the default.
            in_place: replace the scripts themselves.
            force: replace existing files.
            patches: whether nothing is written, and a file found in a directory is compared with itself.
            mirror: the tree that files found in directories go to.
        """
        # Named scripts go where the tree goes: into a directory, which may not exist yet.
        self._output = output if mirror is None or output is None else os.path.join(output, "")  # noqa: PTH118
        self._in_place = in_place
        self._force = force
        self._patches = patches
        self.mirror = mirror
        self._written: dict[str, str] = {}

    def change_of(self, script: Script, task: Task, outcome: Outcome) -> Change:
        """The change to write for an outcome that changes its script.

        Raises:
            UnnamedOriginalError: for a revert, the recorded name is not a file name.
        """
        if task.goal == "revert":
            return self._reverted(script, task, outcome)
        models = describe_models(outcome)
        in_place = self._in_place or (self._patches and task.was_found and self.mirror is None)
        return Change(
            script,
            outcome.result,
            script.path if in_place else self._instrumented_path(script, task),
            in_place=in_place,
            done=f"{models}, instrumented in place" if in_place else models,
            there_already=f"{models}, already up to date",
            would=f"would be instrumented: {models}",
        )

    def copy_of(self, script: Script, task: Task, outcome: Outcome) -> Change | None:
        """The copy to write for an unchanged script if an output was requested; None if there is none."""
        if self._in_place or task.was_found:  # a mirror copies unchanged files at the end
            return None
        target = files.instrumented_path(script, self._output)
        # A user who requested a script at some path, or in a pipe, wants to run the result.
        if target is not None and (self._output is None or outcome.status == "already instrumented"):
            return None
        reason = describe_nothing(outcome)
        return Change(
            script,
            script.content,
            target,
            in_place=False,
            done=f"{reason}, copied unchanged",
            there_already=f"{reason}, a copy already exists",
            would="",
        )

    def is_there(self, script: Script, task: Task, outcome: Outcome) -> bool:
        """Whether the target already holds the result."""
        if task.goal == "revert" or self._in_place:
            return False
        target = self._instrumented_path(script, task)
        existing = None if target is None else files.read_existing(target)
        return existing is not None and digest_of(existing) == outcome.result_digest

    def write(self, change: Change, task: Task) -> str:
        """Write a change.

        Returns:
            The message for the user.

        Raises:
            InstrumentError: it is not to be written, or cannot be.
        """
        if change.content is None:
            assert change.target is not None
            self._written[os.path.realpath(change.target)] = change.script.shown
            if self.mirror is not None and task.was_found:
                self.mirror.remember(change.target, change.target.read_bytes())
            return f"{change.where()}: {change.there_already}"
        if (done := self._done_by(change, task)) is not None:
            return f"{change.where()}: done already, with {done}"
        if self.mirror is not None and task.was_found and change.target is not None:
            self.mirror.make_room(change.target.parent)
        is_new = files.write_script(
            change.script,
            files.Writing(
                change.target,
                change.content,
                in_place=change.in_place,
                force=self._force,
                replaces=change.script.content if change.in_place else None,
                within=self._directory_of(change, task),
            ),
            taken=self._written,
            reason_to_keep=lambda existing: self._reason_to_keep(existing, change, task),
        )
        if self.mirror is not None and task.was_found and change.target is not None:
            self.mirror.remember(change.target, change.content)
        return f"{change.where()}: {change.done if is_new else change.there_already}"

    def _directory_of(self, change: Change, task: Task) -> Path | None:
        """The directory that a result must stay in; None if the user named the file itself."""
        if self.mirror is not None and task.was_found:
            return self.mirror.output
        if task.root is not None:
            return Path(task.root)
        if change.in_place and change.target == change.script.path:
            return None
        if self._output is None:
            return change.script.directory
        return Path(self._output) if files.is_directory_output(self._output) else None

    def _done_by(self, change: Change, task: Task) -> str | None:
        """The script for which this run already wrote the same file: several links or results can share an original."""
        if change.target is None or (done := self._written.get(os.path.realpath(change.target))) is None:
            return None
        if change.in_place:
            return done
        return done if task.goal == "revert" and files.read_existing(change.target) == change.content else None

    def _instrumented_path(self, script: Script, task: Task) -> Path | None:
        if self.mirror is not None and task.root is not None:
            return self.mirror.target(task.shown, task.root)
        return files.instrumented_path(script, self._output)

    def _reverted(self, script: Script, task: Task, outcome: Outcome) -> Change:
        target = script.path if self._in_place else files.original_path(script, outcome.recorded_source, self._output)
        if self.mirror is not None and task.root is not None:
            beside = files.original_path(script, outcome.recorded_source, None)
            target = None if beside is None else self.mirror.target(str(beside), task.root)
        # A revert restores an original where it was, without asking for more.
        in_place = self._output is None and (
            target is not None and script.path is not None and files.is_same_file(target, script.path)
        )
        return Change(
            script,
            outcome.result,
            target,
            in_place=in_place,
            done="the original, restored in place" if in_place else "the original, restored",
            there_already="the original already exists, byte for byte",
            would="would be reverted",
        )

    def _reason_to_keep(self, existing: bytes, change: Change, task: Task) -> str | None:
        """Say why an existing file should stay; None if it is an output that this tool can make again."""
        target = change.target
        if target is not None and self.mirror is not None and self.mirror.is_own(target, existing):
            return None
        from instrumentor.notebooks.undo import revert_notebook
        from instrumentor.source.undo import undo

        take_out = revert_notebook if is_notebook(str(target)) else undo
        if task.goal == "revert":
            with contextlib.suppress(InstrumentError):
                if take_out(existing, source_name=str(target)).original == change.content:
                    return None  # instrumented in place from the same original that is restored
            return "exists and differs from the original"
        try:
            recorded = take_out(existing, source_name=str(target)).recorded_source
        except EditedSinceError:
            return "was edited after instrument wrote it"
        except (NotInstrumentedError, NotebookError):
            if emit.SOURCE_COMMENT.search(existing.decode("latin-1")):  # something was added after the comment
                return "was edited after instrument wrote it"
            return "exists and was not written by instrument"
        if target is not None and Path(recorded).name == target.name and recorded != change.script.name:
            return "is a script that was instrumented in place, whose original would be lost"
        return None


def show_diff(change: Change) -> None:
    """Write the diff of a change to standard output: exact bytes, or coloured text on a terminal."""
    from instrumentor.report.diff import render_diff, source_encoding, unified_diff
    from instrumentor.report.terminal import encoding_of, uses_color

    script = change.script
    assert change.content is not None
    diff = unified_diff(
        script.content, change.content, from_name=_from_here(script.shown), to_name=_from_here(change.shown_target)
    )
    if uses_color(sys.stdout) or sys.stdout.isatty():
        encoding = "utf-8" if is_notebook(script.shown) else source_encoding(script.content)
        text = render_diff(diff, encoding=encoding, color=uses_color(sys.stdout))
        diff = text.encode(encoding_of(sys.stdout), errors="backslashreplace")
    files.write_stdout(diff)


def _from_here(shown: str) -> str:
    """A path for a patch: relative to the current directory if it is inside it."""
    if not Path(shown).is_absolute():
        return shown
    relative = os.path.relpath(shown)
    return shown if relative.startswith(os.pardir) else relative
