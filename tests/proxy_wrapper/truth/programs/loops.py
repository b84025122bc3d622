"""Training loops that do more, or less, than zero, backward and step."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.proxy_wrapper.truth.judgement import TruthProgram
from tests.proxy_wrapper.truth.networks import CLASSES, Normed, Perceptron, batch, loss_of, state_of, train

if TYPE_CHECKING:
    from tests.proxy_wrapper.truth.run import Run


def accumulate(run: Run) -> Any:
    model = run.model(Normed())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    losses = []
    for number in range(7):
        loss = loss_of(model) / 3
        loss.backward()
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, state_of(model)


def clip(run: Run) -> Any:
    """By value, by norm, and by a norm that is infinite."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for number in range(4):
        optimizer.zero_grad()
        loss_of(model).backward()
        if number % 2:
            nn.utils.clip_grad_value_(model.parameters(), 0.01)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=float("inf" if number else 2))
        optimizer.step()
    return state_of(model)


def clip_infinite_gradients(run: Run) -> Any:
    """Clipping makes NaN of what is infinite, and the model never recovers."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for number in range(3):
        optimizer.zero_grad()
        loss = loss_of(model)
        (loss * float("inf") if number == 1 else loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return state_of(model)


def freeze_and_thaw(run: Run) -> Any:
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    losses = []
    for number in range(7):
        model.first.requires_grad_(number % 3 != 1)
        losses += train(model, optimizer, 1)
    return losses, state_of(model)


def frozen_from_the_start(run: Run) -> Any:
    model = run.model(Perceptron())
    model.first.requires_grad_(False)
    optimizer = run.optimizer(torch.optim.Adam([p for p in model.parameters() if p.requires_grad]))
    return train(model, optimizer), state_of(model)


def leave_out_gradients(run: Run) -> Any:
    """Gradients that are taken away, zeroed, or put in by hand before the step."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5))
    for number in range(4):
        optimizer.zero_grad()
        loss_of(model).backward()
        if number == 1:
            model.first.weight.grad = None
        elif number == 2:
            optimizer.zero_grad(set_to_none=False)
        elif number == 3:
            model.second.bias.grad = torch.tensor([1.0, -2.0, 3.0])
        optimizer.step()
    return state_of(model)


def triple(parameter: torch.Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.mul_(3)


def halve(module: nn.Module, inner: Any, outer: Any) -> Any:
    return tuple(gradient * 0.5 for gradient in inner)


def change_gradients(run: Run) -> Any:
    """Hooks that scale gradients: of a tensor, after accumulation, of a module."""
    model = run.model(Perceptron())
    model.first.weight.register_hook(lambda gradient: gradient * 2)
    model.first.bias.register_post_accumulate_grad_hook(triple)
    model.second.register_full_backward_hook(halve)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return train(model, optimizer), state_of(model)


def skip_steps(run: Run) -> Any:
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    skipped = 0
    for number in range(5):
        optimizer.zero_grad()
        loss = loss_of(model) * (float("nan") if number in (1, 3) else 1.0)
        loss.backward()
        if loss.isfinite():
            optimizer.step()
        else:
            skipped += 1
    return skipped, state_of(model)


def go_non_finite(run: Run) -> Any:
    """A rate that blows everything up, so that outputs, gradients and parameters end as NaN."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=1e38))
    for _ in range(4):
        optimizer.zero_grad()
        model(batch()[0]).square().sum().backward()
        optimizer.step()
    return state_of(model)


class Fragile(Perceptron):
    """Refuses inputs whose sum is positive, once its first layer has been called."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        if x.sum() > 0:
            raise ValueError("a positive sum")
        out: torch.Tensor = self.second(hidden)
        return out


def go_on_after_errors(run: Run) -> Any:
    model = run.model(Fragile())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    failures = 0
    for _ in range(8):
        optimizer.zero_grad()
        try:
            loss = loss_of(model)
        except ValueError:
            failures += 1
            continue
        loss.backward()
        optimizer.step()
    assert 0 < failures < 8
    return failures, state_of(model)


class FailingSGD(torch.optim.SGD):
    """Fails after every second of its steps, when it has changed the weights."""

    made = 0

    def step(self, closure: Any = None) -> Any:
        result = super().step(closure)
        self.made += 1
        if self.made % 2:
            raise RuntimeError("after the step")
        return result


def go_on_after_failed_steps(run: Run) -> Any:
    model = run.model(Perceptron())
    optimizer = run.optimizer(FailingSGD(model.parameters(), lr=0.1))
    for _ in range(4):
        optimizer.zero_grad()
        loss_of(model).backward()
        with contextlib.suppress(RuntimeError):
            optimizer.step()
    return state_of(model)


def stop_early(run: Run) -> Any:
    """Leaves the loop between backward and step."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for number in range(5):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        if number == 3:
            break
        optimizer.step()
    return state_of(model)


def load_in_workers(run: Run) -> Any:
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    data = TensorDataset(*batch(8))
    loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork", shuffle=True)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return state_of(model)


def convert(run: Run) -> Any:
    """To float64 in the middle, and back to float32."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    losses = train(model, optimizer, 2)
    model.double()
    for _ in range(2):
        optimizer.zero_grad()
        model(batch()[0].double()).square().mean().backward()
        optimizer.step()
    optimizer.zero_grad()
    model.float()
    return losses, train(model, optimizer, 2), state_of(model)


def narrow_for_evaluation(run: Run) -> Any:
    """A model that is converted to bfloat16 for evaluation when all is done."""
    model = run.model(nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, CLASSES)))
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    train(model, optimizer, 2)
    model.eval().to(torch.bfloat16)
    with torch.inference_mode():
        for _ in range(3):
            out = model(batch()[0].bfloat16())
    return out.clone(), state_of(model)


def watch_out_for_nothing(run: Run) -> Any:
    """Steps without any backward pass: nothing has a gradient, and nothing changes."""
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.Adam(model.parameters()))
    for _ in range(3):
        model(batch()[0])
        optimizer.step()
    return state_of(model)


def detach_a_part(run: Run) -> Any:
    """The first layer is in the optimizer, but its output is detached."""
    model = run.model(nn.ModuleDict({"first": nn.Linear(6, 6), "head": nn.Linear(6, CLASSES)}))
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        x, y = batch()
        optimizer.zero_grad()
        F.cross_entropy(model["head"](model["first"](x).detach()), y).backward()
        optimizer.step()
    return state_of(model)


PROGRAMS = (
    TruthProgram("gradients summed up over batches", accumulate),
    TruthProgram("clipped gradients", clip),
    TruthProgram("infinite gradients, clipped", clip_infinite_gradients),
    TruthProgram("frozen and thawed in the middle", freeze_and_thaw),
    TruthProgram("frozen from the start", frozen_from_the_start),
    TruthProgram("gradients taken away, zeroed and put in", leave_out_gradients),
    TruthProgram("hooks that change gradients", change_gradients),
    TruthProgram("steps left out after a NaN", skip_steps),
    TruthProgram("everything ends as NaN", go_non_finite),
    TruthProgram("errors in forward", go_on_after_errors),
    TruthProgram("errors in steps", go_on_after_failed_steps),
    TruthProgram("left between backward and step", stop_early),
    TruthProgram("workers that load data", load_in_workers),
    TruthProgram("another dtype in the middle", convert),
    TruthProgram("a narrow dtype for evaluation", narrow_for_evaluation),
    TruthProgram("steps without backward passes", watch_out_for_nothing),
    TruthProgram("a part that is detached", detach_a_part),
)
