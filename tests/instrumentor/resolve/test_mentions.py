"""Which names are read so that what they stand for may be called by another name."""

from __future__ import annotations

import ast

import pytest

from instrumentor.resolve.mentions import value_names
from instrumentor.resolve.unit import index_unit


def read_by(source: str) -> set[str]:
    unit = index_unit("file.py", "", ast.parse(source))
    return {ast.unparse(each) for each in value_names(unit, unit.parents)}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("maker = lib.Net", id="stored"),
        pytest.param("table = {'net': lib.Net}", id="in a table"),
        pytest.param("apply(lib.Net)", id="passed"),
        pytest.param("def f(kind=lib.Net): ...", id="a default"),
        pytest.param("def f():\n    return lib.Net", id="given"),
        pytest.param("getattr(x, 'net', lib.Net)", id="what getattr gives otherwise"),
        pytest.param("class A(metaclass=lib.Net): ...", id="a metaclass"),
        pytest.param("[each for each in lib.Net]", id="gone over"),
    ],
)
def test_a_value(source: str) -> None:
    assert "lib.Net" in read_by(source)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("lib.Net()", id="called"),
        pytest.param("class A(lib.Net): ...", id="a base"),
        pytest.param("@lib.Net\ndef f(): ...", id="a decorator"),
        pytest.param("isinstance(x, (int, lib.Net))", id="asked for"),
        pytest.param("def f(x: lib.Net | None) -> list[lib.Net]: ...", id="annotations"),
        pytest.param("x: lib.Net = make()", id="an annotation"),
        pytest.param("x is lib.Net", id="compared"),
        pytest.param("f'{lib.Net}'", id="in a text"),
        pytest.param("try: ...\nexcept lib.Net: ...", id="caught"),
        pytest.param("getattr(lib.Net, name)", id="an attribute of it by a name"),
        pytest.param("print(lib.Net.__name__)", id="its name"),
    ],
)
def test_no_value(source: str) -> None:
    assert "lib.Net" not in read_by(source)
