"""Two streams of records are aligned by their keys: what both have is paired, what one has is told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_trace.comparison.records.alignment import LOOK_AHEAD, Aligner, Apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy_trace.comparison.records.side import Record


def stream(letters: Iterable[str]) -> Iterator[Record]:
    return iter([((letter,), letter, 0) for letter in letters])


def aligned(first: str, second: str) -> list[str]:
    """Pairs as one letter, what lies between as "first|second", and what is left in the end."""
    aligner = Aligner(stream(first), stream(second))
    found = [
        "|".join("".join(record[1] for record in side) for side in each) if isinstance(each, Apart) else each[0][1]
        for each in aligner
    ]
    rest = ["".join(record[1] for record in aligner.rest(number)) for number in (0, 1)]
    return [*found, "|".join(rest)]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param("abcdef", "abcdef", [*"abcdef", "|"], id="the same"),
        pytest.param("abcdefg", "abXcdefg", ["a", "b", "|X", *"cdefg", "|"], id="one more in the second"),
        pytest.param("abXcdefg", "abcdefg", ["a", "b", "X|", *"cdefg", "|"], id="one more in the first"),
        pytest.param("abcdefg", "aXcdefg", ["a", "b|X", *"cdefg", "|"], id="another one"),
        pytest.param("abcdefgh", "acbdefgh", ["a", "bc|cb", *"defgh", "|"], id="two swapped"),
        pytest.param("abcd", "ab", ["a", "b", "cd|"], id="the second ends before"),
        pytest.param("ab", "abcd", ["a", "b", "|cd"], id="the first ends before"),
        pytest.param("abc", "xyz", ["abc|xyz", "|"], id="nothing in common"),
        pytest.param("", "ab", ["|ab"], id="nothing in the first"),
        pytest.param("abX", "ab", ["a", "b", "X|"], id="one more at the end"),
        pytest.param("abcX", "aYbc", ["a", "|Y", "b", "c", "X|"], id="one more in each, near the end"),
    ],
)
def test_what_both_have_is_paired(first: str, second: str, expected: list[str]) -> None:
    assert aligned(first, second) == expected


@given(st.text("abc", max_size=60), st.text("abc", max_size=60))
def test_nothing_is_lost_and_the_order_is_kept(first: str, second: str) -> None:
    aligner = Aligner(stream(first), stream(second))
    seen: list[list[str]] = [[], []]
    for each in aligner:
        sides = each if isinstance(each, Apart) else ([each[0]], [each[1]])
        if not isinstance(each, Apart):
            assert each[0][0] == each[1][0]
        for side, records in zip(seen, sides, strict=True):
            side += [record[1] for record in records]
    for number in (0, 1):
        seen[number] += [record[1] for record in aligner.rest(number)]
    assert ["".join(side) for side in seen] == [first, second]


@given(st.text("abcdefgh", min_size=8, max_size=40), st.integers(0, 40))
def test_one_more_is_found_wherever_it_is(text: str, at: int) -> None:
    at = min(at, len(text))
    found = aligned(text, text[:at] + "X" + text[at:])
    expected = [*text[:at], "|X", *text[at:], "|"] if at < len(text) else [*text, "|X"]
    assert found == expected


def test_streams_are_looked_ahead_into_only_so_far() -> None:
    """A stream without an end is not read to it."""

    def endless(letter: str) -> Iterator[Record]:
        number = 0
        while True:
            number += 1
            assert number < 3 * LOOK_AHEAD
            yield (letter,), letter, 0

    each = next(iter(Aligner(endless("a"), endless("b"))))
    assert isinstance(each, Apart)
    assert len(each.first) == len(each.second) >= LOOK_AHEAD


@pytest.mark.parametrize("second", ["ab" * 20_000, "b" * 40_000, "ba" * 20_000, "cb" * 20_000])
def test_the_time_is_in_proportion_to_the_records(second: str) -> None:
    began = time.process_time()
    aligned("aab" * 13_000, second)
    assert time.process_time() - began < 20
