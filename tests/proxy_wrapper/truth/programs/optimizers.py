"""Optimizers: PyTorch's and hand-written ones, alone and around one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.proxy_wrapper.truth.judgement import TruthProgram
from tests.proxy_wrapper.truth.networks import CLASSES, Perceptron, batch, loss_of, state_of, train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.proxy_wrapper.truth.run import Run


def with_optimizer(
    make: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer], steps: int = 4
) -> Callable[[Run], Any]:
    """A program that trains a perceptron by an ordinary loop."""

    def run(run: Run) -> Any:
        model = run.model(Perceptron())
        optimizer = run.optimizer(make(model.parameters()))
        return train(model, optimizer, steps), state_of(model)

    return run


class DataSGD(torch.optim.Optimizer):
    """Goes around the version count."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.data -= group["lr"] * parameter.grad.data


class ClosedDataSGD(DataSGD):
    """The same, with the loss computed in the step."""

    def step(self, closure: Any = None) -> Any:
        loss = closure()
        super().step()
        return loss


class CopyingSGD(DataSGD):
    """Copies the new values in."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.copy_(parameter - group["lr"] * parameter.grad)


class ForeachSGD(DataSGD):
    """Takes all parameters at once."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            found = [parameter for parameter in group["params"] if parameter.grad is not None]
            torch._foreach_add_(found, [parameter.grad for parameter in found], alpha=-group["lr"])


class SwappingSGD(DataSGD):
    """Swaps each parameter with the one that is to come."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    gradient = parameter.grad
                    torch.utils.swap_tensors(parameter, nn.Parameter(parameter - group["lr"] * gradient))


class SettingSGD(DataSGD):
    """Puts other storage under each parameter."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.data = parameter.data - group["lr"] * parameter.grad.data


class SignFlipping(DataSGD):
    """Leaves extremes, norm and version as they are for symmetrical values."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.neg_()


class ClippingAdam(torch.optim.Adam):
    """Does something of its own around the step that it inherits."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            nn.utils.clip_grad_norm_(group["params"], 0.1)
        return super().step(closure)


class Lookahead(torch.optim.Optimizer):
    """Drives another optimizer, and goes back half the way after every second of its steps."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        super().__init__(inner.param_groups, {})
        self.slow = [parameter.detach().clone() for group in inner.param_groups for parameter in group["params"]]
        self.made = 0

    def step(self, closure: Any = None) -> Any:
        loss = self.inner.step(closure)
        self.made += 1
        if self.made % 2 == 0:
            with torch.no_grad():
                fast = [parameter for group in self.inner.param_groups for parameter in group["params"]]
                for slow, parameter in zip(self.slow, fast, strict=True):
                    slow.lerp_(parameter, 0.5)
                    parameter.copy_(slow)
        return loss


class Together:
    """Several optimizers as one, itself none."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self.optimizers = optimizers

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()


def look_ahead(run: Run) -> Any:
    model = run.model(Perceptron())
    optimizer = run.optimizer(Lookahead(torch.optim.SGD(model.parameters(), lr=0.1)))
    return train(model, optimizer, steps=5), state_of(model)


def call_super_beside_another(run: Run) -> Any:
    model, other = run.model(Perceptron(), "model"), run.model(Perceptron(), "other")
    first = run.optimizer(ClippingAdam(model.parameters(), lr=0.01))
    second = run.optimizer(torch.optim.SGD(other.parameters(), lr=0.1))
    return [(train(model, first, 1), train(other, second, 2)) for _ in range(3)], state_of(model, other)


def share_out(run: Run) -> Any:
    model = run.model(Perceptron())
    together = Together(
        run.optimizer(torch.optim.SGD(model.first.parameters(), lr=0.1)),
        run.optimizer(torch.optim.Adam(model.second.parameters(), lr=0.01)),
    )
    for _ in range(3):
        together.zero_grad()
        loss_of(model).backward()
        together.step()
    return state_of(model)


def step_in_backward(run: Run) -> Any:
    """Each parameter has an optimizer of its own, which steps as soon as its gradient is there."""
    model = run.model(Perceptron())
    optimizers: dict[torch.Tensor, torch.optim.Optimizer] = {
        parameter: run.optimizer(torch.optim.SGD([parameter], lr=0.1)) for parameter in model.parameters()
    }

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        loss_of(model).backward()
    return state_of(model)


