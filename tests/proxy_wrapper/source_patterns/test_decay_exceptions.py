"""Lists of names that are excepted from weight decay are found, wherever they are written."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.decay_exceptions import decay_exceptions
from tests.proxy_wrapper.source_patterns.found import found_in_file

LIST = '["bias", "ln.weight"]'
GROUPS = """
    groups = [
        {"params": [p for n, p in model.named_parameters() if not any(d in n for d in %s)], "weight_decay": 0.1},
        {"params": [p for n, p in model.named_parameters() if any(d in n for d in %s)], "weight_decay": 0.0},
    ]
"""


def groups(name: str) -> str:
    return GROUPS.replace("%s", name)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(f"def f(model):\n    names = {LIST}{groups('names')}", 2, id="in the function"),
        pytest.param(f"names = {LIST}\ndef f(model):{groups('names')}", 1, id="in the file"),
        pytest.param(f"def f(model, names={LIST}):{groups('names')}", 1, id="a default"),
        pytest.param(f"def f(model, *, names={LIST}):{groups('names')}", 1, id="a default of a keyword"),
        pytest.param(f"def f(model):{groups(LIST)}", 3, id="in the condition"),
    ],
)
def test_a_list_of_names(text: str, line: int) -> None:
    assert found_in_file(text, decay_exceptions)[0] == (line, ("bias", "ln.weight"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"def f(model, names):{groups('names')}", id="given by the caller"),
        pytest.param(f"def f(model):\n    names = {LIST}\n    names = [*names, 'x']{groups('names')}", id="added to"),
        pytest.param(f"def f(model):\n    names = {LIST}{groups('names').replace('decay', 'x')}", id="another setting"),
        pytest.param(
            f"def f(model):\n    names = {LIST}{groups('names').replace('in n ', 'in n.lower() ')}", id="in lower case"
        ),
    ],
)
def test_a_list_that_is_not_known(text: str) -> None:
    assert found_in_file(text, decay_exceptions) == []
