"""Derivatives with a graph that no loss depends on are told, and those that one does are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.func import functional_call

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import penalties
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from pathlib import Path

Adapted = dict[str, torch.Tensor]


def adapt(model: nn.Module, given: torch.Tensor, steps: int) -> Adapted:
    """The parameters of a model after some steps that can be differentiated."""
    adapted: Adapted = dict(model.named_parameters())
    for _ in range(steps):
        loss = functional_call(model, adapted, (given,)).square().mean()
        gradients = torch.autograd.grad(loss, list(adapted.values()), create_graph=True)
        adapted = {name: own - 0.1 * gradient for (name, own), gradient in zip(adapted.items(), gradients, strict=True)}
    return adapted


def norm_of_gradient(model: nn.Module, given: torch.Tensor) -> torch.Tensor:
    """The norm of the gradient, as it is shown; its graph is of no use."""
    gradients = torch.autograd.grad(model(given).square().mean(), list(model.parameters()), create_graph=True)
    return torch.cat([each.flatten() for each in gradients]).square().sum().sqrt()


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("first_used", [0, 10, None], ids=["used", "used later", "unused"])
def test_adapted_parameters(tmp_path: Path, steps: int, first_used: int | None) -> None:
    model = Proxy.Proxy(nn.Linear(3, 2), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(24):
        adapted = adapt(model, torch.randn(4, 3), steps)
        is_used = first_used is not None and step >= first_used
        given = torch.randn(4, 3)
        loss = (functional_call(model, adapted, (given,)) if is_used else model(given)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    Proxy.unproxy(model)
    found = [each.code for each in find(tmp_path, penalties.CHECK)]
    assert found == ["inner-steps-unused"] * (first_used is None)


def outer_loss(model: nn.Module) -> Any:
    """A loss that was to depend on the adapted parameters."""
    adapt(model, torch.randn(4, 3), 1)
    return model(torch.randn(4, 3)).square().mean()


def test_parameters_adapted_where_the_loss_is_computed(tmp_path: Path) -> None:
    model = Proxy.Proxy(nn.Linear(3, 2), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(16):
        loss = outer_loss(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    Proxy.unproxy(model)
    (found,) = find(tmp_path, penalties.CHECK)
    assert found.place.endswith(f"test_derivatives.py:{outer_loss.__code__.co_firstlineno + 2}")


@pytest.mark.parametrize("is_differentiated", [False, True])
def test_other_derivatives_are_not_told(tmp_path: Path, is_differentiated: bool) -> None:
    model = Proxy.Proxy(nn.Linear(3, 2), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(16):
        norm = norm_of_gradient(model, torch.randn(4, 3))
        if is_differentiated:
            torch.autograd.grad(norm, list(model.parameters()))
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()
    Proxy.unproxy(model)
    assert not find(tmp_path, penalties.CHECK)
