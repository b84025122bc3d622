"""Annotations as evidence of what an object is whose class cannot be seen."""

from __future__ import annotations

from textwrap import dedent

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.resolve.outline_cache import OutlineCache
from instrumentor.resolve.project import Sources
from instrumentor.resolve.unit_cache import UnitCache
from instrumentor.settings import Settings

HEAD = """\
import torch, typing
from torch import nn
from typing import Callable, Optional, Union
from lightning import LightningModule, Trainer
from lib import make, run
"""
FIRST = HEAD.count("\n")


def wraps(body: str, **files: str) -> dict[int, str]:
    """The reasons of the proxies by their lines in the body; the same whether screened before or not."""
    siblings = {f"{name}.py": dedent(text).encode() for name, text in files.items()}
    source, sources = (HEAD + dedent(body).lstrip("\n")).encode(), Sources(siblings.get)
    whole = instrument_source(source, Settings(), source_name="x.py", sources=sources)
    outlines = OutlineCache(UnitCache(), None)
    screened = instrument_source(source, Settings(), source_name="x.py", sources=sources, outlines=outlines)
    assert screened.instrumented == whole.instrumented
    return {each.line - FIRST: each.reason for each in whole.decisions if each.verdict == "wrap"}


DECLARED = "its class is unknown, but it is declared as a module"
USED = "its class is unknown, but it is used as a module"


@pytest.mark.parametrize(
    "annotation",
    [
        "nn.Module",
        "torch.nn.Module",
        "LightningModule",
        "Own",
        '"Own"',
        "Optional[nn.Module]",
        "nn.Module | None",
        'Union["Own", LightningModule, None]',
        "typing.Final[nn.Module]",
    ],
)
def test_what_is_declared_as_a_module_is_one(annotation: str) -> None:
    body = f"""
        class Own(nn.Module): pass
        model: {annotation} = make()
        run(model)
    """
    assert wraps(body) == {2: DECLARED}


@pytest.mark.parametrize(
    "annotation",
    [
        "object",
        "typing.Any",
        "Callable",
        "Unknown",
        "'not one'",
        "list[nn.Module]",
        "nn.Module | str",
        "Union[nn.Module, Callable[[int], int]]",
        "type[nn.Module]",
        "Trainer",
        "nn.Parameter",
    ],
)
def test_other_annotations_make_no_module_of_it(annotation: str) -> None:
    assert wraps(f"model: {annotation} = make()\nrun(model)") == {}


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param("model: nn.Module\nmodel = make()\nrun(model)", 2, id="a variable declared before"),
        pytest.param("model: nn.Module | None = None\nmodel = make()\nrun(model)", 2, id="a variable stored to later"),
        pytest.param("model, x = make()\ndef go(model: nn.Module):\n    run(model)\ngo(model)", 1, id="a parameter"),
        pytest.param("def go(*models: nn.Module):\n    run(models)\ngo(make())", 3, id="several parameters"),
        pytest.param(
            "def give() -> nn.Module:\n    return make()\nmodel = give()\nrun(model)", 3, id="what is returned"
        ),
        pytest.param(
            "def give() -> tuple[nn.Module, int]:\n    return make(), 1\nmodel, x = give()\nrun(model)",
            3,
            id="in a tuple returned",
        ),
        pytest.param(
            """
            class Holder:
                model: nn.Module
                def __init__(self):
                    self.model = make()
                def go(self):
                    run(self.model)
            Holder().go()
            """,
            4,
            id="an attribute declared in its class",
        ),
        pytest.param(
            """
            class Base:
                def __init__(self):
                    self.model: nn.Module | None = None
            class Holder(Base):
                def build(self):
                    self.model = make()
            Holder().build()
            """,
            6,
            id="an attribute declared in a method of a class above",
        ),
        pytest.param("cfg = make()\nmodel: nn.Module = cfg.model\nrun(model)", 2, id="what is fetched"),
    ],
)
def test_an_annotation_speaks_for_what_it_stands_at(body: str, line: int) -> None:
    assert wraps(body) == {line: DECLARED}


def test_functions_of_other_files_declare_what_they_take_and_give() -> None:
    files = {
        "zoo": "from torch import nn\nfrom lib import make\ndef give() -> nn.Module:\n    return make()\n",
        "train": "from torch import nn\nfrom lib import run\ndef train(model: nn.Module):\n    run(model)\n",
    }
    body = """
        from zoo import give
        from train import train
        one = give()
        two = make()
        train(two)
    """
    assert wraps(body, **files) == {3: DECLARED, 4: DECLARED}


def test_a_class_of_another_file_declares_what_those_below_it_keep() -> None:
    body = """
        from base import Base
        class Holder(Base):
            def build(self):
                self.model = make()
        Holder().build()
    """
    assert wraps(body, base="from torch import nn\nclass Base:\n    model: nn.Module\n") == {4: DECLARED}


@pytest.mark.parametrize(
    "body",
    [
        "model = make()\ntrainer: Trainer = make()\ntrainer.fit(model=model)",
        "model = make()\ntrainer: Optional[Trainer] = make()\ntrainer.fit(model)",
        "model = make()\ndef go(trainer: Trainer):\n    trainer.fit(model)\ngo(make())",
        "model = make()\ndef give() -> Trainer:\n    return make()\ntrainer = give()\ntrainer.fit(model)",
    ],
)
def test_what_a_declared_trainer_fits_is_a_module(body: str) -> None:
    assert wraps(body) == {1: USED}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("model: nn.Module = 3\nrun(model)", id="a number"),
        pytest.param("model: nn.Module = torch.zeros(3)\nrun(model)", id="a tensor"),
        pytest.param("model: nn.Module = open('x')\nrun(model)", id="a file"),
    ],
)
def test_what_is_known_as_no_module_is_made_none(body: str) -> None:
    assert wraps(body) == {}
