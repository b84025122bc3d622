"""Changes of parameters and buffers outside of any optimizer, at INFO, whichever way they come about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Buffer, Module, Parameter, Update
from tests.proxy_wrapper.programs import Plain, images, labels, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def updates_of(observer: MemoryObserver, name: str) -> list[Update]:
    ids = {event.id for event in observer.events if isinstance(event, (Parameter, Buffer)) and event.name == name}
    return [event for event in observer.events if isinstance(event, Update) and event.tensor in ids]


def clip(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data.clamp_(-0.01, 0.01)


def scale_in_numpy(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.detach().numpy()[...] *= 0.5


def assign_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data = parameter.data * 0.5


def set_one_element(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data.view(-1)[-1] = 3.0


def decay(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)


def load(model: nn.Module) -> None:
    model.load_state_dict({key: value * 2 for key, value in model.state_dict().items()})


def replace(model: nn.Module) -> None:
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                setattr(module, name, nn.Parameter(parameter.detach() * 0.5))


CHANGES: dict[str, tuple[Callable[[nn.Module], None], str]] = {
    "p.data.clamp_()": (clip, "data"),
    "through a NumPy view": (scale_in_numpy, "data"),
    "p.data = ...": (assign_data, "data"),
    "one element": (set_one_element, "data"),
    "under no_grad": (decay, "in-place"),
    "load_state_dict": (load, "in-place"),
    "another parameter under the name": (replace, "replaced"),
}


@pytest.mark.parametrize(("change", "cause"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("at", ["the end", "the next step", "the next call"])
def test_a_change_is_seen(
    change: Callable[[nn.Module], None], cause: str, at: str, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    F.cross_entropy(model(images()), labels()).backward()
    optimizer.step()
    model(images())
    seen_before = len(updates_of(seen, "net.first.weight"))
    change(model)
    values = model.first.weight.detach().clone()
    if at == "the end":
        Proxy.flush()
    elif at == "the next step":
        optimizer.step()
    else:
        model(images())
        model(images())  # What is put in the place of a parameter may be there for one call only.
    event = updates_of(seen, "net.first.weight")[seen_before]
    assert event.statistics is not None
    assert event.cause == cause
    assert event.statistics.maximum == values.max().item()
    assert event.statistics.minimum == values.min().item()


def test_clipping_in_each_iteration_is_seen_in_each(logdir: str, seen: MemoryObserver) -> None:
    """As a Wasserstein GAN's critic has it: late in the run as well as at its start."""
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(40):
        optimizer.zero_grad()
        F.cross_entropy(model(images()), labels()).backward()
        optimizer.step()
        clip(model)
    Proxy.flush()
    by_data = [event for event in updates_of(seen, "net.first.weight") if event.cause == "data"]
    assert len(by_data) == 40
    for event in by_data:
        assert event.statistics is not None
        assert event.statistics.maximum == torch.tensor(0.01).item()


