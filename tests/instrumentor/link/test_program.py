"""Which files a program has, and what they lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.code.store import FactsStore
from instrumentor.link.program import Program, closures, read_program
from instrumentor.resolve.search_path import SearchPaths


def program_of(folder: Path, *given: str) -> Program:
    with FactsStore(None) as store:
        paths = [str(folder / name) for name in given]
        return read_program(paths, lambda path: Path(path).read_bytes(), SearchPaths(), store)


def test_a_program_has_what_its_files_import(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "__init__.py").write_text("from .net import Net\n")
    (tmp_path / "lib" / "net.py").write_text("class Net:\n    pass\n")
    (tmp_path / "a.py").write_text("from lib import Net\nimport torch\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    program = program_of(tmp_path, "a.py")
    assert [Path(path).name for path in program.paths] == ["a.py", "__init__.py", "net.py"]
    assert program.leads_to == [0b111, 0b110, 0b100]
    assert program.targets(0, "lib.Net") == [(1, ("Net",))]
    assert program.targets(0, "torch.nn") == []


def test_what_is_no_python_has_no_facts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b\n")
    (tmp_path / "b.py").write_text("x = (\n")
    program = program_of(tmp_path, "a.py")
    assert [each is None for each in program.facts] == [False, True]
    assert program.targets(0, "b") == []


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ([set()], [0b1]),
        ([{1}, {0}], [0b11, 0b11]),
        ([{1}, {2}, {1}, {0}], [0b111, 0b110, 0b110, 0b1111]),
    ],
)
def test_closures(edges: list[set[int]], found: list[int]) -> None:
    assert closures(edges) == found
