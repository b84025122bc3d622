"""`--entry`: a script and the project files that it runs, as tasks with their outcomes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from instrumentor.engine.outcome import Failure, Outcome
from instrumentor.engine.recorder import Recorder
from instrumentor.errors import InstrumentError
from instrumentor.paths import files
from instrumentor.paths.file_state import FileState, digest_of, settled_state
from instrumentor.program import instrument_program
from instrumentor.resolve.libraries import Libraries
from instrumentor.resolve.project import Sources

if TYPE_CHECKING:
    from instrumentor.engine.outcome import Status, Task
    from instrumentor.instrument import Result
    from instrumentor.program import ProgramFile


@dataclass(frozen=True)
class Program:
    """The outcomes for a script and the files that it runs.

    Attributes:
        root: the directory that contains them all, as the user would type it.
        parts: a task for each file with its outcome, the script first; its outcome has the dependencies of all.
        place: the directory's path in a separate output tree, which keeps the names of its parent packages.
    """

    root: str
    parts: tuple[tuple[Task, Outcome], ...]
    place: str = "."


def process_program(task: Task, *, is_moved: bool) -> Program:
    """Read and process a script together with the project files that it runs.

    Args:
        task: the script.
        is_moved: whether the results go to a separate tree.
    """
    try:
        state = settled_state(task.path)
        script = files.read_script(task.path, shown=task.shown)
        libraries = Libraries()
        recorder = Recorder(script, reads_originals=False)
        recorder.installed = libraries.at(task.packages.folders, task.modules_cache)
        sources = Sources(
            recorder.read,
            libraries.search.roots(str(files.project_directory(script))),
            recorder,
            is_script=lambda path: (Path(task.path).parent / path).samefile(task.path),
            modules_in=recorder.modules_in,
        )
        found = instrument_program(
            script.content, task.settings, source_name=task.name, sources=sources, is_moved=is_moved
        )
    except InstrumentError as error:
        if error.path == task.name:
            error.path = task.shown
        outcome = Outcome("failed", FileState(task.path, None), failure=Failure.of(error))
        return Program(str(Path(task.shown).parent), ((task, outcome),))
    directory = Path(task.shown).parent
    paths = [os.path.normpath(directory / each.path) if each.path else task.shown for each in found]
    # Links in the directory's path are kept, so that the paths are the ones that the user typed.
    packages = [directory / package for each in found for package in _packages(each)]
    whole = os.path.commonpath([os.path.abspath(each) for each in (*(Path(path).parent for path in paths), *packages)])  # noqa: PTH100
    above = os.path.commonpath([whole, *(os.path.abspath(each.parent) for each in packages)])  # noqa: PTH100
    root = os.path.relpath(whole)
    if directory.is_absolute():
        root = os.path.abspath(root)  # noqa: PTH100
    parts = []
    for path, each in zip(paths, found, strict=True):
        name = files.recorded_name(path) if each.path else task.name
        part = replace(task, path=os.path.abspath(path), shown=path, name=name, root=root)  # noqa: PTH100
        parts.append((part, _outcome(part, each.result)))
    first, outcome = parts[0]
    source = FileState(task.path, digest_of(script.content), *state)
    parts[0] = (
        first,
        replace(outcome, source=source, dependencies=recorder.dependencies(), lookups=recorder.lookups()),
    )
    return Program(root, tuple(parts), os.path.relpath(whole, above))


def _outcome(part: Task, result: Result) -> Outcome:
    """The outcome for one file."""
    status: Status = (
        "already instrumented" if result.already_instrumented else "changed" if result.changed else "unchanged"
    )
    outcome = Outcome(
        status,
        FileState(part.path, digest_of(result.original)),
        lines=result.original.count(b"\n"),
        decisions=result.decisions,
    )
    if not result.changed:
        return outcome
    digest = digest_of(result.instrumented)
    return replace(outcome, original=result.original, result=result.instrumented, result_digest=digest)


def _packages(file: ProgramFile) -> list[str]:
    """The outermost packages that contain a file, relative to the script's directory, as the script finds them."""
    inside = [(root, Path(os.path.relpath(file.path, root)).parts) for root in file.roots]
    return [os.path.join(root, parts[0]) for root, parts in inside if len(parts) > 1]  # noqa: PTH118
