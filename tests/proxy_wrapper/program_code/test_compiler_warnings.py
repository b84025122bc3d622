"""Files are parsed without warnings, and the program's own warnings are shown as often as before."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from proxy_wrapper.program_code.compiler_warnings import no_compiler_warnings

if TYPE_CHECKING:
    from pathlib import Path

ESCAPE = "x = '\\d'\n"


def warn() -> None:
    warnings.warn("once", UserWarning, stacklevel=1)


def test_the_compiler_does_not_warn_about_the_file(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        with no_compiler_warnings(str(tmp_path / "a.py")):
            ast.parse(ESCAPE, str(tmp_path / "a.py"))
        assert not caught
        ast.parse(ESCAPE, str(tmp_path / "a.py"))
        assert len(caught) == 1
        assert list(warnings.filters) == before


def test_warnings_of_the_program_are_not_forgotten(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warn()
        with no_compiler_warnings(str(tmp_path / "a.py")):
            ast.parse(ESCAPE, str(tmp_path / "a.py"))
        warn()
    assert len(caught) == 1


def test_other_warnings_are_given_meanwhile(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with no_compiler_warnings(str(tmp_path / "a.py")):
            warn()
            ast.parse(ESCAPE, str(tmp_path / "ab.py"))
            ast.parse(ESCAPE, str(tmp_path / "a_b.py"))
    assert len(caught) == 3
