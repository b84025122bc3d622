from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_trace.reading import bounded_lines
from proxy_trace.reading.bounded_lines import TOO_LONG, BoundedLines, open_regular

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> tuple[list[bytes], bool]:
    with open_regular(path) as file:
        lines = BoundedLines(file)
        return list(lines), lines.is_unfinished


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 40), st.integers(0, 25))
def test_lines_are_those_of_the_file(tmp_path_factory: pytest.TempPathFactory, lines, chunk, longest) -> None:  # type: ignore[no-untyped-def]
    content = b"\n".join(lines)
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_lines, "_CHUNK", chunk)
        patch.setattr(bounded_lines, "LONGEST_LINE", longest)
        found, is_unfinished = read(path)
    expected = content.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert len(found) == len(expected)
    assert is_unfinished == bool(content and not content.endswith(b"\n"))
    for one, other in zip(found, expected, strict=True):
        # Within a chunk nothing has to be left out.
        assert one == other or (one == TOO_LONG and len(other) > longest)
        assert len(one) <= longest + 2 * chunk


def test_a_long_line_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    path = tmp_path / "long"
    with path.open("wb") as file:
        file.truncate(100_000_000)  # NULs that take no room on the disk
        file.seek(0, os.SEEK_END)
        file.write(b"\nnext\n")
    monkeypatch.setattr(bounded_lines, "LONGEST_LINE", 1 << 20)
    tracemalloc.start()
    try:
        assert read(path) == ([TOO_LONG, b"next"], False)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes as POSIX has them")
def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe or a device"), open_regular(tmp_path / "pipe"):
        pass


def test_a_device_is_not_read() -> None:
    from pathlib import Path

    with pytest.raises(OSError, match="it is a pipe or a device"), open_regular(Path(os.devnull)):
        pass


def test_a_folder_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), open_regular(tmp_path):
        pass
