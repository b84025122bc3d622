"""What draws random numbers in a `forward`, whatever the mode is, is read off its syntax."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F

from proxy_wrapper.code_lines.random_calls import always_dropping
from proxy_wrapper.program_code.called_functions import Body
from proxy_wrapper.program_code.parsed_functions import ParsedFunctions

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType

DROP = ("dropout", 2)
MASK = ("rand", 2)
ATTENTION = ("scaled_dot_product_attention", 2)


def always(path: Path, source: str) -> tuple[str, int] | None:
    """The function that always drops in the `forward` of some source, and the line, counted from its first."""
    text = f"import torch\nimport torch.nn.functional as F\nfrom torch.nn import functional\n{source}"
    path.write_text(text, "utf-8")
    names: dict[str, Any] = {"torch": torch, "F": F}
    exec(compile(text, str(path), "exec"), names)
    forward = names["forward"]

    def is_followed(code: CodeType) -> bool:
        return code.co_filename == str(path)

    found = always_dropping(Body(forward.__code__, names), ParsedFunctions(threading.RLock()), is_followed)
    return None if found is None else (found.function, found.at.line - forward.__code__.co_firstlineno)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param("x = x + 1\n    return F.dropout(x, 0.5)", DROP, id="functional"),
        pytest.param("x = x + 1\n    return functional.dropout(x)", DROP, id="by another name"),
        pytest.param("return F.dropout(x, 0.5, self.training)", None, id="told of the mode"),
        pytest.param("return F.dropout(x, training=self.training)", None, id="told by name"),
        pytest.param("return F.dropout(x, 0.5, False)", None, id="told not to drop"),
        pytest.param("return F.dropout(x, 0.5, True)", None, id="told to drop"),
        pytest.param("return F.dropout(x, *rest)", None, id="told what nobody knows"),
        pytest.param("if self.training:\n        x = F.dropout(x)\n    return x", None, id="the mode is asked for"),
        pytest.param("x = F.dropout(x)\n    return x + torch.randn(3)", None, id="something else draws, too"),
        pytest.param("return self.dropout(x)", None, id="a module"),
        pytest.param("x = x + 1\n    return torch.nn.Dropout(0.5)(x)", ("Dropout", 2), id="a module made anew"),
        pytest.param(
            "x = x + 1\n    return F.scaled_dot_product_attention(x, x, x, dropout_p=p)", ATTENTION, id="attention"
        ),
        pytest.param(
            "x = x + 1\n    return F.scaled_dot_product_attention(x, x, x, None, 0.1)", ATTENTION, id="by place"
        ),
        pytest.param(
            "return F.scaled_dot_product_attention(x, x, x, dropout_p=p * self.training)",
            None,
            id="a chance by the mode",
        ),
        pytest.param("return F.scaled_dot_product_attention(x, x, x)", None, id="attention that drops nothing"),
        pytest.param(
            "p = 0.1 if self.training else 0.0\n    return F.scaled_dot_product_attention(x, x, x, dropout_p=p)",
            None,
            id="a chance that was chosen by the mode",
        ),
        pytest.param("kept = 1\n    return x * (torch.rand(3) < 0.8) / 0.8", MASK, id="a mask by hand"),
        pytest.param("kept = 1\n    return x * (torch.rand(3) > p) / (1 - p)", MASK, id="a mask of the rest"),
        pytest.param("return x + torch.rand(3)", None, id="noise"),
        pytest.param("return x * (torch.rand(3) < 0.8)", None, id="a mask that is not scaled"),
    ],
)
def test_calls_that_drop_whatever_the_mode_is(tmp_path: Path, body: str, told: tuple[str, int] | None) -> None:
    assert always(tmp_path / "net.py", f"def forward(self, x, *rest, p=0.5):\n    {body}\n") == told


def test_a_mask_in_a_helper_is_told_where_the_helper_is_called(tmp_path: Path) -> None:
    helper = "def drop(x, kept):\n    mask = torch.rand(3) < kept\n    return x * mask / kept\n\n"
    source = helper + "def forward(self, x):\n    x = x + 1\n    return drop(x, 0.5)\n"
    assert always(tmp_path / "net.py", source) == MASK


def test_a_helper_that_draws_something_else_makes_it_uncertain(tmp_path: Path) -> None:
    helper = "def noise(x):\n    return torch.randn_like(x)\n\n"
    source = helper + "def forward(self, x):\n    return F.dropout(noise(x))\n"
    assert always(tmp_path / "net.py", source) is None
