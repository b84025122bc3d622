from __future__ import annotations

from instrumentor.analysis.values import (
    FOREIGN,
    MAX_VIEWS,
    NOTHING,
    OPAQUE,
    PLAIN,
    Atom,
    Box,
    Derived,
    Foreign,
    FunctionRef,
    Made,
    Named,
    Pack,
    Parameter,
    Part,
    SiteKey,
    Unwrapped,
    Value,
    Wrapper,
    derive,
    grown,
    join,
    known,
    replace,
    root,
    strip,
    tuple_depth,
    unwrap,
    value,
    wrap,
)

MADE = Made(SiteKey("", 1, 0, 1, 5))
OTHER = Made(SiteKey("", 2, 0, 2, 5))
PARAMETER = Parameter("f", "x")


def test_a_wrapper_of_a_wrapper_holds_the_object() -> None:
    assert wrap(wrap(MADE)) == Wrapper(MADE)
    assert unwrap(wrap(MADE)) == Unwrapped(MADE, True)
    assert unwrap(MADE) == Unwrapped(MADE, False)
    assert wrap(unwrap(MADE)) == Wrapper(MADE)
    assert strip(wrap(MADE)) == MADE


def test_roots() -> None:
    assert root(Part(Part(MADE))) == MADE
    assert root(Derived(MADE)) == MADE
    assert root(Unwrapped(MADE, False)) == MADE


def test_what_is_computed_from_a_module_keeps_to_it() -> None:
    assert derive(value(Wrapper(MADE), Named("x"))) == value(Derived(MADE))
    assert derive(value(Named("x"))) == OPAQUE


def test_tuples_of_one_length_join_by_element() -> None:
    joined = join(value(Pack(items)) for items in [(value(MADE), OPAQUE), (value(OTHER), OPAQUE), (OPAQUE,)])
    assert joined == value(Pack((value(MADE, OTHER), OPAQUE)), Pack((OPAQUE,)))
    assert join([]) == NOTHING


def test_depth_counts_tuples_in_tuples() -> None:
    assert tuple_depth((OPAQUE,)) == 1
    assert tuple_depth((OPAQUE, value(Pack((value(Pack((OPAQUE,))),))))) == 3


def test_what_is_known_leaves_out_the_rest() -> None:
    assert known(OPAQUE | PLAIN | value(MADE)) == value(MADE)


def test_parameters_are_replaced_wherever_they_are() -> None:
    held = value(Wrapper(PARAMETER), Part(PARAMETER), Pack((value(PARAMETER),)), Named("x"))
    given = replace(held, lambda atom: value(MADE) if atom == PARAMETER else None)
    assert given == value(Wrapper(MADE), Part(MADE), Pack((value(MADE),)), Named("x"))


def test_many_views_become_one_and_objects_stay() -> None:
    views = value(*(Part(Parameter("f", str(number))) for number in range(MAX_VIEWS)), *OPAQUE)
    assert grown(views, value(MADE)) == views | {MADE}
    assert grown(None, views | {MADE}) == views | {MADE}

    (widened,) = grown(views | value(MADE, FunctionRef("f")), value(Derived(MADE))) - value(
        MADE, FunctionRef("f"), *OPAQUE
    )
    assert isinstance(widened, Foreign)
    objects = value(*(Box(SiteKey("", line, 0, line, 5)) for line in range(MAX_VIEWS)))
    assert grown(objects | {widened}, value(Part(OTHER), OTHER)) == objects | {widened, OTHER}
    assert grown(value(widened), value(Part(OTHER))) == value(widened)
    assert grown(value(Part(OTHER)), value(widened)) == value(widened)


def test_views_keep_to_what_is_told_apart() -> None:
    def passing(atom: Atom, passed: Atom) -> Value:
        return replace(value(atom), lambda each: value(passed) if each == PARAMETER else None)

    box = Box(OTHER.site)
    assert passing(Part(PARAMETER), MADE) == value(Part(MADE))
    assert passing(Part(PARAMETER), box) == FOREIGN
    assert passing(Part(PARAMETER), Named("torch.int64")) == OPAQUE
    assert passing(Derived(PARAMETER), Named("torch.int64")) == OPAQUE
