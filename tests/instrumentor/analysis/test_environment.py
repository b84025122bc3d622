from __future__ import annotations

import ast

import pytest

from instrumentor.analysis.environment import Environment, join_environments, path_of
from instrumentor.analysis.values import OPAQUE, Named, value

A, B = value(Named("a")), value(Named("b"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x", "x"),
        ("self.net.body", "self.net.body"),
        ("nets['g'][0]", "nets['g'][0]"),
        ("nets[i]", None),
        ("f().net", None),
    ],
)
def test_paths(text: str, wanted: str | None) -> None:
    assert path_of(ast.parse(text, mode="eval").body) == wanted


def test_an_assignment_forgets_what_was_under_the_old_object() -> None:
    env = Environment({"m": A, "m.fc": A, "m['x']": A, "model": A})
    env.assign("m", B)
    assert env.paths == {"m": B, "model": A}


def test_an_attribute_may_change_under_another_name() -> None:
    env = Environment({"a.net": A, "b.other": A})
    env.assign("b.net", B)
    assert env.paths == {"a.net": A | B, "b.other": A, "b.net": B}


def test_ways_join() -> None:
    one, other = Environment({"x": A, "y": A, "s.n": A}), Environment({"x": B})
    joined = join_environments([one, None, other])
    assert joined is not None
    assert joined.paths == {"x": A | B, "y": A}
    assert join_environments([None, None]) is None


def test_objects_are_forgotten_when_others_may_change_them() -> None:
    env = Environment({"x": A, "s.n": A, "l[0]": OPAQUE})
    env.forget_objects()
    assert env.paths == {"x": A}
