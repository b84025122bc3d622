"""Losses that are overwritten before anything reads them are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.overwritten_losses import overwritten_losses
from tests.proxy_wrapper.source_patterns.found import found_in_file

FILE = """
mse, bce = nn.MSELoss(), nn.BCEWithLogitsLoss()
for x, y, z in loader:
    a, b = model(x)
    {}
    loss.backward()
"""
FIRST = "loss = mse(a, y)"


@pytest.mark.parametrize(
    "second",
    [
        "loss = bce(b, z)",
        "loss = F.cross_entropy(b, z)",
        "optimizer.zero_grad()\n    loss = bce(b, z)",
        "if b.ndim > 1:\n        b = b[0]\n    loss = bce(b, z)",
    ],
)
def test_a_loss_that_is_overwritten(second: str) -> None:
    ((line, names),) = found_in_file(FILE.format(f"{FIRST}\n    {second}"), overwritten_losses)
    assert (line, names) == (5 + second.count("\n") + 1, ("loss",))


TASKS = """
def total(outputs, targets):
    {start}
    for task, scores in outputs.items():
        {each}
    return loss
"""


def test_a_loop_that_keeps_the_loss_of_the_last_task() -> None:
    text = TASKS.format(start="loss = 0.0", each="loss = F.cross_entropy(scores, targets[task])")
    assert found_in_file(text, overwritten_losses) == [(5, ("loss",))]


@pytest.mark.parametrize(
    ("start", "each"),
    [
        pytest.param("loss = 0.0", "loss = loss + F.cross_entropy(scores, targets[task])", id="a sum"),
        pytest.param("loss = 0.0", "loss += F.cross_entropy(scores, targets[task])", id="a sum in place"),
        pytest.param("loss = None", "loss = F.cross_entropy(scores, targets[task])", id="the last one, perhaps"),
        pytest.param("loss = 0.0", "loss = F.cross_entropy(scores, targets[task]); loss.backward()", id="each is used"),
        pytest.param("loss = 0.0", "loss = F.cross_entropy(fixed, targets)", id="not one of the tasks"),
        pytest.param("loss = 0.0", "loss = F.cross_entropy(scores, targets[task]); break", id="the first one"),
    ],
)
def test_loops_over_tasks_that_may_be_right(start: str, each: str) -> None:
    assert found_in_file(TASKS.format(start=start, each=each), overwritten_losses) == []


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(f"{FIRST}\n    loss = loss + bce(b, z)", id="added"),
        pytest.param(f"{FIRST}\n    loss += bce(b, z)", id="added in place"),
        pytest.param(f"{FIRST}\n    loss.backward()\n    loss = bce(b, z)", id="each goes backward"),
        pytest.param(f"{FIRST}\n    total += loss.item()\n    loss = bce(b, z)", id="read"),
        pytest.param(f"{FIRST}\n    if late:\n        loss = bce(b, z)", id="one of two"),
        pytest.param(f"{FIRST}\n    if late:\n        continue\n    loss = bce(b, z)", id="left between"),
        pytest.param(f"{FIRST}\n    keep(lambda: loss)\n    loss = bce(b, z)", id="kept for later"),
        pytest.param(f"{FIRST}\n    {FIRST}", id="computed again"),
        pytest.param("loss = torch.zeros(())\n    loss = bce(b, z)", id="a start"),
        pytest.param("loss = train(a)\n    loss = bce(b, z)", id="a function of the program"),
        pytest.param("first = mse(a, y)\n    loss = bce(b, z)", id="two variables"),
    ],
)
def test_other_losses(lines: str) -> None:
    assert found_in_file(FILE.format(lines), overwritten_losses) == []
