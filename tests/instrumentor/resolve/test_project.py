from __future__ import annotations

import ast

import pytest

from instrumentor.resolve.project import MAX_PROGRAM_UNITS, MAX_UNITS, Project, Sources
from instrumentor.resolve.unit import SCRIPT, Class, Function, Unit, index_unit
from instrumentor.source.nodes import imported_names

FILES = {
    "net.py": "class Net: pass\ndef build(): pass\nSIZE = 3\n",
    "pkg/__init__.py": "from .inner import Deep as Renamed\nfrom .more import *\nfrom . import inner\n",
    "pkg/inner.py": "class Deep: pass\nfrom ..net import Net\nimport torch\n",
    "pkg/more.py": "class Extra: pass\n",
    "broken.py": "def (:\n",
}


def test_what_the_catalogue_lists_of_a_package_is_told_by_it_in_the_repository_of_the_package() -> None:
    files = {"../src/transformers/__init__.py": b"class Trainer: pass\nclass Own: pass\n", "__init__.py": b""}
    script = index_unit(SCRIPT, "", ast.parse(""))
    beside = Sources({name: text for name, text in files.items() if name != "__init__.py"}.get, ("", "../src"))
    assert Project(script, sources=beside).lookup(script, "transformers.Trainer") == "transformers.Trainer"
    assert Project(script, sources=beside).lookup(script, "transformers") == "transformers"
    assert isinstance(Project(script, sources=beside).lookup(script, "transformers.Own"), Class)
    within = Sources(files.get, ("", "../src"))
    assert isinstance(Project(script, sources=within).lookup(script, "transformers.Trainer"), Class)


def test_the_package_of_the_repository_is_not_run_as_part_of_the_program() -> None:
    files = {"../src/accelerate/__init__.py": b"", "../src/accelerate/utils.py": b"def seed(): pass\n", "own.py": b""}
    script = index_unit(SCRIPT, "", ast.parse("import own\nfrom accelerate.utils import seed\n"))
    project = Project(script, sources=Sources(files.get, ("", "../src")))
    assert [unit.name for unit in project.imported_units()] == ["own.py"]


def project() -> Project:
    files = {name: text.encode() for name, text in FILES.items()}
    return Project(index_unit(SCRIPT, "", ast.parse("")), sources=Sources(files.get))


@pytest.mark.parametrize(
    ("dotted", "wanted"),
    [
        ("net.Net", ":Net@1"),
        ("net.build", ":build@2:0"),
        ("net", "net.py"),
        ("pkg", "pkg/__init__.py"),
        ("pkg.Renamed", "pkg/inner.py:Deep@1"),
        ("pkg.inner.Deep", "pkg/inner.py:Deep@1"),
        ("pkg.Extra", "pkg/more.py:Extra@1"),
        ("pkg.inner.Net", "net.py:Net@1"),
        ("pkg.inner.torch.nn", None),
        ("pkg.more", "pkg/more.py"),
        (".net.Net", "net.py:Net@1"),
        ("torch.nn.Linear", "torch.nn.Linear"),
        ("broken.Net", "broken.Net"),
        ("net.SIZE", None),
        ("net.missing", None),
    ],
)
def test_imports_lead_to_what_they_name(dotted: str, wanted: str | None) -> None:
    lookup = project()
    found = lookup.lookup(lookup.script, dotted)
    if isinstance(found, (Class, Function)):
        assert found.key.endswith(wanted or "nothing")
    elif isinstance(found, Unit):
        assert found.name == wanted
    else:
        assert found == wanted


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("import a", {"a": "a"}),
        ("import a.b.c", {"a": "a"}),
        ("import a.b as c, d", {"c": "a.b", "d": "d"}),
        ("from a.b import c as d", {"d": "a.b.c"}),
        ("from . import a", {"a": ".a"}),
        ("from ..a import b", {"b": "..a.b"}),
        ("from a import *", {"*": "a.*"}),
    ],
)
def test_the_names_of_an_import(statement: str, wanted: dict[str, str]) -> None:
    (node,) = ast.parse(statement).body
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    assert imported_names(node) == wanted


def test_each_file_is_read_once() -> None:
    asked: list[str] = []

    def read(name: str) -> bytes | None:
        asked.append(name)
        return FILES[name].encode() if name in FILES else None

    lookup = Project(index_unit(SCRIPT, "", ast.parse("")), sources=Sources(read))
    for _ in range(3):
        lookup.lookup(lookup.script, "pkg.Renamed")
    assert len(asked) == len(set(asked))


def test_of_imports_that_exclude_one_another_the_project_s_own_is_taken() -> None:
    source = "try:\n    from absent import Net\nexcept ImportError:\n    from net import Net\n"
    script = index_unit(SCRIPT, "", ast.parse(source))
    found = Project(script, sources=Sources({"net.py": b"class Net: pass"}.get)).member(script, "Net")
    assert isinstance(found, Class)
    assert found.unit.name == "net.py"


def test_absolute_imports_start_from_every_root_in_order() -> None:
    files = {"../src/pkg/net.py": b"class Net: pass", "../src/pkg/__init__.py": b"", "other.py": b"def f(): pass"}
    script = index_unit(SCRIPT, "", ast.parse("from pkg.net import Net\nimport other"))
    project = Project(script, sources=Sources(files.get, ("", "..", "../src")))
    found = project.member(script, "Net")
    assert isinstance(found, Class)
    assert found.unit.name == "../src/pkg/net.py"
    assert {unit.name for unit in project.imported_units()} == {
        "../src/pkg/net.py",
        "../src/pkg/__init__.py",
        "other.py",
    }
    assert project.root_of["../src/pkg/net.py"] == "../src"


def test_torch_is_never_taken_for_the_project_s() -> None:
    script = index_unit(SCRIPT, "", ast.parse("import torch"))
    project = Project(script, sources=Sources({"torch/__init__.py": b"", "torch/nn/__init__.py": b""}.get))
    assert project.lookup(script, "torch.nn.Linear") == "torch.nn.Linear"


def test_names_of_libraries_leave_room_for_the_files_that_are_there() -> None:
    looked_up = project()
    for number in range(300):
        name = f"library{number}.inner.Thing"
        assert looked_up.lookup(looked_up.script, name) == name
    assert isinstance(looked_up.lookup(looked_up.script, "net.Net"), Class)


def test_a_project_is_read_up_to_a_bound() -> None:
    files = {f"part{number}.py": b"class Net: pass\n" for number in range(MAX_UNITS + 1)}
    looked_up = Project(index_unit(SCRIPT, "", ast.parse("")), sources=Sources(files.get))
    found = [looked_up.lookup(looked_up.script, f"part{number}.Net") for number in range(len(files))]
    assert [isinstance(each, Class) for each in found] == [True] * MAX_UNITS + [False]


def test_more_is_read_of_a_program_than_of_a_script_s_neighbours() -> None:
    assert MAX_PROGRAM_UNITS > MAX_UNITS
    files = {f"part{number}.py": b"class Net: pass\n" for number in range(MAX_UNITS + 1)}
    script = index_unit(SCRIPT, "", ast.parse("".join(f"import part{number}\n" for number in range(len(files)))))
    program = Project(script, sources=Sources(files.get), max_units=MAX_PROGRAM_UNITS)
    assert len(program.imported_units()) == len(files)
