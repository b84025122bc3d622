from __future__ import annotations

import ast

import pytest

from instrumentor.analysis.passed_around import PassedAround
from instrumentor.resolve.classes import Hierarchy
from instrumentor.resolve.project import Project
from instrumentor.resolve.unit import SCRIPT, index_unit
from instrumentor.settings import Settings


def is_passed_around(source: str, name: str = "f") -> bool:
    script = index_unit(SCRIPT, "", ast.parse(source))
    passed_around = PassedAround(Hierarchy(Project(script, Settings(), None)), script)
    (function,) = (each for each in script.function_of.values() if each.name == name)
    return function in passed_around


@pytest.mark.parametrize(
    "use",
    [
        "f(1)",
        "g = f\ng(1)",
        "g = h = f\nfor _ in range(3):\n    h(g(1))",
        "import functools\nfunctools.partial(f, 1)()",
        "from functools import partial\ng = partial(partial(f, 1), 2)\ng()",
        "ones = list(map(f, [1]))",
        "@f\ndef g(): pass",
    ],
)
def test_a_function_stays_at_hand_that_is_only_called(use: str) -> None:
    assert not is_passed_around(f"def f(*given): pass\n{use}")


@pytest.mark.parametrize(
    "use",
    [
        "call(f)",
        "call(key=f)",
        "g = f\ncall(g)",
        "g = f\nh = g\nh(1)\nhs = [h]",
        "g, h = f, f",
        "holder.f = f",
        "class Holder:\n    g = f",
        "import functools\ncall(functools.partial(f, 1))",
        "def partial(f, x): call(f)\npartial(f, 1)()",
        "def map(f, xs): call(f)\nmap(f, [1])",
        "def g():\n    return f",
        "holder.f",
    ],
)
def test_a_function_is_passed_around_that_goes_where_nobody_sees_it(use: str) -> None:
    assert is_passed_around(f"def f(*given): pass\n{use}")


def test_what_a_decorator_gives_is_at_hand_as_long_as_what_it_decorates() -> None:
    decorator = "def decorate(function):\n    def f():\n        return function()\n    return f\n"
    assert not is_passed_around(f"{decorator}@decorate\ndef g(): pass\ng()")
    assert is_passed_around(f"{decorator}@decorate\ndef g(): pass\ncall(g)")
    assert is_passed_around(f"{decorator}call(decorate)")
    assert is_passed_around(f"{decorator}@keep\n@decorate\ndef g(): pass\ng()")
    assert is_passed_around(f"{decorator}class Holder:\n    @decorate\n    def g(self): pass")


def test_what_makes_decorators_is_at_hand_as_long_as_it_only_decorates() -> None:
    maker = """\
def timed(label):
    def decorate(function):
        def f():
            return function()
        return f
    return decorate
"""
    for name in ("f", "decorate"):
        assert not is_passed_around(f"{maker}@timed('a')\ndef g(): pass\ng()", name)
        assert is_passed_around(f"{maker}call(timed('a'))", name)
        assert is_passed_around(f"{maker}@keep\n@timed('a')\ndef g(): pass\ng()", name)
        assert is_passed_around(f"{maker}class Holder:\n    @timed('a')\n    def g(self): pass", name)
    assert is_passed_around(f"{maker}@timed('a')\ndef g(): pass\ncall(g)")


def test_lambdas_go_where_their_names_go() -> None:
    assert not is_passed_around("g = lambda: 1\ng()", "lambda")
    assert not is_passed_around("(lambda: 1)()", "lambda")
    assert is_passed_around("g = lambda: 1\ncall(g)", "lambda")
    assert is_passed_around("call(lambda: 1)", "lambda")
