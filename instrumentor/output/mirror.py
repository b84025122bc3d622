"""A complete copy of a tree, ready to run: changed files are instrumented, the rest is copied or linked."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

import msgspec

from instrumentor.errors import (
    OutputClashError,
    OutputExistsError,
    OutputIsSourceError,
    OutputLeadsOutError,
    UnreadableFileError,
    UnwritableOutputError,
)
from instrumentor.paths.containment import is_within, refuse_to_leave
from instrumentor.paths.file_state import digest_of
from instrumentor.paths.files import describe_os_error, unwritable, write_file
from instrumentor.paths.selection import DEFAULT_EXCLUDE, Found, is_in_shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from instrumentor.errors import InstrumentError

Rest = Literal["link", "copy", "none"]

MANIFEST = ".instrument-mirror{}.json"
# Never linked: Python looks for modules beside a link's target, and would import the originals.
_COPIED = (".py", ".pyi", ".ipynb", ".pyw")
_SKIPPED = frozenset(DEFAULT_EXCLUDE)


class _Manifest(msgspec.Struct):
    """The record of the runs that wrote a manifest.

    Attributes:
        version: the format version.
        files: the digests of the files they wrote, by path below the output.
        roots: the directories that they mirrored.
    """

    version: int = 1
    files: dict[str, str] = {}
    roots: list[str] = []


class Mirror:
    """The tree in one output directory.

    A manifest lists the files it wrote. Only these are ever replaced, and only if nobody has edited them. Shards may
    work on one mirror at the same time; each has its own manifest and adds its own part.
    """

    def __init__(self, output: str, roots: Sequence[str], *, force: bool, shard: tuple[int, int] | None = None) -> None:
        """Set the output and the directories to mirror.

        Args:
            output: the directory; holds the files of a single root, or a folder for each of several roots.
            roots: the directories, as typed.
            force: replace files that this tool did not write.
            shard: which part of how many is added here; None for all.

        Raises:
            OutputIsSourceError: the output is one of the roots.
            OutputClashError: two of the roots would become the same folder.
        """
        self.output = Path(output)
        self._force = force
        self._roots = list(dict.fromkeys(roots))
        taken: dict[Path, str] = {}
        for root in self._roots:
            other = taken.setdefault(self._base(root), root)
            if os.path.realpath(other) != os.path.realpath(root):
                raise OutputClashError(
                    f"would be mirrored in {self._base(root)}, like {other}; write them one at a time, each with its "
                    "own -o",
                    path=root,
                )
            if os.path.realpath(root) == os.path.realpath(output):
                raise OutputIsSourceError(
                    "the output is the directory itself; choose another -o, or use --in-place", path=root
                )
        self._shard = shard
        self._manifest = self.output / MANIFEST.format("" if shard is None else f"-{shard[0]}-of-{shard[1]}")
        manifests = {path: _read_manifest(path) for path in self.output.glob(MANIFEST.format("*"))}
        self._known = {path: manifest.files for path, manifest in manifests.items()}
        self._known_roots = manifests.get(self._manifest, _Manifest()).roots
        self._written: dict[str, str] = {}
        self._gone: set[str] = set()

    def target(self, shown: str, root: str) -> Path:
        """The path of the counterpart of a file in a root."""
        return self._base(root) / os.path.relpath(shown, root)

    def is_own(self, target: Path, existing: bytes) -> bool:
        """Whether a file there is unchanged since this tool wrote it."""
        key, digest = self._key(target), digest_of(existing).hex()
        return any(written.get(key) == digest for written in self._known.values())

    def remember(self, target: Path, content: bytes) -> None:
        """Record a file that was written."""
        self._written[self._key(target)] = digest_of(content).hex()

    def keep(self, shown: str, root: str) -> None:
        """Keep the counterpart of a script, which was written by the interrupted run that this one resumes."""
        target = self.target(shown, root)
        with contextlib.suppress(OSError):  # It was removed, so it is added like any other file.
            self.remember(target, target.read_bytes())

    def is_output(self, path: str) -> bool:
        """Whether a path is in the output: a mirror inside the tree is not part of the tree."""
        return (os.path.realpath(path) + os.sep).startswith(os.path.realpath(self.output) + os.sep)

    def make_room(self, folder: Path) -> None:
        """Remove links to the tree's own folders on the way to `folder`; folders without Python files are such links.

        Raises:
            UnwritableOutputError: the operating system refuses.
        """
        for each in (*reversed(folder.parents), folder):
            if each.is_symlink() and self.is_output(str(each.parent)):
                source = self._source(each)
                if source is not None and os.path.realpath(source) == os.path.realpath(each):
                    try:
                        each.unlink(missing_ok=True)  # another shard may have removed it
                    except OSError as error:
                        raise unwritable(each, error) from None

    def drop_gone(self) -> Iterator[tuple[Path, Path]]:
        """Remove files that earlier runs over the same directories wrote for sources that no longer exist.

        An old package would be imported instead of a new module with its name. Files edited since are kept.

        Yields:
            The removed file, and the source that it was made from.
        """
        if set(self._known_roots) != self._real_roots():
            return
        for key, digest in self._known[self._manifest].items():
            target = self.output / key
            source = self._source(target)
            if key in self._written or source is None or os.path.lexists(source):
                continue
            if not is_within(target.parent, self.output):
                continue
            with contextlib.suppress(OSError):  # It is gone already, or cannot be removed.
                if digest_of(target.read_bytes()).hex() != digest:
                    continue
                target.unlink()
                yield target, source
            self._gone.add(key)
            with contextlib.suppress(OSError):  # The folder is not empty.
                for folder in target.parents:
                    folder.rmdir()

    def fill(self, rest: Rest) -> Iterator[InstrumentError]:
        """Add the missing files: copies of other Python files, links to (or copies of) everything else.

        Yields:
            An error for each entry that could not be added.
        """
        if rest == "none":
            return
        for root in self._roots:
            pending = [(Path(root), self._base(root))]
            while pending:
                directory, target = pending.pop()
                try:
                    entries = sorted(directory.iterdir())
                    self.make_room(target)
                except UnwritableOutputError as error:
                    yield error
                    continue
                except OSError as error:
                    yield UnreadableFileError(
                        f"cannot be listed ({describe_os_error(error)}); the mirror lacks its contents",
                        path=str(directory),
                    )
                    continue
                entered = [each for each in entries if self._is_entered(each)]
                pending.extend((each, target / each.name) for each in reversed(entered))
                others = [each for each in entries if each not in entered and self._is_mine(each, root)]
                yield from self._add_all(others, target, rest)

    def close(self) -> None:
        """Write the manifest."""
        known = self._known.get(self._manifest, {})
        written = {key: digest for key, digest in {**known, **self._written}.items() if key not in self._gone}
        roots = self._real_roots() | set(self._known_roots)
        if written != known or roots != set(self._known_roots):
            manifest = _Manifest(files=dict(sorted(written.items())), roots=sorted(roots))
            content = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
            write_file(self._manifest, content, within=self.output)

    def _real_roots(self) -> set[str]:
        return set(map(os.path.realpath, self._roots))

    def _base(self, root: str) -> Path:
        if len(self._roots) == 1:
            return self.output
        return self.output / Path(os.path.abspath(root)).name  # noqa: PTH100

    def _source(self, target: Path) -> Path | None:
        """The file or folder whose counterpart is at a path in the output; None if there cannot be one."""
        for root in self._roots:
            if target.is_relative_to(base := self._base(root)):
                return Path(root) / target.relative_to(base)
        return None

    def _key(self, target: Path) -> str:
        return os.path.relpath(target, self.output).replace(os.sep, "/")

    def _is_entered(self, entry: Path) -> bool:
        """Whether an entry is a folder whose entries are handled one by one."""
        return (
            entry.is_dir()
            and not entry.is_symlink()
            and entry.name not in _SKIPPED
            and not self.is_output(str(entry))
            and _has_python(entry)
        )

    def _is_mine(self, entry: Path, root: str) -> bool:
        """Whether this shard adds an entry; decided by its path, as for scripts."""
        return self._shard is None or is_in_shard(Found(str(entry), root), *self._shard)

    def _add_all(self, entries: Sequence[Path], target: Path, rest: Rest) -> Iterator[InstrumentError]:
        for each in entries:
            goal = target / each.name
            is_directory = each.is_dir()
            if self._key(goal) in self._written or each.name in _SKIPPED or self.is_output(str(each)):
                continue
            if not is_directory and not each.is_file():
                continue  # a broken link, a pipe
            try:
                self._add(each, goal, rest, is_directory=is_directory)
            except (OutputExistsError, OutputLeadsOutError) as error:
                yield error
            except (OSError, shutil.Error) as error:
                yield unwritable(goal, error)

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
                write_file(target, content, mode_of=source, within=self.output)
            self.remember(target, content)
            return
        refuse_to_leave(target.parent, self.output)
        if os.path.lexists(target):
            return  # a link or copy from an earlier run, or the user's own file
        target.parent.mkdir(parents=True, exist_ok=True)
        if rest == "copy":
            if is_directory:
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copy2(source, target)
            return
        target.symlink_to(os.path.realpath(source), target_is_directory=is_directory)


def _read_manifest(path: Path) -> _Manifest:
    """The contents of a manifest; empty if it is damaged."""
    try:
        manifest = msgspec.json.decode(path.read_bytes() if path.is_file() else b"", type=_Manifest)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return _Manifest()
    # Whoever wrote the manifest, its paths must stay below it.
    manifest.files = {key: digest for key, digest in manifest.files.items() if ".." not in PurePosixPath(key).parts}
    return manifest


def _has_python(directory: Path) -> bool:
    """Whether there is any Python file in a directory or below it."""
    for _, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        if any(name.endswith(_COPIED) for name in names):
            return True
    return False
