"""An index finds in any version of a table what going over it would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from instrumentor.analysis.persistent_map import PersistentMap
from instrumentor.analysis.version_index import VersionIndex

CHANGES = st.lists(st.tuples(st.integers(0, 40), st.one_of(st.none(), st.integers(0, 5))), max_size=80)


@given(CHANGES, st.lists(st.integers(0, 80), max_size=20))
def test_keys_are_found_by_their_marks(changes: list[tuple[int, int | None]], asked: list[int]) -> None:
    versions: list[PersistentMap[int, int]] = [PersistentMap()]
    for key, value in changes:
        before = versions[-1]
        if value is not None:
            versions.append(before.set(key, value))
        elif key in before:
            versions.append(before.without(key))
    index: VersionIndex[int, int] = VersionIndex(lambda key, value: (value, ("parity", (key + value) % 2)))
    for position in asked:
        version = versions[position % len(versions)]
        for mark in range(6):
            assert set(index.find(version, mark)) == {key for key, value in version.items() if value == mark}
        for mark in range(2):
            wanted = {key for key, value in version.items() if (key + value) % 2 == mark}
            assert set(index.find(version, ("parity", mark))) == wanted
