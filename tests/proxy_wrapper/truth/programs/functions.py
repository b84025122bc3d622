"""What is done by functions rather than layers: transforms, checkpoints, derivatives of one's own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.proxy_wrapper.truth.judgement import TruthProgram
from tests.proxy_wrapper.truth.networks import CLASSES, FEATURES, Normed, Perceptron, batch, loss_of, state_of, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proxy_wrapper.truth.run import Run


class Recomputed(nn.Module):
    """Blocks whose activations are computed once more in the backward pass."""

    def __init__(self, *, use_reentrant: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Dropout(0.1)) for _ in range(2)])
        self.head = nn.Linear(FEATURES, CLASSES)
        self.use_reentrant = use_reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = torch.relu(checkpoint(block, x, use_reentrant=self.use_reentrant))
        out: torch.Tensor = self.head(x)
        return out


def recompute(*, use_reentrant: bool) -> Callable[[Run], Any]:
    def run(run: Run) -> Any:
        model = run.model(Recomputed(use_reentrant=use_reentrant))
        optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in range(3):
            x, y = batch()
            optimizer.zero_grad()
            F.cross_entropy(model(x.requires_grad_()), y).backward()
            optimizer.step()
        return state_of(model)

    return run


def call_functionally(run: Run) -> Any:
    """Weights that are put in for a call: perturbed ones, beside the training of the real ones."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    results = []
    for _ in range(4):
        noisy = {name: p.detach() + 0.1 * torch.randn_like(p) for name, p in model.named_parameters()}
        results.append(torch.func.functional_call(model, noisy, (batch()[0],)))
        results += train(model, optimizer, 1)
        results.append(torch.func.functional_call(model, noisy, (batch()[0],)))
        results.append(torch.func.functional_call(model, noisy, (batch()[0],)))
    return results, state_of(model)


def learn_to_learn(run: Run) -> Any:
    """MAML: a step on weights that are put in for a call, and the derivative through it."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        total = torch.zeros(())
        for _ in range(2):
            x, y = batch()
            weights: dict[str, torch.Tensor] = dict(model.named_parameters())
            inner = F.cross_entropy(torch.func.functional_call(model, weights, (x,)), y)
            gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            fast = {name: p - 0.1 * g for (name, p), g in zip(weights.items(), gradients, strict=True)}
            total = total + F.cross_entropy(torch.func.functional_call(model, fast, (x,)), y)
        total.backward()
        optimizer.step()
        losses.append(total.detach())
    return losses, state_of(model)


def transform(run: Run) -> Any:
    """Gradients for each sample by `vmap` of `grad`, which are put in as the mean."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(torch.func.functional_call(model, weights, (x[None],)), y[None])

    for _ in range(2):
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weights, *batch())
        for name, parameter in model.named_parameters():
            parameter.grad = each[name].mean(0)
        optimizer.step()
    return state_of(model)


class Straight(torch.autograd.Function):
    """Rounds, with the derivative of the identity."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


class Rounding(Perceptron):
    """Rounds in the middle."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(Straight.apply(self.first(x) * 4))  # type: ignore[no-untyped-call]
        return out


def round_in_the_middle(run: Run) -> Any:
    model = run.model(Rounding())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return train(model, optimizer), state_of(model)


class InPlace(nn.Module):
    """Changes what it is given, in several ways."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, 8)
        self.drop = nn.Dropout(0.3, inplace=True)
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.act(self.drop(self.first(x.mul_(2.0))))
        out: torch.Tensor = self.head(hidden)
        return out.add_(1.0)


def change_in_place(run: Run) -> Any:
    model = run.model(InPlace())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return train(model, optimizer), state_of(model)


class Spoiler(nn.Module):
    """Writes a NaN into what it is given, and gives back something finite."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = x.sum(1, keepdim=True)
        with torch.no_grad():
            x[0, 0] = float("nan")
        return out


class Spoilt(nn.Module):
    """Passes on what another module has spoilt."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, 4)
        self.spoiler = Spoiler()
        self.second = nn.Linear(4, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        self.spoiler(hidden)
        out: torch.Tensor = self.second(hidden)
        return out


def spoil_in_place(run: Run) -> Any:
    model = run.model(Spoilt())
    with torch.no_grad():
        return model(batch()[0]), state_of(model)


class Scale(nn.Module):
    """Multiplies what it is given, in place."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(self.factor)


class Overflowing(nn.Module):
    """Makes infinities, which the next module turns into zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, 4)
        self.grow = nn.Sequential(nn.Identity(), Scale(1e38), Scale(1e38))
        self.second = nn.Linear(4, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.grow(self.first(x))
        out: torch.Tensor = self.second(torch.reciprocal(hidden))
        return out


def overflow_for_a_while(run: Run) -> Any:
    model = run.model(Overflowing())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return train(model, optimizer, 2), state_of(model)


def mix_precision(run: Run) -> Any:
    """Autocast, with a scaler for the CPU that does nothing."""
    model = run.model(Normed())
    optimizer = run.optimizer(torch.optim.AdamW(model.parameters(), lr=0.01))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for number in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model)
        if number == 2:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return state_of(model)


def differentiate_twice(run: Run) -> Any:
    """A Hessian-vector product as the gradient."""
    model = run.model(Perceptron())
    parameters = list(model.parameters())
    optimizer = run.optimizer(torch.optim.SGD(parameters, lr=0.01))
    for _ in range(3):
        optimizer.zero_grad()
        first = torch.autograd.grad(loss_of(model), parameters, create_graph=True)
        sum(each.square().sum() for each in first).backward()  # type: ignore[union-attr]
        optimizer.step()
    return state_of(model)


def fail_in_backward(run: Run) -> Any:
    """Backward passes that raise, in a hook, after some gradients have been summed up."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    def refuse(gradient: torch.Tensor) -> None:
        if gradient.sum() > 0:
            raise ValueError("a positive sum")

    model.first.bias.register_hook(refuse)
    failures = 0
    for _ in range(6):
        optimizer.zero_grad()
        with contextlib.suppress(ValueError):
            loss_of(model).backward()
            optimizer.step()
            continue
        failures += 1
    assert 0 < failures < 6
    return failures, state_of(model)


def call_parts(run: Run) -> Any:
    """Parts of a model called by themselves, its forward called directly, and the model within itself."""
    model = run.model(Perceptron(hidden=FEATURES))
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        x, y = batch()
        optimizer.zero_grad()
        F.cross_entropy(model.forward(model.first(x)) + model.second(x), y).backward()
        optimizer.step()
    return state_of(model)


PROGRAMS = (
    TruthProgram("checkpoints of the old kind", recompute(use_reentrant=True)),
    TruthProgram("checkpoints", recompute(use_reentrant=False)),
    TruthProgram("weights put in for a call", call_functionally),
    TruthProgram("meta-learning", learn_to_learn),
    TruthProgram("gradients of each sample", transform),
    TruthProgram("a derivative of one's own", round_in_the_middle),
    TruthProgram("modules that change what they are given", change_in_place),
    TruthProgram("a module that spoils what it is given", spoil_in_place),
    TruthProgram("infinities that go away", overflow_for_a_while),
    TruthProgram("mixed precision", mix_precision),
    TruthProgram("second derivatives", differentiate_twice),
    TruthProgram("errors in backward", fail_in_backward),
    TruthProgram("parts called by themselves", call_parts),
)
