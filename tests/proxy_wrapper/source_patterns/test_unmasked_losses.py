"""Losses over all nodes of a graph, some of which are held out, are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.unmasked_losses import unmasked_losses
from tests.proxy_wrapper.source_patterns.found import found_in_file

PROGRAM = """
data = load()
{}
def train():
    out = {}
    loss = {}
    loss.backward()
def test():
    return [accuracy(model(data)[each], data.y[each]) for each in (data.train_mask, {})]
"""
WHOLE = "F.cross_entropy(out, data.y)"
OUT = "model(data)"
TEST = "data.test_mask"


@pytest.mark.parametrize(
    ("out", "loss"), [(OUT, WHOLE), (OUT, "criterion(out, data.y)"), ("model(data.x).log_softmax(1)", WHOLE)]
)
def test_a_loss_over_all_nodes(out: str, loss: str) -> None:
    ((line, names),) = found_in_file(PROGRAM.format("", out, loss, TEST), unmasked_losses)
    assert (line, names) == (6, ("data.y",))


@pytest.mark.parametrize(
    ("before", "out", "loss", "test"),
    [
        pytest.param("", OUT, "F.cross_entropy(out[data.train_mask], data.y[data.train_mask])", TEST, id="masked"),
        pytest.param("", "model(data)[data.train_mask]", WHOLE, TEST, id="the output is masked"),
        pytest.param("data.y = data.y[data.train_mask]", OUT, WHOLE, TEST, id="the labels are masked before"),
        pytest.param("", OUT, "F.cross_entropy(out, data.y, reduction='none')", TEST, id="masked afterwards"),
        pytest.param("", OUT, "F.mse_loss(out, data.x)", TEST, id="another loss"),
        pytest.param("", OUT, "F.cross_entropy(out, data.y) if full else 0", TEST, id="a choice"),
        pytest.param("", OUT, WHOLE, "every_node", id="nothing is held out"),
        pytest.param("for data in graphs: train()", OUT, WHOLE, TEST, id="many graphs"),
    ],
)
def test_other_losses(before: str, out: str, loss: str, test: str) -> None:
    assert found_in_file(PROGRAM.format(before, out, loss, test), unmasked_losses) == []
