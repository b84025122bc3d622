"""Carries out what the command line asked for, one script after the other."""

from __future__ import annotations

import os
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor import emit, files
from instrumentor.errors import EditedSinceError, InstrumentError, NotInstrumentedError
from instrumentor.instrument import instrument_source, revert_source
from instrumentor.report.terminal import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.decide import Decision
    from instrumentor.files import Script
    from instrumentor.instrument import Result
    from instrumentor.settings import Settings

DONE = 0
WOULD_CHANGE = 1
FAILED = 2

_NAMED_MODELS = 5
_STDOUT_NAME = "standard output"


@dataclass(frozen=True)
class Request:
    """What the command line asked for, checked.

    Attributes:
        arguments: the scripts, as typed; `-` is standard input.
        settings: what to write into them.
        output: a file, a directory or `-`; None for the default.
        stdin_name: the name standard input goes by.
        revert: go back instead of forth.
        in_place: replace the scripts themselves.
        force: replace whatever is in the way.
        diff: show what would change, write nothing.
        check: only tell by the exit code whether something would change, write nothing.
        explain: show every decision, write nothing.
        quiet: say nothing but errors.
        verbose: say every decision too.
    """

    arguments: tuple[str, ...]
    settings: Settings
    output: str | None = None
    stdin_name: str | None = None
    revert: bool = False
    in_place: bool = False
    force: bool = False
    diff: bool = False
    check: bool = False
    explain: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def writes(self) -> bool:
        """Whether files are to be written at all."""
        return not (self.diff or self.check or self.explain)


@dataclass(frozen=True)
class _Change:
    """What became of one script, before anything is written.

    Attributes:
        script: the script.
        content: its new bytes.
        target: where they go; None for standard output.
        in_place: the target is the script, on purpose.
        done: what is said when they are written, after `a.py -> b.py: `.
        there_already: what is said when the target holds them already.
        would: what is said when they are not, after `a.py: `.
    """

    script: Script
    content: bytes
    target: Path | None
    in_place: bool
    done: str
    there_already: str
    would: str


@dataclass
class _Run:
    """What one run of the command has seen and written so far."""

    request: Request
    would_change: bool = False
    failed: bool = False
    written: dict[str, str] = field(default_factory=dict)
    explained: list[tuple[str, Decision]] = field(default_factory=list)

    def process(self, argument: str) -> None:
        """Take one script through, or say what is wrong with it and leave it as it is."""
        try:
            script = files.read_script(argument, stdin_name=self.request.stdin_name)
            try:
                self._process_script(script)
            except InstrumentError as error:
                if error.path == script.name:  # the core knows the script by what the source comment records
                    error.path = script.shown
                raise
        except InstrumentError as error:
            self._fail(str(error))
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge: a bug met in one script must not keep the others waiting
            self._fail(
                f"{argument}: internal error, the file was left as it is ({type(error).__name__}: {error});"
                " please report it, with what --verbose says"
            )
            if self.request.verbose:
                traceback.print_exc(file=sys.stderr)

    def finish(self) -> int:
        """Show what was collected.

        Returns:
            The exit code.
        """
        if self.explained:
            # Rich takes longer to import than a script takes to be instrumented.
            from instrumentor.report.explain import render_decisions

            files.write_stdout(render_decisions(self.explained, sys.stdout))
        if self.failed:
            return FAILED
        return WOULD_CHANGE if self.request.check and self.would_change else DONE

    def _process_script(self, script: Script) -> None:
        if self.request.revert:
            self._handle(self._revert(script))
            return
        result = self._analyse(script, script.content)
        if self.request.explain and result.already_instrumented:
            # The decisions are about the original; its lines are also what a trace speaks of.
            original = revert_source(script.content, source_name=script.name).original
            decisions = self._analyse(script, original).decisions
        else:
            decisions = result.decisions
        if self.request.explain:
            self.explained.extend((script.shown, decision) for decision in decisions)
        if self.request.verbose:
            for decision in decisions:
                _say(_describe_decision(script, decision))
        if result.changed:
            self._handle(self._instrument(script, result))
        else:
            self._handle_unchanged(script, result)

    def _analyse(self, script: Script, content: bytes) -> Result:
        return instrument_source(
            content,
            self.request.settings,
            source_name=script.name,
            read_sibling=files.read_siblings(script),
        )

    def _instrument(self, script: Script, result: Result) -> _Change:
        target = self._target(files.instrumented_path(script, self.request.output), script)
        models = _describe_models(result.decisions)
        return _Change(
            script,
            result.instrumented,
            target,
            in_place=self.request.in_place,
            done=f"{models}, instrumented in place" if self.request.in_place else models,
            there_already=f"{models}, up to date already",
            would=f"would be instrumented: {models}",
        )

    def _revert(self, script: Script) -> _Change:
        reverted = revert_source(script.content, source_name=script.name)
        output = self.request.output
        target = self._target(files.original_path(script, reverted.recorded_source, output), script)
        # An original goes back to where it was without being asked twice: that is what a revert is.
        in_place = output is None and (
            target is not None and script.path is not None and files.is_same_file(target, script.path)
        )
        return _Change(
            script,
            reverted.original,
            target,
            in_place=in_place,
            done="the original, restored in place" if in_place else "the original, restored",
            there_already="the original is there already, byte for byte",
            would="would be reverted",
        )

    def _target(self, path: Path | None, script: Script) -> Path | None:
        return script.path if self.request.in_place else path

    def _handle(self, change: _Change) -> None:
        """Write a change, or show it."""
        self.would_change = True
        script = change.script
        if self.request.diff:
            self._show_diff(change)
        if self.request.writes:
            self._write(change)
        elif self.request.check:
            self._tell(f"{script.shown}: {change.would}")

    def _handle_unchanged(self, script: Script, result: Result) -> None:
        """Say why there is nothing to do; where an output was asked for, make it a copy."""
        request = self.request
        reason = _describe_nothing(result)
        if request.writes and not request.in_place:
            target = files.instrumented_path(script, request.output)
            # Whoever asked for a script at some path, or in a pipe, means to run what is there.
            if target is None or (request.output is not None and not result.already_instrumented):
                copy = _Change(
                    script,
                    script.content,
                    target,
                    in_place=False,
                    done=f"{reason}, copied as it is",
                    there_already=f"{reason}, a copy is there already",
                    would="",
                )
                self._write(copy)
                return
        self._tell(f"{script.shown}: {reason}" if result.already_instrumented else f"{reason} in {script.shown}")

    def _write(self, change: _Change) -> None:
        script = change.script
        is_new = files.write_script(
            script,
            files.Writing(change.target, change.content, in_place=change.in_place, force=self.request.force),
            taken=self.written,
            reason_to_keep=lambda existing: self._reason_to_keep(existing, change),
        )
        where = script.shown
        if not change.in_place:
            where += f" -> {_STDOUT_NAME if change.target is None else change.target}"
        self._tell(f"{where}: {change.done if is_new else change.there_already}")

    def _reason_to_keep(self, existing: bytes, change: _Change) -> str | None:
        """Say why a file in the way should stay; None where it is an output that this tool can make again."""
        if self.request.revert:
            return "exists and holds something other than the original"
        target = change.target
        try:
            recorded = revert_source(existing, source_name=str(target)).recorded_source
        except NotInstrumentedError:
            if emit.SOURCE_COMMENT.search(existing.decode("latin-1")):  # something was added after the comment
                return "was edited after instrument wrote it"
            return "exists and was not written by instrument"
        except EditedSinceError:
            return "was edited after instrument wrote it"
        if target is not None and Path(recorded).name == target.name and recorded != change.script.name:
            return "is a script that was instrumented in place, whose original would be lost"
        return None

    def _show_diff(self, change: _Change) -> None:
        from instrumentor.report.diff import render_diff, source_encoding, unified_diff
        from instrumentor.report.terminal import encoding_of, uses_color

        script = change.script
        target = script.shown if change.target is None or change.in_place else str(change.target)
        diff = unified_diff(script.content, change.content, from_name=script.shown, to_name=target)
        if uses_color(sys.stdout) or sys.stdout.isatty():
            text = render_diff(diff, encoding=source_encoding(script.content), color=uses_color(sys.stdout))
            diff = text.encode(encoding_of(sys.stdout), errors="backslashreplace")
        files.write_stdout(diff)

    def _tell(self, message: str) -> None:
        if not self.request.quiet:
            _say(message)

    def _fail(self, message: str) -> None:
        self.failed = True
        _say(message)


