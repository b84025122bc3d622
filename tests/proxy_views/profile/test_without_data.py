"""A run without data has the rows of a real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import proxy_wrapper.proxy as Proxy
from tests.proxy_views.profile.models import CNN, Checkpointed, Twice, pictures

if TYPE_CHECKING:
    from torch import nn

    from proxy_views.profile import Profile, ProfileRow

MAKES = {
    "CNN": (CNN, pictures),
    "Twice": (Twice, lambda: torch.randn(2, 4)),
    "checkpoint": (lambda: Checkpointed(reentrant=False), lambda: torch.randn(2, 4)),
}


def profiled(model: nn.Module, x: torch.Tensor) -> Profile:
    with Proxy.trace(model, profile=True) as trace:
        model(x).sum().backward()
    return trace.profile("siu")


def rows_of(profile: Profile) -> list[ProfileRow]:
    """The rows without the times."""
    return [row._replace(forward_s=0, backward_s=0) for row in profile.rows]


@pytest.mark.parametrize("name", MAKES)
def test_fake_tensors_give_the_same_rows(name: str) -> None:
    make, inputs = MAKES[name]
    real = profiled(make(), inputs())
    with FakeTensorMode():
        fake = profiled(make(), inputs())
    assert rows_of(fake) == rows_of(real)


@pytest.mark.parametrize("name", MAKES)
def test_tensors_on_meta_give_the_same_rows(name: str) -> None:
    make, inputs = MAKES[name]
    real = profiled(make(), inputs())
    with torch.device("meta"):
        model, x = make(), inputs()
    assert rows_of(profiled(model, x)) == rows_of(real)
