"""Lines are found by the names that they use, if only one uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from proxy_wrapper.code_lines.named_lines import filling_line
from proxy_wrapper.program_code.called_functions import Body

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.program_code.assigned_lines import AssignedLine


def keeps(model: nn.Module) -> Any:
    best = model.state_dict()
    torch.save(model.state_dict(), "best.pt")
    model.load_state_dict(best)
    return best


def fills(layer: nn.Linear) -> None:
    nn.init.constant_(layer.weight, 0.1)
    nn.init.zeros_(layer.bias)


def fills_twice(layer: nn.Linear) -> None:
    nn.init.ones_(layer.weight)
    layer.bias.data.fill_(0.1)


def line_of(found: AssignedLine | None) -> int | None:
    """The line, counted from that of the function."""
    return None if found is None else found.line - found.code.co_firstlineno


@pytest.mark.parametrize(("function", "line"), [(fills, 1), (fills_twice, None), (keeps, None)])
def test_the_line_that_fills_a_tensor(function: Callable[..., Any], line: int | None) -> None:
    assert line_of(filling_line([Body(function.__code__, {})])) == line
