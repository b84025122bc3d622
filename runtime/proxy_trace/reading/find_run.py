"""Finds the files of a run: from a logdir the newest run, from a run directory its files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.errors import NoTraceError, TextLogError, TraceNotFoundError, UnreadableFileError

if TYPE_CHECKING:
    from pathlib import Path

_RUN_ID: Final = re.compile(r"\d{8}T\d{6}")


def find_run_files(path: Path) -> list[Path]:
    """The trace files of `path`, sorted by name.

    Args:
        path: a trace file, a run directory, or a logdir, of which the newest run is taken.

    Raises:
        TraceNotFoundError: if there is nothing at `path`.
        TextLogError: if `path` is a text log, or a directory that holds only such.
        NoTraceError: if a directory contains no trace.
        UnreadableFileError: if the file system refuses.
    """
    try:
        if not path.exists():
            raise TraceNotFoundError(path)
        if not path.is_dir():
            if path.suffix == ".log":
                raise TextLogError(path)
            return [path]
        return _files_in(path) or _files_of_newest_run(path)
    except OSError as error:
        raise UnreadableFileError(path, error) from error


def find_runs(logdir: Path) -> list[Path]:
    """The run directories in a logdir, newest first; the directory itself if it is a run's.

    They are sorted by name; directories whose name is not a run id count as older.

    Raises:
        OSError: if the file system refuses.
    """
    if _files_in(logdir):
        return [logdir]
    runs = [folder for folder in logdir.iterdir() if folder.is_dir() and _files_in(folder)]
    return sorted(runs, key=lambda run: (_RUN_ID.match(run.name) is not None, run.name), reverse=True)


def _files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*.jsonl") if file.is_file())


def _files_of_newest_run(logdir: Path) -> list[Path]:
    """The files of the last run by name; a directory whose name is not a run id counts only if there is no other."""
    for run in find_runs(logdir):
        return _files_in(run)
    logs = [file for file in logdir.glob("*.log") if file.is_file()]
    if logs:
        raise TextLogError(max(logs, key=lambda file: file.stat().st_mtime))
    raise NoTraceError(logdir)
