"""A script's bytes as text: what is no text is told apart."""

from __future__ import annotations

import zlib

import pytest

from instrumentor.errors import SourceDecodeError
from instrumentor.source.source_text import decode


@pytest.mark.parametrize(
    "content",
    [
        b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00>\x00\x90\xe8",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        zlib.compress(b"x = 1\n" * 100) + b"\x01\xff",
        bytes(100),
    ],
    ids=["program", "picture", "compressed", "zeros"],
)
def test_a_binary_file_is_called_one(content: bytes) -> None:
    with pytest.raises(SourceDecodeError, match=r"^a\.py: a binary file, not Python source"):
        decode(content, source_name="a.py")


@pytest.mark.parametrize(
    "content",
    [
        "# -*- coding: latin-1 -*-\nname = 'J\xfcrgen\x07'\n".encode("latin-1"),
        "x = 'é\x0c'\n".encode(),
        b"x = '\x01\x1b'\n",
        ("x = '" + "é" * 4000 + "\x01'\n").encode(),
    ],
    ids=["declared", "form feed", "control characters", "cut within a character"],
)
def test_text_with_odd_characters_is_text(content: bytes) -> None:
    assert decode(content, source_name="a.py").text


def test_text_in_another_encoding_is_not_called_binary() -> None:
    with pytest.raises(SourceDecodeError, match="save the file as UTF-8"):
        decode("x = 1\n".encode("utf-16"), source_name="a.py")
