"""What a `forward` adds along a dimension of what it was given is read from its code."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.code_lines.position_slices import PositionSlice, position_slices


def found(body: str) -> list[PositionSlice]:
    (function,) = ast.parse(f"def forward(self, x):\n    {body}\n").body
    assert isinstance(function, ast.FunctionDef)
    return list(position_slices(function))


FIRST, SECOND = PositionSlice("pe", 0, 2), PositionSlice("pe", 1, 2)
CALLED, SECOND_CALLED = FIRST._replace(is_called=True), SECOND._replace(is_called=True)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x + self.pe[:x.size(0)]", [FIRST]),
        ("return self.drop(x + self.pe[: x.shape[0], :])", [FIRST]),
        ("x += self.pe[:len(x)]", [FIRST]),
        ("n = x.size(0); return x * 2 + self.pe[:n].detach()", [FIRST]),
        ("n, _, _ = x.shape; return x + self.pe[:n]", [FIRST]),
        ("n, *_ = x.size(); p = self.pe[:n]; return self.emb(x) + p", [FIRST]),
        ("return x + self.pe[:, :x.size(1)]", [SECOND]),
        ("_, n = x.shape; return x + self.pe[:, :n, :]", [SECOND]),
        ("p = torch.arange(x.size(0)).unsqueeze(1); return x + self.pe(p)", [CALLED]),
        (
            "p = torch.arange(x.shape[1], device=y).unsqueeze(0); return x + self.pe(p)",
            [SECOND_CALLED],
        ),
        # Another dimension than that of what is cut, or no sum, or a size that is no argument's.
        ("return x + self.pe[:x.size(1)]", []),
        ("return x * self.pe[:x.size(0)]", []),
        ("h = self.emb(x); return h + self.pe[:h.size(0)]", []),
        ("return x + self.pe[2:x.size(0)]", []),
        ("return x + self.pe[:5]", []),
        ("n = x.size(0); n = n + 1; return x + self.pe[:n]", []),
        ("p = torch.arange(x.size(1)).unsqueeze(1); return x + self.pe(p)", []),
        # What moves dimensions.
        ("x = x.transpose(0, 1); return x + self.pe[:x.size(0)]", []),
        ("return x + self.pe[:x.size(1)].transpose(0, 1)", []),
    ],
)
def test_positions_that_are_added(body: str, expected: list[PositionSlice]) -> None:
    assert found(body) == expected