def use_lbfgs(run: Run) -> Any:
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=4))
    x, y = batch()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return [torch.as_tensor(optimizer.step(closure)).detach() for _ in range(3)], state_of(model)


def step_by_closure(run: Run) -> Any:
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    return [optimizer.step(closure).detach() for _ in range(3)], state_of(model)


def schedule(run: Run) -> Any:
    """Groups with rates of their own, one of which falls to zero, and a group that is added late."""
    model = run.model(Perceptron())
    groups: list[dict[str, Any]] = [{"params": [model.first.weight]}, {"params": [model.first.bias], "lr": 0.0}]
    optimizer = run.optimizer(torch.optim.SGD(groups, lr=0.1))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.0)
    losses = []
    for number in range(5):
        losses += train(model, optimizer, 1)
        scheduler.step()
        if number == 2:
            optimizer.add_param_group({"params": list(model.second.parameters()), "lr": 0.2})
    return losses, state_of(model)


def scale_gradients(run: Run) -> Any:
    """A scaler that leaves out steps whose gradients are not finite, as `GradScaler` does."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    scale, skipped = 2.0**127, 0
    for _ in range(5):
        optimizer.zero_grad()
        (loss_of(model) * scale).backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        torch._foreach_div_(gradients, scale)
        if all(gradient.isfinite().all() for gradient in gradients):
            optimizer.step()
        else:
            skipped += 1
            scale /= 2.0**40
    return skipped, state_of(model)


def restart(run: Run) -> Any:
    """Goes back to a checkpoint, with a new optimizer."""
    model = run.model(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, CLASSES)))
    optimizer = run.optimizer(torch.optim.Adam(model.parameters()))
    train(model, optimizer, 1)
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first = train(model, optimizer, 2)
    model.load_state_dict(kept)
    optimizer = run.optimizer(torch.optim.Adam(model.parameters()))
    return first, train(model, optimizer, 2), state_of(model)


def average(run: Run) -> Any:
    """Stochastic weight averaging, by PyTorch's own class."""
    model = run.model(Perceptron())
    averaged = run.model(torch.optim.swa_utils.AveragedModel(model), "averaged")
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(4):
        train(model, optimizer, 1)
        averaged.update_parameters(model)
    return loss_of(averaged).detach(), state_of(model, averaged)


PROGRAMS = (
    TruthProgram("an optimizer that changes .data", with_optimizer(DataSGD)),
    TruthProgram("an optimizer that copies", with_optimizer(CopyingSGD)),
    TruthProgram("an optimizer of foreach functions", with_optimizer(ForeachSGD)),
    TruthProgram("an optimizer that swaps tensors", with_optimizer(SwappingSGD)),
    TruthProgram("an optimizer that sets .data", with_optimizer(SettingSGD)),
    TruthProgram("an optimizer that flips signs", with_optimizer(SignFlipping)),
    TruthProgram("many steps of an optimizer that changes .data", with_optimizer(DataSGD, 40)),
    TruthProgram("a fused optimizer", with_optimizer(lambda given: torch.optim.AdamW(given, fused=True))),
    TruthProgram(
        "maximizing, with weight decay",
        with_optimizer(lambda given: torch.optim.SGD(given, 0.1, 0.9, weight_decay=0.1, maximize=True)),
    ),
    TruthProgram("a rate of zero", with_optimizer(lambda given: torch.optim.SGD(given, lr=0.0))),
    TruthProgram("a rate too small for float32", with_optimizer(lambda given: torch.optim.SGD(given, lr=1e-12))),
    TruthProgram("an optimizer around another", look_ahead),
    TruthProgram("a step that calls super, beside another optimizer", call_super_beside_another),
    TruthProgram("two optimizers for one model", share_out),
    TruthProgram("steps within the backward pass", step_in_backward),
    TruthProgram("LBFGS", use_lbfgs),
    TruthProgram("a closure for one evaluation", step_by_closure),
    TruthProgram("groups, schedules, a group that comes late", schedule),
    TruthProgram("a scaler that leaves out steps", scale_gradients),
    TruthProgram("back to a checkpoint", restart),
    TruthProgram("averaged weights", average),
)
