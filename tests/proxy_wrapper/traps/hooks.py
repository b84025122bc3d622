"""The program's own hooks of every kind: all called, in their order, with what they change taken over."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as hook_tables

from tests.proxy_wrapper.programs import Branching, Plain, Program, images, labels, train


def forward_hooks(model: Any) -> Any:
    seen: list[str] = []
    model.register_forward_pre_hook(lambda m, args: seen.append("pre 1"))
    model.register_forward_pre_hook(lambda m, args: seen.append("pre 0"), prepend=True)
    model.first.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True)
    model.first.register_forward_hook(lambda m, args, kwargs, out: seen.append(f"kwargs {sorted(kwargs)}"),
                                      with_kwargs=True)  # fmt: skip
    model.register_forward_hook(lambda m, args, out: seen.append("post 1"))
    model.register_forward_hook(lambda m, args, out: out * 1.5, prepend=True)
    handles: list[Any] = []

    def remove(module: nn.Module, args: Any, out: Any) -> None:
        seen.append("once")
        handles.pop().remove()

    handles.append(model.rest.register_forward_hook(remove))
    return train(model), seen


def always_called(model: Any) -> Any:
    seen: list[str] = []
    model.register_forward_hook(lambda m, args, out: seen.append(f"out {out is None}"), always_call=True)
    try:
        model(torch.ones(2, 3))
    except RuntimeError as error:
        seen.append(str(error))
    model(images())
    return seen


def backward_hooks(model: Any) -> Any:
    seen: list[Any] = []
    model.first.register_full_backward_pre_hook(lambda m, grads: seen.append(("pre", grads)))
    model.first.register_full_backward_hook(lambda m, inner, outer: seen.append(("post", inner, outer)))
    model.rest.register_full_backward_hook(lambda m, inner, outer: tuple(g * 2 for g in inner))
    return train(model), seen


def tensor_hooks(model: Any) -> Any:
    seen: list[Any] = []
    weight = model.first.weight

    def halve(grad: torch.Tensor) -> torch.Tensor:
        seen.append(grad.clone())
        return grad * 0.5

    weight.register_hook(halve)
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    out = model(images())
    out.register_hook(lambda grad: grad * 2)
    out.retain_grad()
    F.cross_entropy(out, labels()).backward()
    node = out.grad_fn
    handle = node.register_prehook(lambda grads: None)
    handle.remove()
    return seen, out.grad, weight.grad, node.name()


def optimizer_in_backward(model: nn.Module) -> Any:
    """Each parameter steps as soon as its gradient is there."""
    optimizers = {p: torch.optim.SGD([p], lr=0.1, momentum=0.9) for p in model.parameters()}

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()  # type: ignore[index]
        optimizers[parameter].zero_grad()  # type: ignore[index]

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    losses = []
    for _ in range(3):
        loss = F.cross_entropy(model(images()), labels())
        loss.backward()
        losses.append(loss.detach())
    return losses, list(model.parameters())


def state_hooks(model: Any) -> Any:
    seen: list[str] = []
    model.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(f"pre {prefix!r}"))
    model.register_state_dict_post_hook(lambda m, state, prefix, meta: seen.append(f"post {len(state)}"))
    model.register_load_state_dict_pre_hook(lambda m, *rest: seen.append("load"))
    model.register_load_state_dict_post_hook(lambda m, keys: seen.append(f"loaded {keys.missing_keys}"))
    model.load_state_dict(model.state_dict())
    return seen


def global_hooks(model: Any) -> Any:
    """The program's own global hooks, some older and some younger than ours."""
    seen: list[str] = []
    handles = [
        hook_tables.register_module_forward_pre_hook(lambda m, args: seen.append(f"> {type(m).__name__}")),
        hook_tables.register_module_forward_hook(lambda m, args, out: seen.append(f"< {type(m).__name__}")),
        hook_tables.register_module_full_backward_hook(lambda m, i, o: seen.append(f"b {type(m).__name__}")),
        hook_tables.register_module_parameter_registration_hook(lambda m, name, p: seen.append(f"p {name}")),
        hook_tables.register_module_buffer_registration_hook(lambda m, name, b: seen.append(f"u {name}")),
        hook_tables.register_module_module_registration_hook(lambda m, name, s: seen.append(f"s {name}")),
    ]
    try:
        first = train(model, steps=1)
        model.extra = nn.BatchNorm1d(2)
        scaled = hook_tables.register_module_forward_hook(lambda m, args, out: out * 1.1)
        handles.append(scaled)
        second = train(model, steps=1)
    finally:
        for handle in handles:
            handle.remove()
    return first, second, seen


def optimizer_hooks(model: nn.Module) -> Any:
    seen: list[str] = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("pre"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post"))
    optimizer.register_state_dict_post_hook(lambda o, state: seen.append("state"))
    module = __import__("torch.optim.optimizer", fromlist=["_"])
    handles = [
        module.register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("global pre")),
        module.register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("global post")),
    ]
    try:
        trained = train(model, optimizer)
        optimizer.state_dict()
    finally:
        for handle in handles:
            handle.remove()
    return trained, seen


def features(model: Any) -> Any:
    """As people take features out: a hook that keeps what it is given."""
    kept: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        module.register_forward_hook(lambda m, args, out, name=name: kept.__setitem__(name, out.detach()))
    model(images())
    return kept


PROGRAMS = (
    Program("forward hooks with keywords, prepended, and removed while they run", Plain, forward_hooks),
    Program("a forward hook that is always called", Plain, always_called),
    Program("full backward hooks that change gradients", Plain, backward_hooks),
    Program("hooks on tensors and on graph nodes", Plain, tensor_hooks),
    Program("an optimizer's step in the backward pass", Plain, optimizer_in_backward),
    Program("hooks on state_dict and load_state_dict", Branching, state_hooks),
    Program("global module hooks", Plain, global_hooks),
    Program("hooks of an optimizer and of all", Plain, optimizer_hooks),
    Program("features kept by hooks", Branching, features),
)
