"""The calls of loss functions behind a loss, read from the code that computes it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from proxy_wrapper.code_lines.loss_calls import loss_calls
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import Body
from proxy_wrapper.program_code.computed_lines import ComputedLine

if TYPE_CHECKING:
    from collections.abc import Callable


class Distillation:
    def __init__(self) -> None:
        self.criterion = nn.CrossEntropyLoss()

    def loss(self, student: torch.Tensor, teacher: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        soft = F.softmax(student, 1)
        kd = F.kl_div(soft, teacher)
        hard: torch.Tensor = self.criterion(student, classes)
        return 0.5 * kd + 0.5 * hard

    def other(self, student: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        logged = F.mse_loss(student, student)
        print(logged)
        return F.nll_loss(student, classes) + F.nll_loss(student + 1, classes)

    def unknown(self, criterion: Any, student: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = criterion(student)
        return loss


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        pytest.param(Distillation.loss, [("kl_div", 2), ("cross_entropy", 3)], id="terms in variables"),
        pytest.param(Distillation.other, [("nll_loss", 3)], id="terms in one line, and a value that is only printed"),
        pytest.param(Distillation.unknown, [], id="a criterion that is not known"),
    ],
)
def test_calls_of_loss_functions_behind_a_loss(function: Callable[..., Any], calls: list[tuple[str, int]]) -> None:
    code = function.__code__
    lines, first = inspect.getsourcelines(function)
    end = AssignedLine(code, first + len(lines) - 1)
    body = Body(code, globals(), {"self": Distillation()})
    assert [(each.name, each.line - first) for each in loss_calls(ComputedLine(end, body))] == calls
