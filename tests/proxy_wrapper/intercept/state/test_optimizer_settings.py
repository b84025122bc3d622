"""What optimizers are set to is told at their first step, and when it has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Location, Optimizer, OptimizerStep, Parameter

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def told(seen: MemoryObserver) -> list[Optimizer]:
    return [event for event in seen.events if isinstance(event, Optimizer)]


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()


def test_the_first_step_tells_everything(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, name="net", logdir=logdir)
    stranger = nn.Parameter(torch.zeros(3))
    groups: list[dict[str, Any]] = [{"params": [model.weight]}, {"params": [model.bias, stranger], "lr": 0.5}]
    optimizer = torch.optim.AdamW(groups, lr=0.25)
    step(model, optimizer)
    step(model, optimizer)

    (event,) = told(seen)
    ids = {each.name: each.id for each in seen.events if isinstance(each, Parameter)}
    assert (event.optimizer, list(event.indices)) == ("AdamW", [0, 1])
    first, second = event.groups
    assert (list(first.tensors), first.others) == ([ids["net.weight"]], 0)
    assert (list(second.tensors), second.others) == ([ids["net.bias"]], 1)
    assert [group.settings["lr"] for group in event.groups] == [0.25, 0.5]
    assert (first.settings["betas.0"], first.settings["amsgrad"], first.settings["foreach"]) == (0.9, False, None)
    assert {each.optimizer_id for each in seen.events if isinstance(each, OptimizerStep)} == {event.id}


def test_later_only_what_has_changed_is_told(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD([dict[str, Any](params=[each]) for each in (model.weight, model.bias)], lr=0.25)
    step(model, optimizer)
    optimizer.param_groups[1]["lr"] = 0.125
    step(model, optimizer)
    step(model, optimizer)

    _, change = told(seen)
    assert list(change.indices) == [1]
    assert [(group.settings, list(group.tensors)) for group in change.groups] == [({"lr": 0.125}, [])]


def test_a_group_that_is_added_is_told_with_all_others(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD([model.weight], lr=0.25)
    step(model, optimizer)
    optimizer.add_param_group({"params": [model.bias]})
    step(model, optimizer)

    assert [len(event.groups) for event in told(seen)] == [1, 2]


def test_a_rate_that_is_a_tensor_is_not_read(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    step(model, torch.optim.Adam(model.parameters(), lr=torch.tensor(0.25)))

    (event,) = told(seen)
    assert "lr" not in event.groups[0].settings


def test_each_optimizer_has_a_number(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    for make in (torch.optim.SGD, torch.optim.Adam):
        step(model, make(model.parameters(), lr=0.1))

    assert [(event.id, event.optimizer) for event in told(seen)] == [(1, "SGD"), (2, "Adam")]


def test_who_comes_later_is_told_too(tmp_path: Path, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    step(model, optimizer)
    Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=str(tmp_path / "other"))
    step(model, optimizer)

    assert len({event.id for event in told(seen)}) == 1
    assert len(told(seen)) > 1


def test_an_optimizer_that_no_model_has_parameters_in_is_told_once(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    strangers = [nn.Parameter(torch.zeros(3)) for _ in range(2)]
    optimizer = torch.optim.SGD(strangers, lr=0.25)
    step(model, optimizer)
    step(model, optimizer)

    (event,) = told(seen)
    assert [(list(group.tensors), group.others) for group in event.groups] == [([], 2)]
    assert [each for each in seen.events if isinstance(each, OptimizerStep)] == []


def test_a_parameter_that_is_replaced_counts_among_the_others(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    step(model, optimizer)
    model.weight = nn.Parameter(torch.zeros(3, 4))
    step(model, optimizer)

    assert [[(len(group.tensors), group.others) for group in event.groups] for event in told(seen)] == [
        [(2, 0)],
        [(1, 1)],
    ]


def test_the_only_line_that_clears_gradients_is_known(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step(model, optimizer)

    (event,) = told(seen)
    lines = {each.id: each.line for each in seen.events if isinstance(each, Location)}
    assert lines[event.clears] == step.__code__.co_firstlineno + 1


def test_rates_that_one_replaces_are_told(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    for scale in (1.0, 0.1):
        groups: list[dict[str, Any]] = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5 * scale}]
        optimizer = torch.optim.SGD(groups, lr=0.5)
        for group in optimizer.param_groups:
            group["lr"] = 0.25
        step(model, optimizer)
    lines = {each.id: each.line for each in seen.events if isinstance(each, Location)}
    assigned = test_rates_that_one_replaces_are_told.__code__.co_firstlineno + 6
    assert [list(each.rates) for each in told(seen)] == [[], [0.5, 0.05]]
    assert lines[told(seen)[1].overwrites] == assigned


def test_the_line_that_moves_the_rate_of_the_first_group_alone_is_told_once(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    groups: list[dict[str, Any]] = [{"params": [model.weight]}, {"params": [model.bias]}]
    optimizer = torch.optim.SGD(groups, lr=0.5)
    for rate in (0.5, 0.4, 0.3):
        optimizer.param_groups[0]["lr"] = rate
        step(model, optimizer)
    lines = {each.id: each.line for each in seen.events if isinstance(each, Location)}
    start = test_the_line_that_moves_the_rate_of_the_first_group_alone_is_told_once.__code__.co_firstlineno
    assert [each.overwrites and lines[each.overwrites] - start for each in told(seen)] == [0, 5, 0]
