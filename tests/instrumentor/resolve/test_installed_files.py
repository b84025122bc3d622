"""Modules are found as an interpreter would find them, and never run."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from instrumentor.resolve.facts_cache import FactsCache
from instrumentor.resolve.installed_files import InstalledFiles
from instrumentor.resolve.knowledge import Knowledge
from instrumentor.resolve.libraries import Libraries
from instrumentor.resolve.module_facts import ModuleFacts
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.search_path import SearchPaths, environment_folders, package_folders
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

NET = "import torch.nn as nn\nclass Net(nn.Module):\n    def __init__(self):\n        self.layer = nn.Linear(1, 1)\n"
BOMB = "raise SystemExit('this file was run')\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for path, source in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(dedent(source))
    return root


def test_nothing_is_run(tmp_path: Path) -> None:
    site = write(tmp_path, {"lib/__init__.py": BOMB + "from .net import Net", "lib/net.py": BOMB + NET})
    assert Knowledge(Settings(), InstalledFiles([site])).nature_of_call("lib.Net") is Nature.MODULE


@pytest.mark.parametrize(
    ("files", "name", "shown"),
    [
        pytest.param({"a/one.py": ""}, "one", "one.py", id="a module"),
        pytest.param({"a/one/__init__.py": "", "b/one.py": ""}, "one", "one/__init__.py", id="a package first"),
        pytest.param(
            {"a/one/two.py": "", "b/one/three.py": ""}, "one.three", "one/three.py", id="a namespace's portion"
        ),
        pytest.param({"a/one/two.py": "", "b/one.py": ""}, "one", "one.py", id="a module before a namespace"),
    ],
)
def test_where_a_module_is_found(tmp_path: Path, files: dict[str, str], name: str, shown: str) -> None:
    write(tmp_path, files)
    found = InstalledFiles([tmp_path / "a", tmp_path / "b"]).find(name)
    assert found is not None
    assert found.path == shown


def test_path_files_and_editable_installs(tmp_path: Path) -> None:
    two = str(tmp_path / "src" / "two")
    write(
        tmp_path,
        {
            "site/old.pth": "# a comment\n../old\nimport os; os.abort()\n/nowhere\n",
            "old/one.py": NET,
            "site/__editable___two_0_1_finder.py": f"MAPPING: dict[str, str] = {{'two': {two!r}}}\n{BOMB}",
            "src/two/__init__.py": NET,
        },
    )
    files = InstalledFiles([tmp_path / "site"])
    assert files.exists("one")
    assert files.exists("two")
    assert not files.exists("three")


def test_files_that_are_no_python_are_not_there(tmp_path: Path) -> None:
    site = write(tmp_path, {"old.py": "print 'two'", "zero.py": "x = '\0'"})
    assert InstalledFiles([site]).find("old") is None
    assert InstalledFiles([site]).find("zero") is None
    assert Knowledge(Settings(), InstalledFiles([site])).nature_of_call("old.Net") is Nature.UNKNOWN


def test_with_a_warm_cache_nothing_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = write(tmp_path / "site", {"lib/__init__.py": "from .net import Net", "lib/net.py": NET})
    cache = FactsCache(tmp_path / "cache", "modules", "1", ModuleFacts)
    assert Knowledge(Settings(), InstalledFiles([site], cache)).nature_of_call("lib.Net") is Nature.MODULE
    monkeypatch.setattr("instrumentor.resolve.installed_files.read_facts", lambda _: pytest.fail("was parsed again"))
    assert Knowledge(Settings(), InstalledFiles([site], cache)).nature_of_call("lib.Net") is Nature.MODULE
    (site / "lib/net.py").write_text("class Net: ...")
    monkeypatch.undo()
    assert Knowledge(Settings(), InstalledFiles([site], cache)).nature_of_call("lib.Net") is Nature.NOT_MODULE


def test_the_project_s_environment_comes_before_this_interpreter_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    packages = tmp_path / ".venv/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    assert environment_folders(tmp_path / ".venv") == [packages.resolve()]
    assert package_folders([], tmp_path)[0] == packages.resolve()
    assert len(package_folders([], tmp_path)) > 1
    assert package_folders([tmp_path / ".venv"], None) == [packages.resolve()]
    assert package_folders([tmp_path], None) == [tmp_path]


def test_the_folders_that_imports_start_from(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": "", "src/pkg/__init__.py": "", "src/pkg/tools/__init__.py": "", "run/x.py": ""})
    assert SearchPaths().roots(str(tmp_path / "run")) == ("", "..", "../src")
    assert SearchPaths().roots(str(tmp_path / "src/pkg/tools")) == ("", "../..", "../../..")
    assert SearchPaths().roots(str(tmp_path)) == ("", "src")


def test_what_was_read_for_one_script_is_there_for_the_next(tmp_path: Path) -> None:
    libraries = Libraries()
    folders = (str(tmp_path),)
    assert libraries.at(folders, None) is libraries.at(folders, None)
    assert libraries.at(folders, str(tmp_path / "cache")) is not libraries.at(folders, None)
