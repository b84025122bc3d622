"""Writes an output under a temporary name, and moves it into place when it is complete."""

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
    """Let the block write a file that becomes `target` if the block succeeds.

    Args:
        target: the final path.
        force: whether to replace an existing file.

    Yields:
        The path to write to, beside `target`, where nothing exists. It is removed if the block raises.

    Raises:
        OutputIsFolderError: if `target` is a folder.
        OutputExistsError: if `target` exists, unless `force`.
        UnwritableFileError: if writing fails, also in the block.
    """
    if target.is_dir():
        raise OutputIsFolderError(target)
    if not force and os.path.lexists(target):
        raise OutputExistsError(target)
    aside = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove(aside)  # Left by a killed process with the same number.
        yield aside
        if not force and os.path.lexists(target):
            raise OutputExistsError(target)
        replace(aside, target)
    except OSError as error:
        raise UnwritableFileError(target, error) from error
    finally:
        remove(aside)


def replace(source: Path, target: Path) -> None:
    """Move `source` to `target`. An existing folder is moved away first, because it cannot be replaced atomically."""
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
    """Remove the file, folder or link at `path`, if any."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
