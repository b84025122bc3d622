"""Carries out the command line's request: selects files, processes them with an engine, and writes the results."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from instrumentor import messages
from instrumentor.configuration import Configurations
from instrumentor.engine.batch import BatchRunner
from instrumentor.engine.cache_directory import cache_directory
from instrumentor.engine.executors import count_jobs, find_engine
from instrumentor.engine.outcome import Failure, Outcome, Task
from instrumentor.engine.progress import Progress
from instrumentor.engine.results_cache import ResultsCache, clear
from instrumentor.errors import ConfigError, InstrumentError
from instrumentor.messages import say
from instrumentor.notebooks.cells import is_notebook
from instrumentor.output.writing import Writer, show_diff
from instrumentor.paths import files
from instrumentor.paths.containment import refuse_to_leave
from instrumentor.paths.file_state import FileState
from instrumentor.paths.files import STANDARD_STREAM, Script
from instrumentor.paths.selection import Found, is_directory, is_in_shard, select_files
from instrumentor.plain_text import escape_unprintable
from instrumentor.resolve.search_path import SearchPaths
from instrumentor.tally import DONE, FAILED, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from instrumentor.decision import Decision
    from instrumentor.engine.batch import Done
    from instrumentor.engine.calls_between import CallsBetween
    from instrumentor.output.mirror import Mirror
    from instrumentor.report.journal import Journal
    from instrumentor.request import Request


@dataclass
class _Run:
    """The state of one run of the command."""

    request: Request
    configurations: Configurations
    writer: Writer
    journal: Journal | None
    has_directories: bool
    mirror: Mirror | None = None
    cache: ResultsCache | None = None
    search: SearchPaths = field(default_factory=SearchPaths)
    modules_cache: str | None = None
    calls: CallsBetween | None = None
    tally: Tally = field(default_factory=Tally)
    # Each decision with its script and, for a notebook, where the cells start.
    explained: list[tuple[str, Decision, tuple[tuple[int, int], ...]]] = field(default_factory=list)
    _stdin: dict[str, Script] = field(default_factory=dict)

    def tasks(self, found: Iterator[Found]) -> Iterator[Task]:
        """Make the tasks, one for each file."""
        done = self.journal.done if self.journal is not None else {}
        last: str | None = None
        for each in found:
            if done and (path := files.portable_path(each.shown)) in done:
                if self.mirror is not None and each.root is not None and done[path] is not None:
                    self.mirror.keep(each.shown, each.root)
                continue
            if self.mirror is not None and each.root is not None and self.mirror.is_output(each.shown):
                continue
            is_stdin = each.shown == STANDARD_STREAM
            shown = (self.request.stdin_name or files.STDIN_NAME) if is_stdin else each.shown
            directory = os.path.dirname("" if shown == files.STDIN_NAME else shown)  # noqa: PTH120
            if directory != last:  # files come folder by folder
                last = directory
                settings = self.configurations.of_directory(directory).settings
                packages = self.search.packages(directory)
                absolute = os.path.abspath(directory or ".")  # noqa: PTH100
            path = "" if is_stdin else os.path.join(absolute, os.path.basename(shown))  # noqa: PTH118, PTH119
            yield Task(
                path=path,
                shown=shown,
                name=files.recorded_name(shown),
                settings=settings,
                goal=self.request.goal,
                root=each.root,
                packages=packages,
                modules_cache=self.modules_cache,
                looks_elsewhere=self._is_only(each.root, path),
                called=self.calls.of(os.path.realpath(path)) if self.calls is not None else (),
                restated=self.request.restated,
            )

    def find(self, task: Task) -> Outcome | None:
        """The outcome of a task that needs no engine: standard input, or a result kept by an earlier run."""
        if not task.path:
            return self._process_stdin(task)
        request = self.request
        # For files found in a directory, only models are reported by default.
        with_decisions = not task.was_found or request.verbose or request.explain or request.records
        outcome = self.cache.find(task, with_decisions=with_decisions) if self.cache is not None else None
        if outcome is None or outcome.status != "changed":
            return outcome
        if request.records or request.diff:
            return None  # its bytes are needed
        if not request.writes:
            return outcome
        with contextlib.suppress(InstrumentError):
            if self.writer.is_there(self._script_of(task, outcome), task, outcome):
                return outcome
        return None

    def handle(self, done: Done) -> None:
        """Write or report an outcome, or say what is wrong with it."""
        task, outcome, was_known = done
        if self.cache is not None and task.path and not was_known:
            self.cache.add(task, outcome)
        written_to = None
        try:
            if outcome.failure is None:
                written_to = self._handle(task, outcome)
                self._note_written(task, outcome, written_to)
                self._hint_at_entry(task, outcome)
                self._say_what_to_run(task, outcome, written_to)
        except BrokenPipeError:  # nobody reads standard output any more, so the other results are not wanted either
            raise
        except InstrumentError as error:
            outcome = replace(outcome, status="failed", failure=Failure.of(error))
        except Exception as error:  # noqa: BLE001 - as in `process_script`
            outcome = replace(outcome, status="failed", failure=Failure.of_unexpected(error, task.shown))
        if outcome.failure is not None:
            self._fail(outcome.failure.text)
            if self.request.verbose and outcome.failure.trace:
                for line in outcome.failure.trace.splitlines():
                    say(line)
        self.tally.add(outcome)
        if self.journal is not None:
            from instrumentor.report.record import record_file

            diff_to = written_to or task.shown
            self.journal.add(record_file(task, outcome, written_to=written_to, diff_to=diff_to))

    def _note_written(self, task: Task, outcome: Outcome, written_to: str | None) -> None:
        """Record in the cache that a file is a result, so that the next run over the tree need not find out."""
        result = outcome.result
        if self.cache is None or self.mirror is not None or result is None or written_to is None:
            return
        if task.goal != "instrument" or not task.was_found:
            return
        path = os.path.abspath(written_to)  # noqa: PTH100
        written = replace(task, path=path, shown=written_to, name=files.recorded_name(written_to))
        # It was written just now, so its time cannot tell it from a later version yet.
        state = FileState(path, outcome.result_digest)
        self.cache.add(written, Outcome("already instrumented", state, lines=result.count(b"\n")))

    def _is_only(self, root: str | None, path: str) -> bool:
        """Whether a script, by where it was found and its path, is the only one named, and changes by itself."""
        return root is None and bool(path) and len(self.request.arguments) == 1 and not self.request.entry

    def _hint_at_entry(self, task: Task, outcome: Outcome) -> None:
        """If a single script was named, say that other files of its project make models, too."""
        if outcome.elsewhere and self._is_only(task.root, task.path):
            self.tell(messages.describe_elsewhere(task.shown, outcome.elsewhere))

    def _say_what_to_run(self, task: Task, outcome: Outcome, written_to: str | None) -> None:
        """If a single script was named, say how to run its result."""
        request = self.request
        is_script = outcome.status == "changed" and not (task.was_found or is_notebook(task.shown))
        if (
            is_script
            and written_to is not None
            and len(request.arguments) == 1
            and not (request.entry or request.revert)
        ):
            self.tell(messages.describe_run(written_to))

    def note_failure(self, error: InstrumentError) -> None:
        """Record an error that concerns no particular script."""
        self._fail(str(error))

    def finish(self) -> int:
        """Show what was collected.

        Returns:
            The exit code.
        """
        request = self.request
        if self.mirror is not None and request.writes:
            if not request.revert:  # an original's name alone does not say which file it came from
                for removed, source in self.mirror.drop_gone():
                    self.tell(f"{removed}: removed, because {source} is gone")
            for error in self.mirror.fill(request.rest):
                if str(error) not in self.tally.failures:  # a script that could not be written cannot be copied
                    self._fail(str(error))
            self.mirror.close()
        if self.explained and request.format == "text":
            self._show_explained()
        self._summarize()
        return self.tally.exit_code(check=request.check)

    def _show_explained(self) -> None:
        # Importing rich takes longer than instrumenting a script.
        from instrumentor.report.explain import Explained, render_decisions
        from instrumentor.report.relevance import may_pass_for_model

        shown = [
            Explained(path, each, cells)
            for path, each, cells in self.explained
            if self.request.verbose or may_pass_for_model(each.verdict, each.reason_code, each.target, each.object)
        ]
        files.write_stdout(render_decisions(shown, sys.stdout))
        if hidden := len(self.explained) - len(shown):
            self.tell(f"{hidden:,} more calls that do not create models; --verbose shows them")

    def _process_stdin(self, task: Task) -> Outcome:
        try:
            script = files.read_script(STANDARD_STREAM, stdin_name=self.request.stdin_name)
        except InstrumentError as error:
            return Outcome("failed", FileState("", None), failure=Failure.of(error))
        self._stdin[task.shown] = script
        from instrumentor.engine.work import process_script

        return process_script(script, task)

    def _script_of(self, task: Task, outcome: Outcome) -> Script:
        if not task.path:
            return self._stdin.get(task.shown) or Script(task.shown, task.name, b"", None, Path())
        content = outcome.original or b""
        if outcome.status != "changed" and not task.was_found and self.request.output is not None:
            content = files.read_script(task.shown).content  # to be copied
        return Script(task.shown, task.name, content, Path(task.shown), Path(task.shown).parent)

    def _handle(self, task: Task, outcome: Outcome) -> str | None:
        """Report, show or write an outcome; returns the path that was written."""
        request = self.request
        if request.explain:
            self.explained.extend((task.shown, decision, outcome.cells) for decision in outcome.decisions)
        if request.verbose:
            for decision in outcome.decisions:
                say(messages.describe_decision(task.shown, decision, outcome))
        if outcome.status == "not instrumented":
            return None
        # Files of a directory that do not change need no message each.
        if outcome.status != "changed" and task.was_found and not (request.verbose or request.entry):
            return None
        script = self._script_of(task, outcome)
        if outcome.status != "changed":
            return self._handle_unchanged(script, task, outcome)
        change = self.writer.change_of(script, task, outcome)
        if request.diff and task.was_found and script.path is not None and script.path.is_symlink():
            # `git apply` refuses the whole patch if it changes a link.
            self.tell(f"{script.shown}: a symbolic link, which a patch cannot change; patch the file that it points to")
        elif request.diff:
            show_diff(change)
        if request.writes:
            self.tell(self.writer.write(change, task))
            return None if change.target is None else str(change.target)
        if request.check:
            self.tell(f"{script.shown}: {change.would}")
        return None

    def _handle_unchanged(self, script: Script, task: Task, outcome: Outcome) -> str | None:
        """Say why there is nothing to do; if an output was requested, copy the script there."""
        if self.request.writes and (change := self.writer.copy_of(script, task, outcome)) is not None:
            self.tell(self.writer.write(change, task))
            return None if change.target is None else str(change.target)
        reason = messages.describe_nothing(outcome)
        known = outcome.status == "already instrumented"
        self.tell(f"{script.shown}: {reason}" if known else f"{reason} in {script.shown}")
        is_alone = len(self.request.arguments) == 1 and not task.was_found and not outcome.elsewhere
        if is_alone and not known and not self.request.explain and not messages.has_model(outcome):
            self.tell(messages.describe_ways_on(script.shown))
        return None

    def _summarize(self) -> None:
        request, tally = self.request, self.tally
        if not self.has_directories:
            return
        if not tally.files and not tally.failures and request.shard is None:
            self.tell("no files to process: none matches --include, or all are excluded or ignored by git")
            return
        self.tell(tally.describe(revert=request.revert, writes=request.writes))
        for failure in tally.failures:
            say(failure)

    def tell(self, message: str) -> None:
        """Print a message, unless messages are turned off."""
        if not self.request.quiet and self.request.format == "text":
            say(message)

    def _fail(self, message: str) -> None:
        self.tally.failures.append(message)
        # With directories, all failures are listed at the end, where they are not lost among thousands of lines.
        if not self.has_directories:
            say(message)


def execute(request: Request) -> int:
    """Process every script that `request` names.

    Returns:
        The exit code: 0 for success, 1 if `check` found something to change, 2 if a script could not be processed.

    Raises:
        BrokenPipeError: the reader of standard output has gone.
    """
    try:
        if request.reports and not request.force:
            from instrumentor.report.kinds import refuse_to_replace

            refuse_to_replace(request.reports)
        if request.merge_reports:
            from instrumentor.report.merge import merge_reports

            merge_reports(request.arguments, request.reports)
            return DONE
        return _execute(request)
    except InstrumentError as error:  # concerns no single script: a configuration, an engine, a report
        say(str(error))
        return FAILED


def _execute(request: Request) -> int:
    configurations = Configurations(request.overrides, file=request.config, isolated=request.isolated)
    roots = [each for each in request.arguments if is_directory(each)]
    if request.show_files:
        return _show_files(request, configurations)
    mirror = None
    if roots and request.output is not None and not request.entry:
        from instrumentor.output.mirror import Mirror

        mirror = Mirror(request.output, roots, force=request.force, shard=request.shard)
    writer = Writer(
        output=request.output,
        in_place=request.in_place,
        force=request.force,
        patches=not request.writes,
        mirror=mirror,
    )
    jobs = request.jobs or count_jobs()
    with contextlib.ExitStack() as stack:
        journal = None
        if request.records:
            from instrumentor.report.journal import Journal

            beside = Path(request.reports[0]) if request.reports else None
            journal = stack.enter_context(Journal(beside, run=request.identity(), resume=request.resume))
        run = _Run(request, configurations, writer, journal, has_directories=bool(roots), mirror=mirror)
        for record in journal.records() if journal is not None else ():
            run.tally.restore(record)
        run.search = SearchPaths(request.python_path)
        _open_cache(run, stack)
        run.calls = _find_calls(run)
        found = _select(request, configurations, run.note_failure)
        total = partial(_count, request, configurations)
        is_alone = len(request.arguments) == 1 and not roots and not request.entry
        shows = not request.quiet and request.format == "text"
        progress = stack.enter_context(Progress(total, enabled=shows, is_alone=is_alone))
        runner = stack.enter_context(BatchRunner(find_engine(request.engine), jobs))
        for done in _process_programs(run, found) if request.entry else runner.run(run.tasks(found), run.find):
            progress.advance(failed=done.outcome.failure is not None, changed=done.outcome.status == "changed")
            run.handle(done)
        progress.close()
        code = run.finish()
        if journal is not None:
            from instrumentor.report.kinds import write_reports

            write_reports(journal.records, request.reports, format_=request.format, statistics_=request.statistics)
    return code


def _open_cache(run: _Run, stack: contextlib.ExitStack) -> None:
    """Open the caches of outcomes and facts, if the run uses them; `stack` closes the file.

    Raises:
        ConfigError: they could not be cleared, which was requested.
    """
    request = run.request
    directory = Path(request.cache_dir) if request.cache_dir else cache_directory()
    if request.clear_cache:
        from instrumentor.resolve.facts_cache import clear_facts

        clear(directory / "results")
        try:
            clear_facts(directory)
        except OSError as error:
            reason = files.describe_os_error(error)
            raise ConfigError(
                f"cannot be cleared ({reason}); name another one with --cache-dir", path=str(directory)
            ) from None
    if request.cache:
        run.cache = stack.enter_context(ResultsCache(directory / "results", run.search))
        if request.cache_dir and not run.cache.is_open:
            run.tell(f"{directory}: cannot be used as a cache, so every file is processed again")
        run.modules_cache = str(directory)


def _find_calls(run: _Run) -> CallsBetween | None:
    """Find the functions that files call in one another; None where that makes no difference."""
    request = run.request
    is_alone = len(request.arguments) == 1 and not run.has_directories
    if request.revert or request.entry or is_alone or request.overrides.factories in ("always", "never"):
        return None
    from instrumentor.engine.calls_between import CallsBetween

    # Other shards' files, too: the result for a file does not depend on the number of shards.
    found = select_files(
        request.arguments, lambda each: run.configurations.of_directory(each).rules, report=lambda _: None
    )
    scripts = (each.shown for each in found if each.shown != STANDARD_STREAM and not is_notebook(each.shown))
    paths = dict.fromkeys(map(os.path.realpath, scripts))
    return CallsBetween(paths, run.search, Path(run.modules_cache) if run.modules_cache is not None else None)


def _process_programs(run: _Run, found: Iterator[Found]) -> Iterator[Done]:
    """Process the one script that was named, with the files that it runs."""
    from instrumentor.engine.batch import Done
    from instrumentor.entry import process_program
    from instrumentor.output.mirror import Mirror

    request = run.request
    is_moved = request.writes and not request.in_place
    for task in run.tasks(found):
        program = process_program(task, is_moved=is_moved)
        is_moved = is_moved and all(outcome.failure is None for _, outcome in program.parts)
        if is_moved:
            beside = Path(task.shown).with_name(files.OUTPUT_PREFIX + Path(task.shown).stem)
            if request.output is None:
                refuse_to_leave(beside, beside.parent)
            output = request.output or str(beside)
            run.mirror = Mirror(os.path.normpath(Path(output) / program.place), [program.root], force=request.force)
            run.writer.mirror = run.mirror
        for part, outcome in program.parts:
            yield Done(part, outcome, was_known=True)
        if is_moved and not run.tally.failures:
            target = run.mirror.target(task.shown, program.root) if run.mirror is not None else task.shown
            run.tell(messages.describe_run(str(target)))


def _select(
    request: Request, configurations: Configurations, report: Callable[[InstrumentError], None]
) -> Iterator[Found]:
    for found in select_files(request.arguments, lambda each: configurations.of_directory(each).rules, report=report):
        if request.shard is None or is_in_shard(found, *request.shard):
            yield found


def _count(request: Request, configurations: Configurations) -> int:
    return sum(1 for _ in _select(request, configurations, report=lambda _: None))


def _show_files(request: Request, configurations: Configurations) -> int:
    failed = False

    def report(error: InstrumentError) -> None:
        nonlocal failed
        failed = True
        say(str(error))

    for found in _select(request, configurations, report):
        if found.root is None and found.shown != STANDARD_STREAM and not os.path.exists(found.shown):  # noqa: PTH110
            report(files.missing_file(found.shown))
            continue
        # Exact bytes for a program; escaped text on a terminal.
        shown = escape_unprintable(found.shown).encode() if sys.stdout.isatty() else os.fsencode(found.shown)
        files.write_stdout(shown + b"\n")
    return FAILED if failed else DONE
