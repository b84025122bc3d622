"""Outlines: what is kept of a file, and that names mean by it what they mean by the file."""

from __future__ import annotations

import ast
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from instrumentor.resolve.classes import Hierarchy
from instrumentor.resolve.outline import OutlinedUnit, outline_of, unit_of
from instrumentor.resolve.project import Project
from instrumentor.resolve.unit import Class, Unit, index_unit
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from instrumentor.resolve.function_outline import FunctionOutline


def unit(source: str) -> Unit:
    return index_unit("lib/file.py", "lib", ast.parse(dedent(source)))


def functions(source: str) -> dict[str, FunctionOutline]:
    return {each.name: each for each in outline_of(unit(source)).functions}


def drawn(source: str) -> OutlinedUnit:
    return unit_of(outline_of(unit(source)), "lib/file.py", "lib")


@pytest.mark.parametrize(
    ("source", "makers"),
    [
        pytest.param("def f():\n    return make()", ["make"], id="returned"),
        pytest.param("def f():\n    x = lib.make()\n    return x", ["lib.make"], id="by a name"),
        pytest.param(
            "def f():\n    with make() as x:\n        return x, other()", ["make", "other"], id="by a context"
        ),
        pytest.param("def f():\n    make()", [], id="not given"),
        pytest.param("def f(x):\n    return x", [], id="passed"),
        pytest.param("def f(x):\n    return x.y.make()", [".make"], id="a method of what is passed"),
        pytest.param("def f(make):\n    return make()", [""], id="what is passed is called"),
        pytest.param("def f():\n    return makers[0]()", [""], id="an element is called"),
        pytest.param("make = 1\ndef f():\n    return make()", [""], id="what the top of the file stores is called"),
        pytest.param("def f():\n    for x in make():\n        yield x", ["make"], id="yielded"),
        pytest.param("import copy\ndef f(x):\n    return copy.deepcopy(x)", [], id="copied from what is passed"),
        pytest.param("import copy\nx = 1\ndef f():\n    return copy.deepcopy(x)", ["copy.deepcopy"], id="copied"),
    ],
)
def test_what_a_function_makes(source: str, makers: list[str]) -> None:
    assert sorted(functions(source)["f"].makers) == makers


def test_a_function_that_uses_something_as_a_module_says_so() -> None:
    found = functions("def f(x):\n    x.eval()\ndef g(x):\n    x.cuda()\n")
    assert (found["f"].uses_modules, found["g"].uses_modules) == (True, False)


def test_the_top_of_a_file_is_drawn_without_its_functions() -> None:
    top = outline_of(unit("kind = Net\nmake()\nclass A:\n    other = Cell\ndef f(x=Late):\n    inner(Own)\n")).top
    assert top.calls == ["make"]


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        pytest.param("def f(g):\n    s = inspect.signature(g)\n    return zip(s.parameters, g)", False, id="its own"),
        pytest.param(
            "def f(g):\n    s = signature(g)\n    def h():\n        return zip(s.parameters)", False, id="of one around"
        ),
        pytest.param("def f(s):\n    return zip(s.parameters, s)", True, id="anybody's"),
        pytest.param("def f(s):\n    s = s or signature(f)\n    return zip(s.parameters)", True, id="perhaps its own"),
    ],
)
def test_the_parameters_of_a_signature_are_no_use_of_a_module(source: str, uses: bool) -> None:
    assert functions(source)["f"].uses_modules is uses


def test_attributes_that_may_be_called_are_listed() -> None:
    source = """
        class Factory:
            maker = Net
            size = 3
            if True:
                other = Net
            def set(self, make):
                self.make = make
                self.names = []
        """
    assert outline_of(unit(source)).stored == {"maker", "other", "make"}


def test_an_outline_knows_the_names_of_its_file() -> None:
    source = """
        from torch import nn
        from . import other
        class Net(nn.Module):
            class Inner(Base[int]): ...
            def forward(self, x): ...
        def make():
            def inner(): ...
        """
    whole, outlined = unit(source), drawn(source)
    assert outlined.imports == whole.imports
    assert outlined.classes.keys() == whole.classes.keys()
    assert outlined.functions.keys() == whole.functions.keys()
    assert {each.key for each in outlined.class_of.values()} == {each.key for each in whole.class_of.values()}
    assert outlined.classes["Net"].methods.keys() == {"forward"}
    hierarchy = Hierarchy(Project(outlined, Settings()))
    net, inner = outlined.classes["Net"], outlined.classes["Inner"]
    assert isinstance(net, Class)
    assert hierarchy.is_module(net)
    assert not hierarchy.is_module(inner)


def test_bases_of_any_kind_are_kept() -> None:
    outlined = drawn("class Net(lib.Base, *mixins, (other := make()), metaclass=Meta):\n    pass")
    assert [ast.unparse(base) for base in outlined.classes["Net"].node.bases] == [
        "lib.Base",
        "*mixins",
        "(other := make())",
    ]
