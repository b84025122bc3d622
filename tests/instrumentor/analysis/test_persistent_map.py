"""A persistent map is a dict of which every version stays as it is."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrumentor.analysis.persistent_map import PersistentMap


class Alike(int):
    """A key whose hash many others have."""

    def __hash__(self) -> int:
        return int(self) % 3


KEYS = st.one_of(st.integers(-200, 200).map(str), st.integers(0, 60).map(Alike))
CHANGES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 3))), max_size=300)


def changed(before: PersistentMap[object, int], key: object, value: int | None) -> PersistentMap[object, int]:
    """A version with a change more; None stands for a key to take away."""
    if value is not None:
        return before.set(key, value)
    return before.without(key) if key in before else before


def versions(changes: list[tuple[object, int | None]]) -> list[tuple[PersistentMap[object, int], dict[object, int]]]:
    """Every version that some changes lead through, with the dict that it should be like."""
    version: PersistentMap[object, int] = PersistentMap()
    model: dict[object, int] = {}
    found = [(version, dict(model))]
    for key, value in changes:
        version = changed(version, key, value)
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value
        found.append((version, dict(model)))
    return found


@given(CHANGES)
def test_every_version_stays_as_it_is(changes: list[tuple[object, int | None]]) -> None:
    for version, model in versions(changes):
        assert dict(version) == model
        assert len(version) == len(model)
        assert all(key in version and version.get(key) == value == version[key] for key, value in model.items())
        assert "none" not in version
        assert version.get("none", 7) == 7


@given(CHANGES, CHANGES)
def test_differences_are_those_of_dicts(
    changes: list[tuple[object, int | None]], others: list[tuple[object, int | None]]
) -> None:
    for (ours, our_model), (theirs, their_model) in [
        *zip(versions(changes), versions(others), strict=False),
        *zip(versions(changes), versions(changes)[5:], strict=False),
    ]:
        keys = our_model.keys() | their_model.keys()
        wanted = {key for key in keys if our_model.get(key) != their_model.get(key)}
        found = ours.differences(theirs)
        assert set(found) == wanted
        assert len(found) == len(wanted)
        assert (ours == theirs) == (not wanted)
        assert dict(ours) == our_model  # whatever the two share from now on
        assert dict(theirs) == their_model


def test_a_missing_key_cannot_be_taken_away() -> None:
    with pytest.raises(KeyError):
        PersistentMap({"a": 1}).without("b")
    with pytest.raises(KeyError):
        PersistentMap({"a": 1})["b"]


def test_a_map_of_many_keys_is_made_at_once() -> None:
    many = {str(i): i for i in range(1000)}
    assert PersistentMap(many) == many


class Counted:
    """A value that counts how often it is compared."""

    count = 0

    def __eq__(self, other: object) -> bool:
        type(self).count += 1
        return isinstance(other, Counted)

    __hash__ = None  # type: ignore[assignment]


def test_what_turned_out_to_be_equal_is_not_compared_again() -> None:
    ours = PersistentMap({str(i): Counted() for i in range(1000)})
    theirs = PersistentMap({str(i): Counted() for i in range(1000)})
    Counted.count = 0
    assert ours == theirs
    assert Counted.count == 1000
    assert ours.set("x", Counted()).differences(theirs) == ["x"]
    assert Counted.count <= 1001  # the new one with nothing


def size(node: object, seen: set[int]) -> int:
    """How many bytes a node takes, and what lies in it, beyond those seen before."""
    if id(node) in seen or not isinstance(node, (dict, list)):
        return 0
    seen.add(id(node))
    return sys.getsizeof(node) + sum(size(each, seen) for each in (node if isinstance(node, list) else ()))


def test_versions_share_what_they_have_in_common() -> None:
    def bytes_of(count: int) -> int:
        seen: set[int] = set()
        each = [version for version, _ in versions([(str(i), i) for i in range(count)])]
        return sum(size(version._root, seen) for version in each)

    assert bytes_of(2000) < 3 * bytes_of(1000)
