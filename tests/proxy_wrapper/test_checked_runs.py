"""What a summary says of small programs that really ran: the reasons, the notes, and what was looked at."""

from __future__ import annotations

import copy
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import Summary, summarize
from proxy_trace.summary.summary_text import summary_lines
from proxy_trace.terminal.colour import Palette
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 6


class Net(nn.Module):
    """Three layers in a row; `features` is what the second one gets."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 8)
        self.head = nn.Linear(8, 1)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.tanh(self.first(x))
        return out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(torch.tanh(self.second(self.features(x))))
        return out


class Detached(Net):
    def features(self, x: torch.Tensor) -> torch.Tensor:
        return super().features(x).detach()


class Masked(Net):
    def features(self, x: torch.Tensor) -> torch.Tensor:
        return super().features(x) * 0.0


class Unfrozen(Net):
    """A backbone that is used under `no_grad()`, and that no optimizer is to have."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return super().features(x)


def proxied(model: nn.Module, logdir: str, name: str = "net", **settings: Any) -> Any:
    return Proxy.Proxy(model, recurse=True, name=name, logdir=logdir, **settings)


def sgd(*models: nn.Module, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD([parameter for model in models for parameter in model.parameters()], lr=lr)


def loss_of(model: Any) -> torch.Tensor:
    loss: torch.Tensor = model(torch.randn(8, 4)).square().mean()
    return loss


def fit(model: Any, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def summed_up(logdir: str) -> Summary:
    Proxy._installed.take_down()
    return summarize(Trace.open(logdir))


def text_of(summary: Summary) -> str:
    return "\n".join(summary_lines(summary, Palette(enabled=False)))


# Programs in which something is wrong, or worth a note: each gives what is found.


def sound(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(Net(), logdir)
    fit(model, sgd(model))
    return []


def detached(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(Detached(), logdir)
    fit(model, sgd(model))
    return [("grad-cut-off", "net.first.*", "in an optimizer, but it never had a gradient")]


def masked(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(Masked(), logdir)
    fit(model, sgd(model))
    # The second layer's weight is multiplied by zeros, the first layer's output is.
    reason = "in an optimizer, but its values never changed; its gradient was always zero"
    return [("dead-units", "net.first.*", reason), ("dead-units", "net.second.weight", reason)]


def cleared(logdir: str, *, to_none: bool = True) -> list[tuple[str, str, str]]:
    model = proxied(Net(), logdir)
    optimizer = sgd(model)
    for _ in range(STEPS):
        loss_of(model).backward()
        for parameter in model.second.parameters():
            if to_none:
                parameter.grad = None
            else:
                parameter.grad.zero_()
        optimizer.step()
        optimizer.zero_grad()
    reason = "in an optimizer, but its gradient was cleared before the step"
    return [("never-updated", "net.second.*", reason)]


def zeroed(logdir: str) -> list[tuple[str, str, str]]:
    return cleared(logdir, to_none=False)


def without_a_rate(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(Net(), logdir)
    fit(model, sgd(model, lr=0.0))
    return [("learning-rate-zero", "SGD", "every learning rate was 0")]


def forgotten(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(Net(), logdir)
    fit(model, sgd(model.first, model.head))
    return [("optimizer-misses-parameters", "net.second.*", "had gradients, but no optimizer has it")]


def without_gradients(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(Unfrozen(), logdir)
    fit(model, sgd(model.second, model.head))
    return [("untrained", "net.first.*", "no optimizer has it, and it never had a gradient")]


def feature_extractor(logdir: str) -> list[tuple[str, str, str]]:
    model, features = proxied(nn.Linear(4, 4), logdir), proxied(Net(), logdir, "features")
    features.eval()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        (features(model(x)) - features(x).detach()).square().mean().backward()
        optimizer.step()
    reason = "no optimizer has it; the module was called in evaluation mode only"
    return [("only-evaluated", "features.*", reason)]


def forgotten_critic(logdir: str) -> list[tuple[str, str, str]]:
    model, critic = proxied(nn.Linear(4, 4), logdir), proxied(Net(), logdir, "critic")
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        critic(model(torch.randn(8, 4))).mean().backward()
        optimizer.step()
    return [("optimizer-misses-parameters", "critic.*", "had gradients, but no optimizer has it")]


def average_below(logdir: str) -> list[tuple[str, str, str]]:
    task = nn.Module()
    task.net = Net()
    task.average = copy.deepcopy(task.net)
    proxied(task, logdir, "task")
    optimizer = sgd(task.net, lr=1e-4)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(task.net).backward()
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(task.average.parameters()), list(task.net.parameters()), weight=1e-3)
    return [
        (
            "uncalled",
            "task.average",
            "neither it nor the module around it was called; only other parts of the latter are used",
        )
    ]


def teacher_and_first_weights(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(Net(), logdir)
    teacher = proxied(copy.deepcopy(model), logdir, "teacher")
    proxied(copy.deepcopy(model), logdir, "start")
    optimizer = sgd(model)
    for _ in range(STEPS):
        x = torch.randn(8, 4)
        with torch.no_grad():
            wanted = teacher(x)
        optimizer.zero_grad()
        (model(x) - wanted + 1).square().mean().backward()
        optimizer.step()
    kept = "no optimizer has it, and it never had a gradient"
    return [
        ("never-called", "start", "never called"),
        ("untrained", "teacher.*", kept),
    ]


def sparse_rows_through_data(logdir: str) -> list[tuple[str, str, str]]:
    """Of a large embedding each step changes some rows, around the version count; extremes and norm stay."""
    model = proxied(nn.Sequential(nn.Embedding(20_000, 16), nn.Linear(16, 2)), logdir)
    for _ in range(STEPS):
        model.zero_grad()
        model(torch.randint(0, 20_000, (8, 5))).square().mean().backward()
        for parameter in model.parameters():
            parameter.data -= 1e-2 * parameter.grad.data
    return []


def signs_by_hand(logdir: str) -> list[tuple[str, str, str]]:
    """Values that change in each round, though minimum, maximum and norm never do."""
    model = Net()
    model.flip = nn.Parameter(torch.tensor([1.0, -1.0]))
    proxied(model, logdir)
    for _ in range(STEPS):
        model.zero_grad()
        (loss_of(model) * model.flip.prod()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            if name == "flip":
                parameter.data.neg_()
            else:
                parameter.data -= 0.1 * parameter.grad.data
    return []


def converted(logdir: str) -> list[tuple[str, str, str]]:
    """Another dtype is no update: what is detached has never changed."""
    model = proxied(Detached(), logdir)
    optimizer = sgd(model)
    for step in range(STEPS):
        if step == 3:
            model.double()
        optimizer.zero_grad()
        dtype = next(model.parameters()).dtype
        model(torch.randn(8, 4, dtype=dtype)).square().mean().backward()
        optimizer.step()
    return [("grad-cut-off", "net.first.*", "in an optimizer, but it never had a gradient")]


def before_a_normalisation(logdir: str) -> list[tuple[str, str, str]]:
    layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    model = proxied(layers, logdir)
    fit(model, sgd(model, lr=0.01))
    return [
        (
            "untrained",
            "net.0.bias",
            "compared with the other gradients of its module, its own were only rounding errors",
        )
    ]


def holder(logdir: str) -> list[tuple[str, str, str]]:
    """A module by name alone: its layers lie in a plain list."""
    layers = [proxied(nn.Linear(4, 4), logdir, f"layer{number}") for number in range(2)]
    net = nn.Module()
    net.layers = layers  # type: ignore[assignment]
    proxied(net, logdir)
    optimizer = sgd(*layers)
    for _ in range(STEPS):
        x = torch.randn(8, 4)
        for layer in layers:
            x = layer(x)
        x.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return []


def infinite_loss(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(Net(), logdir)
    optimizer = sgd(model, lr=0.0)
    for _ in range(2):
        optimizer.zero_grad()
        (loss_of(model) + torch.tensor(float("inf"))).backward()
        optimizer.step()
    return [
        ("non-finite", "loss", "start of a backward pass: 1 non-finite element of float32[]"),
        ("learning-rate-zero", "SGD", "every learning rate was 0"),
    ]


def infinite_norm(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(nn.Linear(4, 1, bias=False), logdir)
    optimizer = sgd(model, lr=1e-30)
    for _ in range(2):
        optimizer.zero_grad()
        (model(torch.ones(8, 4)).sum() * 1e25).backward()
        optimizer.step()
    return [("non-finite", "net.weight", "gradient: the norm is infinite, although each element is finite")]


def no_step(logdir: str) -> list[tuple[str, str, str]]:
    model = proxied(Net(), logdir)
    for _ in range(3):
        loss_of(model).backward()
    return [("no-effect", "net", "3 backward passes, but no parameter was seen to change")]


PROGRAMS: list[Callable[[str], list[tuple[str, str, str]]]] = [
    sound,
    detached,
    masked,
    cleared,
    zeroed,
    without_a_rate,
    forgotten,
    without_gradients,
    feature_extractor,
    forgotten_critic,
    average_below,
    teacher_and_first_weights,
    sparse_rows_through_data,
    signs_by_hand,
    converted,
    before_a_normalisation,
    holder,
    infinite_loss,
    infinite_norm,
    no_step,
]
NOTES = {"uncalled", "untrained", "only-evaluated"}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_of_a_program_this_is_said(program: Callable[[str], list[tuple[str, str, str]]], logdir: str) -> None:
    expected = program(logdir)
    summary = summed_up(logdir)
    assert [(finding.code, finding.name, finding.reason) for finding in summary.findings] == expected
    is_well = all(kind in NOTES for kind, _, _ in expected)
    assert ("Nothing looks wrong: " in text_of(summary)) is is_well


def limits_of(logdir: str) -> dict[str, tuple[str, list[str]]]:
    """The checks that have not simply passed, with their state and what they did not look at.

    Not that of the end: here the program goes on behind the tracing.
    """
    checks = summed_up(logdir).checks
    return {
        each.name: (each.state, each.unseen)
        for each in checks
        if each.name != "end" and (each.state != "passed" or each.unseen)
    }


def test_of_a_program_that_only_evaluates_training_is_not_checked(logdir: str) -> None:
    model = proxied(Net(), logdir).eval()
    with torch.no_grad():
        model(torch.randn(8, 4))
    assert limits_of(logdir) == {
        "losses": ("not checked", ["no backward pass was traced"]),
        "activations": ("not checked", ["no backward pass was traced"]),
        "views": ("not checked", ["no backward pass was traced"]),
        "targets": ("not checked", ["no backward pass was traced"]),
        "results": ("not checked", ["no backward pass was traced"]),
        "freezing": ("not checked", ["no record of an optimizer"]),
        "signs": ("not checked", ["no record of an optimizer"]),
        "gradients": ("not checked", ["no gradient was recorded"]),
        "training": ("not checked", ["no backward pass was traced"]),
        "steps": ("not checked", ["no record of an optimizer"]),
        "schedulers": ("not checked", ["no record of an optimizer"]),
        "progress": ("not checked", ["no record of an optimizer"]),
        "initial weights": ("not checked", ["no record of an optimizer"]),
        "inputs": ("not checked", ["no values of inputs of layers"]),
        "clearing": ("not checked", ["no record of an optimizer"]),
        "optimizers": ("not checked", ["no record of an optimizer"]),
        "rates": ("not checked", ["no record of an optimizer"]),
        "loss functions": ("not checked", ["no record of a loss"]),
        "modes": ("not checked", ["no record of an optimizer"]),
        "updates": ("not checked", ["no training was traced"]),
    }


def test_at_level_warning_it_is_said_what_was_not_checked(logdir: str) -> None:
    model = proxied(Net(), logdir, log_level="WARNING")
    fit(model, sgd(model))
    of_values = ("losses", "gradients", "parameters", "training", "updates", "calls", "activations", "signs")
    of_settings = ("steps", "clearing", "optimizers", "freezing", "rates", "schedulers", "modes", "dropout", "progress")
    names = (
        *of_values,
        *of_settings,
        "initial weights",
        "loss functions",
        "inputs",
        "registration",
        "views",
        "targets",
        "results",
    )
    assert limits_of(logdir) == dict.fromkeys(names, ("not checked", ["level WARNING"]))


def test_what_a_part_at_level_warning_leaves_out_is_said(logdir: str) -> None:
    model = proxied(Net(), logdir)
    Proxy.Proxy(model.second, log_level="WARNING")
    fit(model, sgd(model))
    names = ("gradients", "parameters", "updates", "calls")
    part = ["1 of 4 modules at level WARNING"]
    assert limits_of(logdir) == {**dict.fromkeys(names, ("passed", part)), "dropout": ("not checked", part)}


def test_of_a_sample_it_is_said_that_it_is_one(logdir: str) -> None:
    model = proxied(Net(), logdir, every=3, exclude="*.bias")
    fit(model, sgd(model))
    sample, watch = "only a sample of the steps is recorded", "3 of 6 tensors not watched"
    assert limits_of(logdir) == {
        "losses": ("passed", [sample]),
        "gradients": ("passed", [sample, watch]),
        "parameters": ("passed", [sample, watch]),
        "clearing": ("passed", [sample]),
        "optimizers": ("passed", [sample, watch]),
        "rates": ("passed", [sample]),
        "steps": ("passed", [sample]),
        "schedulers": ("passed", [sample]),
        "layers": ("passed", [sample]),
        "progress": ("passed", [sample]),
        "initial weights": ("passed", [sample]),
        "loss functions": ("passed", [sample]),
        "modes": ("passed", [sample]),
        "updates": ("passed", [watch]),
    }
    text = text_of(summarize(Trace.open(logdir)))
    assert "  training   2 steps recorded of SGD, 2 backward passes recorded (" in text
    assert "  recorded   only 1 of 3 steps (of 6); 3 tensors not watched" in text


def test_compiled_code_limits_what_was_looked_at(logdir: str) -> None:
    model = proxied(Net(), logdir)
    fit(torch.compile(model, backend="eager"), sgd(model))
    words = ["nothing is seen inside compiled code"]
    passed = dict.fromkeys(("outputs", "loss functions", "calls", "activations", "views", "targets"), ("passed", words))
    assert limits_of(logdir) == {
        **passed,
        "modes": ("not checked", words),
        "inputs": ("not checked", ["no values of inputs of layers"]),
    }


def test_a_run_that_an_exception_ended_is_not_well(tmp_path: Path) -> None:
    program = """
import sys, torch
import proxy_wrapper.proxy as Proxy
model = Proxy.Proxy(torch.nn.Linear(2, 2), recurse=True, name="net", logdir=sys.argv[1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
raise ValueError("no")
"""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = run_python(["-c", program, tmp_path], env={**os.environ, "PYTHONPATH": path})
    assert done.stderr.endswith("ValueError: no\n")
    text = text_of(summarize(Trace.open(tmp_path)))
    assert "1 check found something: end; 27 checks passed.\n" in text
    assert (
        "error[ended-by-exception] Exceptions that ended processes (1)\n  ValueError  ended the process, at step 3\n"
        in text
    )
