"""Tensors that were met can be swapped as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    import pytest


def test_what_a_module_put_out_can_be_swapped(logdir: str, level: str) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level=level)
    with torch.no_grad():
        out = model(torch.ones(1, 2))
    other = torch.zeros(3)
    torch.utils.swap_tensors(out, other)
    assert out.shape == (3,)
    assert other.shape == (1, 2)


def test_a_model_is_converted_by_swapping_at_debug(logdir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level=Proxy.DEBUG)
    model(torch.ones(1, 2)).sum().backward()
    assert model.weight.grad is not None
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.double()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert model.weight.dtype == model.weight.grad.dtype == torch.float64


def test_torch_gets_its_function_back(logdir: str) -> None:
    original = torch._C._swap_tensor_impl
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir)
    assert torch._C._swap_tensor_impl is not original
    Proxy.unproxy(model)
    assert torch._C._swap_tensor_impl is original
