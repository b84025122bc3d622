"""FLOPs of single operations, in each way of counting, against numbers worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

from proxy_views.profile import Profiler, flop_count
from proxy_views.profile.flops import CONVENTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

x = torch.ones(2, 4, 6, 6)
table = torch.ones(5, 3)


@pytest.mark.parametrize(
    ("call", "flops"),
    [
        pytest.param(lambda: x + 1, 288, id="an elementwise operation"),
        pytest.param(lambda: x.sum(), 288, id="a reduction"),
        pytest.param(lambda: torch.softmax(x, 1), 288, id="softmax"),
        pytest.param(lambda: F.gelu(x), 288, id="an activation"),
        pytest.param(lambda: F.embedding(torch.tensor([1, 2]), table), 15, id="embedding, by the table"),
        pytest.param(lambda: F.avg_pool2d(x, 2), 288, id="pooling"),
        pytest.param(lambda: torch.native_dropout(x, 0.5, True), 288, id="dropout"),
        pytest.param(lambda: F.batch_norm(x, torch.zeros(4), torch.ones(4), torch.ones(4), torch.ones(4), True), 1440),
        pytest.param(lambda: F.batch_norm(x, torch.zeros(4), torch.ones(4), training=True), 1440),
        pytest.param(lambda: F.batch_norm(x, torch.zeros(4), torch.ones(4), torch.ones(4), torch.ones(4)), 576),
        pytest.param(lambda: F.batch_norm(x, torch.zeros(4), torch.ones(4)), 288, id="batch norm without weights"),
        pytest.param(lambda: F.layer_norm(x, (6,), torch.ones(6), torch.ones(6)), 1440, id="layer norm"),
        pytest.param(lambda: F.layer_norm(x, (6,)), 1152, id="layer norm without weights"),
        pytest.param(lambda: x.transpose(0, 1), 0, id="a view"),
        pytest.param(lambda: torch.cat([x, x]), 0, id="a copy"),
        pytest.param(lambda: x.clone(), 0, id="a clone, which torch calls elementwise"),
        pytest.param(lambda: torch.zeros(3).normal_(), 0, id="random numbers"),
        pytest.param(lambda: torch.arange(5) + 1, 0, id="whole numbers"),
        pytest.param(lambda: torch.ones(2, 3) @ table.T, 30, id="a product of matrices"),
        pytest.param(lambda: torch._foreach_add([x, x], 1), 576, id="a list of tensors"),
    ],
)
def test_siu_counts_forward(call: Callable[[], Any], flops: int) -> None:
    assert flop_count(call, flops="siu") == (flops, 0)


@pytest.mark.parametrize(
    ("call", "flops"),
    [
        pytest.param(F.relu, 288, id="an activation"),
        pytest.param(lambda each: F.max_pool2d(each, 2), 288, id="pooling, by its result"),
        pytest.param(lambda each: F.batch_norm(each, None, None, training=True), 1440, id="batch norm in training"),
        pytest.param(lambda each: F.layer_norm(each, (6,), torch.ones(6)), 1440, id="layer norm"),
        pytest.param(lambda each: each.flatten(), 0, id="a view"),
    ],
)
def test_siu_counts_backward(call: Callable[[torch.Tensor], Any], flops: int) -> None:
    assert flop_count(call, x.clone().requires_grad_(), flops="siu").backward == flops


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_backward_pass_of_a_convolution_is_corrected_to_twice_the_forward_one(
    groups: int, *, transposed: bool
) -> None:
    convolve = F.conv_transpose2d if transposed else F.conv2d
    weight = torch.ones(4, 4 // groups, 3, 3, requires_grad=True)

    def call() -> torch.Tensor:
        return convolve(x.clone().requires_grad_(), weight, groups=groups)

    forward, backward = flop_count(call)
    assert forward > 0
    assert backward == 2 * forward
    assert flop_count(call, flops="siu").forward >= forward // 2
    with FlopCounterMode(display=False) as counter:
        call().sum().backward()
    assert sum(flop_count(call, flops="torch")) == counter.get_total_flops()


def test_formulas_that_the_program_registers_count() -> None:
    @torch.library.custom_op("profile_tests::cube", mutates_args=())
    def cube(given: torch.Tensor) -> torch.Tensor:
        return given**3

    @register_flop_formula(torch.ops.profile_tests.cube)
    def cube_flops(shape: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
        assert tuple(out_shape) == tuple(shape)
        return 2 * int(torch.Size(shape).numel())

    for convention in CONVENTIONS:
        assert flop_count(cube, torch.ones(5), flops=convention) == (10, 0)


def test_what_has_no_formula_is_named_and_not_zero() -> None:
    profiler = Profiler(None)
    profiler.begin()
    torch.linalg.qr(torch.eye(3))
    profiler.end()
    for convention in CONVENTIONS:
        profile = profiler.profile(convention)
        assert profile["linalg_qr"].forward_flops is None
        assert profile.without_formula == ("aten.linalg_qr",)
        assert "aten.linalg_qr" in profile.table()
