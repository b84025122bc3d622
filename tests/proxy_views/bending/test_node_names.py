"""Nodes are called while they are bent as the graph calls them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import proxy_wrapper.proxy as Proxy
from proxy_views import Capture, Scale, bend


class Attends(nn.Module):
    """Splits a tuple, computes with sizes, calls a layer twice, and switches gradients off."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.mask: torch.Tensor
        self.register_buffer("mask", torch.ones(8))

    def forward(self, x: torch.Tensor) -> Any:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 2, 3 * width // 2).transpose(1, 2).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width) * self.mask
        with torch.no_grad():
            peak = torch.relu(y).max()
        return self.out(torch.relu(self.out(y)) * 2.0 + x[:, :1]) / (peak + 1.0)


@pytest.mark.parametrize("live_sizes", [False, True])
def test_each_node_is_found_by_its_name(live_sizes: bool) -> None:
    model, x = Attends(), torch.randn(2, 3, 8)
    with Proxy.trace(model, live_sizes=live_sizes) as trace:
        model(x)
    activations = trace.activations()
    tensors = [node.name for node in trace.graph().graph.nodes if node.op.startswith("call")]
    found = 0
    for name in tensors:
        if name not in activations or name.startswith("getitem"):
            continue
        capture = Capture()
        with bend(model, name, capture, kind="activation", trace=trace if live_sizes else None):
            model(x)
        (captured,) = capture.captured.values()
        assert len(captured) == 1
        assert torch.equal(captured[0], activations[name])
        found += 1
    assert found >= 10


def test_the_second_call_of_a_module() -> None:
    model, x = Attends(), torch.randn(2, 3, 8)
    for name, number in (("out_1", 1), ("out@1", 1), ("out", 0)):
        capture, every = Capture(), Capture()
        with bend(model, name, capture, kind="activation"), bend(model, "out", every, kind="module"):
            model(x)
        (captured,) = capture.captured.values()
        assert len(every.captured["out"]) == 2
        assert torch.equal(captured[0], every.captured["out"][number])
        assert len(captured) == 1


def test_a_name_goes_on_meaning_the_same_at_the_next_call() -> None:
    model, x = Attends(), torch.randn(2, 3, 8)
    wanted = model(x)
    with bend(model, "truediv", Scale(2.0)) as handle:
        for _ in range(3):
            assert torch.equal(model(x), wanted * 2.0)
    assert handle.count == 3
