from __future__ import annotations

import ast

import pytest

from instrumentor.resolve.added_folders import added_folders
from instrumentor.resolve.project import Project, Sources
from instrumentor.resolve.unit import SCRIPT, Class, index_unit


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        pytest.param("sys.path.append('..')", ("..",), id="a relative path"),
        pytest.param("sys.path.insert(0, '.')", ("",), id="the folder itself"),
        pytest.param("sys.path.append('/opt/lib')", (), id="an absolute path"),
        pytest.param("sys.path.append(os.path.expanduser('~/lib'))", (), id="a path in the user's folder"),
        pytest.param("sys.path.append(os.path.dirname(os.path.abspath(__file__)))", ("",), id="the script's folder"),
        pytest.param(
            "sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))", ("..",), id="the one above"
        ),
        pytest.param("sys.path.append(os.path.join(os.path.dirname(__file__), 'src'))", ("src",), id="a folder in it"),
        pytest.param("sys.path.append(os.path.dirname(__file__) + '/../lib')", ("../lib",), id="by a sum of texts"),
        pytest.param("sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir))", ("..",), id="by pardir"),
        pytest.param("sys.path.append(str(Path(__file__).resolve().parent.parent))", ("..",), id="by parents"),
        pytest.param("sys.path.append(str(Path(__file__).parents[1] / 'lib'))", ("../lib",), id="by a numbered parent"),
        pytest.param("sys.path.append(Path(__file__).parent.joinpath('lib').as_posix())", ("lib",), id="by joinpath"),
        pytest.param("sys.path.append(os.path.split(__file__)[0])", ("",), id="by split"),
        pytest.param("ROOT = Path(__file__).parents[0]\nsys.path.append(str(ROOT))", ("",), id="by a name"),
        pytest.param("sys.path += ['a', 'b']", ("a", "b"), id="several at once"),
        pytest.param("sys.path.extend(['a', f'{b}'])", ("a",), id="one that is computed among them"),
        pytest.param("import site\nsite.addsitedir('lib')", ("lib",), id="with the path files in it"),
        pytest.param("def main():\n    sys.path.append('lib')", ("lib",), id="in a function"),
        pytest.param("sys.path.append(args.root)", (), id="by an option"),
        pytest.param("folder = folder\nsys.path.append(folder)", (), id="by a name that is itself"),
        pytest.param("sys.path.remove('lib')", (), id="taken away"),
    ],
)
def test_folders_that_a_script_adds(text: str, folders: tuple[str, ...]) -> None:
    script = index_unit(SCRIPT, "", ast.parse(f"import os, sys\nfrom pathlib import Path\n{text}\n"))
    assert added_folders(script.tree, script.parents, script.imports) == folders


def test_imports_start_from_a_folder_that_is_added() -> None:
    files = {"../models/net.py": b"class Net: pass\n", "../models/__init__.py": b""}
    script = index_unit(SCRIPT, "", ast.parse("import sys\nsys.path.append('..')\nfrom models.net import Net\n"))
    assert isinstance(Project(script, sources=Sources(files.get)).lookup(script, "models.net.Net"), Class)
