"""What values may be, by small programs of one file."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from instrumentor.code.store import FactsStore
from instrumentor.flow.kinds import May
from instrumentor.flow.solver import Solver
from instrumentor.link.program import read_program
from instrumentor.resolve.knowledge import Knowledge
from instrumentor.resolve.search_path import SearchPaths
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
from functools import partial
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(1, 1)
class Plain:
    pass
"""


@pytest.mark.parametrize(
    ("body", "bits"),
    [
        ("x = Net()", May.MADE),
        ("x = Plain()", 0),
        ("x = nn.ReLU()", 0),
        ("x = [Net()]", May.HOLDING),
        ("xs = [Net()]\nfor x in xs: pass", May.MADE),
        ("make = Net\nx = make()", May.MADE),
        ("x = partial(Net)()", May.MADE),
        ("table = {'net': Net}\nx = table['net']()", May.MADE),
        ("def f(): return Net()\nx = f()", May.MADE),
        ("def f(make): return make()\nx = f(Net)", May.MADE),
        ("def f(x): return x\nx = f(Net())", May.MADE),
        ("def f(make=Net): return make()\nx = f()", May.MADE),
        ("class F:\n    kind = Net\n    def make(self): return self.kind()\nx = F().make()", May.MADE),
        ("def f(**given): return g(**given)\ndef g(make): return make()\nx = f(make=Net)", May.MADE),
        ("class A:\n    def __add__(self, other): return 1\nx = len([1])", 0),
    ],
)
def test_what_a_value_may_be(body: str, bits: int, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(HEAD + dedent(body) + "\n")
    with FactsStore(None) as store:
        program = read_program([str(path)], lambda _: path.read_bytes(), SearchPaths(), store)
    solver = Solver(program, Knowledge(Settings()))
    solver.solve()
    facts = program.facts[0]
    assert facts is not None
    found = solver.may[facts.top["x"]] & (May.MADE | May.HOLDING)
    assert found & bits == bits
    assert bits or not found
