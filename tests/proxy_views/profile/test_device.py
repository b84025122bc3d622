"""Times that are computed from rates."""

from __future__ import annotations

import pytest
import torch
from torch import distributed, nn

import proxy_wrapper.proxy as Proxy
from proxy_views.profile import Device
from proxy_views.profile.errors import DeviceError


def test_flops_and_bytes_take_their_time() -> None:
    assert Device(tflops=2, gigabytes_per_s=4).seconds(10**12, 2 * 10**9) == 1.0


@pytest.mark.parametrize("rates", [(0, 1), (1, 0), (-1, 1), (float("nan"), 1)])
def test_a_rate_is_above_zero(rates: tuple[float, float]) -> None:
    with pytest.raises(DeviceError, match="greater than 0"):
        Device(*rates)


def test_the_times_stand_beside_those_that_were_measured() -> None:
    model = nn.Linear(100, 100)
    with Proxy.trace(model, profile=True) as trace:
        model(torch.ones(10, 100)).sum().backward()
    plain, computed = trace.profile(), trace.profile(device=Device(tflops=1, gigabytes_per_s=1))
    assert plain[""].device_forward_s is None
    row = computed[""]
    assert (row.device_forward_s, row.device_backward_s) == (2e5 / 1e12, 2e5 / 1e12)
    assert row.forward_s == plain[""].forward_s > 0
    assert "Fwd on device" in computed.table()
    assert "on device" not in plain.table()


def test_collectives_take_the_time_of_their_bytes() -> None:
    class Reduces(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            distributed.all_reduce(x)
            return x

    store = distributed.HashStore()  # type: ignore[attr-defined]
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = Reduces()
        with Proxy.trace(model, profile=True) as trace:
            model(torch.ones(1000))
    finally:
        distributed.destroy_process_group()
    row = trace.profile(device=Device(tflops=1, gigabytes_per_s=2))[""]
    assert row.communicated_bytes == 4000
    assert row.device_forward_s == 4000 / 2e9
