"""When the cyclic garbage that scripts leave behind is collected."""

from __future__ import annotations

import gc
import weakref

import pytest

from instrumentor.engine.garbage import collecting_between_scripts
from instrumentor.resolve.libraries import Libraries


class _Tree:
    """Stands in for what a script leaves behind: it holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_what_scripts_leave_behind_goes_when_it_is_enough() -> None:
    with collecting_between_scripts(Libraries()) as garbage:
        left = weakref.ref(_Tree())
        garbage.after_script(10)
        assert left() is not None
        garbage.after_script(1_000_000)
        assert left() is None


def test_what_caches_let_go_of_later_goes_as_well() -> None:
    libraries = Libraries()
    with collecting_between_scripts(libraries) as garbage:
        kept = [_Tree()]
        left = weakref.ref(kept[0])
        for _ in range(3):
            garbage.after_script(1_000_000)
        kept.clear()
        libraries.units.dropped_bytes += 1_000_000
        garbage.after_script(1_000_000)
        assert left() is None


@pytest.mark.parametrize("is_enabled", [True, False])
def test_python_goes_on_collecting_as_before(is_enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        with collecting_between_scripts(Libraries()):
            assert not gc.isenabled()
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
