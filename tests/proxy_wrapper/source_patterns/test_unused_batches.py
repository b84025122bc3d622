"""Training loops that never use their batches are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.unused_batches import unused_batches
from tests.proxy_wrapper.source_patterns.found import found_in_file

TRAINING = """
x, y = next(iter(loader))
def compute():
    return criterion(model({inputs}), y)
for {target} in {iterated}:
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
"""


def in_training(**changes: str) -> str:
    usual = {"target": "xb, yb", "iterated": "loader", "loss": "criterion(model(x), y)", "inputs": "x"}
    return TRAINING.format(**usual | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"target": "i, (xb, yb)", "iterated": "enumerate(tqdm(self.train_loader))"},
        {"target": "batch", "iterated": "torch.utils.data.DataLoader(data, batch_size=8)"},
        {"loss": "compute()"},
    ],
)
def test_a_batch_that_is_not_used(changes: dict[str, str]) -> None:
    assert [line for line, _ in found_in_file(in_training(**changes), unused_batches)] == [5]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"loss": "criterion(model(xb), yb)"}, id="used"),
        pytest.param({"loss": "criterion(model(x), yb)"}, id="used in part"),
        pytest.param({"target": "_, _"}, id="meant to be unused"),
        pytest.param({"target": "_"}, id="a counter without a name"),
        pytest.param({"target": "epoch", "iterated": "range(100)"}, id="steps"),
        pytest.param({"target": "epoch", "iterated": "tqdm(epochs)"}, id="epochs"),
        pytest.param({"loss": "compute()", "inputs": "xb"}, id="used by a function"),
    ],
)
def test_other_loops(changes: dict[str, str]) -> None:
    assert found_in_file(in_training(**changes), unused_batches) == []


def test_a_loop_over_folds_around_that_of_steps() -> None:
    steps = "    for step in range(9):\n        criterion(model(x), y).backward()\n"
    assert found_in_file("for train, test in fold_loader:\n" + steps, unused_batches) == []
