from __future__ import annotations

import ast

import pytest

from instrumentor.analysis.environment import Environment, Path, join_environments, path_of
from instrumentor.analysis.values import OPAQUE, Named, value

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
