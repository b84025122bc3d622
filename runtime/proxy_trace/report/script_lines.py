"""The scripts of a run, if they can be read and are unchanged, with the events at their lines."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.reading.bounded_lines import open_regular
from proxy_wrapper.places.source_map import parse_source_comment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy_trace.report.process_curves import Mark

_LONGEST: Final = 1 << 20
"""Longer files are not shown."""

_MOST_FILES: Final = 40
_MOST_TEXT: Final = 4 << 20


class Script(NamedTuple):
    """A file of the program.

    Attributes:
        file: its path in the trace.
        lines: its text; None if it cannot be read, or is not the file that ran.
        note: why not.
        marks: the events at its lines.
    """

    file: str
    lines: list[str] | None
    note: str
    marks: list[Mark]


def read_scripts(marks: Iterable[Mark], scripts: Iterable[str], folders: Sequence[Path]) -> list[Script]:
    """The files of `marks`, those with most of them first.

    A trace may come from anybody and name any file. Therefore only Python sources are shown, and only if each line
    named by the trace is in a function with the name given in the trace.

    Args:
        marks: the events.
        scripts: the scripts that ran; they may be instrumented.
        folders: the folders to which relative paths may refer.
    """
    by_file: dict[str, list[Mark]] = {}
    for mark in marks:
        by_file.setdefault(mark.file, []).append(mark)
    originals = dict(_originals(scripts, folders))
    found = []
    text_left = _MOST_TEXT
    for file, of_file in sorted(by_file.items(), key=lambda item: -len(item[1]))[:_MOST_FILES]:
        text, note = _text_of(file, of_file, originals.get(file), folders)
        if text is not None and len(text) > text_left:
            text, note = None, "is too long to be shown"
        text_left -= len(text or "")
        found.append(Script(file, None if text is None else text.splitlines(), note, of_file))
    return found


def _text_of(file: str, marks: list[Mark], original: str | None, folders: Sequence[Path]) -> tuple[str | None, str]:
    """The text of a file and ""; or None, and why it is not shown."""
    if original is not None and _fits(original, marks):
        return original, ""
    if Path(file).suffix != ".py":
        return None, "is no Python source"
    texts = [text for path in _candidates(file, folders) if (text := _read(path)) is not None]
    if not texts:
        return None, "cannot be read any more, or not from here"
    fitting = next((text for text in texts if _fits(text, marks)), None)
    return (fitting, "") if fitting is not None else (None, "has changed since the run, or is another file")


def _candidates(file: str, folders: Sequence[Path]) -> list[Path]:
    path = Path(file)
    return [path] if path.is_absolute() else [folder / path for folder in folders]


def _read(path: Path) -> str | None:
    data = _bytes_of(path)
    try:
        return None if data is None else data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _bytes_of(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            data = file.read(_LONGEST + 1)
    except (OSError, ValueError):
        return None
    return data if len(data) <= _LONGEST else None


def _originals(scripts: Iterable[str], folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield path and text of the original of each instrumented script. Added lines are removed; the hash must match.

    Scripts with changes other than added lines are skipped.
    """
    for script in dict.fromkeys(scripts):
        for path in _candidates(script, folders):
            data = _bytes_of(path) if path.suffix == ".py" else None
            source_map = None if data is None else parse_source_comment(data)
            if data is None or source_map is None:
                continue
            lines = data.splitlines(keepends=True)[:-1]
            added = set(source_map.added_lines)
            original = b"".join(line for number, line in enumerate(lines, 1) if number not in added)
            for each in (original, original.removesuffix(b"\n")):  # It may have ended without a newline.
                if hashlib.sha256(each).hexdigest() == source_map.sha256:
                    yield source_map.source, each.decode("utf-8-sig", "replace")


def _fits(text: str, marks: Iterable[Mark]) -> bool:
    """Whether each line of the marks is in a function with the name that the trace gives."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, "<script>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    lines: dict[str, set[int]] = {}
    pending = [code]
    while pending:
        each = pending.pop()
        of_function = lines.setdefault(each.co_name, set())
        of_function.update(line for _, _, line in each.co_lines() if line is not None)
        pending += [constant for constant in each.co_consts if isinstance(constant, CodeType)]
    return all(mark.line in lines.get(mark.function.rpartition(".")[2], ()) for mark in marks)
