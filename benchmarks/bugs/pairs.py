"""Reads the pairs of `fixtures/bugs`: what each is for, where its bug is, and to which half it belongs."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bugs.styles import rewrite

BUGS: Final = Path(__file__).parents[2] / "fixtures" / "bugs"

HALVES: Final = ("fitted", "held-out")
"""The checks are fitted on the first half of the pairs; what they are worth is what they say of the other."""

_MARK: Final = re.compile(r"  # bug: ([a-z0-9-]+)$")
_AREA: Final = re.compile(r"## (.+)")
_CODE: Final = re.compile(r"\| `([a-z0-9-]+)` \| (.+) \|")


class MalformedPairError(Exception):
    """A pair is not as `fixtures/bugs/README.md` says."""


@dataclass(frozen=True)
class Code:
    """One kind of bug: its name, the area it belongs to, and what it is in a sentence."""

    name: str
    area: str
    meaning: str


@dataclass(frozen=True)
class Pair:
    """A script with a bug and the same script without it.

    Attributes:
        name: the name of its folder.
        folder: where `buggy.py` and `correct.py` are.
        code: which bug it is.
        line: the line of `buggy.py`, from 1, where the bug is to be named.
        area: the area of the code.
        report: the public report it was written after.
    """

    name: str
    folder: Path
    code: str
    line: int
    area: str
    report: str

    @property
    def buggy(self) -> Path:
        """The script with the bug."""
        return self.folder / "buggy.py"

    @property
    def correct(self) -> Path:
        """The script without it."""
        return self.folder / "correct.py"

    @property
    def half(self) -> str:
        """One of `HALVES`, by the hash of the name, so that no pair is put into a half on purpose."""
        return HALVES[hashlib.sha256(self.name.encode()).digest()[0] % 2]


def read_codes(folder: Path = BUGS) -> dict[str, Code]:
    """The codes that the tables of the folder's README list, in their order, by name."""
    codes: dict[str, Code] = {}
    area = ""
    for line in (folder / "README.md").read_text(encoding="utf-8").splitlines():
        if heading := _AREA.fullmatch(line):
            area = heading[1]
        elif row := _CODE.fullmatch(line):
            codes[row[1]] = Code(row[1], area, row[2].strip())
    return codes


def read_pairs(folder: Path = BUGS) -> list[Pair]:
    """All pairs of a folder, by name.

    Raises:
        MalformedPairError: a folder lacks a script, its mark, its report, or has a code that the README does not list.
    """
    codes = read_codes(folder)
    return [_read(path, codes) for path in sorted(folder.iterdir()) if path.is_dir()]


def in_style(pair: Pair, style: str, folder: Path) -> Pair:
    """A pair whose scripts are written into a folder, in one of `STYLES`.

    Raises:
        StyleError: one of them cannot be written so.
    """
    for script in (pair.buggy, pair.correct):
        Path(folder, script.name).write_text(rewrite(script.read_text(encoding="utf-8"), style), encoding="utf-8")
    line, _ = _mark_of(pair.name, Path(folder, pair.buggy.name).read_text(encoding="utf-8"))
    return replace(pair, folder=folder, line=line)


def _read(folder: Path, codes: dict[str, Code]) -> Pair:
    for script in ("buggy.py", "correct.py"):
        if not (folder / script).is_file():
            raise MalformedPairError(f"{folder.name} has no {script}.")
    text = (folder / "buggy.py").read_text(encoding="utf-8")
    line, code = _mark_of(folder.name, text)
    if code not in codes:
        raise MalformedPairError(f"{folder.name} is for {code!r}, which README.md does not list.")
    reports = re.findall(r"^Report: (.+)", ast.get_docstring(ast.parse(text)) or "", re.MULTILINE)
    if len(reports) != 1:
        raise MalformedPairError(f"The docstring of {folder.name}/buggy.py has {len(reports)} lines 'Report: ...'.")
    return Pair(folder.name, folder, code, line, codes[code].area, reports[0])


def _mark_of(name: str, text: str) -> tuple[int, str]:
    """The line of the bug in a script, and its code."""
    marks = [(number, mark[1]) for number, line in enumerate(text.splitlines(), 1) if (mark := _MARK.search(line))]
    if len(marks) != 1:
        raise MalformedPairError(f"{name}/buggy.py has {len(marks)} comments '# bug: CODE'; it needs one.")
    return marks[0]
