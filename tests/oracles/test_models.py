"""The graph of a model that others have written computes what it does, and its order is the one that FSDP finds."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import fx, nn
from torch.distributed.fsdp._trace_utils import TracingConfig, _ExecOrderTracer

import proxy_wrapper.proxy as Proxy
from tests.oracles.models import MODELS
from tests.proxy_views.same_results import assert_replays, traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_views.live_trace import LiveTrace
    from tests.oracles.models import Model

pytestmark = pytest.mark.filterwarnings("ignore")  # What torchvision and transformers warn of is theirs.


class Traced(NamedTuple):
    """A model, its trace, and what it was called with."""

    case: Model
    model: nn.Module
    trace: LiveTrace


@pytest.fixture(scope="module", params=MODELS)
def each(request: pytest.FixtureRequest) -> Iterator[Traced]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    case = MODELS[request.param]
    model = case.make().train(case.training)
    args, kwargs = case.inputs(2)
    # It gives the same outputs, gradients, buffers and random state as untraced.
    trace = traced(model, *args, **kwargs)
    yield Traced(case, model, trace)
    trace.close()
    Proxy._installed.take_down()


def test_the_graph_computes_what_the_model_does(each: Traced) -> None:
    torch.manual_seed(1)
    assert [found for found in each.trace.frozen if found.kind == "tensor"] == []
    graph = each.trace.graph()
    for batch in (2, 2, 3):
        args, kwargs = each.case.inputs(batch)
        assert_replays(each.trace, each.model, *args, graph=graph, **kwargs)


def test_the_order_is_that_of_fsdp_s_tracer(each: Traced) -> None:
    order = each.trace.execution_order()
    assert order.param_forward_order is not None
    args, kwargs = each.case.inputs(2)
    plain = copy.deepcopy(each.model)
    sum(total(plain(*args, **kwargs)), torch.zeros(())).backward()
    assert set(order.param_forward_order) == {name for name, p in plain.named_parameters() if p.grad is not None}
    try:
        said = said_by_fsdp(plain)
    except Exception:  # noqa: BLE001  Symbolic tracing refuses most models of transformers.
        return
    assert order.module_forward_order == said[0]
    found = iter(order.param_forward_order)
    assert all(name in found for name in said[1])  # In this order; it misses those that are given by keyword.


def total(output: Any) -> list[torch.Tensor]:
    from proxy_views.structures import tensors_in

    return [tensor.sum() for _, tensor in tensors_in(output) if tensor.requires_grad]


def said_by_fsdp(model: nn.Module) -> tuple[list[str], list[str]]:
    config = TracingConfig(tracer=fx.Tracer(), concrete_args=None)
    tracer = _ExecOrderTracer()
    with tracer.patch_tracer(tracer=config.tracer, root_module=model):
        config.tracer.trace(model, None)
    info = tracer.exec_info
    assert info is not None
    modules = {module: name for name, module in model.named_modules()}
    parameters = {parameter: name for name, parameter in model.named_parameters()}
    return [modules[each] for each in info.module_forward_order], [
        parameters[each] for each in info.param_forward_order
    ]
