"""What a program does to train besides calls, backward passes and steps is recorded, and nothing changes by that."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import (
    Backward,
    CallModule,
    Clip,
    Input,
    Load,
    Location,
    Loss,
    Module,
    Optimizer,
    Parameter,
    RateReduced,
    RateWithoutEffect,
    SchedulerStep,
    SourcePattern,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def of(seen: MemoryObserver, kind: type[Any]) -> list[Any]:
    """The events of a class."""
    return [event for event in seen.events if type(event) is kind]


def line(seen: MemoryObserver, number: int) -> int:
    """The line of a location."""
    return int(next(each.line for each in of(seen, Location) if each.id == number))


def here(offset: int = 0) -> int:
    """The line that calls this, or one so many lines from it."""
    return sys._getframe(1).f_lineno + offset


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 2))


def test_an_optimizer_is_told_where_it_was_made_before_it_steps(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    made = here(1)
    torch.optim.Adam(model.parameters(), lr=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(3, 4)).sum().backward()

    (event,) = of(seen, Optimizer)  # The other one is gone by then.
    assert (event.optimizer, line(seen, event.made)) == ("SGD", made + 1)
    assert event.groups[0].settings["lr"] == 0.1
    assert len(event.groups[0].tensors) == 6

    optimizer.step()
    assert len(of(seen, Optimizer)) == 1


def test_an_optimizer_is_told_with_the_loop_that_makes_it(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    for _epoch in range(2):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
    assert [event.loop for event in of(seen, Optimizer)] == ["_epoch", "_epoch"]


@pytest.mark.parametrize(
    ("order", "follows"),
    [("step first", ["step"]), ("scheduler first", ["backward"]), ("at the top", ["nothing", "step"])],
)
def test_a_scheduler_is_told_with_what_came_before(
    order: str, follows: list[str], logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(3):
            if order == "at the top":
                scheduler.step()
            model(torch.randn(3, 4)).sum().backward()
            if order == "scheduler first":
                scheduler.step()
            optimizer.step()
            if order == "step first":
                scheduler.step()

    found = of(seen, SchedulerStep)
    assert [event.follows for event in found] == follows
    assert {(event.scheduler, event.id, event.optimizer_id) for event in found} == {("ExponentialLR", 1, 1)}


def test_clipping_is_told_once_for_each_way(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for is_late in (False, False, True):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).sum().backward()
        if is_late:
            optimizer.step()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        if not is_late:
            optimizer.step()

    assert [(event.parameters, event.gradients, event.limit, event.is_late) for event in of(seen, Clip)] == [
        (6, 6, 0.5, False),
        (6, 6, 0.5, True),
    ]


def test_another_model_whose_optimizer_has_not_stepped_is_clipped_in_time(logdir: str, seen: MemoryObserver) -> None:
    """One backward pass for both, and each is clipped before its own step."""
    first = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir, name="first")
    second = Proxy.Proxy(nn.Linear(3, 2), recurse=True, logdir=logdir, name="second")
    second(first(torch.randn(2, 4))).sum().backward()
    for model in (first, second):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()

    assert [event.is_late for event in of(seen, Clip)] == [False]


def test_an_iterator_that_is_used_up_is_told(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    parameters = filter(lambda each: each.requires_grad, model.parameters())
    for _ in range(2):
        model(torch.randn(3, 4)).sum().backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)

    assert [event.parameters for event in of(seen, Clip)] == [6, 0]


def test_weights_are_told_with_what_was_left_out(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.Linear(2, 2)), recurse=True, logdir=logdir)
    other = {f"module.{name}": tensor for name, tensor in nn.Sequential(nn.Linear(2, 2)).state_dict().items()}
    result = model.load_state_dict(other, strict=False)
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    model.load_state_dict(model.state_dict())

    first, second, third = of(seen, Load)
    assert (list(first.missing), list(first.unexpected)) == (result.missing_keys, result.unexpected_keys)
    assert [(event.loaded, event.strict, event.is_own) for event in (first, second, third)] == [
        (0, False, False),
        (2, True, False),
        (2, True, True),
    ]


def test_weights_that_a_module_was_given_before_it_was_proxied_are_told_then(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(nn.Linear(2, 2), recurse=True, logdir=logdir, name="first")
    backbone = nn.Linear(4, 8)
    at = here(1)
    backbone.load_state_dict({"wight": torch.zeros(8, 4)}, strict=False)
    nn.Linear(4, 8).load_state_dict(backbone.state_dict())  # This one is never proxied.
    assert of(seen, Load) == []
    model = Proxy.Proxy(nn.Sequential(backbone), recurse=True, logdir=logdir, name="model")
    torch.optim.SGD(model.parameters(), lr=0.1)

    (event,) = of(seen, Load)
    names = {each.id: each.name for each in of(seen, Module)}
    assert (names[event.module], line(seen, event.location), list(event.unexpected)) == ("model.0", at, ["wight"])
    torch.optim.SGD(model.parameters(), lr=0.1)
    assert len(of(seen, Load)) == 1


class Lazy(Mapping[str, torch.Tensor]):
    """Weights that are read when they are asked for, as those in a file may be."""

    def __init__(self, weights: Mapping[str, torch.Tensor]) -> None:
        self.weights, self.reads = weights, 0

    def __getitem__(self, name: str) -> torch.Tensor:
        self.reads += 1
        return self.weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.weights)

    def __len__(self) -> int:
        return len(self.weights)


class Listed(nn.Linear):
    """A module that notes who asks for its parameters."""

    asked = 0

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        self.asked += 1
        return super().named_parameters(*args, **kwargs)


@pytest.mark.parametrize("is_proxied", [False, True])
def test_weights_and_modules_are_asked_for_nothing_more(is_proxied: bool, logdir: str, seen: MemoryObserver) -> None:
    model = Listed(3, 2)
    if is_proxied:
        Proxy.Proxy(model, recurse=True, logdir=logdir)
    weights = Lazy(nn.Linear(3, 2).state_dict())
    model.asked = 0
    model.load_state_dict(weights)
    assert (weights.reads, model.asked) == (2, 0)
    assert torch.equal(model.weight, weights.weights["weight"])
    assert [(event.loaded, event.is_own) for event in of(seen, Load)] == [(2, False)] * is_proxied


def test_an_error_of_loading_is_as_without_us(logdir: str) -> None:
    def fail(module: nn.Module) -> tuple[str, list[str]]:
        with pytest.raises(RuntimeError) as caught:
            module.load_state_dict({"x": torch.zeros(1)})
        return str(caught.value), [each.name for each in caught.traceback]

    plain = fail(nn.Linear(2, 2))
    assert fail(Proxy.Proxy(nn.Linear(2, 2), recurse=True, logdir=logdir)) == plain


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.drop(self.fc(x))
        return found


def test_a_module_is_told_where_it_was_made_and_what_it_is_set_to(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    modules = {event.name.rpartition(".")[2]: event for event in of(seen, Module)}
    first = Net.__init__.__code__.co_firstlineno
    assert [line(seen, modules[name].made) - first for name in ("fc", "drop")] == [2, 3]
    assert modules["drop"].settings == {"p": 0.3, "inplace": False}
    assert modules["Net"].settings == {}


def test_a_module_that_took_the_place_of_another_is_told_where_it_was_assigned(
    logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    assigned = here(1)
    model.fc = nn.Sequential(nn.Linear(4, 2))  # type: ignore[assignment]
    model(torch.ones(1, 4))
    (module,) = (event for event in of(seen, Module) if event.type == "Sequential")
    assert line(seen, module.made) == assigned


def test_calls_tell_whether_autograd_is_off_and_the_first_three_what_they_are_given(
    logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    x = torch.tensor([[1.0, -3.0, 0.0, 2.0]])
    with torch.no_grad():
        model(x)
    for _ in range(4):
        model(x)
    assert [event.no_grad for event in of(seen, CallModule)] == [True] + [False] * 14
    inputs = of(seen, Input)
    assert [(event.type, event.statistics.minimum, event.statistics.maximum) for event in inputs] == [
        ("float32[1, 4]", -3.0, 2.0)
    ] * 3


def test_a_loss_is_told_where_its_variable_was_assigned(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    assigned = here(1)
    loss = model(torch.randn(3, 4)).sum()
    print(loss.item())
    (loss / 2).backward()
    assert [line(seen, event.made) for event in of(seen, Loss)] == [assigned]


def train(wrap: Callable[[nn.Module], nn.Module]) -> tuple[list[torch.Tensor], list[str]]:
    """Everything that the new records look at, once around; gives all values, and the warnings."""
    torch.manual_seed(3)
    model = wrap(net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=6)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    kept = copy.deepcopy(model.state_dict())
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(5):
            loss = model(torch.randn(5, 4)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            found.append(nn.utils.clip_grad_norm_((each for each in model.parameters()), 0.1))
            scheduler.step()
            optimizer.step()
            plateau.step(loss.item())
            with torch.no_grad():
                found += [loss, model(torch.randn(2, 4))]
            if number == 2:
                model.load_state_dict(kept, strict=False)
        nn.utils.clip_grad_norm_((each for each in model.parameters() if not each.is_leaf), 0.1)
    state = [*model.state_dict().values(), torch.get_rng_state()]
    return [*found, *state], [f"{each.filename}:{each.lineno} {each.message}" for each in caught]


@pytest.mark.parametrize("level", [Proxy.INFO, Proxy.DEBUG])
def test_values_warnings_and_random_numbers_are_as_without_us(level: int, logdir: str) -> None:
    plain, warned = train(lambda model: model)
    traced, warned_too = train(lambda model: Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level))
    assert all(torch.equal(one, other) for one, other in zip(plain, traced, strict=True))
    assert warned_too == warned


def test_torch_is_as_it_was_when_nothing_is_proxied_any_more(logdir: str) -> None:
    def functions() -> list[Any]:
        return [
            torch.optim.Optimizer._patch_step_function,
            torch.optim.lr_scheduler._enable_get_lr_call,
            nn.utils.clip_grad._clip_grads_with_norm_,
            nn.Module.load_state_dict,
        ]

    before = functions()
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    assert all(one is not other for one, other in zip(before, functions(), strict=True))
    Proxy.unproxy(model)
    model(torch.randn(2, 4))

    assert functions() == before


def test_a_scheduler_is_told_with_where_it_was_made_and_how_often_it_was_advanced(
    logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = here(1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    for _ in range(20):
        scheduler.step()
    first, *later = of(seen, SchedulerStep)
    assert (line(seen, first.made), first.settings["T_max"]) == (made, 7)
    assert [(each.count, each.settings) for each in later] == [(8, {}), (16, {})]


class Decay:
    """Callable, with a method that does the same."""

    base_lr = 0.1

    def __call__(self, step: int) -> float:
        return self.at(step)

    def at(self, step: int) -> float:
        return self.base_lr / (1 + step)


@pytest.mark.parametrize("function", [Decay(), Decay().at, lambda step: Decay().at(step)])
def test_a_scheduler_is_told_with_the_words_of_its_function(
    function: Callable[[int], float], logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, function)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    for _ in range(9):
        scheduler.step()
    first, later = of(seen, SchedulerStep)
    assert "base_lr" in first.words
    assert not later.words


@pytest.mark.parametrize("name", ["lr", "learning_rate"])
def test_a_rate_that_is_set_as_an_attribute_is_told_once(name: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1)
    for rate in (0.1, 0.01, 0.001):
        if name == "lr":
            optimizer.lr, at = rate, here()
        else:
            optimizer.learning_rate, at = rate, here()
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
    (event,) = of(seen, RateWithoutEffect)
    assert (event.name, event.is_key, event.step, line(seen, event.made)) == (name, False, 1, at)


def test_a_rate_that_is_set_under_another_key_is_told_where_it_is_set(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    at = here(3)
    for rate in (0.1, 0.01):
        for group in optimizer.param_groups:
            group["learning_rate"] = rate
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
    (event,) = of(seen, RateWithoutEffect)
    assert (event.name, event.is_key, line(seen, event.made)) == ("learning_rate", True, at)


class OwnRate(torch.optim.SGD):
    """Keeps a rate of its own, which may be meant."""

    lr = 1.0


@pytest.mark.parametrize("changes", ["both", "a note", "its own class"])
def test_a_rate_that_is_noted_besides_is_not_told(changes: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    optimizer: Any = (OwnRate if changes == "its own class" else torch.optim.SGD)(model.parameters(), lr=0.1)
    for rate in (0.1, 0.01, 0.001):
        (group,) = optimizer.param_groups
        if changes == "both":
            group["lr"] = group["learning_rate"] = rate
        elif changes == "a note":
            group["learning_rate"] = 0.5
        else:
            optimizer.lr = rate
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
    assert not of(seen, RateWithoutEffect)


def test_clipping_before_any_gradient_is_told_with_a_parameter(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    model(torch.randn(3, 4)).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    early, late = of(seen, Clip)
    assert (early.parameters, early.gradients, late.gradients, late.tensor) == (6, 0, 6, 0)
    (first,) = [each for each in of(seen, Parameter) if each.id == early.tensor]
    assert first.name.endswith("0.weight")


@pytest.mark.parametrize("create_graph", [True, False])
def test_a_pass_tells_whether_what_it_computes_can_be_differentiated(
    create_graph: bool, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    x = torch.randn(3, 4, requires_grad=True)
    torch.autograd.grad(model(x).sum(), x, create_graph=create_graph)
    (event,) = of(seen, Backward)
    assert (event.function, event.create_graph) == ("grad", create_graph)


def test_a_rate_that_is_lowered_on_a_plateau_is_told_with_the_words_of_the_line(
    logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = here(1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    scores = {"acc": 0.1}
    for _ in range(4):
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
        at = here(1)
        scheduler.step(scores["acc"])
        scores["acc"] += 0.1
    first, second = of(seen, RateReduced)
    assert (line(seen, first.location), line(seen, first.made), first.mode) == (at, made, "min")
    assert first.never_better
    assert {"scores", "acc"} <= set(second.words)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-4)


@pytest.mark.parametrize("is_plateau", [False, True])
def test_a_scheduler_that_the_code_never_advances_is_told_once(
    is_plateau: bool, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(net(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        if is_plateau:
            forgotten_plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)  # noqa: F841
        else:
            forgotten_rate = torch.optim.lr_scheduler.StepLR(optimizer, 3)  # noqa: F841
    advanced = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    optimizer.step()
    advanced.step()
    (pattern,) = [each for each in of(seen, SourcePattern) if each.what == "scheduler-unread"]
    assert "_".join(pattern.names).endswith("plateau" if is_plateau else "rate")
    assert line(seen, pattern.made) == here(-8 if is_plateau else -6)
