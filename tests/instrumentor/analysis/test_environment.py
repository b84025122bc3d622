from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrumentor.analysis.environment import (
    Environment,
    Number,
    Path,
    join_environments,
    leave_loop,
    path_of,
)
from instrumentor.analysis.values import OPAQUE, Made, Named, SiteKey, Value, value

A, B = value(Named("a")), value(Named("b"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x", ("x",)),
        ("self.net.body", ("self", ".net", ".body")),
        ("nets['g'][0]", ("nets", "['g']", "[0]")),
        ("nets['a.b']", ("nets", "['a.b']")),
        ("nets[True]", ("nets", "[1]")),
        ("nets[1.0]", ("nets", "[1]")),
        ("nets[-1]", None),
        ("nets[i]", None),
        ("f().net", None),
    ],
)
def test_paths(text: str, wanted: Path | None) -> None:
    assert path_of(ast.parse(text, mode="eval").body) == wanted


def test_an_assignment_forgets_what_was_under_the_old_object() -> None:
    env = Environment({"m": A, "model": A}, {("m", ".fc"): A, ("m", "['x']"): A, ("model", ".fc"): A})
    env.assign(("m",), B)
    assert env == Environment({"m": B, "model": A}, {("model", ".fc"): A})


def test_an_attribute_may_change_under_another_name() -> None:
    env = Environment({}, {("a", ".net"): A, ("b", ".other"): A})
    env.assign(("b", ".net"), B)
    assert env.objects == {("a", ".net"): A | B, ("b", ".other"): A, ("b", ".net"): B}


def test_an_element_may_change_under_another_name() -> None:
    env = Environment({}, {("a", "[0]"): A, ("a", "[1]"): A})
    env.assign(("b", "[0]"), B)
    assert env.objects == {("a", "[0]"): A | B, ("a", "[1]"): A, ("b", "[0]"): B}
    env.may_store("[*]", B)
    assert set(env.objects.values()) == {A | B, B}


def test_ways_join() -> None:
    one, other = Environment({"x": A, "y": A}, {("s", ".n"): A}), Environment({"x": B})
    assert join_environments([one, None, other]) == Environment({"x": A | B, "y": A})
    assert join_environments([None, None]) is None


def test_objects_are_forgotten_when_others_may_change_them() -> None:
    env = Environment({"x": A}, {("s", ".n"): A, ("l", "[0]"): OPAQUE})
    env.forget_elements()
    assert env == Environment({"x": A}, {("s", ".n"): A})
    env.forget_objects()
    assert env == Environment({"x": A})


STEPS = (".a", ".b", "[0]", "[1]", "[-1]")
PATHS = st.one_of(
    st.tuples(st.integers(0, 30).map("x{}".format)),
    st.tuples(st.integers(0, 30).map("x{}".format), st.sampled_from(STEPS)),
    st.tuples(st.integers(0, 30).map("x{}".format), st.sampled_from(STEPS), st.sampled_from(STEPS)),
)
FIRST, SECOND = (value(Made(SiteKey("", line, 0, line, 1))) for line in (1, 2))
VALUES = st.sampled_from([FIRST, SECOND, FIRST | SECOND])
NUMBERS = st.one_of(st.none(), st.integers(0, 4))
STORES = st.lists(st.tuples(PATHS, VALUES, NUMBERS), max_size=60)


def after(env: Environment, stores: list[tuple[Path, Value, Number]]) -> Environment:
    """What holds behind some stores; `SECOND` without a number stands for `del`."""
    env = env.copy()
    for path, value_, number in stores:
        if value_ == SECOND and number is None:
            env.forget(path)
        else:
            env.assign(path, value_, number)
    return env


@given(STORES, st.lists(STORES, min_size=2, max_size=4))
def test_ways_join_as_if_each_path_were_looked_at(
    before: list[tuple[Path, Value, Number]], ways: list[list[tuple[Path, Value, Number]]]
) -> None:
    start = after(Environment(), before)
    ends = [after(start, way) for way in ways]
    joined = join_environments(ends, "here")
    assert joined is not None
    for name in {name for end in ends for name in end.names}:
        assert joined.names[name] == frozenset().union(*(end.names.get(name, frozenset()) for end in ends))
    everywhere = set.intersection(*(set(end.objects) for end in ends))
    assert set(joined.objects) == everywhere
    assert all(joined.objects[path] == frozenset().union(*(end.objects[path] for end in ends)) for path in everywhere)
    numbered = set.intersection(*(set(end.numbers) for end in ends))
    assert set(joined.numbers) == numbered
    for path in numbered:
        incoming = [end.numbers[path] for end in ends]
        alike = {other for other in numbered if [end.numbers[other] for end in ends] == incoming}
        if len(set(incoming)) == 1:
            assert joined.numbers[path] == incoming[0]
        else:
            assert joined.numbers[path] == ("here", min(alike))


@given(STORES, STORES)
def test_behind_a_loop_its_new_objects_are_those_of_the_last_round(
    before: list[tuple[Path, Value, Number]], inside: list[tuple[Path, Value, Number]]
) -> None:
    entry = after(Environment(), before)
    end = after(entry, [(path, held, None if number is None else ("inside", number)) for path, held, number in inside])
    wanted = dict(end.numbers)
    known = set(entry.numbers.values())
    groups: dict[Number, Path] = {}
    for path, number in sorted(end.numbers.items()):
        if number not in known:
            wanted[path] = ("behind", groups.setdefault(number, path))
    left = leave_loop(end, entry, "behind")
    assert left is not None
    assert left.numbers == wanted


@given(STORES)
def test_paths_are_found_by_what_they_hold(stores: list[tuple[Path, Value, Number]]) -> None:
    env = Environment()
    for store in stores:
        env = after(env, [store])
        held = [*(((name,), each) for name, each in env.names.items()), *env.objects.items()]
        for atom in (*FIRST, *SECOND):
            assert set(env.holding(atom)) == {path for path, each in held if atom in each}
        for number in range(5):
            assert set(env.numbered(number)) == {path for path, each in env.numbers.items() if each == number}
