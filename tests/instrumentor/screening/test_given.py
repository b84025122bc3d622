"""What calling something of another file may give, by its outline."""

from __future__ import annotations

import pytest

from instrumentor.resolve.nature import Nature
from instrumentor.resolve.unit import Class, Function, Unit
from tests.instrumentor.screening.outlined import project_of

FILES = {
    "net.py": """
        from torch import nn
        class Net(nn.Module):
            def forward(self, x): ...
        class Plain: ...
        """,
    "makers.py": """
        import net
        from net import Net, Plain
        def made():
            return Net()
        def made_in_turn():
            return made()
        def plain():
            return Plain()
        def words(text):
            return text.split()
        def passed(kind):
            return kind()
        def by_method(holder):
            return holder.pick()
        def loaded(kind, path):
            return kind.load_from(path)
        def itself(n):
            return itself(n - 1)
        def used(model):
            return model.eval()
        def declared(model: Net):
            return model.inner
        def using(model):
            helper(model)
        def helper(model):
            model.train()
        def number():
            return 3
        class Holder:
            def __init__(self, model):
                self.model = model
            def run(self):
                self.model.eval()
        """,
}


def given(name: str) -> Nature:
    project = project_of("import makers", FILES)
    meaning = project.neighbours.hierarchy.resolve_spelled(project.script, name)
    return project.neighbours.given.by(meaning)


@pytest.mark.parametrize(
    ("name", "nature"),
    [
        ("made", Nature.MODULE),
        ("made_in_turn", Nature.MODULE),
        ("Net", Nature.MODULE),
        ("Plain", Nature.NOT_MODULE),
        ("plain", Nature.NOT_MODULE),
        ("number", Nature.NOT_MODULE),
        ("words", Nature.UNKNOWN),
        ("passed", Nature.MODULE),
        ("by_method", Nature.UNKNOWN),
        ("loaded", Nature.MODULE),
        ("itself", Nature.UNKNOWN),
        ("used", Nature.MODULE),
        ("declared", Nature.MODULE),
        ("net", Nature.UNKNOWN),
        ("nowhere", Nature.MODULE),
    ],
)
def test_the_greatest_nature_that_a_call_may_give(name: str, nature: Nature) -> None:
    assert given(f"makers.{name}") is nature


def test_anything_of_a_file_may_be_the_greatest_of_it() -> None:
    files = {"words.py": "def count(x):\n    return 3\n", "makers.py": FILES["makers.py"], "net.py": FILES["net.py"]}
    project = project_of("import words, makers", files)
    neighbours = project.neighbours
    units = [neighbours.project.lookup(project.script, name) for name in ("words", "makers")]
    found = [neighbours.given.by_any_of(unit) for unit in units if isinstance(unit, Unit)]
    assert found == [Nature.NOT_MODULE, Nature.MODULE]


@pytest.mark.parametrize(
    ("name", "uses"), [("used", True), ("using", True), ("Holder", True), ("declared", True), ("made", False)]
)
def test_what_is_used_as_a_module_by_something_or_by_what_it_calls(name: str, uses: bool) -> None:
    project = project_of("import makers", FILES)
    meaning = project.neighbours.hierarchy.resolve_spelled(project.script, f"makers.{name}")
    assert isinstance(meaning, (Class, Function))
    assert project.neighbours.given.uses_modules(meaning) is uses
