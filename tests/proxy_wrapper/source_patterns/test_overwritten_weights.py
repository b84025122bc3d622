"""Models that draw their weights anew after they have loaded some are found by the source."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.source_patterns.overwritten_weights import overwritten_weights

TEXT = """
def init_weights(m):
    if isinstance(m, nn.{layer}):
        nn.init.{draw}(m.weight)

def build(path, resume):
    net = Net()
    {first}
    {second}
    return net
"""
LOAD, APPLY = "net.load_state_dict(torch.load(path))", "net.apply(init_weights)"


def found(first: str, second: str, layer: str = "Conv2d", draw: str = "xavier_uniform_") -> list[tuple[int, int]]:
    tree = ast.parse(TEXT.format(first=first, second=second, layer=layer, draw=draw))
    return [(each.line, each.other) for each in overwritten_weights(tree)]


@pytest.mark.parametrize("first", [LOAD, f"missing = {LOAD}", f"{LOAD[:-1]}, strict=False)", f"if resume: {LOAD}"])
def test_weights_that_are_loaded_first(first: str) -> None:
    assert found(first, APPLY) == [(9, 8)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(APPLY, LOAD, id="loaded last"),
        pytest.param(LOAD, "net.head.apply(init_weights)", id="a new part"),
        pytest.param(f"{LOAD}; evaluate(net)", APPLY, id="used before"),
        pytest.param(f"{LOAD}; net = Net()", APPLY, id="another model"),
        pytest.param(f"if resume: {LOAD}", f"if not resume: {APPLY}", id="either"),
        pytest.param(LOAD, "net.apply(freeze)", id="another function"),
        pytest.param(LOAD, f"if not resume: {APPLY}", id="only if not resumed"),
        pytest.param(f"if resume: {LOAD}; return net", APPLY, id="returned"),
        pytest.param(f"if resume: {LOAD}; return", APPLY, id="left"),
    ],
)
def test_weights_that_are_kept(first: str, second: str) -> None:
    assert found(first, second) == []


def test_functions_that_draw_no_weights_of_convolutions() -> None:
    assert found(LOAD, APPLY, layer="Linear") == found(LOAD, APPLY, draw="zeros_") == []
