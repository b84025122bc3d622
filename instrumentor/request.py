"""The request of the command line, as one frozen value."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET

from instrumentor.configuration import Section
from instrumentor.engine.executors import LOCAL
from instrumentor.stated_settings import NAMES

if TYPE_CHECKING:
    from instrumentor.engine.outcome import Goal
    from instrumentor.output.mirror import Rest

Format = Literal["text", "json", "github"]


@dataclass(frozen=True)
class Request:
    """The checked request of the command line.

    Attributes:
        arguments: files and directories, as typed; `-` is standard input. With `merge_reports`, reports.
        overrides: the settings given as options; they win over configuration files.
        config: the only configuration file to read; None for the nearest one of each file.
        isolated: read no configuration file.
        output: a file, a directory or `-`; None for the default.
        rest: what happens to a tree's other files if `output` is its mirror.
        stdin_name: the name to use for standard input.
        revert: restore originals instead of instrumenting.
        entry: process the project files that a script runs, too.
        in_place: replace the scripts themselves.
        force: replace existing files.
        diff: show what would change, write nothing.
        check: set the exit code to 1 if something would change, write nothing.
        explain: show every decision, write nothing.
        statistics: count sites by decision and reason, write nothing.
        show_files: list the files that would be processed, and do nothing else.
        reports: files to write reports to; the suffix selects the kind.
        format: the format of the output about the run on standard output.
        merge_reports: merge the reports in `arguments` into one, instead of processing scripts.
        resume: skip the files that the journal of an interrupted run lists.
        shard: which part of how many to process.
        jobs: how many scripts are processed at a time; None for the number of processors.
        engine: where they are processed.
        python_path: where packages are installed; empty for the active environment.
        cache: whether outcomes are kept and looked up.
        cache_dir: where; None for the default.
        clear_cache: clear the cache first.
        quiet: print only errors.
        verbose: print every decision, too.
    """

    arguments: tuple[str, ...]
    overrides: Section = field(default_factory=Section)
    config: str | None = None
    isolated: bool = False
    output: str | None = None
    rest: Rest = "link"
    stdin_name: str | None = None
    revert: bool = False
    entry: bool = False
    in_place: bool = False
    force: bool = False
    diff: bool = False
    check: bool = False
    explain: bool = False
    statistics: bool = False
    show_files: bool = False
    reports: tuple[str, ...] = ()
    format: Format = "text"
    merge_reports: bool = False
    resume: bool = False
    shard: tuple[int, int] | None = None
    jobs: int | None = None
    engine: str = LOCAL
    python_path: tuple[str, ...] = ()
    cache: bool = True
    cache_dir: str | None = None
    clear_cache: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def writes(self) -> bool:
        """Whether scripts are written at all."""
        return not (self.diff or self.check or self.explain or self.statistics)

    @property
    def records(self) -> bool:
        """Whether records are used, which need every outcome in full."""
        return bool(self.reports) or self.format != "text" or self.statistics

    @property
    def goal(self) -> Goal:
        """What is to be done with each script."""
        if self.revert:
            return "revert"
        return "explain" if self.explain or self.records or self.verbose else "instrument"

    @property
    def restated(self) -> tuple[str, ...]:
        """The settings, given as options, to update in scripts that are already instrumented."""
        if not self.in_place or self.revert:
            return ()
        return tuple(name for name in sorted(NAMES) if getattr(self.overrides, name) is not UNSET)

    def identity(self) -> str:
        """A digest of everything that must be equal for one run to resume another."""
        passing = {"reports", "resume", "jobs", "engine", "cache", "cache_dir", "clear_cache", "quiet", "verbose"}
        stated = [(each.name, getattr(self, each.name)) for each in fields(self) if each.name not in passing]
        return hashlib.blake2b(repr(stated).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
