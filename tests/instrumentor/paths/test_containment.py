from __future__ import annotations

import os
from pathlib import Path

import pytest

from instrumentor.errors import OutputLeadsOutError
from instrumentor.paths.containment import is_within, refuse_dangling, refuse_to_leave

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside" / "folder").mkdir(parents=True)
    (tmp_path / "here" / "folder").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.parametrize(
    ("link", "target"),
    [
        pytest.param("a.py", "../outside/new.py", id="a file that is not there"),
        pytest.param("a.py", "../outside/folder", id="something that is there"),
        pytest.param("a.py", "../outside/new/folder/a.py", id="a folder that is not there"),
        pytest.param("a.py", "/nowhere/a.py", id="an absolute path"),
        pytest.param("a.py", "folder/../../outside/a.py", id="a way around"),
        pytest.param("folder/link", "../../outside", id="a folder above"),
    ],
)
def test_a_link_that_leads_out_is_refused(link: str, target: str) -> None:
    Path(link).symlink_to(target)
    path = Path(link) / "a.py" if link.endswith("link") else Path(link)
    with pytest.raises(OutputLeadsOutError, match=rf"^{path}: points outside \., to /"):
        refuse_to_leave(path, Path())
    assert not is_within(path, Path())


def test_a_link_through_another_link_is_refused() -> None:
    Path("first.py").symlink_to("folder/second.py")
    Path("folder/second.py").symlink_to("../../outside/new.py")
    assert not is_within(Path("first.py"), Path())


@pytest.mark.parametrize("target", ["folder/new.py", "new.py", "../here/folder/a.py"])
def test_a_link_that_stays_is_none_of_these(target: str) -> None:
    Path("a.py").symlink_to(target)
    refuse_to_leave(Path("a.py"), Path())
    refuse_dangling(Path("a.py"))


def test_a_directory_may_itself_be_behind_a_link() -> None:
    Path("link").symlink_to("../outside")
    refuse_to_leave(Path("link/a.py"), Path("link"))


def test_a_neighbour_of_the_same_beginning_lies_outside() -> None:
    assert not is_within(Path("../outside/folders/a.py"), Path("../outside/folder"))


def test_a_file_that_is_named_may_be_a_link_to_something_that_is_there() -> None:
    Path("../outside/a.py").write_text("")
    Path("a.py").symlink_to("../outside/a.py")
    refuse_dangling(Path("a.py"))
    Path("../outside/a.py").unlink()
    with pytest.raises(OutputLeadsOutError):
        refuse_dangling(Path("a.py"))
