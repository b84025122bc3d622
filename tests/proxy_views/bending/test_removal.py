"""A model that was bent, and is no more, is as one that never was: outputs, weights, gradients, random state."""

from __future__ import annotations

import copy
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from proxy_views import Affine, Bias, Callback, Capture, Lambda, Mask, Normal, OrderedMask, Permute, Scale, bend

TARGETS = (
    *("first", "second", "norm", "attend", "", "drop", "first|second", "relu", "relu_", "add", "first_1"),
    *("first.weight", "second.weight", ".*bias", "attend.in_proj_weight", "scale", "inner:second", "inner:relu_"),
)
CALLBACKS: dict[str, Callback] = {
    "scale": Scale(0.5),
    "bias": Bias(0.25),
    "chain": Affine(2.0, -1.0) >> Mask(0.5),
    "mask": Mask(0.5, dim=-1),
    "ordered": OrderedMask(0.5, dim=-1),
    "normal": Normal(0.1, dim=-1),
    "permute": Permute(-1),
    "lambda": Lambda(lambda value: value.clamp(-1, 1)),
    "capture": Capture(),
}


class Model(nn.Module):
    """Calls a layer twice, keeps running statistics, draws, and has a module that nobody may look into."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.scale = nn.Parameter(torch.ones(4))

    def inner(self, x: torch.Tensor) -> Any:
        return torch.relu_(self.second(x)) * self.scale

    def forward(self, x: torch.Tensor) -> Any:
        x = torch.relu(self.first(x))
        x = self.norm(x) + checkpoint(self.inner, x, use_reentrant=False)
        attended, _ = self.attend(x[None], x[None], x[None])
        return self.drop(self.first(attended[0]))


def step(model: nn.Module) -> list[torch.Tensor]:
    """What a step of training leaves behind."""
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    output = model(torch.randn(6, 4))
    output.square().sum().backward()
    gradients = [each.grad.clone() for each in model.parameters() if each.grad is not None]
    optimizer.step()
    optimizer.zero_grad()
    return [output.detach(), *gradients, *(each.clone() for each in model.state_dict().values()), torch.get_rng_state()]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(TARGETS), st.sampled_from(sorted(CALLBACKS)), st.integers(0, 5), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_any_row_of_bending_and_removing(rows: list[tuple[str, str, int, bool]]) -> None:
    torch.manual_seed(0)
    model = Model()
    plain = copy.deepcopy(model)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    handles: list[Any] = []
    for target, name, place, is_run in rows:
        handles.insert(min(place, len(handles)), bend(model, target, copy.deepcopy(CALLBACKS[name])))
        if is_run:
            random_state = torch.get_rng_state()
            model.eval()(torch.ones(6, 4)).sum().backward()
            model.train().zero_grad()
            assert torch.equal(torch.get_rng_state(), random_state)
        if place % 2:
            handles.pop(place % len(handles)).remove()
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    for handle in handles:
        handle.remove()
    assert Proxy._installed.tracer is None or not Proxy._installed.tracer.is_observed_live
    assert not model._forward_hooks
    assert all(isinstance(each, nn.Parameter) for each in model.parameters())
    for found, wanted in zip(step(model), step(plain), strict=True):
        assert torch.equal(found, wanted)
