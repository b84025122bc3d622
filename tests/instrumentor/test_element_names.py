"""What models in lists and dicts are called in the trace: by an index only where that is known and stays."""

from __future__ import annotations

import re

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings


def names(body: str) -> list[str]:
    """The names that the proxies in a script get, in the order of the text."""
    source = f"from torch import nn\n{body}"
    found = instrument_source(source.encode(), Settings(), source_name="x.py").instrumented.decode()
    return re.findall(r'name="([^"]*)"', found)


MADE = "nn.Linear(1, 1)"
LAYERS = """class Net:
    def __init__(self):
        self.layers = []
        for width in (1, 2):
            {}
net = Net()
"""


@pytest.mark.parametrize(
    "grow",
    [
        f"self.layers.append({MADE})",
        f"self.layers.insert(0, {MADE})",
        f"self.layers.extend([{MADE}])",
        f"self.layers += [{MADE}]",
        f"self.layers = self.layers + [{MADE}]",
        f"self.layers = [{MADE}] + self.layers",
        f"self.layers = self.layers + [[{MADE}]]",
        f"self.layers = [*self.layers, {MADE}]",
        f"self.layers = [{MADE}, *self.layers]",
        f"self.layers = (*self.layers, {MADE})",
        f"self.layers[len(self.layers):] = [{MADE}]",
        f"self.layers[:0] = [{MADE}]",
    ],
)
def test_what_a_list_gets_is_called_like_the_list(grow: str) -> None:
    assert names(LAYERS.format(grow)) == ["layers"]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (f"xs = [{MADE}, {MADE}]", ["xs.0", "xs.1"]),
        (f"xs = ({MADE}, {MADE})", ["xs.0", "xs.1"]),
        (f"xs = [{MADE}] + [{MADE}, {MADE}]", ["xs.0", "xs.1", "xs.2"]),
        (f"xs = [{MADE}] + ys + [{MADE}]", ["xs.0", "xs"]),
        (f"xs = [{MADE}, *ys, {MADE}]", ["xs.0", "xs"]),
        (f"xs = [[{MADE}], [{MADE}, {MADE}]]", ["xs.0.0", "xs.1.0", "xs.1.1"]),
        (f"xs = {{'a': {MADE}, 'b': [{MADE}, {MADE}]}}", ["xs.a", "xs.b.0", "xs.b.1"]),
        (f"xs = {{'a': {MADE}, key: {MADE}}}", ["xs.a", "xs"]),
        (f"xs = {{**xs, 'a': {MADE}}}", ["xs.a"]),
        (f"xs = unknown(ys=[{MADE}, {MADE}])", ["ys.0", "ys.1"]),
        (f"xs = xs | {{'a': {MADE}}}", ["xs.a"]),
        (f"xs = {{{MADE}, {MADE}}}", ["xs", "xs"]),
        (f"xs = [[{MADE}] for _ in range(3)]", ["xs"]),
        (f"xs = [{MADE} for _ in range(3)]", ["xs"]),
        (f"xs = [{MADE}] if key else [{MADE}, {MADE}]", ["xs.0", "xs.0", "xs.1"]),
    ],
)
def test_an_index_is_told_where_it_is_known(body: str, wanted: list[str]) -> None:
    assert names(body + "\n") == wanted


def test_what_has_no_name_is_called_by_its_class_not_by_the_functions_that_give_it() -> None:
    body = """def make(size):
    return pick(size)
def use(known):
    return fit((make if known else nn.Linear)(1, 1))
use(1).train()
"""
    assert names(body) == ["Linear"]
