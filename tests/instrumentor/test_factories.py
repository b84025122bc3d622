"""Functions that only return their model: wrapped by their callers, or in the function where no file given calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from instrumentor.engine.calls_between import CallsBetween, read_calls
from instrumentor.resolve.search_path import SearchPaths
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from pathlib import Path

NETS = """\
from torch import nn

from .registry import register


def called(width=2):
    return nn.Linear(width, 2)


def uncalled():
    net = nn.Linear(2, 3)
    return net


@register
def registered():
    return nn.Linear(2, 4)


def _private():
    return nn.Linear(2, 5)


def through():
    return _private()
"""
REGISTRY = """\
known = {}


def register(function):
    known[function.__name__] = function
    return function
"""
INIT = "from .nets import *\nfrom .registry import known\n"
TRAIN = """\
import zoo.models as models
import torch

torch.manual_seed(0)
model = models.called(3)
print(model(torch.ones(1, 3)).tolist())
"""
AROUND = 'recurse=True, name={!r}, logdir="proxy_trace", log_level=Proxy.INFO)'


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    folder = tmp_path / "zoo" / "models"
    folder.mkdir(parents=True)
    (tmp_path / "zoo" / "__init__.py").write_text("")
    for name, text in (("__init__", INIT), ("nets", NETS), ("registry", REGISTRY)):
        (folder / f"{name}.py").write_text(text)
    return tmp_path


def instrument(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "instrumentor", *arguments, "--no-cache", "-j1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def wrapped(zoo: Path) -> list[str]:
    """The functions of the zoo in which a proxy stands."""
    found, function = [], ""
    for line in (zoo / "zoo/models/nets.py").read_text().splitlines():
        function = line.split("(")[0].removeprefix("def ") if line.startswith("def ") else function
        if "Proxy.Proxy(" in line:
            found.append(function)
    return found


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("auto", ["uncalled", "registered", "through"]),
        ("always", ["called", "uncalled", "registered", "through"]),
        ("never", []),
    ],
)
def test_the_rule_says_which_functions_wrap_what_they_return(zoo: Path, rule: str, wanted: list[str]) -> None:
    (zoo / "train.py").write_text(TRAIN)
    said = instrument(zoo, ".", "--in-place", "--factories", rule)
    assert wrapped(zoo) == wanted
    assert "model = Proxy.Proxy(model" in (zoo / "train.py").read_text()
    assert (f"{len(wanted)} of them in the functions that return them" in said) is bool(wanted)


def test_a_zoo_of_model_files_alone_is_wrapped_in_its_functions(zoo: Path) -> None:
    instrument(zoo, "zoo", "--in-place")
    assert wrapped(zoo) == ["called", "uncalled", "registered", "through"]


def test_the_rule_can_stand_in_the_configuration_and_names_of_factories_too(zoo: Path) -> None:
    (zoo / "pyproject.toml").write_text('[tool.instrumentor]\nfactories = "never"\n')
    instrument(zoo, ".", "--in-place")
    assert wrapped(zoo) == []
    (zoo / "pyproject.toml").write_text('[tool.instrumentor]\nfactories = ["lib.make_*"]\n')
    instrument(zoo, ".", "--in-place")
    assert wrapped(zoo) == ["called", "uncalled", "registered", "through"]


def test_a_callers_line_on_top_of_a_factorys_is_one_proxy_with_the_callers_name(zoo: Path) -> None:
    (zoo / "train.py").write_text(TRAIN)
    plain = run_python(["train.py"], cwd=zoo).stdout
    instrument(zoo, ".", "--in-place", "--factories", "always")
    traced = run_python(["train.py"], cwd=zoo)
    assert (traced.returncode, traced.stdout) == (0, plain)
    (trace,) = (zoo / "proxy_trace").rglob("*.jsonl")
    records = [json.loads(line) for line in trace.read_text().splitlines()]
    names = {each["id"]: each["name"] for each in records if each["kind"] == "module"}
    assert names == {1: "model"}
    names = {each["id"]: each["name"] for each in records if each["kind"] == "parameter"}
    assert names == {1: "model.weight", 2: "model.bias"}


def test_what_was_kept_of_a_file_is_old_when_another_file_begins_to_call_its_function(zoo: Path) -> None:
    arguments = [sys.executable, "-m", "instrumentor", ".", "-o", "out", "-j1", "--cache-dir", "kept"]
    subprocess.run(arguments, cwd=zoo, capture_output=True, check=True)
    assert wrapped(zoo / "out") == ["called", "uncalled", "registered", "through"]
    (zoo / "train.py").write_text(TRAIN)
    subprocess.run(arguments, cwd=zoo, capture_output=True, check=True)
    assert wrapped(zoo / "out") == ["uncalled", "registered", "through"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("from zoo.models.nets import called\ncalled()\n", ("called",)),
        ("from zoo.models import called as make\nmake()\n", ("called",)),
        ("import zoo.models.nets\nzoo.models.nets.called()\n", ("called",)),
        ("from zoo import models\ndef f():\n    return models.uncalled()\n", ("uncalled",)),
        ("from zoo.models import *\nuncalled()\n", ("uncalled",)),
        ("from zoo.models import called\nmake = called\n", ()),
        ("from elsewhere import called\ncalled()\n", ()),
        ("def called(): ...\ncalled()\n", ()),
        ("called(\n", ()),
    ],
)
def test_calls_are_found_through_imports(zoo: Path, text: str, wanted: tuple[str, ...]) -> None:
    (zoo / "train.py").write_text(text)
    paths = [str(path) for path in zoo.rglob("*.py")]
    assert CallsBetween(paths, SearchPaths(), None).of(str(zoo / "zoo/models/nets.py")) == wanted


def test_a_file_that_calls_by_relative_imports() -> None:
    assert read_calls(b"from . import nets\nfrom .nets import a\nnets.b()\na()\n").calls == (
        (".nets", "b"),
        (".nets", "a"),
    )
