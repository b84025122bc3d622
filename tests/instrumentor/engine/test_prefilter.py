"""What the bytes of a script show: never that there is no site where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.engine.prefilter import may_hold_site
from instrumentor.instrument import instrument_source
from instrumentor.resolve import catalogue
from instrumentor.settings import Settings

FIXTURES = Path(__file__).parents[3] / "fixtures"
# What may be said of a call in a script that is passed over: nothing that anybody takes for a model.
PASSED_OVER = {"not-module", "unsure"}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(b"import os\nimport numpy as np, json\nprint(np.zeros(3))\n", id="plain libraries"),
        pytest.param(b"import torch\nprint(torch.zeros(3) + torch.rand(2))\n", id="torch without modules"),
        pytest.param(b"from __future__ import annotations\nx = 1\n", id="the future"),
        pytest.param(b"'''nothing at all'''\n", id="no import"),
        pytest.param(b"'''Taken\nfrom the net, see\nimport net\n'''\n# m.eval()\n", id="words in strings and comments"),
    ],
)
def test_is_passed_over(source: bytes) -> None:
    assert not may_hold_site(source, Settings())
    assert instrument_source(source, Settings(), source_name="a.py").decisions == ()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(b"\xef\xbb\xbfimport torch.nn as nn\nm = nn.Linear(1, 1)\n", id="behind a byte order mark"),
        pytest.param(b"x = 1; import torch.nn\n", id="behind a semicolon"),
        pytest.param(b"if x: from torch import nn\n", id="behind a colon"),
        pytest.param(b"import os, \\\n  torchvision\n", id="on the next line"),
        pytest.param(b"import \\\n  net\n", id="behind a continuation"),
        pytest.param(b"from.net import Net\n", id="relative, without a blank"),
        pytest.param(b"from .. import net\n", id="relative"),
        pytest.param(b"import numpy, net\n", id="second in a list"),
        pytest.param(b"import\tnet\r", id="with a tab, ended by CR"),
        pytest.param(b"def f(make):\n    m = make()\n    m.eval()\n    return m.parameters()\n", id="by its use"),
        pytest.param(b"import torch\nm = torch.hub.load('a', 'b')\n", id="a hub"),
        pytest.param(b"import torch\nm = torch.compile(make())\n", id="by a wrapper"),
        pytest.param(b"m = make()\nm(3).backward()\n", id="by a backward pass"),
        pytest.param(b"s = 'it\\'s'; import net\n", id="behind an escaped quote"),
        pytest.param(b's = "#"; import net\n', id="behind a number sign in a string"),
        pytest.param(b"# it's\rimport net\r", id="behind a comment that CR ends"),
        pytest.param("# coding: shift_jis\ns = '\u8868'; import net # '\n".encode("shift_jis"), id="in shift_jis"),
        pytest.param(b"import importlib\nm = importlib.import_module('net').Net()\n", id="imported by a name"),
        pytest.param(b"x = f'{\"'''''\"}'\nimport net\ny = '''a'''\n", id="behind quotes in a formatted string"),
        pytest.param(b"m = __import__('net').Net()\n", id="imported by a function"),
        pytest.param(b'x = 1\n# instrument: format=1 source="a" sha256=0 added=+1\n', id="instrumented"),
    ],
)
def test_is_looked_at(source: bytes) -> None:
    assert may_hold_site(source, Settings())


def test_a_standard_librarys_name_may_be_the_projects_own() -> None:
    source = b"from code.net import Net\nfrom code.loop import fit\nfit(Net())\n"
    assert not may_hold_site(source, Settings())
    assert may_hold_site(source, Settings(), {"code"}.__contains__)


def test_objects_that_are_moved_are_looked_at_by_those_who_want_guesses() -> None:
    source = b"x = make()\nx.to('cpu')\nx()\n"
    assert not may_hold_site(source, Settings())
    assert may_hold_site(source, Settings(min_confidence="possible"))
    decisions = instrument_source(source, Settings(), source_name="a.py").decisions
    assert {each.reason_code for each in decisions} <= PASSED_OVER


def test_every_way_to_modules_in_torch_has_one_of_the_words() -> None:
    patterns = [*catalogue._MODULE_BASES, *catalogue._MODULE_FACTORIES]
    patterns += [name for name, effect in catalogue._EFFECTS if effect is not catalogue.Effect.READS]
    patterns = [each for each in patterns if each.startswith("torch.")]
    assert patterns
    assert not [each for each in patterns if not set(each.split(".")) & set(catalogue.TORCH_WORDS)]


def test_users_own_factories_may_come_from_anywhere() -> None:
    assert may_hold_site(b"x = 1\n", Settings(factories=("numpy.build",)))


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/before.py")), ids=lambda path: path.parent.name)
def test_no_fixture_with_a_site_is_passed_over(path: Path) -> None:
    source = path.read_bytes()
    if not may_hold_site(source, Settings()):
        assert instrument_source(source, Settings(), source_name="before.py").decisions == ()


def test_nothing_of_an_installed_library_is_passed_over_wrongly() -> None:
    """Every twelfth file of torch's own sources below 20 kB: what is passed over holds no module indeed."""
    import torch

    root = Path(torch.__file__).parent
    paths = sorted(path for path in root.rglob("*.py") if path.stat().st_size < 20_000)[::12]
    passed = [path for path in paths if not may_hold_site(path.read_bytes(), Settings())]
    assert len(passed) > len(paths) / 20
    for path in passed:
        result = instrument_source(path.read_bytes(), Settings(), source_name=path.name)
        assert {decision.reason_code for decision in result.decisions} <= PASSED_OVER, path
