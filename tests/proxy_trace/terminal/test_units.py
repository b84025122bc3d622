from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.terminal.units import format_count, format_duration, format_number, format_size

if TYPE_CHECKING:
    from proxy_wrapper.events import Number


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        (0, "0 us"),
        (999, "999 us"),
        (999.6, "1.0 ms"),
        (28_344, "28.3 ms"),
        (999_960, "1.00 s"),
        (59_990_000, "59.99 s"),
        (59_999_000, "1 min 0 s"),
        (125_000_000, "2 min 5 s"),
        (3_599_600_000, "1 h 0 min"),
        (10_920_000_000, "3 h 2 min"),
    ],
)
def test_durations_have_the_unit_that_suits_them(duration_us: float, text: str) -> None:
    assert format_duration(duration_us) == text


@pytest.mark.parametrize(("number", "text"), [(None, "-"), ("nan", "nan"), (0.0, "0"), (-0.0909904, "-0.09099")])
def test_numbers_have_four_digits(number: Number | None, text: str) -> None:
    assert format_number(number) == text


def test_counts_have_their_noun() -> None:
    assert [format_count(count, "step") for count in (0, 1, 1200)] == ["0 steps", "1 step", "1,200 steps"]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (24_300, "24.3 kB"),
        (999_960, "1.0 MB"),
        (148_634_980, "148.6 MB"),
        (2_000_000_000_000, "2,000.0 GB"),
    ],
)
def test_sizes_have_the_unit_that_suits_them(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text
