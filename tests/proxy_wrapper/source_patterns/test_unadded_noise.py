"""Targets that are a noise of their own are found, and noise that is added to the input is not."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.unadded_noise import unadded_noise
from tests.proxy_wrapper.source_patterns.found import found_in_file

TRAIN = """for x in data:
    noise = torch.randn_like(x)
    noisy = {}
    loss = F.mse_loss(model(noisy, t), noise)
def add_noise(x, t, noise=None):
    noise = torch.randn_like(x) if noise is None else noise
    return a[t] * x + b[t] * noise
def encode(x):
    return 2 * x
"""
OWN = TRAIN.format("add_noise(x, t)")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OWN, id="by a function"),
        pytest.param(OWN.replace("noisy = ", "noisy, added = "), id="by a function that returns its noise"),
        pytest.param(TRAIN.format("a[t] * x + b[t] * torch.randn(x.shape)"), id="in the expression"),
        pytest.param(OWN.replace("randn_like(x)\n", "randn(*x.shape)\n", 1), id="of a shape"),
        pytest.param(
            OWN.replace("model(noisy, t)", "out").replace("    loss", "    out = model(noisy)\n    loss"), id="out"
        ),
    ],
)
def test_a_noise_that_was_not_added(text: str) -> None:
    assert found_in_file(text, unadded_noise) == [(2, ("noise",))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TRAIN.format("add_noise(x, t, noise)"), id="added by a function"),
        pytest.param(TRAIN.format("a[t] * x + b[t] * noise"), id="added in the expression"),
        pytest.param(TRAIN.format("encode(x)"), id="random targets"),
        pytest.param(
            "noise = torch.randn_like(x)\n" + OWN.replace("    noise = torch.randn_like(x)\n", "", 1), id="once"
        ),
    ],
)
def test_a_noise_that_was_added_or_is_no_such_target(text: str) -> None:
    assert found_in_file(text, unadded_noise) == []
