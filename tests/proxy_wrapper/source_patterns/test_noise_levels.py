"""Diffusion models that are given the noise of one step are found by the source."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.program_code.syntax import scopes_of
from proxy_wrapper.source_patterns.noise_levels import noise_levels

SCHEDULE = """
class Diffusion:
    def __init__(self):
        self.alphas = 1 - torch.linspace(1e-4, 0.02, 100)
        self.alpha_bars = {}
        self.roots = self.alphas.sqrt()
        self.rest = (1 - self.alphas) ** 0.5
    def diffuse(self, x, t, noise):
        a = {}
        {}
        return y
"""
PRODUCT = "torch.cumprod(self.alphas, dim=0)"
LEVEL = "self.alphas[t].view(-1, 1)"
MIX = "y = a.sqrt() * x + (1 - a).sqrt() * noise"


def found(*parts: str) -> list[tuple[int, str]]:
    tree = ast.parse(SCHEDULE.format(*parts))
    return [(each.line, each.names[0]) for each in noise_levels(list(scopes_of(tree)))]


@pytest.mark.parametrize(
    ("product", "level", "mix"),
    [
        (PRODUCT, LEVEL, MIX),
        ("self.alphas.cumprod(0)", "extract(self.alphas, t, x.shape)", MIX),
        (PRODUCT, "self.alphas.gather(0, t)[:, None]", "y = torch.sqrt(a) * x + torch.sqrt(1.0 - a) * noise"),
        (PRODUCT, "t", "y = self.roots[t] * x + self.rest[t].unsqueeze(1) * torch.randn_like(x)"),
        (PRODUCT, LEVEL, "y = (1 - a) ** 0.5 * noise + x * a ** 0.5"),
    ],
)
def test_the_noise_of_one_step(product: str, level: str, mix: str) -> None:
    assert found(product, level, mix) == [(10, "self.alphas")]


@pytest.mark.parametrize(
    ("product", "level", "mix"),
    [
        pytest.param(PRODUCT, "self.alpha_bars[t].view(-1, 1)", MIX, id="the level of all steps"),
        pytest.param("torch.cumprod(other, dim=0)", LEVEL, MIX, id="a product of other numbers"),
        pytest.param("self.alphas", LEVEL, MIX, id="no product"),
        pytest.param(PRODUCT, LEVEL, "y = x = a.sqrt() * x + (1 - a).sqrt() * noise", id="step by step, in a chain"),
        pytest.param(PRODUCT, LEVEL, "x = a.sqrt() * x + (1 - a).sqrt() * noise", id="step by step"),
        pytest.param(PRODUCT, LEVEL, "y = a.sqrt() * x + (1 - a).sqrt() * x.mean()", id="no noise"),
        pytest.param(PRODUCT, LEVEL, "y = a.sqrt() * x + a.sqrt() * noise", id="other levels"),
    ],
)
def test_other_mixtures(product: str, level: str, mix: str) -> None:
    assert found(product, level, mix) == []
