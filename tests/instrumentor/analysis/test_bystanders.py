"""Which functions of other files are visited that unseen code may call, and what is known of what the others leave."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from instrumentor.analysis.fixpoint import analyse
from instrumentor.analysis.values import FOREIGN
from instrumentor.resolve.units import SCRIPT, Project, Sources, index_unit
from instrumentor.settings import Settings
from instrumentor.source.source_text import decode, parse

if TYPE_CHECKING:
    from instrumentor.analysis.facts import Facts

HEAD = """
import json, logging, torch
from torch import nn
from pathlib import Path
logger = logging.getLogger(__name__)
LIMITS = {"low": 1}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(1, 1)
class Settings:
    def __init__(self, path):
        self.path = Path(path)
    def read(self):
        return json.loads(self.path.read_text())
def lower(texts):
    return [each.lower() for each in texts]
"""
SCRIPT_HEAD = """
import unseen, other
from torch import nn
class Own:
    def step(self):
        return 1
"""


def analysed(other: str, script: str) -> Facts:
    """What is found out of a script that uses another file."""
    files = {"other.py": (HEAD + dedent(other)).encode()}
    tree = parse(decode((SCRIPT_HEAD + dedent(script)).encode(), source_name="script.py"), source_name="script.py")
    return analyse(Project(index_unit(SCRIPT, "", tree), Settings(), Sources(files.get)))[0]


def visited(other: str, script: str) -> set[str]:
    """The functions of another file that are visited for a script."""
    return {each.name for each in analysed(other, script).demanded_functions.values() if each.unit.name}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return sum(values) / len(values)", id="computes"),
        pytest.param("logger.info('%s', LIMITS['low'])", id="reads names of its file"),
        pytest.param("return lower(values)", id="calls another"),
        pytest.param("return Settings(values[0]).read()", id="makes an object"),
        pytest.param("found = {}\nfound['a'] = values\nfound.update(b=1)\nreturn found", id="fills a dict of its own"),
        pytest.param("LIMITS['high'] = values", id="fills one of its file"),
        pytest.param("for each in values:\n    each.done = True", id="stores to an attribute"),
        pytest.param("if not isinstance(values, nn.Module):\n    raise ValueError(values)", id="asks for a class"),
        pytest.param("return torch.stack(values).mean().item()", id="computes with tensors"),
        pytest.param("setattr(values, 'a' + 'b', 1)", id="stores to an attribute of any name"),
    ],
)
def test_what_has_nothing_to_do_with_models_is_passed_over(body: str) -> None:
    other = "def work(values):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    assert visited(other, "unseen.use(other.work)\n") == set()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("def work(x):\n    x.train()\n", id="uses something as a module"),
        pytest.param("def work(x):\n    return Net()\n", id="makes a module of the project"),
        pytest.param("def work(x):\n    return nn.Linear(1, 1)\n", id="makes a layer"),
        pytest.param("def work(x):\n    return torch.compile(x)\n", id="wraps what it is passed"),
        pytest.param(
            "found = None\ndef work(x):\n    global found\n    found = x\n", id="stores to a name of its file"
        ),
        pytest.param("def work(x):\n    exec(x)\n", id="runs a text"),
    ],
)
def test_what_makes_or_uses_modules_is_visited(other: str) -> None:
    assert "work" in visited(other, "unseen.use(other.work)\n")


@pytest.mark.parametrize(
    ("other", "script"),
    [
        pytest.param(
            "net = None\ndef work():\n    print(net)\n", "other.net = nn.Linear(1, 1)", id="a name of its file"
        ),
        pytest.param(
            "class Keeper:\n    def work(self):\n        print(self.net)\nwork = Keeper().work\n",
            "other.Keeper.net = nn.Linear(1, 1)",
            id="an attribute",
        ),
        pytest.param("kept = []\ndef work():\n    print(kept)\n", "other.kept.append(Own())", id="what a list holds"),
        pytest.param("call = print\ndef work():\n    call()\n", "other.call = Own().step", id="a method"),
        pytest.param("def work(x):\n    x.step()\n", "", id="a method's name"),
    ],
)
def test_what_comes_across_the_scripts_own_things_is_visited(other: str, script: str) -> None:
    assert "work" in visited(other, f"{script}\nunseen.use(other.work)\n")


def test_what_another_function_hands_to_unseen_code_may_hold_its_arguments() -> None:
    other = "def later(x):\n    def work():\n        return x()\n    return work\n"
    assert visited(other, "unseen.use(other.later(Own))\n") == {"later", "work"}


def test_what_is_called_by_what_is_passed_over_is_looked_at_likewise() -> None:
    other = "def work(x):\n    first(x)\ndef first(x):\n    second(x)\ndef second(x):\n    x.eval()\n"
    assert visited(other, "unseen.use(other.work)\n") == {"second"}


def test_methods_of_what_is_made_are_looked_at() -> None:
    other = "class Holder:\n    def use(self, x):\n        x.eval()\ndef work(x):\n    Holder().use(x)\n"
    assert visited(other, "unseen.use(other.work)\n") == {"use"}


def test_what_is_called_by_the_script_is_visited_too() -> None:
    other = "def work(x):\n    return x\n"
    assert visited(other, "unseen.use(other.work)\nmodel = other.work(nn.Linear(1, 1))\n") == {"work"}


@pytest.mark.parametrize(
    "store",
    [
        pytest.param("self.found = value", id="by its name"),
        pytest.param("setattr(self, 'fo' + 'und', value)", id="by a computed name"),
        pytest.param("self.remember(value)", id="in another method"),
        pytest.param("self.kept.append(value)", id="into a list"),
    ],
)
def test_what_is_passed_over_may_have_stored_anything(store: str) -> None:
    other = f"""
        class Finder:
            def __init__(self):
                self.found, self.kept = None, []
            def work(self, value):
                {store}
            def remember(self, value):
                self.found = value
        """
    found = analysed(
        other, "finder = other.Finder()\nunseen.use(finder.work)\nmodel = finder.found or finder.kept[0]\n"
    )
    assert found.scopes[SCRIPT, "model"] >= FOREIGN
    assert "work" not in {each.name for each in found.demanded_functions.values()}
