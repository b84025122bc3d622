"""Bytes, counted by hand."""

from __future__ import annotations

import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from tests.proxy_views.profile.models import CNN, Twice, pictures


def test_what_is_saved_of_the_cnn_in_training() -> None:
    model = CNN()
    with Proxy.trace(model, profile=True) as trace:
        model(pictures())
    profile = trace.profile()
    saved = {row.name: row.saved_bytes for row in profile.rows if row.kind == "operation" and row.saved_bytes}
    assert saved == {
        "conv1.convolution": 2 * 3 * 32 * 32 * 4,
        "bn.native_batch_norm": 2 * 8 * 32 * 32 * 4 + 2 * 8 * 4,  # Its input, and mean and deviation of each channel.
        "relu.relu": 2 * 8 * 32 * 32 * 4,
        "pool.max_pool2d_with_indices": 2 * 8 * 16 * 16 * 8,  # Indices; its input is kept already.
        "conv2.convolution": 2 * 8 * 16 * 16 * 4,
        "relu.relu_1": 2 * 16 * 16 * 16 * 4,
        "max_pool2d_with_indices": 2 * 16 * 8 * 8 * 8,
        "fc.addmm": 2 * 1024 * 4,
    }
    assert profile.saved_bytes == sum(saved.values())


def test_parameters_and_buffers_of_a_module_are_those_inside_it_too() -> None:
    last, tied = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    tied.weight = last.weight
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), last), tied)
    with Proxy.trace(model, profile=True) as trace:
        model(torch.ones(2, 4))
    profile = trace.profile()
    inner = (4 * 3 + 3 + 3 + 3 + 9) * 4
    assert profile["0"].parameter_bytes == profile[""].parameter_bytes == inner  # The tied weight counts once.
    assert profile["1"].parameter_bytes == 36
    assert profile[""].buffer_bytes == profile["0.1"].buffer_bytes == 3 * 4 * 2 + 8


def test_outputs_that_nothing_keeps_are_temporary() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with Proxy.trace(model, profile=True) as trace:
        model(torch.ones(2, 4))
    profile = trace.profile()
    assert (profile["0"].output_bytes, profile["0"].temporary_bytes) == (0, 32)
    assert (profile["1"].output_bytes, profile["1"].temporary_bytes) == (32, 0)
    assert (profile["0"].input_gradient_bytes, profile["0.addmm"].parameter_bytes) == (32, (16 + 4) * 4)


def test_views_and_changes_in_place_are_aliases() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Identity(), nn.ReLU(inplace=True), nn.ReLU())
    with Proxy.trace(model, profile=True) as trace:
        model(torch.ones(2, 2, 2))
    aliases = {row.name for row in trace.profile().rows if row.is_alias}
    assert aliases == {"0", "0.view", "1", "2", "2.relu_"}


def test_memory_that_is_used_again_is_not_the_same_data() -> None:
    model = Twice()
    with Proxy.trace(model, profile=True) as trace:
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
    once = Twice()
    with Proxy.trace(once, profile=True) as single:
        once(torch.ones(2, 4)).sum().backward()
    assert trace.profile().saved_bytes == 3 * single.profile().saved_bytes


def test_what_lies_twice_in_memory_counts_once() -> None:
    x = torch.ones(4, requires_grad=True)
    model = nn.Identity()
    with Proxy.trace(model, profile=True) as trace:
        y = model(x) * 1
        (y * y + y.view(2, 2).flatten() * y).sum()
    assert trace.profile().saved_bytes == 16


def test_sparse_tensors_count_their_parts() -> None:
    table = nn.Embedding(10, 4, sparse=True)
    with Proxy.trace(table, profile=True) as trace:
        table(torch.tensor([1, 2])).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.is_sparse
    assert trace.profile().saved_bytes == 16
