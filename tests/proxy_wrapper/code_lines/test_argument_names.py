"""Arguments that are named like other parameters are told; others are not."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import distributions, nn

from proxy_wrapper.code_lines.argument_names import wrong_arguments
from proxy_wrapper.program_code.called_functions import Body

NAMES: dict[str, Any] = {
    "F": F,
    "nn": nn,
    "torch": torch,
    "Normal": distributions.Normal,
    "triplet": nn.TripletMarginLoss(),
    "own": lambda anchor, negative, positive: anchor,
}


def found(text: str) -> list[tuple[int, str]]:
    """What is wrong in a function with this body."""
    text = "def loss(self, model, batch):\n" + "".join(f"    {line}\n" for line in text.split("; "))
    exec(text, names := dict(NAMES))
    body = Body(names["loss"].__code__, names)
    return [(line, what) for line, what in wrong_arguments(ast.parse(text), body)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("return triplet(anchor, negative, positive)", "negative-before-positive"),
        ("return F.triplet_margin_loss(za, zn, zp, margin=0.5)", "negative-before-positive"),
        ("return triplet(model(batch['anc']), model(batch['neg']), model(batch['pos']))", "negative-before-positive"),
        ("return triplet(anchor=out_a, positive=out_n, negative=out_p)", "negative-before-positive"),
        ("return F.gaussian_nll_loss(mu, y, std)", "deviation-as-variance"),
        ("return F.gaussian_nll_loss(mu, y, var=self.sigma.unsqueeze(1))", "deviation-as-variance"),
        ("return Normal(mu, var)", "variance-as-deviation"),
        ("return torch.distributions.Normal(loc=mu, scale=variance).rsample()", "variance-as-deviation"),
        ("return torch.normal(mu, var)", "variance-as-deviation"),
    ],
)
def test_arguments_that_are_named_like_others(text: str, told: str) -> None:
    assert found(text) == [(2, told)]


def test_a_loss_that_is_made_in_the_function() -> None:
    assert found("crit = nn.GaussianNLLLoss(); return crit(mu, y, std)") == [(3, "deviation-as-variance")]
    assert found("std = (0.5 * logvar).exp(); return F.gaussian_nll_loss(mu, y, std)") == [(3, "deviation-as-variance")]


@pytest.mark.parametrize(
    "text",
    [
        "return triplet(anchor, positive, negative)",
        "return triplet(a, p, n)",
        "return triplet(x1, x2, x3)",
        "return triplet(*batch)",
        "return own(anchor, negative, positive)",
        "return triplet(anchor, positive=positive, negative=negative)",
        "return F.gaussian_nll_loss(mu, y, std ** 2)",
        "return F.gaussian_nll_loss(mu, y, std.square())",
        "return F.gaussian_nll_loss(mu, y, var)",
        "return F.gaussian_nll_loss(mu, y, sigma2)",
        "return F.gaussian_nll_loss(mu, y, sigma_sq)",
        "sigma = torch.exp(logvar); return F.gaussian_nll_loss(mu, y, sigma)",
        "std = std ** 2; return F.gaussian_nll_loss(mu, y, std)",
        "var = var.sqrt(); return Normal(mu, var)",
        "return Normal(mu, std)",
        "return Normal(mu, var.sqrt())",
        "return nn.GaussianNLLLoss(std)",
    ],
)
def test_other_arguments(text: str) -> None:
    assert found(text) == []
