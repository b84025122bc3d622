"""Loops that overwrite gradients are found, and those that add or use them are not."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.overwritten_gradients import overwritten_gradients
from tests.proxy_wrapper.source_patterns.found import found

SCRIPT = """
for loss in losses:
    grads = torch.autograd.grad(loss, {parameters}, retain_graph=True)
    for p, g in zip(parameters, grads):
        {assign}
    {after}
"""


def script(assign: str = "p.grad = g", parameters: str = "parameters", after: str = "pass") -> str:
    return SCRIPT.format(assign=assign, parameters=parameters, after=after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(script(), id="assigned"),
        pytest.param(script("p.grad = g * scale"), id="scaled"),
        pytest.param(script(parameters="list(model.parameters())"), id="of a model"),
    ],
)
def test_gradients_that_are_overwritten(text: str) -> None:
    assert found(text, overwritten_gradients) == [(5, ("p.grad",))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(script("p.grad += g"), id="added"),
        pytest.param(script("p.grad = p.grad + g"), id="added to the old one"),
        pytest.param(script("p.grad = g if p.grad is None else p.grad + g"), id="added if there is one"),
        pytest.param(script(after="optimizer.step()"), id="used"),
        pytest.param(script("p.grad = g.clone(); saved.append(g)"), id="kept"),
        pytest.param(script(after="break"), id="left"),
        pytest.param(script(parameters="groups[loss]"), id="of other parameters in each pass"),
        pytest.param(script().replace("for loss in losses", "for step in range(3)"), id="one loss"),
        pytest.param(script("total = g"), id="not assigned"),
    ],
)
def test_gradients_that_are_not_overwritten(text: str) -> None:
    assert found(text, overwritten_gradients) == []
