"""Lines that view a tensor to a number of dimensions."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from proxy_wrapper.code_lines.view_lines import view_lines

FUNCTION = """
    def forward(self, x, *sizes):
        a = x.view(2, 3, 4, 5)
        b = x.reshape((2, 3, 4, 5)).reshape(6, -1)
        c = x.view(*sizes, 2, 3, 4)
        return view(2, 3, 4, 5)
    """


@pytest.mark.parametrize(("dimensions", "lines"), [(4, [2, 3]), (2, [3]), (3, [])])
def test_lines_with_views(dimensions: int, lines: list[int]) -> None:
    (function,) = ast.parse(dedent(FUNCTION).strip()).body
    assert isinstance(function, ast.FunctionDef)
    assert list(view_lines(function, dimensions)) == lines
