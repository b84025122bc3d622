"""Which modules calls of `import_module` may name, by what of their names is written."""

from __future__ import annotations

import ast

import pytest

from instrumentor.resolve.late_imports import late_imports
from instrumentor.resolve.project import Project, Sources
from instrumentor.resolve.unit import SCRIPT, Unit, index_unit
from instrumentor.settings import Settings


@pytest.mark.parametrize(
    ("source", "package", "name"),
    [
        ('import_module("models.net")', "models", "net"),
        ('importlib.import_module("models." + name)', "models", r"\w*"),
        ('import_module(f"models.{name}_model")', "models", r"\w*_model"),
        ('import_module("zoo.models.%s" % name)', "zoo.models", r"\w*"),
        ('import_module("models.net_{}".format(name))', "models", r"net_\w*"),
        ('file = "models." + name + "_model"\nimport_module(file)', "models", r"\w*_model"),
        ('def find(name):\n    file = "models." + name\n    return __import__(file)', "models", r"\w*"),
        ('PACKAGE = "models"\ndef find(name):\n    import_module(PACKAGE + "." + name)', "models", r"\w*"),
        ('import_module("." + name, package="models")', "models", r"\w*"),
        ('import_module("." + name, __package__)', ".", r"\w*"),
        ('import_module(f"{__package__}.methods.{name}")', ".methods", r"\w*"),
    ],
)
def test_what_is_written_of_a_name_is_known(source: str, package: str, name: str) -> None:
    (found,) = late_imports(index_unit(SCRIPT, "", ast.parse(source)))
    assert (found.package, found.name.pattern) == (package, name)


@pytest.mark.parametrize(
    "source",
    [
        "import_module(name)",
        'import_module("models" + name)',
        'import_module(f"{package}.net")',
        'import_module(f"models.{kind}.{name}")',
        'import_module("." + name, package)',
        'import_module("..models", __package__)',
        'import_module(f"{__name__}.{name}")',  # a module has no modules in it
        'file = "models." + name\nfile = "nets." + name\nimport_module(file)',
        'def find(file="models.net"):\n    import_module(file)',
        "import_module()",
    ],
)
def test_a_computed_package_is_none(source: str) -> None:
    assert list(late_imports(index_unit(SCRIPT, "", ast.parse(source)))) == []


def test_a_package_knows_its_own_name() -> None:
    package = index_unit("tasks/__init__.py", "tasks", ast.parse('import_module(f"{__name__}.{name}")'))
    (found,) = late_imports(package)
    assert (found.package, found.name.pattern) == (".", r"\w*")


def test_a_program_has_the_files_that_its_calls_import() -> None:
    files = {
        "models/__init__.py": b'import importlib\ndef load(name):\n    importlib.import_module("models.net_" + name)\n',
        "models/net_a.py": b"from . import blocks\n",
        "models/net_b.py": b"",
        "models/other.py": b"",
        "models/blocks.py": b"",
    }
    folders = {"models": ["blocks", "net_a", "net_b", "other"]}
    script = index_unit(SCRIPT, "", ast.parse("from models import load"))
    sources = Sources(files.get, modules_in=lambda folder: folders.get(folder, []))
    found = Project(script, Settings(), sources).imported_units()
    assert all(isinstance(each, Unit) for each in found)
    assert {each.name for each in found} == {f"models/{name}.py" for name in ("__init__", "net_a", "net_b", "blocks")}
