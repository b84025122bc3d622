"""The program for `instrument run`: finds its main file as Python does, and wraps its models."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.machinery
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from instrumentor.configuration import Configurations
from instrumentor.engine.cache_directory import cache_directory
from instrumentor.engine.outcome import Change, Outcome, Task
from instrumentor.engine.results_cache import ResultsCache
from instrumentor.messages import describe_nothing
from instrumentor.paths import files
from instrumentor.resolve.search_path import SearchPaths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from instrumentor.configuration import Section

_Instrumented: TypeAlias = tuple[Outcome, tuple[Change, ...]]


@dataclass(frozen=True)
class Target:
    """The program to run.

    Attributes:
        name: the script, folder, archive or module, as typed.
        file: the file with its main program; None if there is none, or none that is source text.
        module: the module to run; "__main__" for a folder or an archive, empty for a script.
        search: the folder where the program's imports start; empty for the current directory.
    """

    name: str
    file: str | None
    module: str
    search: str


@dataclass(frozen=True)
class Choices:
    """The other options.

    Attributes:
        overrides: the settings given as options.
        config: the only configuration file to read; None for the nearest.
        isolated: read no configuration file.
        entry: wrap models in the project files that the program imports, too.
        python_path: where packages are installed; empty for the active environment.
        cache: whether results, and facts about installed packages, are kept.
        cache_dir: where; None for the default.
    """

    overrides: Section
    config: str | None = None
    isolated: bool = False
    entry: bool = False
    python_path: tuple[str, ...] = ()
    cache: bool = True
    cache_dir: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A program with its models wrapped.

    Attributes:
        files: the changed files: real path, original bytes and instrumented bytes.
        logdir: where its trace goes, absolute.
        shown_logdir: the same, as the user would type it.
        hint: why nothing is traced, if nothing is.
        failure: why its main file could not be instrumented; empty where it could.
    """

    files: tuple[tuple[str, bytes, bytes], ...]
    logdir: str
    shown_logdir: str
    hint: str
    failure: str = ""


def find_script(name: str) -> Target:
    """Find the script, folder or archive at a path, as `python PATH` does."""
    directory = os.path.dirname(os.path.realpath(name))  # noqa: PTH120
    if os.path.isfile(name) and not _is_archive(name):  # noqa: PTH113
        return Target(name, name, "", directory)
    inside = os.path.join(name, "__main__.py")  # noqa: PTH118
    if os.path.isdir(name):  # noqa: PTH112
        return Target(name, inside if os.path.isfile(inside) else None, "__main__", absolute_path(name))  # noqa: PTH113
    return Target(name, None, "", directory)


def find_module(name: str) -> Target:
    """Find the module with a dotted name, as `python -m NAME` does, without importing its parent packages."""
    folder = os.getcwd()  # noqa: PTH109
    own = "" if sys.flags.isolated or getattr(sys.flags, "safe_path", False) else folder
    # The first folder belongs to this process's own main program.
    search: Sequence[str] | None = ([own] if own else []) + sys.path[bool(own) :]
    found = None
    for part in name.split("."):
        if search is None:
            return Target(name, None, name, "")
        found = _find_spec(part, name, search)
        if found is None:
            return Target(name, None, name, "")
        search = found.submodule_search_locations
    if search is not None:
        found = _find_spec("__main__", name, search)
    is_source = found is not None and isinstance(found.loader, importlib.machinery.SourceFileLoader)
    return Target(name, found.origin if is_source and found is not None else None, name, "")


def _find_spec(part: str, name: str, search: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    try:
        found = importlib.machinery.PathFinder.find_spec(part, list(search))
        # Some packages, such as editable installs, have their own finder.
        return found or (importlib.util.find_spec(part) if part == name.partition(".")[0] else None)
    except (ImportError, ValueError, AttributeError):
        return None


def absolute_path(name: str) -> str:
    """A path, made absolute as Python does it for a main program, without being normalized."""
    if os.path.isabs(name):  # noqa: PTH117
        return name
    return os.getcwd() if name == "." else os.path.join(os.getcwd(), name)  # noqa: PTH109, PTH118


def _is_archive(path: str) -> bool:
    import zipfile

    return zipfile.is_zipfile(path)


def prepare(target: Target, choices: Choices) -> Prepared:
    """Wrap the models of a program.

    Raises:
        InstrumentError: a configuration is invalid.
    """
    assert target.file is not None
    shown = os.path.relpath(target.file) if target.module else target.file
    directory = os.path.dirname(shown)  # noqa: PTH120
    configurations = Configurations(choices.overrides, file=choices.config, isolated=choices.isolated)
    settings = configurations.of_directory(directory).settings
    # The trace goes to where the program was started, even if it changes directory.
    logdir = os.path.abspath(settings.logdir)  # noqa: PTH100
    task = Task(
        path=os.path.abspath(shown),  # noqa: PTH100
        shown=shown,
        name=files.recorded_name(shown),
        settings=dataclasses.replace(settings, logdir=logdir),
        packages=SearchPaths(choices.python_path).packages(directory),
        modules_cache=str(choices.cache_dir or cache_directory()) if choices.cache else None,
        looks_elsewhere=True,
    )
    with _results(choices) as results:
        outcome, changes = _instrumented(task, results, entry=choices.entry)
    changed = [(os.path.realpath(each.path), each.original, each.result) for each in changes]
    failure = outcome.failure.text if outcome.failure is not None else ""
    return Prepared(tuple(changed), logdir, settings.logdir, "" if changed else _hint(shown, outcome), failure)


def _results(choices: Choices) -> contextlib.AbstractContextManager[ResultsCache | None]:
    """What earlier runs have made of programs; None if nothing is to be kept."""
    if not choices.cache:
        return contextlib.nullcontext()
    directory = Path(choices.cache_dir) if choices.cache_dir else cache_directory()
    return ResultsCache(directory / "results", SearchPaths(choices.python_path))


def _instrumented(task: Task, results: ResultsCache | None, *, entry: bool) -> _Instrumented:
    """The outcome of the main file, and the files that change.

    The files of its project are included with `entry`, and also if they make all the models: otherwise nothing would
    be traced.
    """
    if not entry:
        outcome, changes = _kept_or_new(task, results, _process_script)
        if changes or not outcome.elsewhere:
            return outcome, changes
    return _kept_or_new(replace(task, goal="program"), results, _process_program)


def _kept_or_new(task: Task, results: ResultsCache | None, process: Callable[[Task], _Instrumented]) -> _Instrumented:
    found = None if results is None else results.find_changes(task)
    if found is None:
        found = process(task)
        if results is not None:
            results.add(task, *found)
    return found


def _process_script(task: Task) -> _Instrumented:
    from instrumentor.engine.work import process  # Not above: what is kept needs no analysis.

    outcome = process(task)
    return outcome, _changes([(task, outcome)])


def _process_program(task: Task) -> _Instrumented:
    from instrumentor.entry import process_program

    parts = process_program(task, is_moved=False).parts
    return parts[0][1], _changes(parts)


def _changes(parts: Iterable[tuple[Task, Outcome]]) -> tuple[Change, ...]:
    return tuple(
        Change(task.path, outcome.original, outcome.result)
        for task, outcome in parts
        if outcome.original is not None and outcome.result is not None
    )


def _hint(shown: str, outcome: Outcome) -> str:
    """Why nothing is traced."""
    return f"{describe_nothing(outcome)} in {shown}; instrument {shown} --explain --verbose says why"


def read_source(path: str) -> bytes | None:
    """The bytes of a main file; None if they cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
