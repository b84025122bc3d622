"""Lines of the original, read from the comment at the end of an instrumented file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper.places.source_map import SourceMap, parse_source_comment, read_source_map

if TYPE_CHECKING:
    from pathlib import Path

HASH = b"0" * 64
COMMENT = b'# instrument: format=1 source="a b/mnist.py" sha256=' + HASH + b" added=+3,12:4-9,+13"


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r", b""])
def test_the_comment_is_read_with_any_newline(newline: bytes) -> None:
    text = (newline or b"\n").join([b"import torch", COMMENT]) + newline
    assert parse_source_comment(text) == SourceMap("a b/mnist.py", (3, 13), "0" * 64)


def test_a_note_on_the_end_of_the_file_is_read_over() -> None:
    assert parse_source_comment(b"x = 1\n" + COMMENT + b" eof=none\n") == SourceMap("a b/mnist.py", (3, 13), "0" * 64)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x = 1\n",
        COMMENT + b"\nx = 1\n",
        b"# instrument: skip-file\n",
        COMMENT.replace(b"format=1", b"format=2"),
    ],
    ids=["empty", "no comment", "a comment that is not last", "another comment of ours", "a later format"],
)
def test_anything_else_has_no_map(text: bytes) -> None:
    assert parse_source_comment(text) is None


@pytest.mark.parametrize("length", [1, 10_000])
def test_the_comment_is_found_at_the_end_of_files_of_any_length(length: int, tmp_path: Path) -> None:
    path = tmp_path / "instrumented_mnist.py"
    path.write_bytes(b"x = 1  # a line like any other\n" * length + COMMENT + b"\n")
    assert read_source_map(str(path)) == SourceMap("a b/mnist.py", (3, 13), "0" * 64)


def test_lines_count_without_those_added() -> None:
    lines = SourceMap("mnist.py", (3, 13), "0" * 64)
    assert [lines.original_line(line) for line in (1, 2, 3, 4, 12, 13, 14)] == [1, 2, 2, 3, 11, 11, 12]


def test_a_file_that_cannot_be_read_has_no_map(tmp_path: Path) -> None:
    assert read_source_map(str(tmp_path / "missing.py")) is None
    assert read_source_map("<stdin>") is None
