"""Positions are counted in half precision where a function surely does so, and beyond what the type can hold."""

from __future__ import annotations

import ast
import textwrap

import pytest
import torch

from proxy_wrapper.code_lines.half_ranges import half_ranges
from proxy_wrapper.program_code.known_expressions import KnownExpressions
from proxy_wrapper.program_code.syntax import Scope


def ranges(body: str, steps: int = 300, dtype: torch.dtype = torch.bfloat16) -> list[tuple[int, int, int]]:
    (function,) = ast.parse("def forward(self, x):\n" + textwrap.indent(textwrap.dedent(body), "    ")).body
    scope = Scope(function)
    known = KnownExpressions(scope, {"x": torch.zeros(1, steps, dtype=dtype)}, {"torch": torch})
    return [(each.line, each.total, each.exact) for each in half_ranges(scope, known)]


@pytest.mark.parametrize(
    "body",
    [
        "t = torch.arange(x.size(1), dtype=x.dtype)\nreturn t.sin()",
        "t = torch.arange(x.shape[1], device=x.device).type_as(x)\nreturn torch.cos(t)",
        "t = torch.arange(x.size(1))\nangle = t[:, None].to(x.dtype)\nreturn angle.cos()",
        "position = torch.arange(0, x.size(1)).unsqueeze(1).bfloat16()\nreturn self.mlp(position)",
        "t = torch.arange(x.size(1)).float().to(x)\nreturn t.sin()",
        "t = torch.arange(x.size(1), dtype=torch.bfloat16)\nreturn t.sin()",
    ],
)
def test_positions_that_repeat(body: str) -> None:
    assert [each[1:] for each in ranges(body)] == [(300, 256)]
    assert not ranges(body, steps=257)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("t = torch.arange(x.size(1))\nreturn t.float().sin().to(x.dtype)", id="converted afterwards"),
        pytest.param("t = torch.arange(x.size(1), dtype=torch.float32)\nreturn t.sin()", id="in single precision"),
        pytest.param("w = torch.arange(x.size(1), dtype=x.dtype)\nreturn x * w", id="no positions"),
        pytest.param("if self.long:\n    x = torch.arange(x.size(1)).to(x).sin()\nreturn x", id="perhaps"),
        pytest.param("if self.off:\n    return x\nreturn torch.arange(x.size(1)).to(x).sin()", id="perhaps not"),
        pytest.param("t = torch.arange(self.n, dtype=x.dtype)\nreturn t.sin()", id="of unknown number"),
        pytest.param("t = torch.arange(0, x.size(1), 2).to(x)\nreturn t.sin()", id="with a step"),
        pytest.param("t = torch.arange(x.size(1)).to(x.device)\nreturn t.sin()", id="to a device"),
    ],
)
def test_what_is_not_told(body: str) -> None:
    assert not ranges(body)


def test_half_precision_holds_more_positions() -> None:
    body = "t = torch.arange(x.size(1), dtype=x.dtype)\nreturn t.sin()"
    assert not ranges(body, 2049, torch.float16)
    assert ranges(body, 2050, torch.float16) == [(2, 2050, 2048)]
