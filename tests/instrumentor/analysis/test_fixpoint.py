"""The order in which scopes are visited, and when they are left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from instrumentor.analysis.fixpoint import analyse
from instrumentor.analysis.replay import Record, Records
from instrumentor.analysis.statements import Pass
from instrumentor.instrument import instrument_source
from instrumentor.resolve.project import Project, Sources
from instrumentor.resolve.unit import SCRIPT, index_unit
from instrumentor.settings import Settings
from instrumentor.source.source_text import decode, parse
from tests.instrumentor.analysis.scripts import scripts

if TYPE_CHECKING:
    from instrumentor.analysis.scope import Scope
    from instrumentor.analysis.tables import Visits

SCRIPTS = scripts(range(1_000, 1_020))


def is_never_replayed(_record: Record, _scope: Scope) -> bool:
    return False


@pytest.mark.parametrize(("source", "sources"), SCRIPTS)
def test_another_visit_of_every_scope_finds_nothing_new(
    source: bytes, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = parse(decode(source, source_name="script.py"), source_name="script.py")
    project = Project(index_unit(SCRIPT, "", tree), Settings(), sources)
    facts, hierarchy = analyse(project)
    monkeypatch.setattr(Record, "replay", is_never_replayed)
    tops = [(unit, None) for unit in facts.demanded_units.values()]
    functions = [(function.unit, function) for function in facts.demanded_functions.values()]
    for unit, function in [(project.script, None), *tops, *functions]:
        before = {key: binding.number for key, binding in facts.bindings.items()}
        visit = Pass(facts, hierarchy, unit, function, Records())
        with facts.visiting(visit.scope.key):
            visit.run()
        due = [each.key for _, each in functions if facts.visits.is_due(each.key)]
        assert due == []
        assert {key: binding.number for key, binding in facts.bindings.items()} == before


@pytest.mark.parametrize(("source", "sources"), SCRIPTS[::5])
def test_the_scopes_passed_over_would_have_changed_no_decision(
    source: bytes, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = instrument_source(source, Settings(), source_name="script.py", sources=sources)
    rounds: dict[str, int] = {}

    def is_in_first_rounds(_: Visits, scope: str) -> bool:
        rounds[scope] = rounds.get(scope, 0) + 1
        return rounds[scope] <= 12

    monkeypatch.setattr("instrumentor.analysis.tables.Visits.is_due", is_in_first_rounds)
    monkeypatch.setattr(Record, "replay", is_never_replayed)
    assert instrument_source(source, Settings(), source_name="script.py", sources=sources) == found


def test_a_function_is_visited_where_it_is_first_called(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def use():\n    make().train()\n\ndef make():\n    return torch.nn.ReLU()\n\nimport torch\nuse()\n"
    visited: list[str] = []
    run = Pass.run

    def noted(self: Pass) -> None:
        visited.append("" if self.function is None else self.function.name)
        run(self)

    monkeypatch.setattr(Pass, "run", noted)
    analyse(Project(index_unit(SCRIPT, "", parse(decode(text.encode(), source_name="x.py"), source_name="x.py"))))
    assert visited[:3] == ["", "use", "make"]
    assert visited.count("use") == visited.count("make") == 1  # what `make` gives was known in time


def test_calls_may_lead_deeper_than_python_itself_goes() -> None:
    calls = [f"def f{i}(model):\n    return f{i + 1}(model)\n" for i in range(400)]
    text = "".join(calls) + "def f400(model):\n    return model\n\nimport torch\nnet = f0(torch.nn.Linear(2, 2))\n"
    found = instrument_source(text.encode(), Settings(), source_name="script.py").instrumented.decode()
    assert "\nnet = f0(Proxy.Proxy(torch.nn.Linear(2, 2)," in found
