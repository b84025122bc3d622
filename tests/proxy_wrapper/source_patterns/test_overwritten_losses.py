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