def test_a_single_change_late_in_the_run_is_seen_by_the_end(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for iteration in range(30):
        model(images()).sum().backward()
        optimizer.step()
        if iteration == 20:
            model.first.weight.data.fill_(7.0)
    last = updates_of(seen, "net.first.weight")[-1]
    assert last.statistics is not None
    assert last.statistics.maximum == 7.0


def test_what_does_not_change_leaves_no_record(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    with torch.no_grad():
        for threads in (1, 1, 2, 2, 1, 1):  # A sum over more threads has other last bits.
            torch.set_num_threads(threads)
            model(images())
    Proxy.flush()
    assert not any(isinstance(event, Update) for event in seen.events)


def test_looking_at_values_changes_no_result(logdir: str, level: str) -> None:
    def run(trace: bool) -> list[Any]:
        torch.manual_seed(0)
        model = Plain()
        if trace:
            Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
        optimizer = torch.optim.Adam(model.parameters())
        for change, _ in CHANGES.values():
            optimizer.zero_grad()
            F.cross_entropy(model(images()), labels()).backward()
            optimizer.step()
            change(model)
        return [*state_of(model), torch.get_rng_state(), *(p._version for p in model.parameters())]

    for plain, traced in zip(run(trace=False), run(trace=True), strict=True):
        assert torch.equal(plain, traced) if isinstance(plain, torch.Tensor) else plain == traced


def test_a_lazy_layer_is_what_it_has_become(level: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.LazyLinear(4)), recurse=True, name="net", logdir=logdir, log_level=level)
    model(torch.ones(2, 3)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert [event.type for event in updates_of(seen, "net.0.weight") if event.type] == ["float32[4, 3]"]
    defined = [(event.name, event.type, event.parameters) for event in seen.events if isinstance(event, Module)]
    assert defined == [
        ("net", "Sequential", 0),
        ("net.0", "LazyLinear", 0),
        ("net.0", "Linear", 16),
        ("net", "Sequential", 16),
    ]


@pytest.mark.parametrize(
    ("change", "becomes", "parameters"),
    [
        pytest.param(lambda m: m.double(), "float64[2, 3]", 8, id="double"),
        pytest.param(lambda m: setattr(m.weight, "data", torch.ones(5, 3)), "float32[5, 3]", 17, id="rows added"),
        pytest.param(lambda m: setattr(m, "weight", nn.Parameter(torch.ones(1, 3))), "float32[1, 3]", 5, id="replaced"),
    ],
)
def test_another_dtype_or_shape_is_told_once(
    change: Callable[[Any], Any], becomes: str, parameters: int, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(3, 2), name="net", logdir=logdir)
    change(model)
    Proxy.flush()
    clip(model)
    Proxy.flush()
    assert [event.type for event in updates_of(seen, "net.weight")] == [becomes, ""]
    assert [event for event in seen.events if isinstance(event, Module)][-1].parameters == parameters


def test_what_a_transform_puts_in_the_place_of_parameters_is_no_change_of_theirs(
    level: str, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    call = torch.func.functional_call
    for _ in range(2):
        torch.func.grad(lambda values: call(model, values, (images(),)).sum())(dict(model.named_parameters()))
        torch.vmap(lambda image: model(image[None]))(images())
    Proxy.flush()
    assert not [event for event in seen.events if isinstance(event, Update)]


def test_what_changed_where_nobody_could_look_is_recorded_later(level: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=level)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(images()).sum().backward()

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.step()
        return x

    torch.vmap(step)(torch.ones(2))
    unread, *_ = updates_of(seen, "net.first.bias")
    assert unread.statistics is None
    Proxy.flush()
    assert updates_of(seen, "net.first.bias")[-1].statistics is not None


def definitions_of(observer: MemoryObserver, name: str) -> list[bool]:
    return [event.requires_grad for event in observer.events if isinstance(event, Parameter) and event.name == name]


class TestFreezing:
    """What is frozen behind the line that puts the model under its proxy, as is usual in fine-tuning."""

    @staticmethod
    def train(model: nn.Module, steps: int, *, toggles: bool) -> None:
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        layer = next(module for module in model.modules() if isinstance(module, nn.Linear))
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            if toggles:
                layer.requires_grad_(not layer.weight.requires_grad)

    def test_is_known_from_the_first_step_on(self, level: str, logdir: str, seen: MemoryObserver) -> None:
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
        model = Proxy.Proxy(model, recurse=True, name="model", logdir=logdir, log_level=level)
        model[0].requires_grad_(False)
        self.train(model, 2, toggles=False)
        assert definitions_of(seen, "model.0.weight") == [True, False]
        assert definitions_of(seen, "model.1.weight") == [True]

    def test_is_not_told_each_time_where_it_is_part_of_each_iteration(self, logdir: str, seen: MemoryObserver) -> None:
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
        model = Proxy.Proxy(model, recurse=True, name="model", logdir=logdir)
        self.train(model, 9, toggles=True)
        assert definitions_of(seen, "model.0.weight") == [True, False, True]


@pytest.mark.filterwarnings("ignore:.*quantization is deprecated:DeprecationWarning")
def test_zero_points_that_a_kernel_sets_are_seen(logdir: str, seen: MemoryObserver) -> None:
    model = nn.Sequential(torch.ao.quantization.FusedMovingAvgObsFakeQuantize(), Plain())
    model = Proxy.Proxy(model, recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        F.cross_entropy(model(images()), labels()).backward()
        optimizer.step()
    Proxy.flush()
    zero_point = model[0].get_buffer("zero_point").item()
    assert zero_point != 0
    last = updates_of(seen, "net.0.zero_point")[-1].statistics
    assert last is not None
    assert last.maximum == zero_point


def test_a_buffer_that_gets_another_shape_behind_the_version_count_is_told_of(
    logdir: str, seen: MemoryObserver
) -> None:
    model = Plain()
    model.register_buffer("counts", torch.zeros(1, dtype=torch.int32))
    model = Proxy.Proxy(model, recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    F.cross_entropy(model(images()), labels()).backward()
    model.counts.data = torch.zeros(6, dtype=torch.int32)
    optimizer.step()
    assert [event.type for event in updates_of(seen, "net.counts")] == ["int32[6]"]
