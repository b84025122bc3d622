from __future__ import annotations

import gc
from weakref import ref

from instrumentor.analysis.values import Derived, Made, Opaque, Plain, SiteKey, Wrapper


def test_what_is_made_of_the_same_is_the_same() -> None:
    first, second = Made(SiteKey("", 1, 0, 1, 5)), Made(SiteKey("", 1, 0, 1, 5))
    assert first is second
    assert Derived(first) is Derived(second)


def test_what_is_of_another_class_or_made_of_other_things_is_another() -> None:
    made, other = Made(SiteKey("", 1, 0, 1, 5)), Made(SiteKey("", 1, 0, 1, 5, (0,)))
    assert len({made, other, Derived(made), Derived(other), Wrapper(made), Opaque(), Plain()}) == 7


def test_what_nothing_holds_is_forgotten() -> None:
    made = Made(SiteKey("nobody asks for this", 1, 0, 1, 5))
    kept = ref(made)
    del made
    gc.collect()
    assert kept() is None
