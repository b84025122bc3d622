"""A tree beside the original one that runs as it stands: what changes is instrumented, the rest is there too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from instrumentor.errors import OutputExistsError, OutputIsSourceError, UnwritableOutputError
from instrumentor.paths.file_state import digest_of
from instrumentor.paths.files import describe_os_error, write_file
from instrumentor.paths.selection import DEFAULT_EXCLUDE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Rest = Literal["link", "copy", "none"]

MANIFEST = ".instrument-mirror.json"
# Python finds a script's neighbours beside the file that a link leads to, and would import the originals.
_COPIED = (".py", ".pyi", ".ipynb", ".pyw")
_SKIPPED = frozenset(DEFAULT_EXCLUDE)


class Mirror:
    """The tree below one output directory.

    What it wrote there it remembers in a manifest: only that is ever replaced, and only while nobody edited it.
    """

    def __init__(self, output: str, roots: Sequence[str], *, force: bool) -> None:
        """Take the place and the directories to mirror.

        Args:
            output: the directory; that of the one root's own files, or one above a folder for each of several.
            roots: the directories, as typed.
            force: replace what others wrote.

        Raises:
            OutputIsSourceError: the output is one of the roots.
        """
        self._output = Path(output)
        self._force = force
        self._roots = list(roots)
        for root in roots:
            if os.path.realpath(root) == os.path.realpath(output):
                raise OutputIsSourceError(
                    "the output is the directory itself; choose another -o, or ask for it with --in-place", path=root
                )
        self._manifest = self._read_manifest()
        self._written: dict[str, str] = {}

    def target(self, shown: str, root: str) -> Path:
        """Where the counterpart of a file in a root lies."""
        return self._base(root) / os.path.relpath(shown, root)

    def is_own(self, target: Path, existing: bytes) -> bool:
        """Whether a file there is as this tool wrote it."""
        return self._manifest.get(self._key(target)) == digest_of(existing).hex()

    def remember(self, target: Path, content: bytes) -> None:
        """Note what was written."""
        self._written[self._key(target)] = digest_of(content).hex()

    def is_output(self, path: str) -> bool:
        """Whether a path lies in the output: a mirror inside the tree is no part of the tree."""
        return (os.path.realpath(path) + os.sep).startswith(os.path.realpath(self._output) + os.sep)

    def fill(self, rest: Rest) -> Iterator[OutputExistsError | UnwritableOutputError]:
        """Add what is not there yet: copies of other Python files, links to (or copies of) everything else.

        Yields:
            What could not be added.
        """
        if rest == "none":
            return
        for root in self._roots:
            for directory, target in self._directories(root):
                yield from self._fill_directory(directory, target, rest)

    def close(self) -> None:
        """Write the manifest."""
        manifest = {**self._manifest, **self._written}
        if manifest != self._manifest:
            content = msgspec.json.format(msgspec.json.encode({"version": 1, "files": dict(sorted(manifest.items()))}))
            write_file(self._output / MANIFEST, content + b"\n")

    def _base(self, root: str) -> Path:
        if len(self._roots) == 1:
            return self._output
        return self._output / Path(os.path.abspath(root)).name  # noqa: PTH100

    def _key(self, target: Path) -> str:
        return os.path.relpath(target, self._output).replace(os.sep, "/")

    def _read_manifest(self) -> dict[str, str]:
        try:
            held = msgspec.json.decode((self._output / MANIFEST).read_bytes())
            return dict(held["files"])
        except (OSError, msgspec.MsgspecError, KeyError, TypeError, ValueError):
            return {}

    def _directories(self, root: str) -> Iterator[tuple[Path, Path]]:
        pending = [(Path(root), self._base(root))]
        while pending:
            directory, target = pending.pop()
            yield directory, target
            pending.extend(
                (each, target / each.name)
                for each in sorted(directory.iterdir(), reverse=True)
                if each.is_dir() and not each.is_symlink() and self._is_entered(each)
            )

    def _is_entered(self, directory: Path) -> bool:
        return directory.name not in _SKIPPED and not self.is_output(str(directory)) and _has_python(directory)

    def _fill_directory(
        self, directory: Path, target: Path, rest: Rest
    ) -> Iterator[OutputExistsError | UnwritableOutputError]:
        for each in sorted(directory.iterdir()):
            goal = target / each.name
            is_directory = each.is_dir()
            if self._key(goal) in self._written or each.name in _SKIPPED or self.is_output(str(each)):
                continue
            if is_directory and not each.is_symlink() and self._is_entered(each):
                continue
            if not is_directory and not each.is_file():
                continue  # a broken link, a pipe
            try:
                self._add(each, goal, rest, is_directory=is_directory)
            except OutputExistsError as error:
                yield error
            except (OSError, shutil.Error) as error:
                yield UnwritableOutputError(
                    f"cannot be written ({describe_os_error(error)}); choose another place with -o", path=str(goal)
                )

    def _add(self, source: Path, target: Path, rest: Rest, *, is_directory: bool) -> None:
        if not is_directory and source.name.endswith(_COPIED):
            content = source.read_bytes()
            existing = target.read_bytes() if target.is_file() else None
            if existing is not None and existing != content and not (self._force or self.is_own(target, existing)):
                raise OutputExistsError(
                    "exists and was not written by instrument; choose another -o, or overwrite it with --force",
                    path=str(target),
                )
            if existing != content:
                write_file(target, content, mode_of=source)
            self.remember(target, content)
            return
        if os.path.lexists(target):
            return  # a link or copy of an earlier run, or something of the user's own
        target.parent.mkdir(parents=True, exist_ok=True)
        if rest == "copy":
            if is_directory:
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copy2(source, target)
            return
        target.symlink_to(os.path.realpath(source), target_is_directory=is_directory)


def _has_python(directory: Path) -> bool:
    """Whether there is any Python file in a directory or below it."""
    for _, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        if any(name.endswith(_COPIED) for name in names):
            return True
    return False
