"""Gradients, and the changes of parameters and buffers, whichever way they come about."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Buffer, Gradient, Module, NonFinite, OptimizerStep, Parameter, Update
from tests.proxy_wrapper.programs import Branching, Plain, Tied, images, labels, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.events import Statistics
    from proxy_wrapper.writing.observers.memory import MemoryObserver


def names(observer: MemoryObserver) -> dict[int, str]:
    return {event.id: event.name for event in observer.events if isinstance(event, (Parameter, Buffer))}


def causes(observer: MemoryObserver, start: int = 0) -> dict[str, str]:
    known = names(observer)
    return {known[event.tensor]: event.cause for event in observer.events[start:] if isinstance(event, Update)}


def check(statistics: Statistics | None, tensor: torch.Tensor) -> None:
    assert statistics is not None
    assert statistics.minimum == tensor.min().item()
    assert statistics.maximum == tensor.max().item()
    assert abs(float(statistics.norm or 0) - tensor.norm().item()) <= 1e-6 * tensor.norm().item()
    assert statistics.nonfinite == 0


def test_every_parameter_is_defined_with_its_statistics(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    defined = {event.name: event for event in seen.events if isinstance(event, Parameter)}
    assert list(defined) == [f"net.{name}" for name, _ in model.named_parameters()]
    for name, parameter in model.named_parameters():
        check(defined[f"net.{name}"].statistics, parameter)
        assert defined[f"net.{name}"].type == f"float32{list(parameter.shape)}"


def test_a_step_leaves_gradients_and_updates_with_their_statistics(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    F.cross_entropy(model(images()), labels()).backward()
    optimizer.step()
    known = names(seen)
    parameters = {f"net.{name}": parameter for name, parameter in model.named_parameters()}
    for event in seen.events:
        if isinstance(event, Gradient):
            check(event.statistics, parameters[known[event.tensor]].grad)  # type: ignore[arg-type]
        if isinstance(event, Update):
            check(event.statistics, parameters[known[event.tensor]])
            assert event.version == parameters[known[event.tensor]]._version
    assert causes(seen) == dict.fromkeys(parameters, "step")
    assert [event.optimizer for event in seen.events if isinstance(event, OptimizerStep)] == ["SGD"]


def test_the_step_counts(logdir: str, seen: MemoryObserver) -> None:
    train(Proxy.Proxy(Plain(), recurse=True, logdir=logdir), steps=3)
    assert [event.step for event in seen.events if isinstance(event, OptimizerStep)] == [0, 1, 2]


def test_a_step_that_an_optimizer_makes_within_its_own_is_part_of_that(logdir: str, seen: MemoryObserver) -> None:
    class Around(torch.optim.Optimizer):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            super().__init__(inner.param_groups, {})
            self.inner = inner

        def step(self, closure: Any = None) -> Any:
            loss = None if closure is None else closure()
            self.inner.step()
            with torch.no_grad():
                for parameter in self.param_groups[0]["params"]:
                    parameter.mul_(0.9)
            return loss

    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)

    def closure() -> torch.Tensor:
        loss = F.cross_entropy(model(images()), labels())
        loss.backward()
        return loss

    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    around = Around(inner)
    around.step(closure)
    closure()
    around.step()
    inner.step()
    steps = [(event.step, event.optimizer) for event in seen.events if isinstance(event, OptimizerStep)]
    assert steps == [(0, "Around"), (1, "Around"), (2, "SGD")]
    for kind in (Gradient, Update):
        assert [event.step for event in seen.events if isinstance(event, kind)] == [0] * 4 + [1] * 4 + [2] * 4
    last = {event.tensor: event.statistics for event in seen.events if isinstance(event, Update)}
    known = names(seen)
    for number, statistics in last.items():
        check(statistics, dict(model.named_parameters())[known[number].removeprefix("net.")])


def test_a_parameter_without_a_gradient_says_so(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model.first.weight.grad = torch.ones_like(model.first.weight)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    known = names(seen)
    with_gradient = {known[e.tensor] for e in seen.events if isinstance(e, Gradient) and e.statistics is not None}
    assert with_gradient == {"net.first.weight"}
    assert causes(seen)["net.first.weight"] == "step"
    assert causes(seen)["net.first.bias"] == "unchanged"


def test_parameters_that_a_model_makes_when_it_is_first_called_are_known_to_the_step(
    logdir: str, seen: MemoryObserver
) -> None:
    class Scales(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not hasattr(self, "scale"):
                self.scale = nn.Parameter(torch.ones(1))
            return x * self.scale

    model = Proxy.Proxy(nn.Sequential(Scales(), nn.Flatten()), recurse=True, name="net", logdir=logdir)
    model(images()).sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    assert causes(seen) == {"net.0.scale": "step"}
    assert [event.tensors for event in seen.events if isinstance(event, OptimizerStep)] == [1]
    sizes = {event.name: event.parameters for event in seen.events if isinstance(event, Module)}
    assert sizes == {"net": 1, "net.0": 1, "net.1": 0}


def test_changes_outside_an_optimizer_are_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    with torch.no_grad():
        model.first.weight.add_(1)
    Proxy.flush()
    assert causes(seen) == {"net.first.weight": "in-place"}


def test_an_ema_loop_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    average = Proxy.Proxy(copy.deepcopy(model), recurse=True, name="ema", logdir=logdir)
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
            slow.lerp_(fast + 1, 0.1)
    Proxy.flush()
    assert causes(seen) == {f"ema.{name}": "in-place" for name, _ in average.named_parameters()}


def test_load_state_dict_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model.load_state_dict(Plain().state_dict())
    Proxy.flush()
    assert set(causes(seen).values()) == {"in-place"}
    assert len(causes(seen)) == 4


def test_a_tensor_put_behind_data_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model.first.weight.data = torch.zeros(8, 64)
    Proxy.flush()
    assert causes(seen) == {"net.first.weight": "data"}


def test_a_change_through_data_is_seen_at_debug(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
    model.first.weight.data.clamp_(-0.01, 0.01)
    model.first.bias.data.clamp_(-10, 10)
    Proxy.flush()
    assert causes(seen) == {"net.first.weight": "data"}


def test_a_parameter_replaced_by_another_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model.first.weight = nn.Parameter(torch.zeros(8, 64))
    Proxy.flush()
    (event,) = (event for event in seen.events if isinstance(event, Update))
    assert (event.cause, event.type) == ("replaced", "float32[8, 64]")
    assert Proxy.is_proxied(model.first.weight)


@pytest.mark.parametrize("way", ["a new parameter", "assigned by load_state_dict"])
def test_the_first_step_after_a_parameter_was_replaced_is_whole_in_a_second_model_too(
    way: str, logdir: str, seen: MemoryObserver
) -> None:
    for fold in range(2):
        model = Proxy.Proxy(Plain(), recurse=True, name=f"fold{fold}", logdir=logdir)
        if way == "a new parameter":
            model.first.weight = nn.Parameter(model.first.weight.detach() + 1)
        else:
            model.load_state_dict(Plain().state_dict(), assign=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, optimizer, steps=3)
        weight = {name: number for number, name in names(seen).items()}[f"fold{fold}.first.weight"]
        gradients = [event for event in seen.events if isinstance(event, Gradient) and event.tensor == weight]
        assert [event.step for event in gradients] == [fold * 3 + step for step in range(3)]
        updates = [event for event in seen.events if isinstance(event, Update) and event.tensor == weight]
        assert [event.cause for event in updates] == ["replaced", "step", "step", "step"]
        steps = [event for event in seen.events if isinstance(event, OptimizerStep)]
        assert [event.tensors for event in steps] == [len(list(model.parameters()))] * 3 * (fold + 1)


def test_a_parameter_registered_later_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model.first.register_parameter("gate", nn.Parameter(torch.ones(1)))
    Proxy.flush()
    assert "net.first.gate" in names(seen).values()


def test_batch_norm_statistics_are_seen(logdir: str, seen: MemoryObserver) -> None:
    train(Proxy.Proxy(Branching(), recurse=True, name="net", logdir=logdir), steps=1)
    found = causes(seen)
    assert "net.norm.running_mean" in found
    assert "net.norm.running_var" in found
    assert "net.norm.num_batches_tracked" in found


def test_statistics_are_those_of_each_step(logdir: str, seen: MemoryObserver) -> None:
    """A cache by object would repeat the first step's, since zero_grad keeps the object."""
    model = Proxy.Proxy(nn.Linear(2, 1, bias=False), logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for scale in (1.0, 2.0, 3.0):
        optimizer.zero_grad(set_to_none=False)
        (model(torch.full((1, 2), scale))).sum().backward()
        optimizer.step()
    found = [event.statistics.maximum for event in seen.events if isinstance(event, Gradient) and event.statistics]
    assert found == [1.0, 2.0, 3.0]


def test_tied_weights_are_one_tensor_with_two_names(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(Tied(), recurse=True, name="net", logdir=logdir)
    last = {event.name: event for event in seen.events if isinstance(event, Parameter)}
    assert last["net.first.weight"].aliases == ("net.again.weight",)
    assert "net.again.weight" not in last


def test_gradients_made_by_a_closure_are_those_recorded(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 1, bias=False), logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure() -> float:
        optimizer.zero_grad()
        out = model(torch.ones(1, 2)).sum()
        out.backward()
        return float(out.detach())

    optimizer.step(closure)
    (event,) = (event for event in seen.events if isinstance(event, Gradient))
    assert event.statistics is not None
    assert event.statistics.maximum == 1.0


def test_the_first_non_finite_gradient_and_parameter_are_reported(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 1, bias=False), name="net", logdir=logdir, log_level="WARNING")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model.weight.grad = torch.tensor([[float("inf"), 1.0]])
        optimizer.step()
    found = [(event.where, event.count, event.step) for event in seen.events if isinstance(event, NonFinite)]
    assert found == [("gradient", 1, 0), ("parameter", 1, 0)]


def test_parameters_that_were_away_and_came_back_are_seen_to_be_updated(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(64, 10), name="net", logdir=logdir)
    own = dict(model._parameters)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = images().flatten(1)
    for _ in range(3):
        model(x).sum().backward()
        for name, parameter in own.items():  # As the inner step of meta-learning does.
            assert parameter is not None
            model._parameters[name] = parameter - 0.1 * parameter.detach()  # type: ignore[assignment]
        model(x).sum().backward()
        model._parameters.update(own)
        optimizer.step()
    updates = [event for event in seen.events if isinstance(event, Update) and event.cause == "step"]
    assert len(updates) == 6


def test_a_buffer_made_with_infinities_is_reported_when_it_gets_more_of_them(logdir: str, seen: MemoryObserver) -> None:
    model = nn.Linear(2, 1)
    model.register_buffer("mask", torch.tensor([0.0, -torch.inf, 0.0]))
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    Proxy.Proxy(model, name="net", logdir=logdir)
    model.load_state_dict(weights)
    Proxy.flush()
    assert not [event for event in seen.events if isinstance(event, NonFinite)]
    with torch.no_grad():
        model.get_buffer("mask")[0] = torch.nan
    Proxy.flush()
    (event,) = (event for event in seen.events if isinstance(event, NonFinite))
    assert (event.where, event.count) == ("buffer", 2)


def test_optimizers_of_other_models_leave_nothing(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    before = len([e for e in seen.events if isinstance(e, (OptimizerStep, Gradient, Update))])
    other = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    other(images().flatten(1)).sum().backward()
    optimizer.step()
    assert len([e for e in seen.events if isinstance(e, (OptimizerStep, Gradient, Update))]) == before


def test_an_optimizer_whose_parameters_have_left_the_model_is_seen_to_update_nothing(
    logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        F.cross_entropy(model(images()), labels()).backward()
        optimizer.step()
        for module in (model.first, model.rest[0]):
            module.weight = nn.Parameter(module.get_parameter("weight").detach().clone())
            module.bias = nn.Parameter(module.get_parameter("bias").detach().clone())
    assert [event.tensors for event in seen.events if isinstance(event, OptimizerStep)] == [4, 0]


def of(seen: MemoryObserver, name: str, kind: type[Gradient] | type[Update]) -> list[Any]:
    number = {each: number for number, each in names(seen).items()}[name]
    return [event for event in seen.events if isinstance(event, kind) and event.tensor == number]


class Decayed(torch.optim.SGD):
    """Decays the weights itself, and leaves the rest to its base class."""

    def step(self, closure: Any = None) -> Any:
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.mul_(0.999)
        return super().step(closure)


def test_a_step_that_calls_that_of_its_base_class_counts_once(logdir: str, seen: MemoryObserver) -> None:
    other = Plain()
    torch.optim.SGD(other.parameters(), lr=0.1).step()  # From now on torch has wrapped the `step` of the base, too.
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    train(model, Decayed(model.parameters(), lr=0.1), steps=3)
    assert [event.step for event in seen.events if isinstance(event, OptimizerStep)] == [0, 1, 2]
    assert [event.cause for event in of(seen, "net.first.weight", Update)] == ["step"] * 3
    assert [event.step for event in of(seen, "net.first.weight", Gradient)] == [0, 1, 2]


def test_what_a_step_changes_between_its_closures_is_the_step_s(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images()), labels())
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    assert [event.cause for event in of(seen, "net.first.weight", Update)] == ["step", "step"]


def test_weights_put_in_for_a_call_are_no_update(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.rest.parameters(), lr=0.1)
    for _ in range(4):
        noisy = {name: value + 0.01 for name, value in model.named_parameters()}
        optimizer.zero_grad()
        F.cross_entropy(torch.func.functional_call(model, noisy, (images(),)), labels()).backward()
        optimizer.step()
        with torch.no_grad():
            torch.func.functional_call(model, {name: -value for name, value in noisy.items()}, (images(),))
    Proxy.flush()
    assert not of(seen, "net.first.weight", Update)
    assert [event.cause for event in of(seen, "net.rest.0.weight", Update)] == ["step"] * 4


@pytest.mark.parametrize(
    "convert", [nn.Module.double, nn.Module.half, nn.Module.bfloat16], ids=lambda way: way.__name__
)
def test_another_dtype_is_no_update(
    convert: Callable[[nn.Module], nn.Module], logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model(images())
    convert(model)
    Proxy.flush()
    (update,) = of(seen, "net.first.weight", Update)
    assert (update.cause, update.type) == ("converted", f"{str(model.first.weight.dtype)[6:]}[8, 64]")


def test_a_step_that_leaves_the_bits_has_changed_nothing(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    train(model, torch.optim.SGD(model.parameters(), lr=0.0), steps=2)
    assert [event.cause for event in of(seen, "net.first.weight", Update)] == ["unchanged"] * 2


def test_a_step_that_only_changes_signs_has_changed_something(logdir: str, seen: MemoryObserver) -> None:
    class Flip(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            for parameter in self.param_groups[0]["params"]:
                parameter.data.neg_()

    model = Proxy.Proxy(nn.Linear(2, 1, bias=False), name="net", logdir=logdir)
    model.weight.data.copy_(torch.tensor([[1.0, -1.0]]))
    optimizer = Flip(model.parameters())
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert [event.cause for event in of(seen, "net.weight", Update)][-3:] == ["step"] * 3


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_cleared_before_the_step_are_told_from_none(
    to_none: bool, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model.register_parameter("unused", nn.Parameter(torch.ones(2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        F.cross_entropy(model(images()), labels()).backward()
        optimizer.zero_grad(set_to_none=to_none)
        optimizer.step()
    assert [event.cleared for event in of(seen, "net.first.weight", Gradient)] == [True] * 3
    assert [event.cleared for event in of(seen, "net.unused", Gradient)] == [False] * 3


def test_a_loss_that_is_not_finite_is_reported_once(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    for _ in range(2):
        (F.cross_entropy(model(images()), labels()) / 0).backward()
    found = [event for event in seen.events if isinstance(event, NonFinite) and event.where == "loss"]
    assert [(event.count, event.type) for event in found] == [(1, "float32[]")]
