"""What is read and visited of the files that a script imports from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from instrumentor.analysis.fixpoint import analyse
from instrumentor.analysis.touched import attribute
from instrumentor.analysis.values import Made
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.project import Project, Sources
from instrumentor.resolve.unit import SCRIPT, index_unit
from instrumentor.settings import Settings
from instrumentor.source.source_text import decode, parse

if TYPE_CHECKING:
    from instrumentor.analysis.facts import Facts

NET = b"from torch import nn\nnet = nn.Linear(2, 2)\n"


def analysed(script: bytes, **files: bytes) -> tuple[Facts, Project]:
    named = {f"{name.replace('__', '/')}.py": content for name, content in files.items()}
    named["package/__init__.py"] = named.pop("package.py", b"")
    tree = parse(decode(script, source_name="script.py"), source_name="script.py")
    project = Project(index_unit(SCRIPT, "", tree), Settings(), Sources(named.get))
    return analyse(project)[0], project


def makers(facts: Facts, name: str) -> set[str]:
    """The files in which the objects are made that a name of the script may hold."""
    return {atom.site.unit for atom in facts.scopes[SCRIPT, name] if isinstance(atom, Made)}


def test_a_variable_is_found_through_files_that_hand_it_on() -> None:
    facts, _ = analysed(
        b"from package import net\nmodel = net\n",
        package=b"from .shared import net\n",
        package__shared=b"from .models import net\n",
        package__models=NET,
    )
    assert makers(facts, "model") == {"package/models.py"}


def test_a_variable_handed_on_may_be_replaced_there() -> None:
    facts, _ = analysed(
        b"from package import net\nmodel = net\n",
        package=b"from torch import nn\nfrom .models import net\nif net is None:\n    net = nn.Linear(3, 3)\n",
        package__models=NET,
    )
    assert makers(facts, "model") == {"package/__init__.py", "package/models.py"}


def test_a_variable_handed_on_may_come_from_either_of_two_files() -> None:
    facts, _ = analysed(
        b"from package import net\nmodel = net\n",
        package=b"try:\n    from .fast import net\nexcept ImportError:\n    from .models import net\n",
        package__fast=NET,
        package__models=NET,
    )
    assert makers(facts, "model") == {"package/fast.py", "package/models.py"}


def test_files_that_import_a_variable_from_each_other_come_to_an_end() -> None:
    facts, _ = analysed(
        b"from package.a import net\nmodel = net\n",
        package__a=b"from .b import net\n",
        package__b=b"from .a import net\n",
    )
    assert makers(facts, "model") == set()


def test_what_another_file_imports_is_read_when_something_asks_for_it() -> None:
    files = {
        "package": b"from .models import net\nfrom .heavy import load\n\ndef use():\n    return load()\n",
        "package__models": NET,
        "package__heavy": b"def load():\n    return 1\n",
    }
    _, unasked = analysed(b"from package import net\nmodel = net\n", **files)
    _, asked = analysed(b"from package import net, use\nmodel = use() or net\n", **files)
    assert "package/heavy.py" not in unasked.units
    assert asked.units["package/heavy.py"] is not None


def test_functions_of_another_file_are_analysed_when_they_are_called_or_handed_out() -> None:
    facts, _ = analysed(
        b"import print_later\nfrom package import net, first, second, unused\n"
        b"first()\nprint_later.register(second)\nmodel = net\n",
        package=NET + b"def first(): ...\ndef second(net): net.eval()\ndef unused(): ...\n",
    )
    demanded = {function.name for function in facts.demanded_functions.values()}
    assert demanded == {"first", "second"}


def test_a_mixin_handed_out_does_not_open_the_modules_that_have_it() -> None:
    facts, _ = analysed(
        b"from package import Mixin\nimport unseen\nunseen.use(Mixin())\n",
        package=b"from torch import nn\n"
        b"class Mixin:\n    def share(self): ...\n"
        b"class Net(nn.Module, Mixin):\n    def load(self): ...\n"
        b"class Plain(Mixin):\n    def store(self): ...\n",
    )
    opened = {function.name for function in facts.demanded_functions.values()}
    assert "load" not in opened
    assert "share" in opened


def test_what_methods_behind_operators_change_is_noted_once_there_is_an_instance() -> None:
    package = (
        b"class Turning:\n"
        b"    def __iter__(self):\n        self.net = None\n        return iter(())\n"
        b"    def stop(self):\n        self.last = None\n"
        b"class Unused:\n    def __iter__(self):\n        self.other = None\n        return iter(())\n"
    )
    facts, _ = analysed(b"from package import Turning, Unused\nmodel = Turning()\n", package=package)
    assert [name for name in ("net", "last", "other") if facts.touched.is_unseen(attribute(name))] == ["net"]
    assert not facts.demanded_functions


@pytest.mark.parametrize("picked", ["package.__dict__[name]", "getattr(package, name)", "vars(package)[name]"])
def test_a_name_picked_from_a_package_may_be_any_that_it_gets_from_its_files(picked: str) -> None:
    facts, _ = analysed(
        b"import package\nmodel = " + picked.encode() + b"(3)\n",
        package=b"from .models import *\n",
        package__models=b"from .small import *\n",
        package__small=b"from torch import nn\ndef build(size):\n    return nn.Linear(size, size)\n",
    )
    assert makers(facts, "model") == {SCRIPT}
    (site,) = [site for key, site in facts.sites.items() if key.unit == SCRIPT]
    assert site.nature is Nature.MODULE
