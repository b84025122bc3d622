"""Facts survive being written down, and are the same for the same source."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import msgspec
import pytest

from instrumentor.resolve import module_reader
from instrumentor.resolve.module_facts import ClassFacts, Imported, ModuleFacts, Name, VariableFacts
from instrumentor.resolve.module_reader import read_facts


def test_imports_in_branches_all_count() -> None:
    facts = read_facts(b"try:\n    from .fast import Net\nexcept ImportError:\n    from slow import Net\nimport a.b\n")
    assert facts.names["Net"] == [VariableFacts(Imported(".fast.Net")), VariableFacts(Imported("slow.Net"))]
    assert facts.names["a"] == [VariableFacts(Imported("a"))]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a syntax of Python 3.12")
def test_a_type_is_a_variable() -> None:
    assert read_facts(b"type Some[T] = Net | T\n").names == read_facts(b"Some = Net | T\n").names


def test_star_imports_keep_their_dots() -> None:
    assert read_facts(b"from . import *\nfrom .x import *\nfrom y.z import *\n").stars == [".", ".x", "y.z"]


@pytest.mark.parametrize(
    ("source", "exported"),
    [
        pytest.param(b"__all__ = ['a', 'b']", ["a", "b"], id="a list of strings"),
        pytest.param(b"__all__ = ['a'] + other.__all__", None, id="a sum"),
        pytest.param(b"__all__ = ['a']\n__all__ += names", None, id="added to later"),
    ],
)
def test_only_a_plain_all_is_believed(source: bytes, exported: list[str] | None) -> None:
    assert read_facts(source).exported == exported


def test_variables_that_nothing_returned_leads_to_are_left_out() -> None:
    facts = read_facts(b"def f():\n    net = Net()\n    loss = Loss()\n    other = net\n    return other\n")
    (function,) = facts.names["f"]
    assert set(function.variables) == {"net", "other"}  # type: ignore[union-attr]


def test_what_a_class_keeps_and_calls() -> None:
    facts = read_facts(
        b"class A(B):\n    def __init__(self):\n        self.x = X()\n        self.y = wrap(Y())\n"
        b"    def forward(self, z):\n        return self.y(z)\n"
    )
    (cls,) = facts.names["A"]
    assert isinstance(cls, ClassFacts)
    calls = {each.attribute: [call.function for call in each.calls] for each in cls.held.stored}
    assert calls == {"x": [Name("X")], "y": [Name("wrap"), Name("Y")]}
    assert cls.held.called == ["y"]
    assert not cls.held.registers


@pytest.mark.parametrize("source", [b"def f(:", b"\0", b"# coding: nonsense\n"])
def test_what_is_no_python_is_refused(source: bytes) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        read_facts(source)


@pytest.mark.parametrize("module", [ast, msgspec, pytest, module_reader], ids=lambda module: module.__name__)
def test_facts_about_real_modules_survive_being_stored(module: object) -> None:
    source = Path(module.__file__).read_bytes()  # type: ignore[attr-defined]
    facts = read_facts(source)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(facts), type=ModuleFacts) == facts == read_facts(source)
