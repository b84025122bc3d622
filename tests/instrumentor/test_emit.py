from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from instrumentor import emit
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from instrumentor.settings import StatisticsOf


@pytest.mark.parametrize(
    ("used", "hidden", "wanted"),
    [
        pytest.param(set(), False, "Proxy", id="free"),
        pytest.param({"Proxy"}, False, "_Proxy", id="in use"),
        pytest.param({"Proxy", "_Proxy", "_Proxy1"}, False, "_Proxy2", id="several in use"),
        pytest.param(set(), True, "_Proxy", id="out of the reach of star imports"),
        pytest.param({"_Proxy"}, False, "Proxy", id="only the other in use"),
    ],
)
def test_the_name_is_one_that_the_script_does_not_use(used: set[str], hidden: bool, wanted: str) -> None:
    assert emit.unused_name(used, hidden=hidden) == wanted


def test_the_call_is_as_documented() -> None:
    wrapping = emit.render_wrapping("Proxy", "model", Settings(), can_encode=lambda text: True)
    assert f"{wrapping.before}model{wrapping.after}" == (
        'Proxy.Proxy(model, recurse=True, name="model", logdir="proxy_trace", log_level=Proxy.INFO)'
    )


@pytest.mark.parametrize("of", ["outputs", "all"])
def test_statistics_of_more_than_state_stand_at_the_end(of: StatisticsOf) -> None:
    wrapping = emit.render_wrapping("Proxy", "model", Settings(statistics_of=of), can_encode=lambda text: True)
    assert (
        wrapping.after
        == f', recurse=True, name="model", logdir="proxy_trace", log_level=Proxy.INFO, statistics="{of}")'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        'a"b',
        "a'b",
        "back\\slash",
        "new\nline",
        "tab\t",
        "nul\0",
        "é",
        "𐍈",
        "\u2028",
        "\ud800",
        "{x}",
        "日本",
    ],
)
@pytest.mark.parametrize("can_encode", [str.isascii, lambda text: True], ids=["ascii", "utf-8"])
def test_a_quoted_text_reads_as_itself(text: str, can_encode: object) -> None:
    assert callable(can_encode)
    quoted = emit.quote(text, can_encode=can_encode)
    assert ast.literal_eval(quoted) == text
    assert quoted.isprintable()


def test_what_a_name_or_folder_holds_cannot_break_the_call() -> None:
    settings = Settings(logdir='a", x="', log_level="DEBUG", recurse=False)
    wrapping = emit.render_wrapping("_Proxy", 'nets."x"', settings, can_encode=lambda text: True)
    call = ast.parse(f"{wrapping.before}f(1)\n{wrapping.after}", mode="eval").body
    assert isinstance(call, ast.Call)
    held = {each.arg: ast.unparse(each.value) for each in call.keywords}
    assert held == {"recurse": "False", "name": "'nets.\"x\"'", "logdir": "'a\", x=\"'", "log_level": "_Proxy.DEBUG"}
