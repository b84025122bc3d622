"""Gitignore patterns, and the .gitignore files of a repository."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pathspec import GitIgnoreSpec

_SPECIAL = frozenset("*?[]!#\\/ ")
_LARGEST = 1 << 20
# Each star multiplies the worst-case matching time: with ten of them it never ends.
_WILD = re.compile(r"(?:\*[^/*]+){4,}\*|(?:\*\*.*){6}")


class PatternSet:
    """A set of gitignore patterns; plain names among them are looked up in a set, not matched one by one."""

    def __init__(self, patterns: Sequence[str], base: str) -> None:
        """Compile patterns.

        Args:
            patterns: as in a .gitignore file: a name, a glob, a path with slashes, `!` before an exception.
            base: the directory that paths with slashes are relative to.

        Raises:
            ConfigError: a pattern is invalid.
        """
        plain = all(not pattern.startswith("!") for pattern in patterns)
        self._names = frozenset(each for each in patterns if plain and each and not _SPECIAL.intersection(each))
        self._suffixes = tuple(
            each[1:] for each in patterns if plain and each.startswith("*.") and not _SPECIAL.intersection(each[1:])
        )
        rest = [each for each in patterns if each not in self._names and each[1:] not in self._suffixes]
        self._spec = _compile(rest) if rest else None
        self._base = os.path.abspath(base)  # noqa: PTH100

    def matches(self, path: str, *, is_directory: bool) -> bool:
        """Whether an absolute path itself matches; its parent directories must be checked separately."""
        name = os.path.basename(path)  # noqa: PTH119
        if name in self._names or name.endswith(self._suffixes):
            return True
        if self._spec is None:
            return False
        return self._spec.check_file(_relative(path, self._base, is_directory=is_directory)).include is True


@dataclass(frozen=True)
class GitIgnore:
    """The .gitignore files that apply in a directory: its own, and its parents' up to the repository's root.

    Attributes:
        rules: each file's patterns with the directory they are relative to, outermost first.
    """

    rules: tuple[tuple[str, GitIgnoreSpec], ...]

    def enter(self, directory: str) -> GitIgnore:
        """The rules one directory further down; a nested repository has only its own."""
        if os.path.exists(os.path.join(directory, ".git")):  # noqa: PTH110, PTH118
            return GitIgnore(_read_repository(directory))
        own = _read_rules(os.path.join(directory, ".gitignore"), directory)  # noqa: PTH118
        return GitIgnore((*self.rules, *own)) if own else self

    def ignores(self, path: str, *, is_directory: bool) -> bool:
        """Whether git ignores an absolute path: the last matching pattern of the innermost matching file decides."""
        for base, spec in reversed(self.rules):
            verdict = spec.check_file(_relative(path, base, is_directory=is_directory)).include
            if verdict is not None:
                return verdict
        return False


def read_git_ignore(directory: str) -> GitIgnore:
    """The rules that apply in a directory; outside a repository, only those of its own .gitignore."""
    path = Path(os.path.abspath(directory))  # noqa: PTH100
    above = [path, *path.parents]
    top = next((position for position, each in enumerate(above) if (each / ".git").exists()), 0)
    rules: list[tuple[str, GitIgnoreSpec]] = []
    for each in reversed(above[: top + 1]):
        rules.extend(_read_repository(str(each)) if each is above[top] else _read_rules(each / ".gitignore", str(each)))
    return GitIgnore(tuple(rules))


def _read_repository(top: str) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    return (*_read_rules(Path(top, ".git", "info", "exclude"), top), *_read_rules(Path(top, ".gitignore"), top))


def _read_rules(path: str | Path, base: str) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    try:
        if not os.path.isfile(path):  # noqa: PTH113  None there, as nearly always; or a pipe, which has no end.
            return ()
        with Path(path).open("rb") as file:
            lines = file.read(_LARGEST).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ()
    # Invalid patterns are skipped, as by git.
    return ((base, _spec_of([line for line in lines if _is_pattern(line)])),)


def _spec_of(lines: Iterable[str]) -> GitIgnoreSpec:
    # Imported late: many trees have no such patterns, and a fully cached run takes less time than this import.
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def _is_pattern(line: str) -> bool:
    if _WILD.search(line):
        return False
    try:
        _spec_of([line])
    except ValueError:
        return False
    return True


def _compile(patterns: Sequence[str]) -> GitIgnoreSpec:
    for pattern in patterns:
        if not _is_pattern(pattern):
            raise ConfigError(
                f"{pattern!r} is not a valid pattern; write it as in a .gitignore file: 'tests/', '*_old.py'"
            )
    return _spec_of(patterns)


def _relative(path: str, base: str, *, is_directory: bool) -> str:
    prefix = base if base.endswith(os.sep) else base + os.sep
    inner = path[len(prefix) :] if path.startswith(prefix) else os.path.relpath(path, base)
    return inner.replace(os.sep, "/") + ("/" if is_directory else "")
