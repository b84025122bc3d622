"""What siu's profiler tells: each line of its checklist by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

import proxy_wrapper.proxy as Proxy
from proxy_views.profile import Device, flop_count, register_flop_impl, register_shape_impl
from tests.proxy_views.profile.models import CNN, Twice, pictures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_views.profile import Profile


@pytest.fixture(autouse=True)
def _no_tracer_is_left() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    Proxy._installed.take_down()


@pytest.fixture
def profile() -> Profile:
    model = CNN()
    with Proxy.trace(model, profile=True) as trace:
        out = model(pictures())
        out.backward(torch.ones_like(out))
    return trace.profile(flops="siu")


def unknown_shape(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy()[:1].repeat(2, 0).repeat(7, 1)[:2, :7])


class Unknown(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return unknown_shape(x)


def test_s17_a_shape_is_registered_for_a_function_that_cannot_run_without_data() -> None:
    x = torch.ones(2, 3, device="meta")
    with pytest.raises(Exception, match=r"numpy|meta"):
        Unknown()(x)
    register_shape_impl(unknown_shape)(lambda x: torch.empty(2, 7, device=x.device))
    model = Unknown()
    with Proxy.trace(model, profile=True) as trace:
        assert model(x).shape == (2, 7)
    row = trace.profile()["unknown_shape"]
    assert (row.kind, row.output_bytes + row.temporary_bytes) == ("function", 2 * 7 * 4)


def counted(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


class Counted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return counted(x)


def test_s18_flops_are_registered_for_a_function() -> None:
    register_flop_impl(counted)(lambda x: (123, 456))
    model = Counted()
    with Proxy.trace(model, profile=True) as trace:
        model(torch.ones(3, requires_grad=True)).sum().backward()
    row = trace.profile()["counted"]
    assert (row.forward_flops, row.backward_flops) == (123, 456)


def test_s19_flops_of_each_call(profile: Profile) -> None:
    found = {name: (profile[name].forward_flops, profile[name].backward_flops) for name in ("conv1", "conv2", "fc", "")}
    assert found == {
        "conv1": (442368, 442368),
        "conv2": (589824, 1179648),
        "fc": (20480, 40980),
        "": (1183744, 1794068),
    }


def test_s20_bytes_that_are_saved(profile: Profile) -> None:
    assert profile.saved_bytes == 262208
    model = Twice()
    with Proxy.trace(model, profile=True) as trace:
        model(torch.randn(2, 4))
    assert trace.profile().saved_bytes == 128


def test_s20_they_are_those_that_hooks_count() -> None:
    model, x, saved = CNN(), pictures(), {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.data_ptr()] = tensor
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x)
    state = {each.data_ptr() for each in (*model.parameters(), *model.buffers())}
    assert sum(each.nbytes for address, each in saved.items() if address not in state) == 262208
    del out


def test_s21_bytes_of_each_call(profile: Profile) -> None:
    conv, relu, pool = profile["conv1"], profile["relu.relu"], profile["pool"]
    assert (conv.output_bytes, conv.temporary_bytes) == (65536, 0)  # Batch norm keeps it.
    assert (conv.parameter_bytes, conv.buffer_bytes, conv.input_gradient_bytes) == (896, 0, 24576)
    assert profile["bn"].buffer_bytes == 8 * 4 * 2 + 8
    assert (relu.output_bytes, profile["bn"].temporary_bytes) == (65536, 65536)
    assert (pool.output_bytes, pool.input_gradient_bytes) == (16384, 65536)
    assert (profile["fc"].output_bytes, profile["fc"].temporary_bytes) == (0, 80)
    assert profile["view"].is_alias
    assert not conv.is_alias


def test_s22_the_table(profile: Profile) -> None:
    lines = profile.table().splitlines()
    columns = ("Op type", "Op", "Accumulate", "Incremental", "Output", "Temp", "Param", "Backward size")
    place = 0
    for column in (*columns, "Fwd FLOPs", "Bwd FLOPs"):
        place = lines[0].index(column, place) + len(column)
    conv = next(line for line in lines if line.startswith("Conv2d       conv2"))
    assert conv.split()[-6:-4] == ["589,824", "1,179,648"]


def test_s23_flops_of_a_module_and_of_a_function() -> None:
    assert flop_count(CNN(), pictures(), flops="siu") == (1183744, 1794068)
    assert flop_count(torch.matmul, torch.ones(2, 3), torch.ones(3, 4), flops="siu") == (24, 0)


def test_s25_times_by_the_rates_of_a_device() -> None:
    model = CNN()
    with Proxy.trace(model, profile=True) as trace:
        model(pictures()).sum().backward()
    row = trace.profile(flops="siu", device=Device(tflops=1, gigabytes_per_s=10))["conv2"]
    assert (row.device_forward_s, row.device_backward_s) == (589824 / 1e12, 1179648 / 1e12)
    assert row.forward_s > 0
