"""Syntax that Python has had for a few versions only."""

from __future__ import annotations

import sys

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings

HEAD = """\
from typing import Generic, TypeVar
from torch import nn
T = TypeVar("T")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 2)
"""

SOURCES = {
    "a generic class, told more exactly": (
        (3, 10),
        "class Own(Net, Generic[T]): pass\nclass Low(Own[int]): pass\na = Own[int]()\nexact = Low[str]\nb = exact()\n",
        [(3, "a"), (5, "b")],
    ),
    "a class that says what its elements are": (
        (3, 10),
        "class Own(Net, Generic[T]):\n    def __class_getitem__(cls, count):\n        return lambda: 1\na = Own[2]()\n",
        [],
    ),
    "groups of exceptions": (
        (3, 11),
        "try:\n    a = Net()\nexcept* ValueError:\n    a = Net()\nfinally:\n    b = a\n",
        [(2, "a"), (4, "a")],
    ),
    "type parameters of classes": (
        (3, 12),
        "class Own[T](Net):\n    def __init__(self, make: type[T]): ...\na = Own(int)\nb = Own[str](str)\n",
        [(3, "a"), (4, "b")],
    ),
    "type parameters of functions": (
        (3, 12),
        "def build[M: nn.Module, *Rest, **P](make: type[M]) -> M:\n    return make()\na = build(Net)\n",
        [(3, "a")],
    ),
    "names for types": ((3, 12), "type Some[T] = Net | list[T]\na: Some[int] = Net()\n", [(2, "a")]),
    "quotes within quotes": ((3, 12), 'a = Net(); print(f"{a!r:>{len(f"{Net()}")}} {"}"}")\n', [(1, "a")]),
    "defaults of type parameters": ((3, 13), "class Own[T = int](Net): pass\na = Own()\n", [(2, "a")]),
    "what a template shows stays as it is written": ((3, 14), 'a = t"{Net()}"\n', []),
}


@pytest.mark.parametrize(
    ("source", "wraps"),
    [
        pytest.param(source, wraps, id=name, marks=pytest.mark.skipif(sys.version_info < version, reason="too new"))
        for name, (version, source, wraps) in SOURCES.items()
    ],
)
def test_models_in_new_syntax_are_wrapped(source: str, wraps: list[tuple[int, str]]) -> None:
    result = instrument_source((HEAD + source).encode(), Settings(), source_name="x.py")
    first = HEAD.count("\n")
    assert [(each.line - first, each.target) for each in result.decisions if each.verdict == "wrap"] == wraps
