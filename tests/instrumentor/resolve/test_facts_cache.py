"""The cache of facts: what goes wrong with it costs time, never a result."""

from __future__ import annotations

import ast
import inspect
import re
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING

import pytest

from instrumentor.resolve import catalogue, module_reader
from instrumentor.resolve.facts_cache import FactsCache, clear_facts, version_of
from instrumentor.resolve.module_facts import ModuleFacts
from instrumentor.resolve.module_reader import read_facts
from instrumentor.resolve.outline import Outline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

_PACKAGES = ("instrumentor.resolve", "instrumentor.source")
SOURCE = b"import torch.nn as nn\nclass Net(nn.Module): ...\n"


def facts_in(folder: Path) -> FactsCache[ModuleFacts]:
    return FactsCache(folder, "modules", "1", ModuleFacts)


def only_file(folder: Path) -> Path:
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    return file


def test_what_was_stored_is_found_by_the_same_bytes_only(tmp_path: Path) -> None:
    facts_in(tmp_path).store(SOURCE, read_facts(SOURCE))
    assert facts_in(tmp_path).load(SOURCE) == read_facts(SOURCE)
    assert facts_in(tmp_path).load(SOURCE + b"#") is None


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: content[: len(content) // 2], id="cut"),
        pytest.param(lambda content: content[:-1] + bytes([content[-1] ^ 1]), id="one bit"),
        pytest.param(lambda content: b"not ours at all, but long enough", id="a stranger's"),
    ],
)
def test_damaged_files_are_read_over_and_written_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    cache, facts = facts_in(tmp_path), read_facts(SOURCE)
    cache.store(SOURCE, facts)
    file = only_file(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert cache.load(SOURCE) is None
    cache.store(SOURCE, facts)
    assert cache.load(SOURCE) == facts


def test_many_writers_leave_one_good_file(tmp_path: Path) -> None:
    facts = read_facts(SOURCE)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: facts_in(tmp_path).store(SOURCE, facts), range(64)))
    assert only_file(tmp_path).exists()
    assert facts_in(tmp_path).load(SOURCE) == facts


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = facts_in(tmp_path / "file")
    cache.store(SOURCE, read_facts(SOURCE))
    assert cache.load(SOURCE) is None


def test_half_a_character_is_not_kept_and_breaks_nothing(tmp_path: Path) -> None:
    source = rb'__all__ = ["\ud83d"]'
    facts_in(tmp_path).store(source, read_facts(source))
    assert facts_in(tmp_path).load(source) is None


def test_facts_of_another_kind_or_version_are_others(tmp_path: Path) -> None:
    facts_in(tmp_path).store(SOURCE, read_facts(SOURCE))
    assert FactsCache(tmp_path, "modules", "2", ModuleFacts).load(SOURCE) is None
    assert FactsCache(tmp_path, "outlines", "1", Outline).load(SOURCE) is None


def test_facts_that_other_code_reads_are_others(tmp_path: Path) -> None:
    path = tmp_path / "reader.py"
    path.write_text("x = 1\n")
    reader = load(path)
    before = version_of([reader], ["a"])
    assert version_of([reader], ["a"]) == before
    assert version_of([reader], ["a", "b"]) != before
    path.write_text("x = 2\n")
    assert version_of([load(path)], ["a"]) != before


def load(path: Path) -> ModuleType:
    spec = spec_from_file_location("reader", path)
    assert spec is not None
    return module_from_spec(spec)


def test_facts_that_go_by_another_catalogue_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = module_reader.facts_version()
    monkeypatch.setattr(catalogue, "TENSOR_METHODS", catalogue.TENSOR_METHODS | {"shape_of"})
    assert module_reader.facts_version.__wrapped__() != before


def test_the_version_of_facts_tells_all_that_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[ModuleType] = []
    monkeypatch.setattr(module_reader, "version_of", lambda readers, _: told.extend(readers))
    module_reader.facts_version.__wrapped__()
    used = set().union(*(imported_by(module) for module in told))
    # The words of the catalogue are told by themselves; the cache keeps what it is given.
    assert used - {"catalogue", "facts_cache"} == {module.__name__.rpartition(".")[2] for module in told} - {
        "module_reader"
    }
    words = {word for module in told for word in re.findall(r"catalogue\.(\w+)", inspect.getsource(module))}
    assert words == {"TENSOR_METHODS", "MODULE_EVIDENCE", "WEAK_EVIDENCE", "MOVES"}


def imported_by(module: ModuleType) -> set[str]:
    """The names of the modules of this package that a module imports when it is loaded."""
    found = set()
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("instrumentor"):
            modules = {each.name for each in statement.names} if statement.module in _PACKAGES else set()
            found |= modules or {str(statement.module).rpartition(".")[2]}
    return found


def test_clearing_leaves_what_is_not_ours(tmp_path: Path) -> None:
    facts_in(tmp_path).store(SOURCE, read_facts(SOURCE))
    size = only_file(tmp_path).stat().st_size
    (tmp_path / "other.sqlite").write_bytes(b"x")
    assert clear_facts(tmp_path) == size
    assert [path.name for path in tmp_path.iterdir()] == ["other.sqlite"]
