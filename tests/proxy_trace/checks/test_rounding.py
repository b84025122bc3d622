"""Updates that half precision rounds away are told from their size and that of the weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from proxy_trace.checks.rounding import are_updates_lost
from proxy_trace.process.process_summary import TensorSummary
from proxy_trace.process.training_summary import GroupSummary, OptimizerSummary
from proxy_wrapper import events

ADAM: dict[str, Any] = {"betas.0": 0.9, "betas.1": 0.999, "weight_decay": 0.0}


def optimizer(name: str, rate: float, steps: int = 10, **settings: Any) -> OptimizerSummary:
    group = GroupSummary({"lr": rate, **settings}, [1], largest_rate=rate)
    return OptimizerSummary(name, groups=[group], steps=steps)


def weight(dtype: str, norm: float, gradient: float = 1.0, sizes: str = "8, 8") -> TensorSummary:
    """A weight with the L2 norms of its values and of its gradient."""
    tensor = TensorSummary(1, type=f"{dtype}[{sizes}]", has_nonzero_gradient=True, largest_gradient_norm=gradient)
    tensor.last_stepped = events.Statistics(-1.0, 1.0, norm)
    return tensor


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("exponent", range(-16, 0))
def test_few_elements_change_where_updates_are_told_to_be_lost(dtype: torch.dtype, exponent: int) -> None:
    generator = torch.Generator().manual_seed(0)
    values = (torch.rand(64, 64, generator=generator) - 0.5).to(dtype)
    gradient = torch.randn(64, 64, generator=generator)
    rate = 2.0**exponent
    tensor = weight(str(dtype).partition(".")[2], values.float().norm().item(), gradient.norm().item(), "64, 64")
    changed = (values - (rate * gradient).to(dtype) != values).float().mean()
    if are_updates_lost(tensor, optimizer("SGD", rate, momentum=0.0)):
        assert changed < 0.2
    else:
        assert changed > 0.02


@pytest.mark.parametrize(
    ("dtype", "made", "is_lost"),
    [
        pytest.param("bfloat16", optimizer("SGD", 1e-3), True, id="SGD"),
        pytest.param("bfloat16", optimizer("Adam", 1e-6, **ADAM), True, id="Adam"),
        pytest.param("bfloat16", optimizer("Adam", 1e-3, **ADAM), False, id="Adam with a larger rate"),
        pytest.param("float32", optimizer("SGD", 1e-3), False, id="single precision"),
        pytest.param("float16", optimizer("SGD", 1e-3), False, id="a finer half precision"),
        pytest.param("bfloat16", optimizer("SGD", 1e-3, steps=9), False, id="too few steps"),
        pytest.param("bfloat16", optimizer("SGD", 1e-3, momentum=0.9), False, id="momentum, which adds them up"),
        pytest.param("bfloat16", optimizer("SGD", 1e-3, weight_decay=1.0), False, id="decay"),
        pytest.param("bfloat16", optimizer("Rounding", 1e-3), False, id="an optimizer of which no bound is known"),
        pytest.param("bfloat16", None, False, id="no optimizer"),
    ],
)
def test_what_is_lost(dtype: str, made: OptimizerSummary | None, is_lost: bool) -> None:
    assert are_updates_lost(weight(dtype, 4.0), made) is is_lost


def test_biases_and_weights_without_gradients_are_not_judged() -> None:
    made = optimizer("SGD", 1e-9)
    assert are_updates_lost(weight("bfloat16", 4.0), made)
    assert not are_updates_lost(weight("bfloat16", 4.0, sizes="8"), made)
    tensor = weight("bfloat16", 4.0)
    tensor.has_nonzero_gradient = False
    assert not are_updates_lost(tensor, made)
