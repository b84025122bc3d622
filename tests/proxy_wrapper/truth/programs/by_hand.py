"""Training without an optimizer of PyTorch's, alone and beside one."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.proxy_wrapper.truth.judgement import TruthProgram
from tests.proxy_wrapper.truth.networks import Perceptron, batch, loss_of, state_of, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proxy_wrapper.truth.run import Run

RATE = 0.1


def in_place(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(RATE * parameter.grad)


def by_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.data.add_(parameter.grad.data, alpha=-RATE)


def by_numpy(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.detach().numpy()[...] -= RATE * parameter.grad.numpy()


def by_replacing(model: nn.Module) -> None:
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            assert parameter.grad is not None
            setattr(module, name, nn.Parameter(parameter.detach() - RATE * parameter.grad))


def by_foreach(model: nn.Module) -> None:
    pairs = [(parameter, parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
    with torch.no_grad():
        torch._foreach_add_([parameter for parameter, _ in pairs], [gradient for _, gradient in pairs], alpha=-RATE)


def by_flipping(model: nn.Module) -> None:
    """Changes neither extremes nor norm of values that are symmetrical."""
    for parameter in model.parameters():
        parameter.data.neg_()


def trained_by(update: Callable[[nn.Module], None], steps: int = 4) -> Callable[[Run], Any]:
    """A program that trains by a loop of its own."""

    def run(run: Run) -> Any:
        model = run.model(Perceptron())
        losses = []
        for _ in range(steps):
            model.zero_grad()
            loss = loss_of(model)
            loss.backward()
            update(model)
            run.hand_step()
            losses.append(loss.detach())
        return losses, state_of(model)

    return run


def by_grad(run: Run) -> Any:
    """Gradients that never come to lie in `.grad`."""
    model = run.model(Perceptron())
    parameters = list(model.parameters())
    for _ in range(3):
        gradients = torch.autograd.grad(loss_of(model), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(RATE * gradient)
        run.hand_step()
    return state_of(model)


def beside(update: Callable[[nn.Module], None]) -> Callable[[Run], Any]:
    """A program that trains one model by an optimizer, the other by hand."""

    def run(run: Run) -> Any:
        model, other = run.model(Perceptron(), "model"), run.model(Perceptron(), "other")
        optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=RATE))
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            other.zero_grad()
            x, y = batch()
            loss = F.cross_entropy(model(x) + other(x), y)
            loss.backward()
            optimizer.step()
            update(other)
            losses.append(loss.detach())
        return losses, state_of(model, other)

    return run


def flipped_beside(run: Run) -> Any:
    """Symmetrical weights that turn their signs beside an optimizer."""
    model, other = run.model(Perceptron(), "model"), run.model(nn.Linear(6, 4, bias=False), "other")
    nn.init.constant_(other.weight, 1.0)
    with torch.no_grad():
        other.weight[::2] = -1.0
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=RATE))
    for _ in range(25):
        train(model, optimizer, 1)
        other.weight.data.neg_()
        other(batch()[0])
    return state_of(model, other)


def few_rows(run: Run) -> Any:
    """An embedding of which each step changes a few rows a little."""
    model = run.model(nn.Embedding(2000, 8))
    for _ in range(12):
        rows = torch.randint(0, 2000, (3,))
        model.zero_grad()
        model(rows).sum().backward()
        model.weight.data[rows] -= 1e-4
        run.hand_step()
    return state_of(model)


def moving_average(run: Run) -> Any:
    model = run.model(Perceptron())
    teacher = run.model(copy.deepcopy(model).requires_grad_(False), "teacher")
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=RATE))
    for _ in range(4):
        train(model, optimizer, 1)
        for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.01)
    return state_of(model, teacher)


def target_network(run: Run) -> Any:
    """Q-learning, with a target that is given the weights of the other now and then."""
    model, target = run.model(Perceptron(), "model"), run.model(Perceptron(), "target")
    target.load_state_dict(model.state_dict())
    optimizer = run.optimizer(torch.optim.RMSprop(model.parameters(), lr=0.01))
    losses = []
    for step in range(6):
        x, y = batch()
        with torch.no_grad():
            goal = 0.9 * target(x).max(1).values
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(x).gather(1, y[:, None])[:, 0], goal)
        loss.backward()
        optimizer.step()
        if step % 3 == 2:
            target.load_state_dict(model.state_dict())
        losses.append(loss.detach())
    return losses, state_of(model, target)


def clipped_weights(run: Run) -> Any:
    """Weights that are clipped after each step, as in the first Wasserstein GAN."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.RMSprop(model.parameters(), lr=0.05))
    for _ in range(4):
        train(model, optimizer, 1)
        for parameter in model.parameters():
            parameter.data.clamp_(-0.1, 0.1)
    return state_of(model)


def initialized_late(run: Run) -> Any:
    model = run.model(Perceptron())
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=RATE))
    return train(model, optimizer), state_of(model)


PROGRAMS = (
    TruthProgram("by hand, in place", trained_by(in_place)),
    TruthProgram("by hand, through .data", trained_by(by_data)),
    TruthProgram("by hand, through .data, many steps", trained_by(by_data, 40)),
    TruthProgram("by hand, through NumPy", trained_by(by_numpy)),
    TruthProgram("by hand, new parameters each time", trained_by(by_replacing)),
    TruthProgram("by hand, foreach", trained_by(by_foreach)),
    TruthProgram("by hand, signs flipped", trained_by(by_flipping)),
    TruthProgram("by hand, of torch.autograd.grad", by_grad),
    TruthProgram("by hand beside an optimizer, in place", beside(in_place)),
    TruthProgram("by hand beside an optimizer, through .data", beside(by_data)),
    TruthProgram("by hand beside an optimizer, through NumPy", beside(by_numpy)),
    TruthProgram("signs flipped beside an optimizer", flipped_beside),
    TruthProgram("few rows of an embedding, a little", few_rows),
    TruthProgram("a moving average", moving_average),
    TruthProgram("a target network", target_network),
    TruthProgram("clipped weights", clipped_weights),
    TruthProgram("initialized after it was proxied", initialized_late),
)
