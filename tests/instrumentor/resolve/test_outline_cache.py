"""The cache of outlines: the same answer from memory, from the disk and anew, and no more memory than was asked for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from instrumentor.resolve.outline import OutlinedUnit
from instrumentor.resolve.outline_cache import OutlineCache
from instrumentor.resolve.unit import Unit, index_unit
from instrumentor.resolve.unit_cache import UnitCache

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = b"from torch import nn\nclass Net(nn.Module):\n    def build(self):\n        return make()\n"


def parse() -> Unit:
    return index_unit("net.py", "", ast.parse(SOURCE))


def not_parsed() -> Unit:
    pytest.fail("was parsed")


def outline(unit: Unit | None) -> object:
    assert isinstance(unit, OutlinedUnit)
    return unit.name, unit.outline


def test_what_was_found_once_is_not_parsed_again(tmp_path: Path) -> None:
    cache = OutlineCache(UnitCache(), tmp_path)
    found = cache.find("net.py", SOURCE, parse)
    assert cache.find("net.py", SOURCE, not_parsed) is found
    # From the disk, under another name too.
    assert outline(OutlineCache(UnitCache(), tmp_path).find("net.py", SOURCE, not_parsed)) == outline(found)
    assert outline(OutlineCache(UnitCache(), None).find("net.py", SOURCE, parse)) == outline(found)
    other = OutlineCache(UnitCache(), tmp_path).find("lib/net.py", SOURCE, not_parsed)
    assert other is not None
    assert (other.name, other.folder) == ("lib/net.py", "lib")


def test_what_cannot_be_parsed_has_no_outline(tmp_path: Path) -> None:
    assert OutlineCache(UnitCache(), tmp_path).find("net.py", b"class", lambda: None) is None


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    cache = OutlineCache(UnitCache(max_bytes=1), None, max_bytes=2 * len(SOURCE))
    one, two, three = (SOURCE[:-1] + ending for ending in (b"\n", b" ", b"\t"))
    first = cache.find("1.py", one, parse)
    cache.find("2.py", two, parse)
    assert cache.find("1.py", one, not_parsed) is first
    cache.find("3.py", three, parse)
    assert cache.find("1.py", one, not_parsed) is first
    parsed = []
    cache.find("2.py", two, lambda: parsed.append(1) or parse())  # type: ignore[func-returns-value]
    assert parsed


def test_a_file_with_two_paths_has_one_outline() -> None:
    cache = OutlineCache(UnitCache(max_bytes=1), None)
    found = cache.find("net.py", SOURCE, parse)
    other = cache.find("../lib/net.py", SOURCE, not_parsed)
    assert isinstance(found, OutlinedUnit)
    assert isinstance(other, OutlinedUnit)
    assert (other.name, other.outline) == ("../lib/net.py", found.outline)
