"""Which steps are recorded, and which parameters and buffers are watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.errors import SettingsTypeError, SettingsValueError
from proxy_wrapper.events import (
    Backward,
    CallFunction,
    CallModule,
    Gradient,
    Module,
    NonFinite,
    OptimizerStep,
    Parameter,
    ReturnModule,
    Update,
)
from proxy_wrapper.known.watch import Watch
from proxy_wrapper.writing.observers.memory import MemoryObserver
from tests.proxy_wrapper.programs import Branching, Plain, images, labels, state_of, train

if TYPE_CHECKING:
    from proxy_wrapper.events import Happening


def steps_of(observer: MemoryObserver, kind: type[Happening]) -> list[int]:
    return sorted({event.step for event in observer.events if isinstance(event, kind)})


def watched(observer: MemoryObserver, kind: type[Gradient | Update]) -> set[str]:
    names = {event.id: event.name for event in observer.events if isinstance(event, Parameter)}
    return {names[event.tensor] for event in observer.events if isinstance(event, kind)}


@pytest.mark.parametrize(
    ("watch", "recorded"),
    [
        (Watch(), [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (Watch(every=3), [0, 3, 6]),
        (Watch(first=2), [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (Watch(first=2, every=4), [0, 1, 2, 6]),
    ],
)
def test_first_and_every_choose_iterations(watch: Watch, recorded: list[int]) -> None:
    assert [iteration for iteration in range(9) if watch.records(iteration)] == recorded


@pytest.mark.parametrize(
    ("watch", "name", "chosen"),
    [
        (Watch(), "net.fc.weight", True),
        (Watch(include=("fc.*",)), "net.fc.weight", True),
        (Watch(include=("net.fc.*",)), "net.fc.weight", True),
        (Watch(include=("*.bias",)), "net.fc.weight", False),
        (Watch(exclude=("*.weight",)), "net.fc.weight", False),
        (Watch(include=("fc.*",), exclude=("*.bias",)), "net.fc.bias", False),
        (Watch(include=("weight",)), "Linear.weight", True),
    ],
)
def test_globs_choose_tensors_by_their_name_with_or_without_the_root_s(watch: Watch, name: str, chosen: bool) -> None:
    assert watch.chooses(name) is chosen


def test_what_happens_in_other_iterations_is_not_recorded(logdir: str, seen: MemoryObserver, level: str) -> None:
    train(Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level, first=2, every=3), steps=9)
    kinds: list[Any] = [CallModule, ReturnModule, Backward, OptimizerStep, Gradient, Update]
    for kind in kinds + [CallFunction] * (level == "DEBUG"):
        assert steps_of(seen, kind) == [0, 1, 2, 5, 8], kind


def test_the_last_state_is_recorded_whatever_every_says(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, every=4)
    train(model, steps=7)
    Proxy.flush()
    assert steps_of(seen, Update) == [0, 4, 6]
    last = {event.tensor: event for event in seen.events if isinstance(event, Update)}
    names = {event.name: event.id for event in seen.events if isinstance(event, Parameter)}
    for name, parameter in model.named_parameters():
        event = last[names[f"net.{name}"]]
        assert event.statistics is not None
        assert (event.step, event.cause, event.statistics.maximum) == (6, "step", parameter.max().item())


def test_a_non_finite_output_is_reported_in_any_iteration(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, every=100)
    train(model, steps=3)
    with torch.no_grad():
        model(images() / 0)
    assert 3 in steps_of(seen, NonFinite)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_sampling_changes_no_result(logdir: str, level: str, every: int) -> None:
    def run(trace: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Branching()
        if trace:
            Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level, first=1, every=every, exclude="*.bias")
        train(model, steps=6)
        return [*state_of(model), torch.get_rng_state()]

    assert all(torch.equal(a, b) for a, b in zip(run(trace=False), run(trace=True), strict=True))


def test_only_chosen_tensors_are_watched(logdir: str, seen: MemoryObserver) -> None:
    train(Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, exclude="first.*"), steps=2)
    expected = {f"net.{name}" for name, _ in Plain().named_parameters() if not name.startswith("first.")}
    assert watched(seen, Update) == watched(seen, Gradient) == expected
    defined = {event.name: event.watched for event in seen.events if isinstance(event, Parameter)}
    assert {name for name, is_watched in defined.items() if is_watched} == expected


def test_what_is_chosen_can_be_changed_for_a_subtree_while_training(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    train(model, steps=1)
    Proxy.Proxy(model.first, exclude="*.weight", every=2)
    seen.events.clear()
    train(model, steps=2)
    by_step = {
        step: {event.tensor for event in seen.events if isinstance(event, Update) and event.step == step}
        for step in (1, 2)
    }
    assert len(by_step[1]) < len(by_step[2])


def test_a_change_of_settings_is_told_to_the_trace(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    Proxy.Proxy(model, recurse=True, every=7)
    last = {event.name: event.every for event in seen.events if isinstance(event, Module)}
    assert set(last.values()) == {7}


def test_an_iteration_has_one_step_of_each_optimizer(logdir: str, seen: MemoryObserver) -> None:
    """By steps alone, every second would be that of one optimizer only."""
    first, second = (Proxy.Proxy(Plain(), recurse=True, name=name, logdir=logdir, every=2) for name in "ab")
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (first, second)]
    for _ in range(4):
        for model, optimizer in zip((first, second), optimizers, strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(images()), labels()).backward()
            optimizer.step()
    names = {event.id: event.name[0] for event in seen.events if isinstance(event, Parameter)}
    assert {names[event.tensor] for event in seen.events if isinstance(event, Update)} == {"a", "b"}


def test_another_optimizer_that_steps_more_often_leads(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, every=2)
    warm_up = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, warm_up, steps=2)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=6)
    assert steps_of(seen, Update)[-1] >= 5
    assert warm_up.param_groups


def test_buffers_are_chosen_too(logdir: str, seen: MemoryObserver) -> None:
    train(Proxy.Proxy(Branching(), recurse=True, name="net", logdir=logdir, include="*.running_mean"), steps=2)
    assert len({event.tensor for event in seen.events if isinstance(event, Update)}) == 1


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"every": 0}, SettingsValueError, "every=0: `Proxy` wants 1 or more there"),
        ({"first": -1}, SettingsValueError, "first=-1: `Proxy` wants 0 or more there"),
        ({"every": 1.5}, SettingsTypeError, "every=1.5 is a float"),
        ({"every": True}, SettingsTypeError, "every=True is a bool"),
        ({"include": 3}, SettingsTypeError, "include=3 is a int"),
        ({"exclude": ["a", 3]}, SettingsTypeError, "a string or several"),
    ],
)
def test_a_setting_that_makes_no_sense_is_an_error(
    settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Proxy.Proxy(nn.Linear(1, 1), **settings)


def test_stages_follow_the_mode_of_the_outermost_module(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Branching(), recurse=True, logdir=logdir)
    for child in model.children():
        child.eval()
    train(model, steps=1)
    model.eval()
    model(images())
    stages = [(event.step, event.stage) for event in seen.events if isinstance(event, (CallModule, Update))]
    assert {stage for step, stage in stages if step == 0} == {"train"}
    assert {stage for step, stage in stages if step == 1} == {"eval"}


def test_a_stage_that_has_a_name_goes_before_the_mode(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    with Proxy.stage("validation"):
        model.eval()(images())
        with Proxy.stage("nested"):
            model(images())
        model(images())
    model(images())
    Proxy.stage("warm-up")
    model.train()(images())
    Proxy.stage(None)
    model(images())
    roots = [event.stage for event in seen.events if isinstance(event, CallModule) and event.module == 1]
    assert roots == ["validation", "nested", "validation", "eval", "warm-up", "train"]


def test_a_stage_may_be_set_before_anything_is_proxied_and_holds_in_every_record(logdir: str) -> None:
    Proxy.stage("pretraining")
    observer = MemoryObserver()
    Proxy.observe(observer)
    train(Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="DEBUG"), steps=1)
    stages = {event.stage for event in observer.events if hasattr(event, "stage")}
    assert stages == {"pretraining"}


def test_a_stage_is_left_by_an_exception_too(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    with pytest.raises(ValueError, match="mine"), Proxy.stage("validation"):
        raise ValueError("mine")
    model(images())
    assert {event.stage for event in seen.events if isinstance(event, CallModule)} == {"train"}


def test_a_stage_that_is_no_string_is_an_error() -> None:
    with pytest.raises(SettingsTypeError, match="name=3"):
        Proxy.stage(3)  # type: ignore[arg-type]