def execute(request: Request) -> int:
    """Process every script that `request` names.

    Returns:
        The exit code: 0 done, 1 `check` found something to change, 2 some script could not be processed.

    Raises:
        BrokenPipeError: whoever reads standard output has gone.
    """
    run = _Run(request)
    # A script named twice is one script; it would be in its own way.
    unique: dict[str, str] = {}
    for argument in request.arguments:
        is_stdin = argument == files.STANDARD_STREAM
        unique.setdefault(argument if is_stdin else os.path.abspath(argument), argument)  # noqa: PTH100
    for argument in unique.values():
        run.process(argument)
    return run.finish()


def _say(message: str) -> None:
    """Print one line on standard error; what a path or script holds does not break it up."""
    print(escape_unprintable(message), file=sys.stderr)


def _describe_models(decisions: Sequence[Decision]) -> str:
    """Count and name what is wrapped: `2 models (netD, line 40; netG, line 60)`."""
    wrapped = [decision for decision in decisions if decision.verdict == "wrap"]
    named = [f"{decision.target}, line {decision.line}" for decision in wrapped[:_NAMED_MODELS]]
    if len(wrapped) > _NAMED_MODELS:
        named.append(f"and {len(wrapped) - _NAMED_MODELS} more")
    return f"{len(wrapped)} model{'' if len(wrapped) == 1 else 's'} ({'; '.join(named)})"


def _describe_nothing(result: Result) -> str:
    """Say why nothing is wrapped, in words that ` in <file>` can follow."""
    if result.already_instrumented:
        return "already instrumented"
    counts = Counter(decision.reason_code for decision in result.decisions)
    chosen = [
        f"{counts[code]} {words}"
        for code, words in (("deselected", "left out by --select or --skip"), ("suppressed", "suppressed by a comment"))
        if counts[code]
    ]
    return f"no model to wrap ({', '.join(chosen)})" if chosen else "no model found"


def _describe_decision(script: Script, decision: Decision) -> str:
    return (
        f"{script.shown}:{decision.line}:{decision.column + 1}: {decision.verdict}:"
        f" {decision.target} ({decision.object}): {decision.reason}"
    )
