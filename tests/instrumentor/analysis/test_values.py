from __future__ import annotations

from instrumentor.analysis.values import (
    NOTHING,
    OPAQUE,
    Derived,
    Made,
    Named,
    Pack,
    Parameter,
    Part,
    SiteKey,
    Unwrapped,
    Wrapper,
    derive,
    join,
    pack,
    replace,
    root,
    strip,
    unwrap,
    value,
    wrap,
)

MADE = Made(SiteKey("", 1, 0, 1, 5))
OTHER = Made(SiteKey("", 2, 0, 2, 5))
PARAMETER = Parameter("f", "x")


def test_a_wrapper_of_a_wrapper_holds_the_object() -> None:
    assert wrap(wrap(MADE)) == Wrapper(MADE)
    assert unwrap(wrap(MADE)) == Unwrapped(MADE)
    assert wrap(unwrap(MADE)) == Wrapper(MADE)
    assert strip(wrap(MADE)) == MADE


def test_roots() -> None:
    assert root(Part(Part(MADE))) == MADE
    assert root(Derived(MADE)) == MADE
    assert root(Unwrapped(MADE)) == MADE


def test_what_is_computed_from_a_module_keeps_to_it() -> None:
    assert derive(value(Wrapper(MADE), Named("x"))) == value(Derived(MADE))
    assert derive(value(Named("x"))) == OPAQUE


def test_tuples_of_one_length_join_by_element() -> None:
    joined = join([pack([value(MADE), OPAQUE]), pack([value(OTHER), OPAQUE]), pack([OPAQUE])])
    assert joined == value(Pack((value(MADE, OTHER), OPAQUE)), Pack((OPAQUE,)))
    assert join([]) == NOTHING


def test_deep_tuples_lose_their_shape() -> None:
    held = value(MADE)
    for _ in range(10):
        held = pack([held, OPAQUE])
    assert len(str(held)) < 2000


def test_parameters_are_replaced_wherever_they_are() -> None:
    held = value(Wrapper(PARAMETER), Part(PARAMETER), Pack((value(PARAMETER),)), Named("x"))
    given = replace(held, lambda atom: value(MADE) if atom == PARAMETER else None)
    assert given == value(Wrapper(MADE), Part(MADE), Pack((value(MADE),)), Named("x"))
