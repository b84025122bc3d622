"""Which module and call what is seen belongs to, and that nothing of it is left in torch."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.autograd import graph
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import proxy_wrapper.proxy as Proxy
from proxy_views.errors import NotProfiledError
from proxy_views.profile import Profiler
from proxy_views.profile.errors import ConventionError, StillProfilingError, UnknownRowError
from tests.proxy_views.profile.models import CNN, Checkpointed, Twice, pictures
from tests.proxy_views.same_results import assert_same, outcome_of

if TYPE_CHECKING:
    from proxy_views.profile import Profile


def profile_of(model: nn.Module, *args: Any, flops: Any = "torch") -> Profile:
    with Proxy.trace(model, profile=True) as trace:
        model(*args).sum().backward()
    return trace.profile(flops)


@pytest.mark.parametrize(
    "make",
    [CNN, Twice, lambda: Checkpointed(reentrant=False), lambda: Checkpointed(reentrant=True)],
    ids=["CNN", "Twice", "checkpoint", "reentrant checkpoint"],
)
def test_outputs_gradients_and_random_state_stay_the_same(make: Any) -> None:
    model = make()
    x = pictures() if isinstance(model, CNN) else torch.randn(3, 4, requires_grad=True)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    wanted = outcome_of(model, model, (x,))
    model.load_state_dict(state)
    with Proxy.trace(model, profile=True):
        found = outcome_of(model, model, (x,))
    assert_same(found, wanted)


def installed() -> tuple[Any, ...]:
    return (
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
        torch._C._autograd._top_saved_tensors_default_hooks(True),
        graph.disable_saved_tensors_hooks,
        torch.autograd.Function.apply.__func__,  # type: ignore[attr-defined]
        dict(nn.modules.module._global_forward_hooks),
    )


class Products(TorchDispatchMode):
    """Counts products of matrices; `FlopCounterMode` cannot be asked, since its hooks refuse `torch.autograd.grad`."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return func(*args, **(kwargs or {}))


def test_nothing_is_left_behind_the_block() -> None:
    before = installed()
    profile_of(Twice(), torch.ones(2, 4))
    assert installed() == before


def test_nothing_is_left_after_a_model_that_raises() -> None:
    before = installed()
    with pytest.raises(RuntimeError, match="mat1"), Proxy.trace(Twice(), profile=True):
        Twice()(torch.ones(2, 5))
    assert installed() == before


def test_it_goes_on_after_a_module_that_raises_in_the_block() -> None:
    model = Twice()
    with Proxy.trace(model, profile=True, call=1) as trace:
        with pytest.raises(RuntimeError):
            model(torch.ones(2, 5))
        model(torch.ones(2, 4))
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert trace.profile("torch")["a"].forward_flops == 2 * 2 * 2 * 4 * 4
    assert trace.profile("torch")["mm"].module is None


def test_no_frame_of_ours_stays_in_the_traceback_of_a_failing_call() -> None:
    profiler = Profiler(None)
    profiler.begin()
    try:
        with pytest.raises(RuntimeError) as raised:
            torch.ones(2, 3) @ torch.ones(2, 3)
    finally:
        profiler.end()
    assert [entry.name for entry in raised.traceback] == [
        "test_no_frame_of_ours_stays_in_the_traceback_of_a_failing_call"
    ]


def test_what_a_module_called_twice_takes_is_summed_up() -> None:
    row = profile_of(Twice(), torch.ones(2, 4))["a"]
    # The first input wants no gradient, so that only one of the calls has its gradient computed.
    assert (row.calls, row.forward_flops, row.backward_flops) == (2, 2 * 64, 3 * 64)


def test_a_module_that_is_not_called_has_no_row() -> None:
    profile = profile_of(Twice(), torch.ones(2, 4))
    with pytest.raises(UnknownRowError, match="no row 'unused'"):
        profile["unused"]


