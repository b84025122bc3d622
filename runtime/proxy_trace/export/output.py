"""Where an export goes: written aside and moved into place when it is whole, so that there is never half of one."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from proxy_trace.errors import OutputExistsError, OutputIsFolderError, UnwritableFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def whole_or_nothing(target: Path, *, force: bool) -> Iterator[Path]:
    """Let the block make a file that becomes `target` if the block ends well.

    Args:
        target: where it goes.
        force: replace a file that is there.

    Yields:
        Where to write: a path beside `target` at which there is nothing. It is removed if the block raises.

    Raises:
        OutputIsFolderError: if the file would replace a folder with all that is in it.
        OutputExistsError: if there is something at `target`, unless `force` lets it be replaced.
        UnwritableFileError: if the file system refuses, in the block too.
    """
    if target.is_dir():
        raise OutputIsFolderError(target)
    if not force and os.path.lexists(target):
        raise OutputExistsError(target)
    aside = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove(aside)  # Left by a process of the same number that was killed.
        yield aside
        if not force and os.path.lexists(target):
            raise OutputExistsError(target)
        replace(aside, target)
    except OSError as error:
        raise UnwritableFileError(target, error) from error
    finally:
        remove(aside)


def replace(source: Path, target: Path) -> None:
    """Move `source` to `target`; a folder that is in the way makes room first, since none can be replaced at once."""
    if target.is_dir() and not target.is_symlink():
        old = target.with_name(f".{target.name}.{os.getpid()}.old")
        remove(old)
        target.rename(old)
        try:
            source.rename(target)
        except OSError:
            old.rename(target)
            raise
        remove(old)
    else:
        source.replace(target)


def remove(path: Path) -> None:
    """Take away what is at `path`, if there is anything; of a link, itself."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
