"""What a program becomes is kept, and made anew as soon as anything that it depends on has changed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from instrumentor import entry
from instrumentor.configuration import Section
from instrumentor.engine import work
from instrumentor.running.program import Choices, Prepared, find_script, prepare

if TYPE_CHECKING:
    from pathlib import Path

NET = "import torch.nn as nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
MODELS = NET + "\ndef make():\n    return Net()\n"
TRAIN = "from net import make\n\nmodel = make()\nmodel(1)\n"
START = "import train\n\nprint(train.model)\n"


class Analysed(Exception):  # noqa: N818  It is no error.
    """The program is analysed."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "classes.py").write_text(NET)
    (folder / "net.py").write_text(MODELS)
    (folder / "train.py").write_text(TRAIN)
    (folder / "start.py").write_text(START)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def choices(tmp_path: Path) -> Choices:
    return Choices(Section(), cache_dir=str(tmp_path / "cache"))


def refuse(*_: object, **__: object) -> None:
    raise Analysed


def prepared_without_analysis(name: str, choices: Choices) -> Prepared:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "process", refuse)
        patch.setattr(entry, "process_program", refuse)
        return prepare(find_script(name), choices)


@pytest.mark.parametrize(
    ("script", "changed"),
    [
        pytest.param("train.py", ["train.py"], id="a script"),
        pytest.param("start.py", ["train.py"], id="a script whose project makes the models"),
        pytest.param("classes.py", [], id="a script that makes none"),
    ],
)
def test_a_program_is_analysed_once(script: str, changed: list[str], project: Path, choices: Choices) -> None:
    first = prepare(find_script(script), choices)
    assert [path for path, _, _ in first.files] == [str(project / name) for name in changed]
    assert all(b"Proxy.Proxy(" in result for _, _, result in first.files)
    assert bool(first.hint) == (not changed)
    assert prepared_without_analysis(script, choices) == first


@pytest.mark.parametrize("script", ["train.py", "start.py"])
@pytest.mark.parametrize("name", ["net.py", "train.py", "start.py"])
def test_a_program_of_which_a_file_has_changed_is_analysed_again(
    script: str, name: str, project: Path, choices: Choices
) -> None:
    before = prepare(find_script(script), choices)
    (project / name).write_text((project / name).read_text() + "\nother = 1\n")
    if (script, name) == ("train.py", "start.py"):  # It does not import it.
        assert prepared_without_analysis(script, choices) == before
        return
    with pytest.raises(Analysed):
        prepared_without_analysis(script, choices)
    changed = {path: original for path, original, _ in prepare(find_script(script), choices).files}
    assert changed == {path: (project / path).read_bytes() for path in changed}


def test_a_file_that_a_computed_name_may_import_is_waited_for(project: Path, choices: Choices) -> None:
    (project / "models").mkdir()
    (project / "models" / "first.py").write_text(MODELS + "\nmodel = make()\nmodel(1)\n")
    (project / "choose.py").write_text(
        'import sys\nfrom importlib import import_module\n\nprint(import_module("models." + sys.argv[1]).model)\n'
    )
    choices = dataclasses.replace(choices, entry=True)
    first = prepare(find_script("choose.py"), choices)
    assert [path for path, _, _ in first.files] == [str(project / "models" / "first.py")]
    assert prepared_without_analysis("choose.py", choices) == first
    (project / "models" / "__pycache__").mkdir()
    assert prepared_without_analysis("choose.py", choices) == first
    (project / "models" / "second.py").write_text(MODELS + "\nmodel = make()\nmodel(2)\n")
    names = [path for path, _, _ in prepare(find_script("choose.py"), choices).files]
    assert names == [str(project / "models" / name) for name in ("first.py", "second.py")]


def test_other_settings_give_another_program(project: Path, choices: Choices) -> None:
    prepare(find_script("train.py"), choices)
    (project / "pyproject.toml").write_text('[tool.instrumentor]\nlog-level = "DEBUG"\n')
    ((_, _, result),) = prepare(find_script("train.py"), choices).files
    assert b"Proxy.DEBUG" in result


def test_with_entry_a_program_is_another_one(project: Path, choices: Choices) -> None:
    alone = prepare(find_script("train.py"), choices)
    whole = prepare(find_script("train.py"), Choices(Section(), entry=True, cache_dir=choices.cache_dir))
    assert alone.files
    assert whole.files
    assert prepared_without_analysis("train.py", choices) == alone


def test_nothing_is_kept_without_a_cache(project: Path, tmp_path: Path) -> None:
    choices = Choices(Section(), cache=False, cache_dir=str(tmp_path / "cache"))
    prepare(find_script("train.py"), choices)
    with pytest.raises(Analysed):
        prepared_without_analysis("train.py", choices)
    assert not (tmp_path / "cache").exists()


def test_a_program_that_cannot_be_instrumented_is_looked_at_anew(project: Path, choices: Choices) -> None:
    (project / "broken.py").write_text("def f(:\n")
    assert prepare(find_script("broken.py"), choices).failure
    with pytest.raises(Analysed):
        prepared_without_analysis("broken.py", choices)
