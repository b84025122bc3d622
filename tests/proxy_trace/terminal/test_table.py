from __future__ import annotations

from proxy_trace.terminal.table import format_table


def test_columns_are_aligned_to_their_side_without_trailing_blanks() -> None:
    assert format_table(["name", "calls", "type"], [["a", "1,000", "x"], ["abcde", "2", ""]], "lrl") == [
        "name   calls  type",
        "a      1,000  x",
        "abcde      2",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert format_table(["a", "b"], [], "ll") == ["a  b"]
