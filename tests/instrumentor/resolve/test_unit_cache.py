from __future__ import annotations

import ast
import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.resolve.project import Sources
from instrumentor.resolve.unit import index_unit
from instrumentor.resolve.unit_cache import UnitCache
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from instrumentor.instrument import Result

FILES = {
    "nets.py": b"from torch import nn\n\nclass Net(nn.Module):\n    pass\n\ndef make():\n    return Net()\n",
    "broken.py": b"def (:\n",
}
SCRIPTS = (
    b"from nets import make\nmodel = make()\n",
    b"from nets import Net\nimport broken\nfirst, second = Net(), broken.make()\nsecond.train()\n",
)


def instrument(script: bytes, files: dict[str, bytes], parsed: UnitCache | None) -> Result:
    return instrument_source(script, Settings(), source_name="script.py", sources=Sources(files.get, parsed=parsed))


@pytest.mark.parametrize("max_bytes", [0, 1_000_000])
def test_scripts_that_share_parsed_files_are_judged_as_each_alone(max_bytes: int) -> None:
    cache = UnitCache(max_bytes)
    for script in (*SCRIPTS, *SCRIPTS):
        alone = instrument(script, FILES, None)
        assert alone.changed
        assert instrument(script, FILES, cache) == alone


def test_a_file_is_parsed_once_for_all_scripts() -> None:
    cache = UnitCache()
    for script in (*SCRIPTS, *SCRIPTS):
        instrument(script, FILES, cache)
    assert cache.parsed_bytes == sum(map(len, FILES.values()))


def test_a_file_is_parsed_anew_when_its_content_changes() -> None:
    cache = UnitCache()
    assert instrument(SCRIPTS[0], FILES, cache).changed
    changed = {"nets.py": b"def make():\n    return 1\n"}
    assert not instrument(SCRIPTS[0], changed, cache).changed


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    asked: list[bytes] = []
    cache = UnitCache(max_bytes=2)
    for content in (b"a", b"b", b"a", b"c", b"a", b"b"):
        cache.find("x.py", content, lambda content=content: asked.append(content))  # type: ignore[misc]
    assert asked == [b"a", b"b", b"c", b"b"]


def test_what_was_dropped_is_freed_at_once_when_no_script_is_looked_at() -> None:
    cache = UnitCache(max_bytes=1)
    unit = cache.find("x.py", b"1", lambda: index_unit("x.py", "", ast.parse("class A:\n    def f(self): ...\n")))
    assert unit is not None
    cache.find("y.py", b"2", lambda: None)
    assert unit.classes  # a script may be using it
    left = weakref.ref(unit.classes["A"].methods["f"])
    gc.disable()
    try:
        cache.take_apart_dropped()
        assert left() is None
    finally:
        gc.enable()
