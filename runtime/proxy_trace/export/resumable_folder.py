"""A folder of files that are written one by one, beside its place, and moved there when all are.

If that breaks off, what is whole is kept: whoever writes the folder the next time goes on from there.
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
"""What a part is called while it is written."""

_WHOLE: Final = ".whole"
"""What the name of a part ends with until all are written, as readers of a dataset go into hidden folders, too."""


@contextmanager
def resumable_folder(
    target: Path, parts: Sequence[Path], is_ours: Callable[[Path], bool], *, force: bool
) -> Iterator[list[Path]]:
    """Let the block write the files of a folder that becomes `target` if the block ends well.

    Args:
        target: the folder.
        parts: the files that it is to have, by their paths in it.
        is_ours: whether a file that lies where parts are written may be replaced.
        force: replace a folder that is there.

    Yields:
        Where to write each part, with `part_of_folder`. Of parts that are there already it is for the block to say
        whether they are what is wanted.

    Raises:
        OutputExistsError: if there is something at `target`, unless `force` lets it be replaced.
        NotOurOutputError: if something lies where the parts are written that is not ours.
        ExportRunningError: if another process is writing this folder.
        UnwritableFileError: if the file system refuses, in the block too.
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
    """Let the block write a file that becomes `path` if it ends well.

    Raises:
        UnwritableFileError: if the file system refuses, in the block too.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        remove(aside)  # Left by a process of the same number that was killed.
        yield aside
        aside.replace(path)
    except OSError as error:
        raise UnwritableFileError(path, error) from error
    finally:
        remove(aside)


@contextmanager
def _locked(folder: Path, target: Path) -> Iterator[None]:
    """Let no other process in, where the system can: two would take away what the other one is writing."""
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
    """Take away what is in a folder besides the files that are wanted: only what an export has left there."""
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
    """Take folders away in which nothing was written."""
    for root, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(root).rmdir()
