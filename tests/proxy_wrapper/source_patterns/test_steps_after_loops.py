"""Steps after the loop over batches are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.steps_after_loops import steps_after_loops
from tests.proxy_wrapper.source_patterns.found import found

EPOCH = """
for epoch in range(10):
    {}
    for x, y in loader:
        {}
        loss = criterion(model(x), y)
        loss.backward()
        {}
    {}
"""
CLEARS = "optimizer.zero_grad()"
STEPS = "optimizer.step()"


@pytest.mark.parametrize("clears", [CLEARS, "model.zero_grad(set_to_none=True)", "self.optimizer.zero_grad()"])
def test_a_step_after_a_loop_that_clears(clears: str) -> None:
    assert found(EPOCH.format("pass", clears, "pass", STEPS), steps_after_loops) == [(9, ("optimizer",))]


@pytest.mark.parametrize(
    ("before", "clears", "last", "after"),
    [
        pytest.param("pass", CLEARS, STEPS, "scheduler.step()", id="a step for each batch"),
        pytest.param(CLEARS, "pass", "pass", STEPS, id="gradients of the whole set"),
        pytest.param("pass", CLEARS, "sums = [p.grad for p in params]", STEPS, id="gradients that are collected"),
        pytest.param("pass", CLEARS, "add_gradients(model)", STEPS, id="a function that may collect them"),
        pytest.param("pass", CLEARS, "engine.update()", "scheduler.step()", id="a step of a scheduler"),
        pytest.param("pass", CLEARS, "pass", "print(loss)", id="no step"),
    ],
)
def test_other_loops(before: str, clears: str, last: str, after: str) -> None:
    assert found(EPOCH.format(before, clears, last, after), steps_after_loops) == []
