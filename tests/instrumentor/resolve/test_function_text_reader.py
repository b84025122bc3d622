"""What the text of a function shows of what it may do."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from instrumentor.resolve.function_text_reader import text_of
from instrumentor.resolve.units import index_unit
from instrumentor.source.source_text import decode, parse

if TYPE_CHECKING:
    from instrumentor.resolve.function_text import FunctionText


def read(source: str) -> FunctionText:
    """The text of the first function in a file."""
    unit = index_unit("file.py", "", parse(decode(source.encode(), source_name="file.py"), source_name="file.py"))
    return text_of(next(iter(unit.function_of.values())))


def test_names_attributes_and_methods_are_told_apart() -> None:
    text = read("import a.b as c\ndef f(x):\n    y = c.d(x.e)\n    y.g(h)\n    y.i = x\n")
    assert text.stored == ("i",)
    assert text.methods == ("d", "g")
    assert {*text.read} == {"c", "b", "d", "e", "g", "h", "i"}
    assert [ast.unparse(each) for each in text.references] == ["c.d", "h"]
    assert [ast.unparse(each) for each in text.references if each in text.called] == ["c.d"]


@pytest.mark.parametrize(
    ("body", "is_change"),
    [
        ("a = []\n    a.append(x)", False),
        ("a = {}\n    a['k'] = x", False),
        ("a = [each for each in x]\n    del a[0]", False),
        ("x.append(1)", False),  # what is passed is nobody's that is known
        ("KEPT.append(x)", True),
        ("x.kept.append(x)", True),
        ("a = x.kept\n    a.append(x)", True),
        ("for a in x:\n        a['k'] = 1", True),
        ("with x as a:\n        a['k'] = 1", True),
        ("x[0]['k'] = 1", True),
        ("a, b = x.kept, []\n    a.append(x)", True),
        ("a = x.get('kept')\n    a.append(x)", True),
    ],
)
def test_containers_of_its_own_are_told_from_others(body: str, *, is_change: bool) -> None:
    assert read(f"def f(y, x):\n    {body}\n").changes_elements is is_change


@pytest.mark.parametrize(
    "body", ["setattr(x, y, 1)", "x.__dict__['a'] = 1", "object.__setattr__(x, y, 1)", "delattr(x, y)"]
)
def test_attributes_of_any_name(body: str) -> None:
    assert read(f"def f(x, y):\n    {body}\n").sets_any


@pytest.mark.parametrize(
    "body", ["global a\n    a = x", "class A:\n        pass", "x.parameters()", "exec(x)", "vars(x)"]
)
def test_what_the_rest_does_not_tell(body: str) -> None:
    assert read(f"def f(x):\n    {body}\n").is_open


def test_classes_that_are_asked_for_are_not_made() -> None:
    text = read(
        "def f(x: A) -> B:\n    y: C = x\n    try:\n        return isinstance(x, D)\n    except E:\n        return F\n"
    )
    assert {ast.unparse(each) for each in text.references} == {"F", "isinstance"}
