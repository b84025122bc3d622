"""The store of facts: what goes wrong with it costs time, never a result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from instrumentor.code.store import FactsStore
from instrumentor.link.program import read_facts
from instrumentor.paths.file_state import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
SOURCE = b"from torch import nn\nnet = nn.Linear(1, 1)\n"
OTHER = b"def f(x, *, y=3, **rest):\n    return [g(each) for each in x]\n"


def stored(folder: Path, *sources: bytes) -> None:
    with FactsStore(folder) as store:
        for source in sources:
            facts = read_facts(source)
            assert facts is not None
            store.store(digest_of(source), facts)


def files_of(folder: Path) -> Iterator[Path]:
    return folder.glob("files-*/*.facts")


@pytest.mark.parametrize("path", sorted((ROOT / "instrumentor").rglob("*.py"))[::12], ids=lambda path: path.name)
def test_what_comes_back_is_what_was_kept(path: Path, tmp_path: Path) -> None:
    source = path.read_bytes()
    stored(tmp_path, source)
    with FactsStore(tmp_path) as store:
        assert store.load(digest_of(source)) == read_facts(source)


def test_each_writer_has_a_file_and_all_are_read(tmp_path: Path) -> None:
    with FactsStore(tmp_path) as first:
        stored(tmp_path, SOURCE)
        facts = read_facts(OTHER)
        assert facts is not None
        first.store(digest_of(OTHER), facts)
    assert len(list(files_of(tmp_path))) == 2
    with FactsStore(tmp_path) as store:
        assert store.load(digest_of(SOURCE)) is not None
        assert store.load(digest_of(OTHER)) == facts


def test_a_record_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    stored(tmp_path, SOURCE, OTHER)
    (path,) = files_of(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    with FactsStore(tmp_path) as store:
        assert store.load(digest_of(SOURCE)) == read_facts(SOURCE)
        assert store.load(digest_of(OTHER)) is None


def test_a_damaged_record_is_passed_over(tmp_path: Path) -> None:
    stored(tmp_path, SOURCE)
    (path,) = files_of(tmp_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 255
    path.write_bytes(bytes(content))
    with FactsStore(tmp_path) as store:
        assert store.load(digest_of(SOURCE)) is None


def test_nothing_is_kept_without_a_folder() -> None:
    with FactsStore(None) as store:
        facts = read_facts(SOURCE)
        assert facts is not None
        store.store(digest_of(SOURCE), facts)
        assert store.load(digest_of(SOURCE)) is None
