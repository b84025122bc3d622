"""What statements did is done again where, and only where, they would do it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import pytest

from instrumentor.analysis.expressions import Evaluator
from instrumentor.analysis.fixpoint import analyse
from instrumentor.analysis.replay import Record
from instrumentor.instrument import instrument_source
from instrumentor.resolve.project import Project, Sources
from instrumentor.resolve.unit import SCRIPT, Unit, index_unit
from instrumentor.settings import Settings
from instrumentor.source.source_text import decode, parse
from tests.instrumentor.analysis.scripts import scripts

if TYPE_CHECKING:
    from instrumentor.analysis.scope import Scope

SCRIPTS = scripts(range(900, 960))


@pytest.mark.sample(50)
@pytest.mark.parametrize(("source", "sources"), SCRIPTS)
def test_visiting_every_statement_each_time_finds_the_same(
    source: bytes, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = instrument_source(source, Settings(), source_name="script.py", sources=sources)

    def never(_record: Record, _scope: Scope) -> bool:
        return False

    monkeypatch.setattr(Record, "replay", never)
    assert instrument_source(source, Settings(), source_name="script.py", sources=sources) == found


def unit_of(text: str) -> Unit:
    decoded = decode(text.encode(), source_name="script.py")
    return index_unit(SCRIPT, "", parse(decoded, source_name="script.py"))


def evaluated(text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls in a script in the order in which the analysis looked at them."""
    seen: list[str] = []
    evaluate = Evaluator._call

    def noted(self: Evaluator, node: ast.Call) -> Any:
        seen.append(ast.unparse(node.func))
        return evaluate(self, node)

    monkeypatch.setitem(Evaluator._HANDLERS, ast.Call, noted)
    analyse(Project(unit_of(text)))
    return seen


def test_a_statement_is_looked_at_again_only_if_what_it_reads_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import torch\nx = torch.zeros(3)\nmodel = make()\nmodel.train()\n"
        "def make():\n    return kept[0]\nkept = [torch.nn.ReLU()]\n"
    )
    seen = evaluated(text, monkeypatch)
    assert seen.count("torch.zeros") == seen.count("torch.nn.ReLU") == 1
    assert seen.count("make") > 1  # which returned nothing that was known before all of the file was visited
    assert seen.count("model.train") == 2


def test_a_round_of_a_loop_looks_again_only_at_what_the_rounds_before_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "a = []\nb = c = 1\nfor i in range(3):\n    a.append(b)\n    print(c)\n    b = abs(b)\n    b = [b]\n"
    seen = evaluated(text, monkeypatch)
    assert seen.count("print") == 1
    assert seen.count("abs") > 1
    assert seen.count("a.append") > 1


def test_a_name_that_another_statement_gives_another_value_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def give():\n    y = [kept]\n    print(y)\n    return y\n\nz = give()\nprint(z)\nkept = [1]\n"
    assert evaluated(text, monkeypatch).count("print") == 4  # of y and z, and of both once `kept` is known
