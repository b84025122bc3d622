"""Residual connections that are prepared and not added are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.unread_residuals import unread_residuals
from tests.proxy_wrapper.source_patterns.found import found

BLOCK = """
class Block(nn.Module):
    def {}(self, x):
        {}
        out = self.conv(x)
        {}
        return self.relu(out)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(BLOCK.format("forward", "identity = x", "pass"), (4, ("identity",)), id="not added"),
        pytest.param(BLOCK.format("forward", "residual = x", "out += out"), (6, ("residual",)), id="added to itself"),
        pytest.param(BLOCK.format("forward", "x_orig = x", "out = out + out"), (6, ("x_orig",)), id="by a sum"),
        pytest.param(
            BLOCK.format("forward", "shortcut = self.downsample(x)", "pass"), (4, ("shortcut",)), id="a projection"
        ),
    ],
)
def test_a_forgotten_residual_is_found(text: str, expected: tuple[int, tuple[str, ...]]) -> None:
    assert found(text, unread_residuals) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BLOCK.format("forward", "identity = x", "out += identity"), id="added"),
        pytest.param(
            BLOCK.format("forward", "identity = x", "if self.deep: out = out + identity"), id="sometimes added"
        ),
        pytest.param(
            BLOCK.format("forward", "residual = x", "out = self.merge(out, lambda: residual)"), id="handed on"
        ),
        pytest.param(BLOCK.format("forward", "residual = x", "out = self.merge(**locals())"), id="read by its name"),
        pytest.param(BLOCK.format("forward", "kept = x", "pass"), id="another name"),
        pytest.param(BLOCK.format("forward", "x, skip = self.split(x)", "pass"), id="a part of a result"),
        pytest.param(BLOCK.format("features", "identity = x", "pass"), id="another method"),
        pytest.param(BLOCK.format("forward", "pass", "out = out + out"), id="doubled on purpose"),
    ],
)
def test_other_blocks_are_not(text: str) -> None:
    assert found(text, unread_residuals) == []
