"""How the loss of a backward pass was computed, and its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Backward, Location, Loss, NonFinite
from proxy_wrapper.loss_graph.loss_nodes import MOST_NODES
from tests.proxy_wrapper.programs import Plain, images, labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def calls(loss: Loss) -> list[tuple[str, bool]]:
    """The nodes of a loss by name, and whether each lies inside the model."""
    return [(node.name.removesuffix("Backward0"), node.inside) for node in loss.nodes]


def losses(seen: MemoryObserver) -> list[Loss]:
    return [event for event in seen.events if isinstance(event, Loss)]


def passes(seen: MemoryObserver) -> list[Backward]:
    return [event for event in seen.events if isinstance(event, Backward)]


def test_a_loss_is_told_back_to_what_the_model_put_out(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.Linear(4, 3), nn.Softmax(1)), recurse=True, logdir=logdir)
    loss = F.cross_entropy(model(torch.randn(2, 4)), torch.tensor([0, 2]))
    loss.backward()

    (told,) = losses(seen)
    assert calls(told)[:4] == [("NllLoss", False), ("LogSoftmax", False), ("Softmax", True), ("Addmm", True)]
    assert [node.parent for node in told.nodes[:4]] == [-1, 0, 1, 2]
    assert [list(node.shape) for node in told.nodes[:4]] == [[], [2, 3], [2, 3], [2, 3]]
    (begun,) = passes(seen)
    assert (begun.loss, begun.loss_value) == (told.id, loss.item())


def test_a_way_is_told_once_and_another_shape_is_another_way(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    for size in (2, 2, 3, 2):
        F.cross_entropy(model(torch.randn(size, 4)), torch.zeros(size, dtype=torch.int64)).backward()

    assert [event.id for event in losses(seen)] == [1, 2]
    assert [event.loss for event in passes(seen)] == [1, 1, 2, 1]


def test_a_target_network_without_a_graph_does_not_hide_where_the_model_ends(logdir: str, seen: MemoryObserver) -> None:
    model, target = (Proxy.Proxy(nn.Linear(4, 1), recurse=True, logdir=logdir) for _ in range(2))
    x = torch.randn(3, 4)
    predicted = model(x)
    with torch.no_grad():
        wanted = target(x)
    F.mse_loss(predicted, wanted).backward()

    (told,) = losses(seen)
    assert calls(told)[:2] == [("MseLoss", False), ("Addmm", True)]


def test_a_loss_that_the_model_itself_gives_lies_inside(logdir: str, seen: MemoryObserver) -> None:
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.fc(x).square().mean()}

    model = Proxy.Proxy(WithLoss(), recurse=True, logdir=logdir)
    model(torch.randn(2, 4))["loss"].backward()

    assert calls(losses(seen)[0])[:3] == [("Mean", True), ("Pow", True), ("Addmm", True)]


def computed_in(model: nn.Module) -> torch.Tensor:
    found = model(torch.randn(2, 4))
    loss: torch.Tensor = found.square().mean()
    return loss


def test_a_loss_is_told_where_it_is_computed(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    loss = computed_in(model)
    loss.backward()

    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    (told,) = losses(seen)
    here = test_a_loss_is_told_where_it_is_computed.__code__.co_firstlineno
    assert (lines[told.made], lines[told.computed]) == (here + 2, computed_in.__code__.co_firstlineno + 2)


class WithOwnLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        found = self.fc(x)
        loss = found.square().mean()
        return found, loss


def test_a_loss_of_the_model_itself_is_told_where_that_computes_it(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(WithOwnLoss(), recurse=True, logdir=logdir)
    _, loss = model(torch.randn(2, 4))
    loss.backward()

    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    (told,) = losses(seen)
    assert lines[told.computed] == WithOwnLoss.forward.__code__.co_firstlineno + 2


def advantage_of(reward: torch.Tensor) -> torch.Tensor:
    return (reward - reward.mean()) / reward.std()


def pass_with_equal_rewards(model: Any) -> int:
    """A backward pass with a loss that is not a number; the line at which it begins."""
    found = model(torch.randn(2, 4))
    advantage = advantage_of(torch.ones(2, 1))
    loss = (found * advantage).mean()
    loss.backward()
    return pass_with_equal_rewards.__code__.co_firstlineno + 5


def test_the_first_nan_is_told_with_its_variable_and_once(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    line = pass_with_equal_rewards(model)
    pass_with_equal_rewards(model)

    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    (told,) = [event for event in seen.events if isinstance(event, NonFinite) and event.where == "loss"]
    assert (told.variable, lines[told.location]) == ("advantage", line)
    assert lines[told.computed] == advantage_of.__code__.co_firstlineno + 1


def made_anew(out: torch.Tensor) -> torch.Tensor:
    values = [row.sum().item() for row in out]
    return torch.tensor(values, requires_grad=True).mean()


def taken_over(out: torch.Tensor) -> torch.Tensor:
    return out.detach().requires_grad_().mean()


def pass_of_loss_made_anew(model: Any) -> None:
    made_anew(model(torch.ones(2, 4))).backward()


def pass_of_loss_taken_over(model: Any) -> None:
    loss = taken_over(model(torch.ones(2, 4)))
    loss.backward()


@pytest.mark.parametrize(
    ("run", "compute", "line"), [(pass_of_loss_made_anew, made_anew, 2), (pass_of_loss_taken_over, taken_over, 1)]
)
def test_a_loss_of_no_model_is_told_where_its_graph_begins(
    logdir: str,
    seen: MemoryObserver,
    run: Callable[[Any], None],
    compute: Callable[[torch.Tensor], torch.Tensor],
    line: int,
) -> None:
    run(Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir))
    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    (told,) = losses(seen)
    assert lines[told.cut] == compute.__code__.co_firstlineno + line


def length(v: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = v.pow(2).sum(1).sqrt()
    return found


@pytest.mark.parametrize(("size", "is_told"), [(0.0, True), (1.0, False)])
def test_a_gradient_without_end_is_told_with_its_operation(
    logdir: str, seen: MemoryObserver, size: float, *, is_told: bool
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e38 if size else 0.1)
    out = model(torch.ones(2, 4))
    loss = length(out - out.detach() + size).mean() * (1.0 if is_told else float("inf"))
    loss.backward()
    optimizer.step()

    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    told = [event for event in seen.events if isinstance(event, NonFinite) and event.where == "gradient"]
    assert told
    line = length.__code__.co_firstlineno + 1
    expected = ("sqrt", line) if is_told else ("", None)
    assert (told[0].operation, lines.get(told[0].computed)) == expected
    assert not any(event.operation for event in told[1:])


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.layer(x).masked_fill(torch.ones(3, dtype=torch.bool), float("-inf"))
        weights: torch.Tensor = scores.softmax(1)
        return weights * 2


def test_an_output_is_told_with_the_operation_in_its_module(logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(Masked(), recurse=True, logdir=logdir)(torch.ones(2, 4))

    lines = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    (told,) = [event for event in seen.events if isinstance(event, NonFinite)]
    assert (told.operation, lines[told.computed]) == ("softmax", Masked.forward.__code__.co_firstlineno + 2)


def test_a_long_graph_is_cut(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    loss = model(torch.randn(2, 4)).sum()
    for _ in range(2 * MOST_NODES):
        loss = loss + 1
    loss.backward()

    assert len(losses(seen)[0].nodes) == MOST_NODES


@pytest.mark.parametrize(
    "begin",
    [
        lambda out: out.backward(torch.ones_like(out)),
        lambda out: torch.autograd.backward([out.sum(), out.mean()]),
    ],
    ids=["many elements", "two losses"],
)
def test_what_is_no_single_number_has_no_value(
    logdir: str, seen: MemoryObserver, begin: Callable[[torch.Tensor], None]
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    begin(model(torch.randn(2, 4)))

    assert [event.loss_value for event in passes(seen)] == [None]


def test_a_pass_that_only_asks_for_gradients_has_no_loss(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    torch.autograd.grad(model(torch.randn(2, 4)).sum(), list(model.parameters()))

    assert [(event.loss, event.loss_value) for event in passes(seen)] == [(0, None)]
    assert losses(seen) == []


def test_a_loss_that_is_not_finite_has_its_value_as_a_word(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 3), recurse=True, logdir=logdir)
    (model(torch.randn(2, 4)).sum() * float("nan")).backward()

    assert [event.loss_value for event in passes(seen)] == ["nan"]


class WritesIntoAView(nn.Module):
    """Puts out a view of what it writes into afterwards, so that autograd makes the view's node anew when asked."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole: torch.Tensor = self.fc(x).clone()
        part = whole[:, :2]
        whole.mul_(2)
        return part


@pytest.mark.parametrize("make", [Plain, WritesIntoAView])
def test_reading_the_graph_changes_no_gradient(make: Callable[[], nn.Module], logdir: str, level: str) -> None:
    def gradients(*, traced: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = make()
        if traced:
            model = Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
        inputs = images() if make is Plain else torch.randn(8, 4)
        out = model(inputs)
        loss = F.cross_entropy(out, labels()) if make is Plain else (out.exp() * out).sum() + out.sum().exp()
        loss.backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    plain, traced = gradients(traced=False), gradients(traced=True)
    assert plain
    assert all(map(torch.equal, plain, traced))
