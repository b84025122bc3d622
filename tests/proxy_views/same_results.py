"""Whether a graph computes what the model does, and a traced model what an untraced one does: to the bit."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

import proxy_wrapper.proxy as Proxy
from proxy_views.structures import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from proxy_views.live_trace import LiveTrace


class Outcome(NamedTuple):
    """What a call and its backward pass left behind."""

    outputs: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    buffers: list[torch.Tensor]
    random_state: torch.Tensor


def outcome_of(
    call: Callable[..., Any], model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
) -> Outcome:
    """What `call` gives for these arguments, with the gradients of the parameters of `model`."""
    torch.manual_seed(7)
    for parameter in model.parameters():
        parameter.grad = None
    found = call(*copied(args), **copied(dict(kwargs or {})))
    outputs = [tensor for _, tensor in tensors_in(found)]
    random_state = torch.get_rng_state()
    total = sum((each.double().sum() for each in outputs if each.requires_grad), torch.zeros((), dtype=torch.float64))
    if total.requires_grad:
        total.backward()
    gradients = [None if each.grad is None else each.grad.clone() for each in model.parameters()]
    return Outcome(
        [each.detach().clone() for each in outputs], gradients, [each.clone() for each in model.buffers()], random_state
    )


def copied(value: Any) -> Any:
    """`value` with copies of the tensors in it: some models write into their inputs."""
    return torch.utils._pytree.tree_map(lambda each: each.clone() if isinstance(each, torch.Tensor) else each, value)


def assert_same(found: Outcome, wanted: Outcome) -> None:
    """Compare all of it by `torch.equal`."""
    assert len(found.outputs) == len(wanted.outputs) > 0
    for one, other in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
        assert (one is None) == (other is None)
        assert one is None or (one.dtype == other.dtype and torch.equal(one, other))


def traced(model: nn.Module, *args: Any, **kwargs: Any) -> LiveTrace:
    """A trace of one call of `model`, which gives what an untraced one does."""
    settings = {name: kwargs.pop(name) for name in ("leaf_functions", "live_sizes") if name in kwargs}
    plain = copy.deepcopy(model)
    wanted = outcome_of(plain, plain, args, kwargs)
    with Proxy.trace(model, **settings) as trace:
        found = outcome_of(model, model, args, kwargs)
    assert_same(found, wanted)
    return trace


def assert_replays(trace: LiveTrace, model: nn.Module, *args: Any, graph: Any = None, **kwargs: Any) -> None:
    """Compare the graph of a trace with the model, called with these arguments."""
    graph = graph if graph is not None else trace.graph()
    plain = copy.deepcopy(model)
    wanted = outcome_of(plain, plain, args, kwargs)
    assert_same(outcome_of(graph, model, args, kwargs), wanted)
