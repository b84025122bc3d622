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
def whole_or_nothing(target: Path, *, force: bool, makes_folder: bool = False) -> Iterator[Path]:
    """Let the block make a file, or a folder, that becomes `target` if the block ends well.

    Args:
        target: where it goes.
        force: replace what is there, a file by a file or a folder by a folder.
        makes_folder: the block makes a folder.

    Yields:
        Where to write: a path beside `target` at which there is nothing. It is removed if the block raises.

    Raises:
        OutputIsFolderError: if a file would replace a folder with all that is in it.
        OutputExistsError: if there is something at `target`, unless `force` lets it be replaced.
        UnwritableFileError: if the file system refuses, in the block too.
    """
    if not makes_folder and target.is_dir():
        raise OutputIsFolderError(target)
    if not force and os.path.lexists(target):
        raise OutputExistsError(target)
    aside = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(aside)  # Left by a process of the same number that was killed.
        yield aside
        if not force and os.path.lexists(target):
            raise OutputExistsError(target)
        _replace(aside, target)
    except OSError as error:
        raise UnwritableFileError(target, error) from error
    finally:
        _remove(aside)


def _replace(source: Path, target: Path) -> None:
    """Move `source` to `target`; a folder that is in the way makes room first, since none can be replaced at once."""
    if target.is_dir() and not target.is_symlink():
        old = target.with_name(f".{target.name}.{os.getpid()}.old")
        _remove(old)
        target.rename(old)
        try:
            source.rename(target)
        except OSError:
            old.rename(target)
            raise
        _remove(old)
    else:
        source.replace(target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
