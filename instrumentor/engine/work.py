"""The unit of work: one script, from its bytes to the bytes to write.

Nothing here writes files, keeps state between scripts or depends on where it runs. Tasks and outcomes are plain values
that can be sent to other processes and machines, and the same task gives the same outcome everywhere.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from instrumentor.engine.garbage import collecting_between_scripts
from instrumentor.engine.outcome import Failure, Outcome
from instrumentor.engine.prefilter import may_hold_site
from instrumentor.engine.recorder import Recorder
from instrumentor.errors import InstrumentError
from instrumentor.instrument import instrument_source
from instrumentor.notebooks.cells import is_notebook
from instrumentor.notebooks.notebook import instrument_notebook
from instrumentor.notebooks.undo import revert_notebook
from instrumentor.paths import files
from instrumentor.paths.file_state import FileState, digest_of, settled_state
from instrumentor.resolve.libraries import Libraries
from instrumentor.resolve.project import Sources
from instrumentor.settings import Settings
from instrumentor.source.undo import undo
from instrumentor.stated_settings import NAMES, stated_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.engine.outcome import Task
    from instrumentor.paths.files import Script
    from instrumentor.resolve.outline_cache import OutlineCache

_BYTES_PER_LINE = 40


def process_batch(tasks: Sequence[Task], libraries: Libraries | None = None) -> list[Outcome]:
    """Process several scripts in turn; a failure in one is its outcome and does not stop the others.

    Args:
        tasks: the scripts.
        libraries: caches what was read for other scripts, in this batch and before; without it, only in this batch.
    """
    libraries = libraries or Libraries()
    outcomes = []
    with collecting_between_scripts(libraries) as garbage:
        for task in tasks:
            outcomes.append(process(task, libraries))
            garbage.after_script(_BYTES_PER_LINE * outcomes[-1].lines)
    return outcomes


def process(task: Task, libraries: Libraries | None = None) -> Outcome:
    """Read and process one script; `libraries` caches what was read for others."""
    state = settled_state(task.path)
    try:
        script = files.read_script(task.path, shown=task.shown)
    except InstrumentError as error:
        return Outcome("failed", FileState(task.path, None), failure=Failure.of(error))
    return process_script(script, task, state, libraries)


def process_script(
    script: Script, task: Task, state: tuple[int, int] = (-1, -1), libraries: Libraries | None = None
) -> Outcome:
    """Process one script whose bytes have been read, such as standard input."""
    content = script.content
    recorder = Recorder(script, reads_originals=True)
    source = FileState(task.path, digest_of(content), *state)
    common = Outcome("unchanged", source, lines=content.count(b"\n"))
    try:
        if task.goal == "revert":
            return _revert(content, task, common)
        libraries = libraries or Libraries()
        directory = str(files.project_directory(script))
        is_of_project = partial(libraries.search.shadows, directory)
        is_optional = task.was_found and not is_notebook(task.shown)
        if is_optional and not may_hold_site(content, task.settings, is_of_project):
            return common
        recorder.installed = libraries.at(task.packages.folders, task.modules_cache)
        roots = libraries.search.roots(directory)
        sources = Sources(recorder.read, roots, recorder, libraries.units, called=frozenset(task.called))
        outlines = libraries.outlines(task.modules_cache) if task.is_brief else None
        outcome = _instrument(content, task, common, sources, outlines)
        return replace(outcome, dependencies=recorder.dependencies(), lookups=recorder.lookups())
    except InstrumentError as error:
        if error.path is not None and error.path.startswith(task.name):
            # The core uses the source comment's name for the script; a notebook's cell may follow it.
            error.path = task.shown + error.path[len(task.name) :]
        failure = Failure.of(error)
    except Exception as error:  # noqa: BLE001 - a bug triggered by one script must not stop the others
        failure = Failure.of_unexpected(error, task.shown)
    return replace(common, status="failed", failure=failure, dependencies=recorder.dependencies())


def _instrument(
    content: bytes, task: Task, common: Outcome, sources: Sources, outlines: OutlineCache | None
) -> Outcome:
    transform = (
        instrument_notebook
        if is_notebook(task.shown)
        else partial(
            instrument_source,
            is_alone=not task.was_found,
            looks_elsewhere=task.looks_elsewhere,
            outlines=outlines,
        )
    )
    result = transform(content, task.settings, source_name=task.name, sources=sources)
    common = replace(common, elsewhere=result.elsewhere)
    decisions, cells = result.decisions, getattr(result, "cells", ())
    if result.already_instrumented:
        if task.restated and not is_notebook(task.shown):
            original, recorded = _undo(content, task)
            again = transform(original, _restated(content, task), source_name=recorded, sources=sources)
            if again.instrumented != content:
                return _changed(common, content, again.instrumented, decisions=again.decisions)
        if task.goal == "explain":
            # The decisions refer to the original, as does a trace.
            original = _undo(content, task)[0]
            about = transform(original, task.settings, source_name=task.name, sources=sources)
            decisions, cells = about.decisions, getattr(about, "cells", ())
        return replace(common, status="already instrumented", decisions=decisions, cells=cells)
    if not result.changed:
        return replace(common, decisions=decisions, cells=cells)
    return _changed(common, content, result.instrumented, decisions=decisions, cells=cells)


def _restated(content: bytes, task: Task) -> Settings:
    """The settings stated in a script's lines, with the requested changes."""
    stated = {name: getattr(Settings(), name) for name in NAMES} | stated_settings(content)
    kept = {name: value for name, value in stated.items() if name not in task.restated}
    return dataclasses.replace(task.settings, **kept)


def _revert(content: bytes, task: Task, common: Outcome) -> Outcome:
    if task.was_found and b"# instrument: " not in content:
        return replace(common, status="not instrumented")
    original, recorded = _undo(content, task)
    return _changed(common, content, original, recorded_source=recorded)


def _undo(content: bytes, task: Task) -> tuple[bytes, str]:
    take_out = revert_notebook if is_notebook(task.shown) else undo
    reverted = take_out(content, source_name=task.name)
    return reverted.original, reverted.recorded_source


def _changed(common: Outcome, original: bytes, result: bytes, **more: object) -> Outcome:
    return replace(
        common,
        status="changed",
        original=original,
        result=result,
        result_digest=digest_of(result),
        **more,
    )
