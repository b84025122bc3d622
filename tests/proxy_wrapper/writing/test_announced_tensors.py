"""Each tensor is announced once, and what is remembered does not grow with the run."""

from __future__ import annotations

import sys

from proxy_wrapper.writing.announced_tensors import _REMEMBERED, AnnouncedTensors


def test_a_number_is_new_once() -> None:
    announced = AnnouncedTensors()
    assert [announced.announce(number) for number in (1, 1, 2, 5, 2, 5, 3, 3, 4, 4)] == [
        True, False, True, True, False, False, True, False, True, False,
    ]  # fmt: skip


def test_memory_is_bounded_whatever_the_numbers_are() -> None:
    announced = AnnouncedTensors()
    for number in range(0, 400_000, 2):
        announced.announce(number)
    announced.announce(2**53)
    assert len(announced._passed_over) <= 2 * _REMEMBERED
    assert sys.getsizeof(announced._passed_over) < 8_000_000
    assert announced.announce(2**53 - 1)
    assert not announced.announce(7)  # Too long ago: it counts as announced.
