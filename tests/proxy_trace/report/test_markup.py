from __future__ import annotations

from proxy_trace.report.markup import as_text_with_code


def test_what_stands_between_backticks_is_code_and_nothing_else_is_markup() -> None:
    assert as_text_with_code("call `a<b>()`, & `c`") == "call <code>a&lt;b&gt;()</code>, &amp; <code>c</code>"
    assert as_text_with_code("one ` alone") == "one ` alone"
