"""Colours of code that is shown in pieces."""

from __future__ import annotations

import re

import pytest

from instrumentor.report.highlight import highlight_rows
from instrumentor.report.side_by_side import Row


def same(number: int, text: str) -> Row:
    return Row("same", number, text, number, text)


ADDED = Row("added", None, "", 9, "import proxy_wrapper.proxy as Proxy")
KEYWORD = re.compile(r'<span class="kn">import</span>')


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_a_piece_that_begins_within_a_docstring(quotes: str) -> None:
    rows = [same(3, f"in words.{quotes}"), same(4, "import torch"), ADDED, same(5, "print('x')")]
    words, torch, added, _ = highlight_rows(rows, "a.py", set())
    assert re.fullmatch(
        r'<span class="s[d12]">in words\.' + quotes + "</span>", words.new.replace("&quot;", '"').replace("&#39;", "'")
    )
    assert KEYWORD.search(torch.old)
    assert KEYWORD.search(torch.new)
    assert KEYWORD.search(added.new)
    assert added.old == ""


def test_a_piece_that_ends_within_one_leaves_the_next_alone() -> None:
    rows = [same(1, "import torch"), ADDED, same(2, '"""Says'), Row("gap"), same(40, "import os")]
    coloured = highlight_rows(rows, "a.py", {40})
    assert KEYWORD.search(coloured[0].new)
    assert KEYWORD.search(coloured[4].new)
    assert coloured[3] == ("", "")


def test_lines_stay_lines() -> None:
    rows = [same(1, "x = 1\r"), same(2, "\x0c"), same(3, "y = '<&>'"), same(4, "")]
    coloured = highlight_rows(rows, "a.py", set())
    assert len(coloured) == 4
    assert "&lt;&amp;&gt;" in coloured[2].new
    assert coloured[1].new == '<span class="err">␌</span>'


def test_a_notebook_is_json() -> None:
    (coloured,) = highlight_rows([same(1, '    "import torch",')], "a.ipynb", set())
    assert not KEYWORD.search(coloured.new)
