"""What a call does to what it is passed is done once, however many things it may call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.effects import Effects
from instrumentor.analysis.fixpoint import analyse
from instrumentor.analysis.values import FunctionRef, Value
from instrumentor.resolve.project import Project
from instrumentor.resolve.unit import SCRIPT, index_unit
from instrumentor.source.source_text import decode, parse

if TYPE_CHECKING:
    import pytest

SCRIPT_TEXT = """\
import lab

def seen():
    return 1

maker = lab.a()
if lab.yes:
    maker = lab.b()
elif lab.no:
    maker = lab.c()
maker(seen)
"""


def test_what_any_of_several_unknown_callees_gets_is_handed_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    handed_over: list[Value] = []
    escape = Effects.escape

    def noted(self: Effects, held: Value) -> None:
        handed_over.append(held)
        escape(self, held)

    monkeypatch.setattr(Effects, "escape", noted)
    tree = parse(decode(SCRIPT_TEXT.encode(), source_name="script.py"), source_name="script.py")
    facts, _ = analyse(Project(index_unit(SCRIPT, "", tree)))
    made = [binding.value for binding in facts.bindings.values() if binding.text == "maker"]
    assert len(made) == 3
    functions = [held for held in handed_over if any(isinstance(atom, FunctionRef) for atom in held)]
    assert len(functions) == 1
    assert facts.escaped
