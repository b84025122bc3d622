"""Flow steps as torchbend has them, with the true lines: B3 to B7 of the checklist."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    from proxy_trace.flow.flow_steps import FlowStep


class Doug(nn.Module):
    """Goes through its channels one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 1:
            return torch.cat([self(x[:, i : i + 1]) for i in (0, 1)], 1)
        result: torch.Tensor = self.conv(x)
        return result


class LogicalFoo(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.all():
            return x
        return x + 1


class ShapeFoo(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0]


class LoopFoo(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = x * 2
        return x


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for t in x:
            x = x + t
        while x.sum() > 1:
            x = x / 8
        return x


def flow_steps(model: nn.Module, *args: Any) -> list[FlowStep]:
    expected = model(*args)
    with Proxy.trace(model, flow=True) as trace:
        assert torch.equal(model(*args), expected)
    return trace.flow_steps()


def line_of(model: nn.Module, text: str) -> int:
    lines, first = inspect.getsourcelines(type(model))
    return first + next(number for number, line in enumerate(lines) if text in line)


def test_b3_three_tests_each_with_its_own_line() -> None:
    model = Doug()
    steps = [step for step in flow_steps(model, torch.randn(1, 2, 16)) if step.construct == "if"]
    assert [(step.name, step.value) for step in steps] == [("gt", True), ("gt_1", False), ("gt_2", False)]
    line = line_of(model, "if x.shape[1] > 1")
    assert {str(step) for step in steps} == {f"{__file__}:Doug.forward.{line}"}


def test_b4_a_method_of_a_tensor() -> None:
    (step,) = flow_steps(LogicalFoo(), torch.zeros(4))
    assert (step.construct, step.name, step.value) == ("if", "all_1", False)


def test_b5_a_shape_that_is_only_computed_with_is_no_step() -> None:
    assert flow_steps(ShapeFoo(), torch.ones(4)) == []


def test_b6_a_loop_and_no_logical_step() -> None:
    (step,) = flow_steps(LoopFoo(), torch.ones(4), 4)
    assert (step.construct, step.value, step.iterations) == ("for", None, 4)


def test_b7_a_loop_over_a_tensor_and_one_step_for_each_test_of_while() -> None:
    loop, *tests = flow_steps(Rows(), torch.ones(3, 2))
    assert (loop.construct, loop.name, loop.iterations) == ("for", "x", 3)
    assert [step.name for step in tests] == ["gt", "gt_1", "gt_2", "gt_3"][: len(tests)]
    assert [step.value for step in tests] == [True] * (len(tests) - 1) + [False]
    assert len(tests) > 1


def test_steps_that_were_not_asked_for_are_refused() -> None:
    import pytest

    from proxy_views.errors import NoFlowError

    model = LogicalFoo()
    with Proxy.trace(model) as trace:
        model(torch.zeros(4))
    with pytest.raises(NoFlowError, match="flow=True"):
        trace.flow_steps()