def test_each_backward_call_finds_its_module() -> None:
    model = CNN()
    with FlopCounterMode(display=False) as counter:
        model(pictures()).sum().backward()
    profile = profile_of(CNN(), pictures())
    assert profile.total_flops == counter.get_total_flops()
    assert profile[""].backward_flops == profile.backward_flops == 442368 * 2 + 1179648 * 2 + 20480 * 4
    assert profile["conv2"].backward_flops == 1179648 * 2
    assert profile["fc.addmm"].backward_flops == 20480 * 4


def test_a_view_changed_in_place_has_its_gradient_counted_where_it_was_changed() -> None:
    class Changes(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            whole = y * 1
            whole[:2].addmm_(x, x)
            return whole

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.changes = Changes()
            self.after = nn.Linear(2, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.after(self.changes(x, torch.ones(4, 2)))
            return found

    profile = profile_of(Model(), torch.ones(2, 2, requires_grad=True))
    # Torch has no formula for `addmm_`; its gradient is two products of matrices, which it has one for.
    assert profile["changes.addmm_"].backward_flops == profile["changes"].backward_flops == 2 * 16
    assert profile["after"].backward_flops == 2 * 48


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_computes_again_counts_as_forward_where_it_was(*, reentrant: bool) -> None:
    profile = profile_of(Checkpointed(reentrant=reentrant), torch.ones(2, 4, requires_grad=True))
    second = profile["second"]
    assert (second.calls, second.recomputed_calls, second.forward_flops) == (2, 1, 2 * 64)
    assert profile["first"].recomputed_calls == 0
    assert second.backward_flops == 2 * 64
    again = [row for row in profile.rows if row.type == "aten.mm" and row.is_recomputed]
    assert {row.module for row in profile.rows if row.is_recomputed} == {"", "second"}
    # The product with the input of the region belongs to the model itself; its output is not needed again.
    assert [row.module for row in again] == [""]


def test_with_a_checkpoint_less_is_saved() -> None:
    x = torch.ones(2, 4, requires_grad=True)
    model = Checkpointed(reentrant=False)
    plain = profile_of(nn.Sequential(model.first, model.second), x).saved_bytes
    assert profile_of(model, x).saved_bytes == 2 * 32 == plain


def test_two_backward_passes_are_two() -> None:
    model = nn.Linear(4, 4)
    with Proxy.trace(model, profile=True) as trace:
        loss = model(torch.ones(2, 4)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    assert trace.profile("torch")[""].backward_flops == 2 * 64


def test_a_backward_pass_behind_the_block_is_not_in_it() -> None:
    model = nn.Linear(4, 4)
    with Proxy.trace(model, profile=True) as trace:
        loss = model(torch.ones(2, 4)).sum()
    loss.backward()
    assert trace.profile("torch").backward_flops == 0
    assert model.weight.grad is not None


def test_a_forward_pass_before_the_block_has_its_backward_pass_outside_of_the_model() -> None:
    model = nn.Linear(4, 4)
    loss = model(torch.ones(2, 4)).sum()
    with Proxy.trace(model, profile=True) as trace:
        loss.backward()
    profile = trace.profile("torch")
    assert profile.backward_flops == 64
    assert [(row.module, row.backward_flops) for row in profile.rows if row.backward_flops] == [(None, 64)]


def test_a_second_derivative_belongs_to_the_same_module() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    x = torch.randn(2, 4, requires_grad=True)
    with Proxy.trace(model, profile=True) as trace:
        (gradient,) = torch.autograd.grad(model(x).pow(2).sum(), x, create_graph=True)
        gradient.pow(2).sum().backward()
    with Products() as products:  # type: ignore[no-untyped-call]
        (gradient,) = torch.autograd.grad(model(x).pow(2).sum(), x, create_graph=True)
        gradient.pow(2).sum().backward()
    profile = trace.profile("torch")
    assert profile.total_flops == products.count * 2 * 2 * 4 * 4
    assert profile.forward_flops == 2 * 64
    assert profile["0"].backward_flops + profile["1"].backward_flops == profile.backward_flops  # type: ignore[operator]


def test_what_another_thread_does_is_not_in_it() -> None:
    model = nn.Linear(4, 4)
    with Proxy.trace(model, profile=True) as trace:
        model(torch.ones(2, 4))
        thread = threading.Thread(target=lambda: model(torch.ones(200, 4)).sum().backward())
        thread.start()
        thread.join()
    assert trace.profile("torch").total_flops == 64


def test_of_two_models_the_one_has_rows() -> None:
    model, other = nn.Linear(4, 4), nn.Linear(4, 2)
    with Proxy.trace(model, profile=True) as trace:
        other(model(torch.ones(2, 4))).sum().backward()
    profile = trace.profile("torch")
    assert (profile[""].forward_flops, profile[""].backward_flops) == (64, 64)
    assert (profile.forward_flops, profile.backward_flops) == (64 + 32, 64 + 64)


def test_inference_mode_shows_what_calls_come_to() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Conv1d(2, 2, 3))
    with torch.inference_mode():
        wanted = model(torch.ones(2, 4))
        with Proxy.trace(model, profile=True) as trace:
            found = model(torch.ones(2, 4))
    assert torch.equal(found, wanted)
    assert trace.profile("torch")["0"].forward_flops == 64
    assert trace.profile("torch")["1"].forward_flops == 2 * 2 * 2 * 2 * 3


def test_under_autocast_calls_of_the_lower_precision_are_counted() -> None:
    model = nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16), Proxy.trace(model, profile=True) as trace:
        model(torch.ones(2, 4)).sum().backward()
    assert trace.profile("torch").total_flops == 2 * 64


def test_no_tensor_is_kept_alive() -> None:
    class Keeps(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(torch.exp(x)).sum()

    profiler = Profiler(Keeps())
    x = torch.ones(4, requires_grad=True)
    profiler.begin()
    y = torch.tanh(torch.exp(x))
    gone = weakref.ref(y)
    del y
    gc.collect()
    profiler.end()
    assert gone() is None


def test_a_block_that_was_not_asked_has_no_profile() -> None:
    with Proxy.trace(nn.Linear(4, 4)) as trace:
        pass
    with pytest.raises(NotProfiledError, match="profile=True"):
        trace.profile()


def test_a_profile_is_asked_for_behind_the_block() -> None:
    with Proxy.trace(nn.Linear(4, 4), profile=True) as trace, pytest.raises(StillProfilingError):
        trace.profile()


def test_an_unknown_way_to_count_is_refused() -> None:
    with Proxy.trace(nn.Linear(4, 4), profile=True) as trace:
        pass
    with pytest.raises(ConventionError, match='"corrected"'):
        trace.profile("macs")  # type: ignore[arg-type]


def test_a_block_in_which_nothing_is_called_has_an_empty_profile() -> None:
    with Proxy.trace(nn.Linear(4, 4), profile=True) as trace:
        pass
    profile = trace.profile()
    assert (profile.rows, profile.total_flops, profile.saved_bytes) == ((), 0, 0)


def test_blocks_in_blocks_count_both() -> None:
    model = nn.Linear(4, 4)
    with Proxy.trace(model, profile=True) as outer:
        model(torch.ones(2, 4))
        with Proxy.trace(model, profile=True) as inner:
            model(torch.ones(3, 4)).sum().backward()
    assert inner.profile("torch")[""].forward_flops == 96
    assert outer.profile("torch")[""].forward_flops == 64 + 96
    assert outer.profile("torch").backward_flops == inner.profile("torch").backward_flops == 96


def test_attention_of_the_cpu_is_counted_in_corrected_numbers_alone() -> None:
    query = torch.randn(2, 4, 6, 8, requires_grad=True)
    profiler = Profiler(None)
    profiler.begin()
    F.scaled_dot_product_attention(query, query, query).sum().backward()
    profiler.end()
    products = 2 * 2 * (2 * 4) * 6 * 8 * 6
    assert profiler.profile("torch").total_flops == 0
    assert "aten._scaled_dot_product_flash_attention_for_cpu" in profiler.profile("torch").without_formula
    corrected = profiler.profile("corrected")
    assert (corrected.forward_flops, corrected.backward_flops) == (products, 2 * products)
