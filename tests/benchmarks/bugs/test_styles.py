"""A script in another style is the same program, with its statements where they were."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stdout

import pytest

from bugs.styles import STYLES, StyleError, rewrite

SCRIPT = """import math
from functools import reduce as fold

numbers = [4, 9]


class Sum:
    start = 1

    def add(self, first, *, rest=()):
        total = self.start + first
        for each in rest:
            total += each
        return total


def root(number):
    global numbers
    numbers = [number]
    return math.sqrt(number)


result = Sum().add(root(16), rest=[int(root(each)) for each in numbers])
print(result, fold(max, range(int(result))), f"{numbers}")
print(fold(max, range(int(result))))
"""


def printed(text: str) -> str:
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(text, "<script>", "exec"), {})
    return out.getvalue()


@pytest.mark.parametrize("style", STYLES)
def test_the_program_is_the_same(style: str) -> None:
    rewritten = rewrite(SCRIPT, style)
    assert rewritten != SCRIPT
    assert printed(rewritten) == printed(SCRIPT) == "9.0 8 [16]\n8\n"


@pytest.mark.parametrize("style", STYLES)
def test_functions_stay_on_their_lines(style: str) -> None:
    assert functions(rewrite(SCRIPT, style)) >= functions(SCRIPT)


def functions(text: str) -> set[int]:
    return {node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(
    ("style", "line"),
    [
        ("renamed", "v5 = v0().add(v6(16), rest=[int(v6(v1)) for v1 in v4])"),
        ("in-function", "    result = Sum().add(root(16), rest=[int(root(each)) for each in numbers])"),
        ("temporaries", "t0 = fold(max, range(int(result))); print(t0)"),
        ("aliases", "    return imported_math.sqrt(number)"),
    ],
)
def test_one_habit_changes(style: str, line: str) -> None:
    assert line in rewrite(SCRIPT, style).splitlines()


def test_a_script_without_room_for_a_function_is_refused() -> None:
    with pytest.raises(StyleError, match="no blank line"):
        rewrite("import math\nprint(math.pi)\n", "in-function")


def test_a_package_that_is_used_by_its_whole_name_is_refused() -> None:
    with pytest.raises(StyleError, match=r"os\.path"):
        rewrite("import os.path\nprint(os.path.sep)\n", "aliases")
