"""Other files as libraries: every name of theirs leads back to what it means, and libraries keep their names."""

from __future__ import annotations

from instrumentor.resolve.nature import Nature
from instrumentor.resolve.unit import Class, Function
from instrumentor.screening.neighbours import is_of_neighbour
from tests.instrumentor.screening.outlined import project_of

FILES = {
    "zoo.py": """
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x): ...
            @classmethod
            def small(cls):
                return cls()
        class Tool:
            def use(self): ...
        TABLE = {"net": Net}
        def first(): ...
        def second(): ...
        """
}
SCRIPT = """
    import zoo
    from zoo import Net, first, second, TABLE
    import torch
    class Mine(Net): ...
    """


def test_definitions_of_other_files_have_names_of_their_own() -> None:
    project = project_of(SCRIPT, FILES)
    names = [project.lookup(project.script, f"zoo.{each}") for each in ("Net", "first", "second", "TABLE")]
    assert len(set(names)) == len(names)
    assert all(isinstance(each, str) and is_of_neighbour(each) for each in names)
    meanings = [project.neighbours.meaning(each) for each in names if isinstance(each, str)]
    assert isinstance(meanings[0], Class)
    assert [each.name for each in meanings[1:3] if isinstance(each, Function)] == ["first", "second"]
    assert meanings[3] is None


def test_a_member_of_a_file_has_one_name_however_it_is_reached() -> None:
    project = project_of(SCRIPT, FILES)
    unit = project.lookup(project.script, "zoo")
    assert project.lookup(project.script, f"{unit}.Net") == project.member(project.script, "Net")


def test_the_scripts_own_definitions_and_libraries_keep_their_meanings() -> None:
    project = project_of(SCRIPT, FILES)
    assert isinstance(project.member(project.script, "Mine"), Class)
    assert project.lookup(project.script, "torch.nn.Linear") == "torch.nn.Linear"


def test_a_library_that_another_file_imports_is_known_as_itself() -> None:
    project = project_of(SCRIPT, FILES)
    name = f"{project.lookup(project.script, 'zoo')}.torch.nn.Linear"
    assert project.neighbours.meaning(name) == "torch.nn.Linear"
    assert project.knowledge.nature_of_call(name) is Nature.MODULE


def test_what_a_variable_of_another_file_gives_is_a_module_unless_the_method_is_one_of_plain_values() -> None:
    project = project_of(SCRIPT, FILES)
    table = project.lookup(project.script, "zoo.TABLE")
    assert project.knowledge.nature_of_call(f"{table}.*") is Nature.MODULE
    assert project.knowledge.nature_of_call(f"{table}.build") is Nature.MODULE
    assert project.knowledge.nature_of_call(f"{table}.items") is Nature.UNKNOWN


def test_module_classes_of_other_files_are_bases_with_parameters() -> None:
    project = project_of(SCRIPT, FILES)
    net, tool = (str(project.lookup(project.script, f"zoo.{each}")) for each in ("Net", "Tool"))
    assert project.knowledge.nature_of_base(net) is Nature.MODULE
    assert project.knowledge.is_module_class(net)
    assert project.knowledge.nature_of_base(tool) is Nature.NOT_MODULE


def test_a_method_of_another_files_class_is_judged_by_its_outline() -> None:
    project = project_of(SCRIPT, FILES)
    net = project.lookup(project.script, "zoo.Net")
    assert project.knowledge.nature_of_call(f"{net}.small") is Nature.MODULE
