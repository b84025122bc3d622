from __future__ import annotations

from instrumentor.analysis.values import (
    FOREIGN,
    MAX_TEXT,
    MAX_TOLD_APART,
    NOTHING,
    OPAQUE,
    PLAIN,
    Atom,
    Box,
    Derived,
    FunctionRef,
    Instance,
    Made,
    Method,
    Named,
    Pack,
    Parameter,
    Part,
    SiteKey,
    Unwrapped,
    Value,
    Widened,
    Wrapper,
    derive,
    grown,
    in_order,
    join,
    known,
    let_go,
    pack,
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
    views = value(*(Part(Parameter("f", str(number))) for number in range(MAX_TOLD_APART[1])), *OPAQUE)
    assert grown(views, value(MADE)) == views | {MADE}
    assert grown(None, views | {MADE}) == views | {MADE}

    together = views | value(MADE, FunctionRef("f"))
    found = grown(together, value(Derived(MADE)))
    assert found == value(Widened(1), MADE, FunctionRef("f"), *OPAQUE)
    assert let_go(together, value(Derived(MADE)), found) == NOTHING
    assert grown(value(Widened(1)), value(Part(OTHER))) == value(Widened(1))
    assert grown(value(Part(OTHER)), value(Widened(1))) == value(Widened(1))


def test_many_containers_become_one_that_is_given_up() -> None:
    boxes = value(*(Box(SiteKey("", line, 0, line, 5)) for line in range(MAX_TOLD_APART[2])))
    assert grown(boxes, value(MADE)) == boxes | {MADE}
    found = grown(boxes | {MADE}, value(PARAMETER, Part(MADE)))
    assert found == value(MADE, Widened(2))
    assert let_go(boxes | {MADE}, value(PARAMETER, Part(MADE)), found) == boxes | {PARAMETER}
    # It stays so, and what is added later goes the same way.
    assert grown(found, value(PARAMETER, OTHER)) == value(MADE, OTHER, Widened(2))
    assert let_go(found, value(PARAMETER, OTHER), value(MADE, OTHER, Widened(2))) == value(PARAMETER)


def test_objects_become_one_where_they_are_very_many() -> None:
    made = value(*(Made(SiteKey("", line, 0, line, 5)) for line in range(MAX_TOLD_APART[3])))
    assert grown(made, value(PARAMETER)) == made | {PARAMETER}
    found = grown(made, value(FunctionRef("f")))
    assert found == value(Widened(3))
    assert let_go(made, value(FunctionRef("f")), found) == made | {FunctionRef("f")}
    assert grown(found, made) == found


def test_tuples_that_become_one_are_not_given_up() -> None:
    one, other = pack([value(MADE)]), pack([value(OTHER)])
    together = grown(one, other)
    assert together == pack([value(MADE, OTHER)])
    assert let_go(one, other, together) == NOTHING


def test_views_keep_to_what_is_told_apart() -> None:
    def passing(atom: Atom, passed: Atom) -> Value:
        return replace(value(atom), lambda each: value(passed) if each == PARAMETER else None)

    box = Box(OTHER.site)
    assert passing(Part(PARAMETER), MADE) == value(Part(MADE))
    assert passing(Part(PARAMETER), box) == FOREIGN
    assert passing(Part(PARAMETER), Named("torch.int64")) == OPAQUE
    assert passing(Derived(PARAMETER), Named("torch.int64")) == OPAQUE


def test_the_order_of_a_value_is_that_of_what_its_atoms_are_made_of() -> None:
    first, second, third = (FunctionRef(f"other.py:{name}@1:0") for name in ("first", "second", "third"))
    assert in_order(frozenset([third, first, second])) == [first, second, third]


def test_the_text_of_an_atom_does_not_depend_on_the_order_of_sets() -> None:
    first, second = Instance("a.py:A@1"), Method(Instance("b.py:B@1"), "step")
    assert Pack((frozenset([first, second]), PLAIN)).text == (
        "Pack(({Instance(a.py:A@1), Method(Instance(b.py:B@1), step)}, {Plain()}))"
    )
    assert Derived(Made(SiteKey("", 1, 2, 3, 4))).text == "Derived(Made((, 1, 2, 3, 4, ())))"


def test_the_text_of_tuples_of_tuples_does_not_grow_with_all_that_they_may_hold() -> None:
    def holding(inner: Value) -> Value:
        return frozenset(Pack((inner, value(Named(f"name{number}")))) for number in range(60))

    first, second = (Pack((holding(holding(holding(value(Named(name))))),)) for name in ("a", "b"))
    assert max(len(first.text), len(second.text)) <= MAX_TEXT
    assert first.text != second.text
