from __future__ import annotations

import ast

import pytest

from instrumentor.source.source_text import decode
from instrumentor.source.suppressions import Suppressions, read_suppressions


def read(text: str) -> Suppressions:
    return read_suppressions(decode(text.encode(), source_name="x.py"))


@pytest.mark.parametrize(
    ("text", "lines", "whole_file"),
    [
        pytest.param("x = 1  # instrument: skip\n", {1}, False, id="at the end of a line"),
        pytest.param("x = 1  #instrument:skip because\n", {1}, False, id="with a reason"),
        pytest.param("x = 1  # noqa  # instrument: skip\n", {1}, False, id="behind another"),
        pytest.param("\n# instrument: skip-file\n", set(), True, id="the file"),
        pytest.param("x = '# instrument: skip'\n", set(), False, id="in a string"),
        pytest.param("x = 1  # instrument: skipping\n", set(), False, id="another word"),
        pytest.param("x = 1  # instrument: skip-all\n", set(), False, id="another word with a dash"),
        pytest.param("a\r# instrument: skip\rb\r", {2}, False, id="lone carriage returns"),
        pytest.param("a\r\n\x0c# instrument: skip\r\n", {2}, False, id="behind a form feed"),
    ],
)
def test_comments_are_read(text: str, lines: set[int], whole_file: bool) -> None:
    assert read(text) == Suppressions(frozenset(lines), whole_file)


def test_a_statement_is_covered_by_any_of_its_lines_a_block_by_its_head() -> None:
    simple, block = ast.parse("x = f(\n  1,\n)\nif x:\n    y = 1\n").body
    assert Suppressions(frozenset({2})).covers(simple)
    assert Suppressions(frozenset({4})).covers(block)
    assert not Suppressions(frozenset({5})).covers(block)
    assert Suppressions(whole_file=True).covers(block)
