"""The diff: exact for `patch`, readable on a terminal."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from instrumentor.report.diff import render_diff, source_encoding, unified_diff

if TYPE_CHECKING:
    from pathlib import Path


def test_equal_texts_have_no_diff() -> None:
    assert unified_diff(b"a\n", b"a\n", from_name="a.py", to_name="a.py") == b""


def test_the_whole_diff() -> None:
    diff = unified_diff(b"a\nb\n", b"a\nx\nb\n", from_name="m.py", to_name="instrumented_m.py")
    assert diff.decode() == "--- a/m.py\n+++ b/instrumented_m.py\n@@ -1,2 +1,3 @@\n a\n+x\n b\n"


def test_bytes_pass_unchanged() -> None:
    diff = unified_diff(b"\xe9\r\n\x0cb", b"\xe9\r\n\x0cb\r\nx\r\n", from_name="m.py", to_name="m.py")
    assert diff == (
        b"--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,3 @@\n \xe9\r\n-\x0cb\n\\ No newline at end of file\n+\x0cb\r\n+x\r\n"
    )


@pytest.mark.parametrize(
    ("path", "header"),
    [
        pytest.param("m.py", b"--- a/m.py\n", id="a name"),
        pytest.param("./src/m.py", b"--- a/src/m.py\n", id="a path with a dot"),
        pytest.param("/tmp/m.py", b"--- a/tmp/m.py\n", id="an absolute path"),
        pytest.param("my m.py", b"--- a/my m.py\t\n", id="blanks are marked with a tab, as git does"),
        pytest.param('a"\n\\é.py', b'--- "a/a\\"\\012\\\\\xc3\xa9.py"\n', id="what would break the line is quoted"),
    ],
)
def test_header(path: str, header: bytes) -> None:
    assert unified_diff(b"", b"x\n", from_name=path, to_name="y").startswith(header)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"a\r\nb\r\n", b"x\r\na\r\nb\r\n", id="CRLF"),
        pytest.param(b"a\nb", b"a\nb\nc\n", id="no newline at the end"),
        pytest.param(b"# coding: latin-1\n\xe9 = 1\n", b"# coding: latin-1\n\xe9 = 1\nx\n", id="latin-1"),
        pytest.param(b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfx\na\n", id="BOM"),
        pytest.param(b"a\rb\r", b"a\rx\rb\r", id="CR only"),
    ],
)
def test_git_applies_it(before: bytes, after: bytes, tmp_path: Path) -> None:
    (tmp_path / "my m.py").write_bytes(before)
    diff = unified_diff(before, after, from_name="my m.py", to_name="my m.py")
    subprocess.run(["git", "apply", "--whitespace=nowarn"], cwd=tmp_path, input=diff, check=True)
    assert (tmp_path / "my m.py").read_bytes() == after


def test_on_a_terminal_in_colour() -> None:
    diff = unified_diff(b"a\r\nb\r\n", b"a\r\nc\r\n", from_name="m.py", to_name="m.py")
    assert render_diff(diff, encoding="utf-8", color=True) == (
        "\x1b[1m--- a/m.py\x1b[0m\n\x1b[1m+++ b/m.py\x1b[0m\n\x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n"
        " a\n\x1b[31m-b\x1b[0m\n\x1b[32m+c\x1b[0m\n"
    )


def test_a_removed_line_of_dashes_is_no_header() -> None:
    diff = unified_diff(b"-- x\n", b"", from_name="m.py", to_name="m.py")
    assert render_diff(diff, encoding="utf-8", color=True).endswith("\x1b[31m--- x\x1b[0m\n")


def test_on_a_terminal_in_another_encoding() -> None:
    diff = unified_diff(b"", b"\xe9\n", from_name="\u00fc.py", to_name="\u00fc.py")
    assert render_diff(diff, encoding="latin-1", color=False) == "--- a/ü.py\n+++ b/ü.py\n@@ -0,0 +1 @@\n+é\n"


def test_a_script_cannot_steer_the_terminal() -> None:
    diff = unified_diff(b"", "\x1b]0;gotcha\x07\t\u202etxt\n".encode(), from_name="m.py", to_name="m.py")
    assert render_diff(diff, encoding="utf-8", color=False).splitlines()[-1] == "+\\x1b]0;gotcha\\x07\t\\u202etxt"


@pytest.mark.parametrize(
    ("source", "encoding"),
    [
        pytest.param(b"x = 1\n", "utf-8", id="nothing declared"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", "utf-8", id="a byte order mark"),
        pytest.param(b"# -*- coding: latin-1 -*-\n", "iso-8859-1", id="declared"),
        pytest.param(b"# coding: klingon\n", "utf-8", id="declared, but unknown"),
    ],
)
def test_source_encoding(source: bytes, encoding: str) -> None:
    assert source_encoding(source) == encoding
