"""Writes a folder file by file under a temporary name, and moves it into place when all files are complete.

If this is interrupted, complete files are kept, and the next attempt continues from there.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proxy_trace.errors import ExportRunningError, NotOurOutputError, OutputExistsError, UnwritableFileError
from proxy_trace.export.output import remove, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

_BROKEN_OFF: Final = re.compile(r"\..*\.\d+\.partial")
"""The name of a part while it is written."""

_WHOLE: Final = ".whole"
"""The suffix of parts until all are written. Dataset readers also look into hidden folders."""


@contextmanager
def resumable_folder(
    target: Path, parts: Sequence[Path], is_ours: Callable[[Path], bool], *, force: bool
) -> Iterator[list[Path]]:
    """Let the block write the files of a folder that becomes `target` if the block succeeds.

    Args:
        target: the folder.
        parts: the files it will have, as relative paths.
        is_ours: whether an existing file in the temporary folder may be replaced.
        force: whether to replace an existing folder.

    Yields:
        The folder in which to write each part with `part_of_folder`. The block decides whether parts that already exist
        can be kept.

    Raises:
        OutputExistsError: if `target` exists, unless `force`.
        NotOurOutputError: if the temporary folder contains a file that is not ours.
        ExportRunningError: if another process is writing this folder.
        UnwritableFileError: if writing fails, also in the block.
    """
    if not force and os.path.lexists(target):
        raise OutputExistsError(target)
    aside = target.with_name(f".{target.name}.partial")
    places = [aside / part.with_name(part.name + _WHOLE) for part in parts]
    try:
        if aside.is_symlink() or (aside.exists() and not aside.is_dir()):
            raise NotOurOutputError(aside)
        aside.mkdir(parents=True, exist_ok=True)
        with _locked(aside, target):
            try:
                _clear(aside, set(places), is_ours)
                for place in places:
                    place.parent.mkdir(parents=True, exist_ok=True)
                yield places
                if not force and os.path.lexists(target):
                    raise OutputExistsError(target)
                for part, place in zip(parts, places, strict=True):
                    place.rename(aside / part)
                replace(aside, target)
            finally:
                _remove_empty(aside)
    except OSError as error:
        raise UnwritableFileError(target, error) from error


@contextmanager
def part_of_folder(path: Path) -> Iterator[Path]:
    """Let the block write a file that becomes `path` if the block succeeds.

    Raises:
        UnwritableFileError: if writing fails, also in the block.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        remove(aside)  # Left by a killed process with the same number.
        yield aside
        aside.replace(path)
    except OSError as error:
        raise UnwritableFileError(path, error) from error
    finally:
        remove(aside)


@contextmanager
def _locked(folder: Path, target: Path) -> Iterator[None]:
    """Lock the folder, if the system can. Two processes would remove each other's files."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # Some network file systems have no locks.
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExportRunningError(target) from None
        yield
    finally:
        os.close(number)


def _clear(folder: Path, wanted: Collection[Path], is_ours: Callable[[Path], bool]) -> None:
    """Remove all files from a folder except those wanted, if all others were left by an export."""
    found = []
    for root, folders, names in os.walk(folder):
        found += [Path(root, name) for name in names]
        found += [path for path in (Path(root, name) for name in folders) if path.is_symlink()]
    for path in sorted(found):
        if path.is_symlink() or not (_BROKEN_OFF.fullmatch(path.name) or is_ours(path)):
            raise NotOurOutputError(path)
    for path in found:
        if path not in wanted:
            path.unlink()


def _remove_empty(folder: Path) -> None:
    """Remove empty folders."""
    for root, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(root).rmdir()
