"""What a program can switch on in torch for everything it does, and other threads."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

from tests.proxy_wrapper.programs import Branching, Plain, Program, gradients_of, images, labels, state_of, train


def find_anomaly(model: nn.Module) -> Any:
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0] * float("nan")

    apply: Any = Bad.apply
    with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("ignore")
        trained = train(model)
        try:
            apply(model(images())).sum().backward()
        except RuntimeError as error:
            return trained, str(error)
    raise AssertionError("no anomaly was found")


def be_deterministic(model: nn.Module) -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        return train(model), torch.empty(3), torch.zeros(4).index_add(0, torch.tensor([0, 0]), torch.ones(2))
    finally:
        torch.use_deterministic_algorithms(False)


def pack_saved_tensors(model: nn.Module) -> Any:
    packed: list[tuple[int, ...]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tuple(tensor.shape))
        return tensor.to(torch.float64) if tensor.is_floating_point() else tensor

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(torch.float32) if tensor.is_floating_point() else tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = F.cross_entropy(model(images()), labels())
    loss.backward()
    with torch.autograd.graph.save_on_cpu():
        model(images()).sum().backward()
    return packed, gradients_of(model)


def use_default_dtype(model: nn.Module) -> Any:
    torch.set_default_dtype(torch.float64)
    try:
        model.double()
        return model(images().double()), torch.rand(2), nn.Linear(2, 2).weight
    finally:
        torch.set_default_dtype(torch.float32)


def use_autocast(model: nn.Module) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
    losses = []
    for factor in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images()).float(), labels()) * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append((loss.detach(), scaler.get_scale()))
    with torch.autocast("cpu", dtype=torch.float16), torch.autocast("cpu", enabled=False):
        plain = model(images())
    return losses, plain, state_of(model)


def checkpoint_parts(model: Any) -> Any:
    parts = nn.Sequential(nn.Flatten(), model.first, nn.Tanh(), nn.Dropout(0.5), model.rest)
    out = checkpoint_sequential(parts, 2, images().requires_grad_(), use_reentrant=False)
    out.sum().backward()
    return out, gradients_of(model)


def run_in_threads(model: nn.Module) -> Any:
    """Hogwild without the race: each thread has its turn."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    results: list[Any] = []

    def work() -> None:
        loss = F.cross_entropy(model(images()), labels())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append((loss.detach(), torch.is_grad_enabled(), torch._C._len_torch_function_stack()))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return [loss for loss, _, _ in results], [enabled for _, enabled, _ in results], state_of(model)


def disable_gradients(model: nn.Module) -> Any:
    with torch.no_grad():
        first = model(images())
        with torch.enable_grad():
            second = model(images())

    @torch.no_grad()
    def predict() -> Any:
        return model(images())

    torch.set_grad_enabled(False)
    try:
        third = model(images())
    finally:
        torch.set_grad_enabled(True)
    return first, second, predict(), third, torch.is_grad_enabled()


def freeze(model: Any) -> Any:
    model.first.requires_grad_(False)
    optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()))
    first = train(model, optimizer)
    model.first.requires_grad_(True)
    optimizer.add_param_group({"params": model.first.parameters(), "lr": 0.5})
    return first, train(model, optimizer)


def skip_steps(model: nn.Module) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(6):
        loss = F.cross_entropy(model(images()), labels()) / 3
        loss.backward()
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=step < 3)
        losses.append(loss.detach())
    return losses, state_of(model), gradients_of(model)


def use_functions_of_modules(model: Any) -> Any:
    model.apply(lambda m: nn.init.orthogonal_(m.weight) if type(m) is nn.Linear else None)
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(model.parameters()) * 0.9, model.parameters())
    nn.utils.parametrizations.orthogonal(model.first)
    names = [name for name, _ in model.named_parameters()]
    first = train(model)
    nn.utils.parametrize.remove_parametrizations(model.first, "weight")
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    fused = nn.utils.fuse_linear_bn_eval(nn.Linear(2, 2).eval(), nn.BatchNorm1d(2).eval())
    return names, first, train(model), fused.weight, repr(model), model.extra_repr(), str(model.first)


PROGRAMS = (
    Program("anomaly detection", Plain, find_anomaly),
    Program("deterministic algorithms", Branching, be_deterministic),
    Program("saved-tensor hooks", Plain, pack_saved_tensors),
    Program("a default dtype", Plain, use_default_dtype),
    Program("autocast with a gradient scaler that skips", Plain, use_autocast),
    Program("checkpoint_sequential", Plain, checkpoint_parts),
    Program("threads", Plain, run_in_threads),
    Program("gradients switched off and on", Plain, disable_gradients),
    Program("layers frozen and thawed", Plain, freeze),
    Program("accumulated gradients, zeroed or dropped", Plain, skip_steps),
    Program("functions of torch.nn.utils and repr", Plain, use_functions_of_modules),
)
