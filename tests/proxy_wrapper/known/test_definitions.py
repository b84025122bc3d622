"""What the definitions tell of modules and tensors that are taken out of their model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Location, Module, Parameter, StateTensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        second: Any = getattr(self, "second", None)
        out: torch.Tensor = self.first(x)
        return out if second is None else second(out)


class Filled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(2, 2), nn.LayerNorm(2)
        self.fill()

    def fill(self) -> None:
        nn.init.constant_(self.fc.weight, 0.5)


def test_a_weight_of_one_number_is_told_with_the_line_that_fills_it(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(nn.Sequential(Filled(), nn.Linear(2, 2)), recurse=True, logdir=logdir, name="model")
    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    filled = {event.name: lines[event.filled] for event in seen.events if isinstance(event, Parameter) and event.filled}
    assert filled == {"model.0.fc.weight": Filled.fill.__code__.co_firstlineno + 1}


def test_tensors_that_are_computed_in_place_of_parameters_are_told(logdir: str, seen: MemoryObserver) -> None:
    """As in a copy of a model whose inner steps are differentiated."""
    model = Proxy.Proxy(nn.Linear(2, 2), recurse=True, logdir=logdir, name="model")
    copy = nn.Linear(2, 2)
    for name, parameter in model.named_parameters():
        copy._parameters[name] = cast("nn.Parameter", parameter.clone())
    Proxy.Proxy(copy, recurse=True, logdir=logdir, name="copy")
    derived = {event.name: event.derived for event in seen.events if isinstance(event, Parameter)}
    assert derived == {"model.weight": False, "model.bias": False, "copy.weight": True, "copy.bias": True}


class Repeated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.once = nn.ModuleList([nn.Linear(2, 2)] * 3)
        self.each = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        shared = nn.Linear(2, 2)
        self.meant = nn.ModuleList([shared] * 3)
        self.stateless = nn.Sequential(*[nn.ReLU()] * 2)
        self.alone = nn.Sequential(*[nn.Linear(2, 2)] * 1)


def test_a_container_with_one_new_module_at_all_positions_is_told(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(Repeated(), recurse=True, logdir=logdir, name="model")
    modules = [event for event in seen.events if isinstance(event, Module)]
    assert {event.name: event.repeated for event in modules if event.repeated} == {"model.once": 3}


class Block(nn.Linear):
    pass


class OtherBlock(nn.Linear):
    pass


def tower(depth: int) -> nn.Module:
    """Two stacks: one of a single new block, and one of a block that is shared on purpose."""
    return nn.Sequential(nn.Linear(2, 2), nn.Sequential(*[Block(2, 2)] * depth), shared_tower(depth))


def shared_tower(depth: int) -> nn.Module:
    """A stack of one block that is shared on purpose."""
    block = OtherBlock(2, 2)
    return nn.Sequential(*[block] * depth)


def test_a_new_module_that_a_function_multiplies_is_told_with_its_line(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(tower(3), recurse=True, logdir=logdir, name="model")
    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    modules = [event for event in seen.events if isinstance(event, Module)]
    found = {event.name: (event.repeated, lines[event.made]) for event in modules if event.repeated}
    assert found == {"model.1": (3, tower.__code__.co_firstlineno + 2)}


def removed(observer: MemoryObserver) -> set[str]:
    last = {(type(event), event.id): event for event in observer.events if isinstance(event, (Module, StateTensor))}
    return {event.name for event in last.values() if event.removed}


def replace_by_identity(model: Any) -> None:
    model.second = nn.Identity()


def delete(model: Any) -> None:
    del model.second


def without_bias(model: Any) -> None:
    model.second.bias = None


def weight_norm(model: Any) -> None:
    parametrizations.weight_norm(model.second)


def pruned(model: Any) -> None:
    prune.l1_unstructured(model.second, "weight", amount=1)


def replace_by_another(model: Any) -> None:
    model.second = nn.Linear(2, 3)


def put_back(model: Any) -> None:
    second, model.second = model.second, None
    Proxy.flush()
    model.second = second


STATE = {"net.second.weight", "net.second.bias"}
LAYER = {"net.second", *STATE}
# What is told if nobody has the layer any more, and if the program keeps it.
CHANGES: dict[str, tuple[Callable[[Any], None], set[str], set[str]]] = {
    "a layer replaced by one without parameters": (replace_by_identity, STATE, LAYER),
    "a layer deleted": (delete, LAYER, LAYER),
    "a bias left out": (without_bias, {"net.second.bias"}, {"net.second.bias"}),
    "a weight that is computed": (weight_norm, {"net.second.weight"}, {"net.second.weight"}),
    "a pruned weight": (pruned, {"net.second.weight"}, {"net.second.weight"}),
    "a layer replaced by another": (replace_by_another, set(), LAYER),
    "a layer that was away for a while": (put_back, set(), set()),
}


@pytest.mark.parametrize(("change", "freed", "kept"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("keeps", [False, True])
def test_what_was_taken_out_is_told_when_the_trace_is_written_out(
    change: Callable[[Any], None],
    freed: set[str],
    kept: set[str],
    logdir: str,
    seen: MemoryObserver,
    *,
    keeps: bool,
) -> None:
    model = Proxy.Proxy(Net(), recurse=True, name="net", logdir=logdir)
    second = model.second if keeps else None
    change(model)
    model(torch.zeros(1, 2))
    Proxy.flush()
    Proxy.flush()
    assert removed(seen) == (freed if second is None else kept)


def test_a_model_that_is_freed_has_lost_nothing(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Net(), recurse=True, name="net", logdir=logdir)
    kept = model.second
    del model
    Proxy.flush()
    assert removed(seen) == set()
    assert kept is not None


def test_a_layer_in_a_plain_list_was_never_part_of_its_model(logdir: str, seen: MemoryObserver) -> None:
    class Hiding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(2, 2)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.layers[0](x)
            return out

    model = Proxy.Proxy(Hiding(), recurse=True, name="net", logdir=logdir)
    model(torch.zeros(1, 2))
    Proxy.flush()
    assert any(isinstance(event, Module) and event.type == "Linear" for event in seen.events)
    assert removed(seen) == set()


def test_a_layer_that_another_has_replaced_is_not_told_once_the_model_is_freed(
    logdir: str, seen: MemoryObserver
) -> None:
    """The new one had its number, and was part of the model until the end."""

    def fine_tune() -> None:
        model = Proxy.Proxy(Net(), recurse=True, name="net", logdir=logdir)
        model(torch.zeros(1, 2))
        replace_by_another(model)
        model(torch.zeros(1, 2))

    fine_tune()
    Proxy.flush()
    assert removed(seen) == set()
