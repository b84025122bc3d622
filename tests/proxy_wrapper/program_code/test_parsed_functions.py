"""The syntax of a function is read from its file, where that still is the one that it was compiled from."""

from __future__ import annotations

import ast
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from proxy_wrapper.program_code.parsed_functions import ParsedFunctions

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType

SOURCE = """\
def keep(function):
    return function


@keep
def decorated(x):
    return x


def plain(x):
    return x + 1
"""


def codes(path: Path, source: str = SOURCE) -> dict[str, CodeType]:
    """The code of each function of a file that is written here."""
    path.write_text(source, "utf-8")
    names: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), names)
    return {name: value.__code__ for name, value in names.items() if hasattr(value, "__code__")}


def test_functions_are_found_with_their_decorators(tmp_path: Path) -> None:
    functions = ParsedFunctions(threading.RLock())
    of_file = codes(tmp_path / "net.py")
    for name in ("keep", "decorated", "plain"):
        found = functions.find(of_file[name])
        assert found is not None
        assert found.name == name


def test_a_file_that_has_changed_since_has_none(tmp_path: Path) -> None:
    of_file = codes(tmp_path / "net.py")
    (tmp_path / "net.py").write_text("x = 1\n" * 8 + "def other(): pass\n")
    assert ParsedFunctions(threading.RLock()).find(of_file["plain"]) is None


@pytest.mark.parametrize("content", [None, b"def (:\n", b"\xff\xfe\x00", b"x = 0\x00"])
def test_what_is_no_source_has_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "net.py"
    code = codes(path)["plain"]
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert ParsedFunctions(threading.RLock()).find(code) is None


def test_no_warning_is_given_of_the_source(tmp_path: Path) -> None:
    """Python has given it already, when it compiled the file."""
    path = tmp_path / "net.py"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = codes(path, 'def plain():\n    return "\\d"\n')["plain"]
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        assert ParsedFunctions(threading.RLock()).find(code) is not None
    assert given == []


def test_several_threads_may_ask_at_once(tmp_path: Path) -> None:
    files = []
    for number in range(40):
        file = tmp_path / f"file{number}.py"
        file.write_text("def f(x):\n    return " + "(" * 60 + "x" + ")" * 60 + "\n\n" + "a = [f(1), {2: 3}]\n" * 200)
        files.append(compile(file.read_text(), str(file), "exec"))
    functions = ParsedFunctions(threading.RLock())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(functions.find_any, files))
    assert all(isinstance(each, ast.Module) for each in found)
