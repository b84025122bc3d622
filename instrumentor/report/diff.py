"""Unified diffs of scripts: exact bytes for `patch`, coloured text for readers."""

from __future__ import annotations

import difflib
import io
import os
import tokenize

from instrumentor.plain_text import escape_unprintable

_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_COLORS = {"@": "\x1b[36m", "+": "\x1b[32m", "-": "\x1b[31m"}
_NO_NEWLINE = b"\\ No newline at end of file\n"


def unified_diff(original: bytes, changed: bytes, *, from_name: str, to_name: str) -> bytes:
    r"""Compare two versions of a script line by line.

    Args:
        original: the bytes before.
        changed: the bytes after.
        from_name: path of the first; shown after `a/`.
        to_name: path of the second; shown after `b/`.

    Returns:
        A diff for `git apply` and `patch`, in the script's encoding and with its newlines; as in these tools, lines
        end at `\n`. Empty if the versions are the same.
    """
    lines = list(
        difflib.diff_bytes(
            difflib.unified_diff,
            _split_lines(original),
            _split_lines(changed),
            _header_name("a", from_name),
            _header_name("b", to_name),
        )
    )
    return b"".join(line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE for line in lines)


def render_diff(diff: bytes, *, encoding: str, color: bool) -> str:
    """Turn a diff of `unified_diff` into text for a terminal.

    Args:
        diff: the diff's bytes.
        encoding: the script's encoding.
        color: whether to colour it.

    Returns:
        The decoded lines; terminal control characters are escaped, and a CR at the end of a line is removed.
    """
    shown = []
    for number, line in enumerate(_split_lines(diff), start=1):
        is_header = number <= 2
        body = line.rstrip(b"\r\n")
        # File names are in the file system's encoding, not in the script's.
        text = os.fsdecode(body) if is_header else body.decode(encoding, errors="backslashreplace")
        shown.append(_paint(escape_unprintable(text), is_header=is_header, color=color) + "\n")
    return "".join(shown)


def source_encoding(source: bytes) -> str:
    """The encoding of a script, as Python detects it; UTF-8 if it declares an unknown one."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError:
        return "utf-8"
    # A diff's lines are decoded one by one, so a byte order mark is ordinary text.
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _paint(line: str, *, is_header: bool, color: bool) -> str:
    if not color:
        return line
    if is_header:
        return f"{_BOLD}{line}{_RESET}"
    start = _COLORS.get(line[:1])
    return f"{start}{line}{_RESET}" if start else line


def _split_lines(text: bytes) -> list[bytes]:
    return io.BytesIO(text).readlines()


def _header_name(side: str, path: str) -> bytes:
    """Spell a path as git does: under a/ or b/, quoted if it would break the line, marked if it has blanks."""
    name = os.fsencode(f"{side}/" + path.replace(os.sep, "/").removeprefix("./").lstrip("/"))
    if any(byte < 0x20 or byte in b'"\\\x7f' for byte in name):
        return b'"' + b"".join(_quote(byte) for byte in name) + b'"'
    return name + b"\t" if b" " in name else name


def _quote(byte: int) -> bytes:
    if byte in b'"\\':
        return b"\\" + bytes([byte])
    return b"\\%03o" % byte if byte < 0x20 or byte == 0x7F else bytes([byte])
