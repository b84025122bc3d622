"""Settings that differ are told once, with the step from which they do; what one run does not tell is not compared."""

from __future__ import annotations

import pytest

from proxy_trace.comparison.configuration import SettingsComparer
from proxy_wrapper.events import Configuration, Setting


def told(comparer: SettingsComparer, step: int) -> list[str]:
    return [str(each) for each in comparer.differences(step)]


def test_what_differs_is_told_once() -> None:
    comparer = SettingsComparer()
    comparer.note(0, Configuration(0, settings={"tf32": True, "threads": 4, "seed": 1}))
    comparer.note(1, Configuration(0, settings={"tf32": False, "threads": 4, "seed": 2}))
    assert told(comparer, 0) == ["seed: 1 | 2", "tf32: True | False"]
    assert told(comparer, 1) == []
    comparer.note(0, Configuration(0, settings={"threads": 8, "tf32": True}))
    assert told(comparer, 7) == ["threads: 8 | 4, from step 7 on"]


def test_what_only_one_run_tells_is_not_compared() -> None:
    comparer = SettingsComparer()
    comparer.note(0, Configuration(0, settings={"only here": 1}))
    assert told(comparer, 0) == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(None, "float16", "autocast: off | float16", id="off"),
        pytest.param(True, 1, "autocast: True | 1", id="another type"),
        pytest.param(0.5, 0.25, "autocast: 0.5 | 0.25", id="numbers"),
    ],
)
def test_values_are_told_in_words(first: Setting, second: Setting, expected: str) -> None:
    comparer = SettingsComparer()
    comparer.note(0, Configuration(0, settings={"autocast": first}))
    comparer.note(1, Configuration(0, settings={"autocast": second}))
    assert told(comparer, 0) == [expected]


def test_only_so_many_settings_are_kept() -> None:
    comparer = SettingsComparer()
    for number in (0, 1):
        for start in range(0, 10_000, 100):
            settings: dict[str, Setting] = {f"s{name:05}": number for name in range(start, start + 100)}
            comparer.note(number, Configuration(0, settings=settings))
    assert len(told(comparer, 0)) == 4096
