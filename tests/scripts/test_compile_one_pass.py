"""A wheel has the compiled library where there is a C compiler, and is as good for any platform where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from scripts.compile_one_pass import LIBRARY, SOURCE

if TYPE_CHECKING:
    from pathlib import Path

ROOT = SOURCE.parents[4]

# Stands for a compiler, which takes seconds: writes what it was asked to define into the file that it was asked for.
COMPILER = """
import sys
output = sys.argv[sys.argv.index("-o") + 1]
open(output, "w").write(next(each for each in sys.argv if each.startswith("-D")))
"""


def run(*command: str, compiler: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CC": compiler}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def built_wheel(folder: Path, compiler: str) -> tuple[Path, set[str]]:
    """A wheel, and the names of the files in it."""
    pytest.importorskip("hatchling", reason="hatchling, which builds wheels, is not installed")
    done = run("-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder), compiler=compiler)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel, set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture
def compiler(tmp_path: Path) -> str:
    script = tmp_path / "compiler.py"
    script.write_text(COMPILER)
    return f"{sys.executable} {script}"


def test_without_a_compiler_one_line_says_what_happens() -> None:
    done = run("scripts/compile_one_pass.py", compiler="/no/such/compiler")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "one_pass.c was not compiled (no C compiler was found); tensors will be read by torch's functions.\n"
    )


def test_a_compiler_that_fails_is_named() -> None:
    done = run("scripts/compile_one_pass.py", compiler="/bin/false --this")
    assert done.returncode == 1
    assert "(/bin/false --this failed)" in done.stderr


def test_a_wheel_that_is_built_without_a_compiler_is_for_any_platform(tmp_path: Path) -> None:
    wheel, names = built_wheel(tmp_path, "/bin/false")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert f"proxy_wrapper/values/native/{SOURCE.name}" in names
    assert not [name for name in names if name.endswith(LIBRARY)]


def test_a_wheel_with_the_library_is_for_this_platform_and_any_python(tmp_path: Path, compiler: str) -> None:
    wheel, names = built_wheel(tmp_path, compiler)
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    assert {f"proxy_wrapper/values/native/{name}" for name in (SOURCE.name, LIBRARY)} <= names
