"""Turns arguments into files: selects the scripts of a tree."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.errors import StubFileError, UnreadableFileError
from instrumentor.paths.files import STANDARD_STREAM
from instrumentor.paths.ignore_rules import GitIgnore, PatternSet, read_git_ignore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from instrumentor.errors import InstrumentError

DEFAULT_INCLUDE = ("*.py", "*.ipynb")
# The default exclusions of ruff and black together.
DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".git-rewrite",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "__pycache__",
    "__pypackages__",
    "_build",
    "buck-out",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)
_STUB = ".pyi"
_GLOB_CHARACTERS = frozenset("*?[")


class Patterns(NamedTuple):
    """Gitignore patterns, and the directory that patterns with a slash are relative to."""

    texts: tuple[str, ...]
    base: str = ""


_INCLUDED, _EXCLUDED = Patterns(DEFAULT_INCLUDE), Patterns(DEFAULT_EXCLUDE)


@dataclass(frozen=True)
class SelectionRules:
    """Which files of a directory are selected.

    Attributes:
        include: the files to select.
        exclude: the files and directories to leave out; overrides `include`.
        respect_gitignore: whether files that git ignores are left out.
        force_exclude: whether the exclusions apply to files given by name, too.
    """

    include: Patterns = _INCLUDED
    exclude: tuple[Patterns, ...] = (_EXCLUDED,)
    respect_gitignore: bool = True
    force_exclude: bool = False


class Found(NamedTuple):
    """One selected file.

    Attributes:
        shown: its path as the user would type it.
        root: the directory argument it was found in; None if it was given by name.
    """

    shown: str
    root: str | None

    @property
    def relative(self) -> str:
        """Its path within the root with `/`; the whole path if it was given by name."""
        path = self.shown if self.root is None else os.path.relpath(self.shown, self.root)
        return path.replace(os.sep, "/").removeprefix("./")


def expand_globs(arguments: Iterable[str]) -> Iterator[str]:
    """Expand globs as a shell would, such as a quoted `'zoo/**/train_*.py'`; an existing path stays as it is."""
    for argument in arguments:
        is_glob = argument != STANDARD_STREAM and not _GLOB_CHARACTERS.isdisjoint(argument)
        if not is_glob or os.path.lexists(argument):
            yield argument
            continue
        matches = sorted(glob.iglob(argument, recursive=True))  # noqa: PTH207 - Path.glob wants a base directory
        yield from (match for match in matches if not match.endswith(_STUB)) if matches else (argument,)


def is_directory(argument: str) -> bool:
    """Whether an argument names a directory, which stands for its files."""
    return argument != STANDARD_STREAM and os.path.isdir(argument)  # noqa: PTH112 - no name makes it raise


def is_in_shard(found: Found, index: int, count: int) -> bool:
    """Whether a file belongs to shard `index` (from 1) of `count`; this depends on its relative path alone."""
    digest = hashlib.blake2b(found.relative.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count == index - 1


def select_files(
    arguments: Sequence[str],
    rules_for: Callable[[str], SelectionRules],
    *,
    report: Callable[[InstrumentError], None],
) -> Iterator[Found]:
    """Find the files that the arguments name, each once.

    Directories are walked in the order of their entries' names. Links to files are followed. Links to directories are
    not, as in git, so that no link leads in a circle or out of the tree. Files given by name are always selected.

    Args:
        arguments: files, directories, and `-` for standard input.
        rules_for: returns the rules of a directory; called once for each.
        report: called for errors: a stub given by name, a directory that cannot be listed.
    """
    given = list(dict.fromkeys(arguments))
    roots = [argument for argument in given if is_directory(argument)]
    walkable = frozenset(roots)
    # Files given by name keep their own place and are not repeated in a walk. Otherwise only files in overlapping
    # roots can occur twice, so the million paths of one tree need not be remembered.
    named = {_identity(argument) for argument in given if argument not in walkable}
    seen: set[str] | None = set() if _has_overlap(roots) else None
    walker = _Walker(rules_for, report)
    yielded: set[str] = set()
    for argument in given:
        if argument in walkable:
            for shown in walker.walk(argument):
                key = _identity(shown) if named or seen is not None else ""
                if key in named or (seen is not None and key in seen):
                    continue
                if seen is not None:
                    seen.add(key)
                yield Found(shown, argument)
            continue
        key = _identity(argument)
        if key in yielded:
            continue
        yielded.add(key)
        if argument.endswith(_STUB):
            report(StubFileError("is a stub file, which is never run; name the .py file beside it", path=argument))
        elif argument == STANDARD_STREAM or not _is_force_excluded(argument, rules_for):
            yield Found(argument, None)


class _Walker:
    """Walks directories; keeps only the state of the path down to the current one."""

    def __init__(self, rules_for: Callable[[str], SelectionRules], report: Callable[[InstrumentError], None]) -> None:
        self._rules_for = rules_for
        self._report = report

    def walk(self, root: str) -> Iterator[str]:
        """The selected files below `root`; no rule applies to the root's own name, since it was given."""
        # An explicit stack, since trees may nest deeper than Python's calls. Entries are pushed in reverse order.
        absolute = os.path.abspath(root)  # noqa: PTH100
        pending: list[tuple[str, str, bool, _Level | None]] = [(root, absolute, True, None)]
        while pending:
            shown, path, is_directory, level = pending.pop()
            if not is_directory:
                yield shown
                continue
            below = self._level(shown, path, level)
            # With a trailing separator, computed once for all entries.
            inside = os.path.join(path, "")  # noqa: PTH118
            shown_inside = "" if shown == "." else os.path.join(shown, "")  # noqa: PTH118
            for entry in reversed(self._list(shown)):
                entry_path = inside + entry.name
                if (kind := below.judge(entry, entry_path)) is not None:
                    pending.append((shown_inside + entry.name, entry_path, kind, below))

    def _level(self, shown: str, path: str, above: _Level | None) -> _Level:
        rules = self._rules_for(shown)
        if above is not None and above.rules is rules:
            ignore = above.ignore.enter(path) if above.ignore is not None else None
            return _Level(rules, above.include, above.exclude, ignore)
        ignore = read_git_ignore(path) if rules.respect_gitignore else None
        return _Level(rules, PatternSet(*rules.include), _compile_exclusions(rules), ignore)

    def _list(self, shown: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(shown) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            reason = error.strerror or errno.errorcode.get(error.errno or 0, "unreadable")
            self._report(UnreadableFileError(f"cannot be listed ({reason}); the files in it are left out", path=shown))
            return []


@dataclass(frozen=True)
class _Level:
    """The rules that apply in one directory."""

    rules: SelectionRules
    include: PatternSet
    exclude: tuple[PatternSet, ...]
    ignore: GitIgnore | None

    def judge(self, entry: os.DirEntry[str], path: str) -> bool | None:
        """Whether an entry is a directory to walk (True) or a file to select (False); None for neither."""
        is_directory = entry.is_dir(follow_symlinks=False)
        if not is_directory and (entry.name.endswith(_STUB) or not self.include.matches(path, is_directory=False)):
            return None
        if any(each.matches(path, is_directory=is_directory) for each in self.exclude):
            return None
        if self.ignore is not None and self.ignore.ignores(path, is_directory=is_directory):
            return None
        if is_directory:
            return True
        # A link counts as its target: broken links, links to directories or themselves, and pipes are no scripts.
        try:
            return False if entry.is_file() else None
        except OSError:
            return None


def _identity(argument: str) -> str:
    return argument if argument == STANDARD_STREAM else os.path.abspath(argument)  # noqa: PTH100


def _has_overlap(roots: Sequence[str]) -> bool:
    paths = sorted(os.path.abspath(root) + os.sep for root in roots)  # noqa: PTH100
    return any(later.startswith(earlier) for earlier, later in pairwise(paths))


def _compile_exclusions(rules: SelectionRules) -> tuple[PatternSet, ...]:
    return tuple(PatternSet(*patterns) for patterns in rules.exclude)


def _is_force_excluded(shown: str, rules_for: Callable[[str], SelectionRules]) -> bool:
    """Whether the rules leave out a file given by name, or one of its parent directories."""
    rules = rules_for(os.path.dirname(shown))  # noqa: PTH120
    if not rules.force_exclude:
        return False
    path = Path(os.path.abspath(shown))  # noqa: PTH100
    bases = [Path(os.path.abspath(patterns.base)) for patterns in rules.exclude]  # noqa: PTH100
    for each in (path, *path.parents):
        is_directory = each is not path
        for exclude, base in zip(_compile_exclusions(rules), bases, strict=True):
            if base in each.parents and exclude.matches(str(each), is_directory=is_directory):
                return True
        if rules.respect_gitignore and read_git_ignore(str(each.parent)).ignores(str(each), is_directory=is_directory):
            return True
    return False
