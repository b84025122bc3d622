"""Places in user code: the user's frames only, in the original's lines, one number for one place."""

from __future__ import annotations

import contextlib
import functools
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from proxy_wrapper.places.location import Locator

if TYPE_CHECKING:
    import pytest

    from proxy_wrapper.events import Location


def test_a_program_whose_folder_has_been_deleted_is_located_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    defined: list[Location] = []
    assert helper(Locator(defined.append))
    assert {Path(location.file) for location in defined} >= {Path(__file__)}


def test_a_place_has_one_number_and_is_defined_once() -> None:
    defined: list[Location] = []
    locator = Locator(defined.append)
    numbers = [helper(locator) for _ in range(3)]
    assert len(set(numbers)) == 1
    assert len({location.id for location in defined}) == len(defined)


def helper(locator: Locator) -> int:
    return locator.locate(0)


def test_callers_are_part_of_a_place() -> None:
    defined: list[Location] = []
    locator = Locator(defined.append)
    first = helper(locator)
    second = helper(locator)
    assert first != second
    by_id = {location.id: location for location in defined}
    assert by_id[first].line == by_id[second].line
    assert by_id[by_id[first].caller].line + 1 == by_id[by_id[second].caller].line


def test_library_frames_are_walked_over() -> None:
    defined: list[Location] = []
    locator = Locator(defined.append)
    list(map(functools.partial(functools.reduce, lambda locator, _: locator.locate(0) and locator), [[locator, 1]]))
    assert all("functools" not in location.file for location in defined)


def test_lines_are_those_of_the_original(tmp_path: Path) -> None:
    script = tmp_path / "instrumented_train.py"
    script.write_text(
        "import added\nnumber = locator.locate(0)\n"
        f'# instrument: format=1 source="train.py" sha256={"0" * 64} added=+1\n'.replace("import added", "pass")
    )
    defined: list[Location] = []
    locator = Locator(defined.append)
    number = runpy.run_path(str(script), init_globals={"locator": locator})["number"]
    found = next(location for location in defined if location.id == number)
    assert (found.file, found.line, found.function) == ("train.py", 1, "<module>")


def test_the_walk_ends_at_the_enclosing_boundary() -> None:
    defined: list[Location] = []
    locator = Locator(defined.append, boundary=None)
    number = helper(locator)
    depth = 0
    by_id = {location.id: location for location in defined}
    while number:
        number = by_id[number].caller
        depth += 1
    assert depth >= 2


def test_beyond_a_frame_whose_place_is_known_nothing_is_looked_at() -> None:
    defined: list[Location] = []
    locator = Locator(defined.append)
    found: list[int] = []

    def inside() -> None:
        library_frame = id(sys._getframe(1))
        whole = locator.locate(0)
        caller = next(location.caller for location in defined if location.id == whole)
        found.extend(locator.locate(0, library_frame, place) for place in (caller, 0))

    with contextlib.ExitStack() as stack:
        stack.callback(inside)
    by_id = {location.id: location for location in defined}
    to_the_end, cut = (by_id[number] for number in found)
    # A generator expression is one frame more, whose caller is `inside`.
    assert by_id[by_id[to_the_end.caller].caller].function.endswith(
        "test_beyond_a_frame_whose_place_is_known_nothing_is_looked_at"
    )
    assert by_id[cut.caller].caller == 0
