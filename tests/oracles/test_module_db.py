"""Of every module in PyTorch's own test database the graph computes the same, in training and in evaluation."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_map

import proxy_wrapper.proxy as Proxy
from proxy_views.structures import tensors_in
from tests.proxy_views.same_results import copied

if TYPE_CHECKING:
    from torch import nn


@pytest.mark.sample(16)
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("info", module_db, ids=lambda info: info.formatted_name)
@pytest.mark.filterwarnings("ignore")
def test_the_graph_of_a_module_computes_the_same(info: Any, training: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dtype = torch.float32 if torch.float32 in info.supported_dtypes("cpu") else next(iter(info.supported_dtypes("cpu")))
    samples = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    replayed = 0
    for sample in samples:
        made = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        model: nn.Module = made.to("cpu", dtype).train(training)
        args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
        if any(torch.nn.parameter.is_lazy(each) for each in (*model.parameters(), *model.buffers())):
            model(*copied(args), **copied(kwargs))  # Makes its parameters; a graph is of those that there are.
        plain = copy.deepcopy(model)
        with Proxy.trace(model) as trace:
            found = outcome(model, model, args, kwargs)
        assert_same(found, outcome(plain, plain, args, kwargs))
        again = copy.deepcopy(plain)
        graph = trace.graph()
        # The graph is of the model's own parameters and buffers, as the call has left them.
        assert_same(outcome(graph, model, args, kwargs), outcome(again, again, args, kwargs))
        replayed += 1
    Proxy._installed.take_down()
    assert replayed == len(samples)


def outcome(call: Any, model: nn.Module, args: Any, kwargs: Any) -> list[torch.Tensor | None]:
    """Outputs, gradients of parameters and inputs, buffers, and the state of the generator."""
    torch.manual_seed(5)
    for parameter in model.parameters():
        parameter.grad = None
    leaves: list[torch.Tensor] = []

    def fresh(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        leaf = value.detach().clone().requires_grad_(value.requires_grad)
        leaves.append(leaf)
        return leaf.clone()

    given, by_name = tree_map(fresh, (args, kwargs))
    outputs = [tensor for _, tensor in tensors_in(call(*given, **by_name))]
    differentiable = [each.abs().sum() for each in outputs if each.requires_grad and not each.is_nested]
    if differentiable:
        torch.stack([each.double() for each in differentiable]).sum().backward()
    gradients = [None if each.grad is None else each.grad.clone() for each in (*model.parameters(), *leaves)]
    return [
        *(each.detach() for each in outputs),
        *gradients,
        *(each.clone() for each in model.buffers()),
        torch.get_rng_state(),
    ]


def assert_same(found: list[torch.Tensor | None], wanted: list[torch.Tensor | None]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.shape == other.shape
            assert torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))
            assert torch.equal(torch.isnan(one), torch.isnan(other))
