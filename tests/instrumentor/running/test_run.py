"""A program under `instrument run` is what it is under `python`: output, errors, exit code, to the byte."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.instrumentor.running.conftest import plainly, run_in, split_last_line, traced
from tests.instrumentor.running.programs import PLAIN

if TYPE_CHECKING:
    from pathlib import Path

SILENT = {"killed", "terminated", "a syntax error"}
"""What ends before a line can be said."""


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", PLAIN)
def test_a_program_does_the_same(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    encoding = "latin-1" if "latin" in PLAIN[name] else "utf-8"
    (folder / "program.py").write_bytes(dedent(PLAIN[name]).encode(encoding))
    arguments = ("program.py", "--epochs", "1")
    plain = run_in(folder, plainly(*arguments), stdin="one\ntwo\n")
    with_proxies = run_in(folder, traced(*arguments), stdin="one\ntwo\n")
    err, last = split_last_line(with_proxies.err)
    assert with_proxies._replace(err=err) == plain
    assert bool(last) == (name not in SILENT)


@pytest.mark.parametrize(
    "path", ["./program.py", "sub/../program.py", "sub/link.py", "sub", "missing.py", "sub/program.zip"]
)
def test_whatever_names_a_script_names_it_as_python_does(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    text = dedent(PLAIN["names and arguments"])
    (folder / "program.py").write_text(text)
    (folder / "sub" / "__main__.py").write_text(text)
    (folder / "sub" / "link.py").symlink_to(folder / "program.py")
    import zipfile

    with zipfile.ZipFile(folder / "sub" / "program.zip", "w") as archive:
        archive.writestr("__main__.py", text)
    plain = run_in(folder, plainly(path, "x"))
    with_proxies = run_in(folder, traced(path, "x"))
    assert with_proxies._replace(err=split_last_line(with_proxies.err)[0]) == plain


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["names and arguments", "an exception with its chain", "the stack"])
@pytest.mark.parametrize("module", ["package.part", "package", "nowhere.part", "package.nowhere"])
def test_a_module_does_the_same(name: str, module: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("import sys; print('package', sys.argv)\n")
    for file in ("part.py", "__main__.py"):
        text = dedent(PLAIN[name]).replace("traceback.print_stack()", "").replace("print([(", "([(")
        (folder / "package" / file).write_text(text.replace("print(deep())", ""))
    plain = run_in(folder, plainly("-m", module, "--epochs", "1"))
    with_proxies = run_in(folder, traced("-m", module, "--epochs", "1"))
    assert with_proxies._replace(err=split_last_line(with_proxies.err)[0]) == plain


@pytest.mark.parametrize("flag", ["-O", "-I", "-u", "-Wignore", "-E", "-Xdev"])
def test_the_interpreter_has_the_options_of_this_one(flag: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "program.py").write_text(
        dedent(PLAIN["names and arguments"]).replace("sys.path[0],", "") + "assert not __debug__ or print('debug')\n"
    )
    plain = run_in(folder, plainly(flag, "program.py"))
    command = traced("program.py")
    with_proxies = run_in(folder, [command[0], flag, *command[1:]])
    assert with_proxies._replace(err=split_last_line(with_proxies.err)[0]) == plain


def test_nothing_is_written_beside_the_script(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "program.py").write_text("import torch.nn as nn\nmodel = nn.Linear(2, 2)\nprint(model)\n")
    done = run_in(folder, traced("program.py"))
    assert done.code == 0, done.err
    assert sorted(each.name for each in folder.iterdir()) == ["program.py", "proxy_trace"]


def test_a_path_that_is_called_run_is_given_with_a_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "train.py").write_text("import torch.nn as nn\nmodel = nn.Linear(2, 2)\n")
    done = run_in(tmp_path, [*traced()[:-1], "./run", "--check"])
    assert (done.code, "would be instrumented" in done.err) == (1, True)


def test_what_cannot_be_instrumented_runs_untraced_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "program.py").write_text("print('out')\n")
    (folder / "pyproject.toml").write_text("[tool.instrumentor]\nnonsense = 1\n")
    done = run_in(folder, traced("program.py"))
    assert (done.code, done.out) == (0, "out\n")
    assert "nonsense is not a setting of this tool" in done.err
    assert "runs untraced" in done.err
