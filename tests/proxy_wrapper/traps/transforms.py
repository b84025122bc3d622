"""torch.func, forward-mode derivatives, higher derivatives, and captures of the graph."""

from __future__ import annotations

from typing import Any

import torch
import torch.autograd.forward_ad as fwad
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from tests.proxy_wrapper.programs import Branching, Plain, Program, gradients_of, images, labels, train


def ensemble(model: nn.Module) -> Any:
    models = [model, *(Plain() for _ in range(2))]
    parameters, buffers = stack_module_state(models)

    def call(values: Any, extra: Any, x: torch.Tensor) -> Any:
        return functional_call(model, (values, extra), (x,))

    return (
        vmap(call, in_dims=(0, 0, None))(parameters, buffers, images()),
        vmap(call, in_dims=(0, 0, None), randomness="different")(parameters, buffers, images()),
    )


def per_sample_gradients(model: nn.Module) -> Any:
    values = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(values: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(model, values, (x[None],)), y[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(values, images(), labels())


def derivatives(model: nn.Module) -> Any:
    x = images(1)

    def call(x: torch.Tensor) -> Any:
        return model(x).sum(1)

    small = nn.Linear(3, 1, dtype=torch.float64)
    _, tangents = linearize(call, x)
    return (
        jacrev(call)(x), jacfwd(call)(x), jvp(call, (x,), (torch.ones_like(x),)), vjp(call, x)[1](torch.ones(1)),
        hessian(lambda v: torch.tanh(small(v)).sum())(torch.ones(3, dtype=torch.float64)), tangents(x),
        torch.autograd.functional.jacobian(call, x),
        torch.autograd.functional.vhp(lambda v: call(v).sum(), x, torch.ones_like(x))[1],
    )  # fmt: skip


def dual_numbers(model: nn.Module) -> Any:
    with fwad.dual_level():
        out = model(fwad.make_dual(images(), torch.ones(4, 1, 8, 8)))
        primal, tangent = fwad.unpack_dual(out)
    return primal, tangent


def forward_over_parameters(model: nn.Module) -> Any:
    tangents = {name: torch.ones_like(parameter) for name, parameter in model.named_parameters()}
    with fwad.dual_level():
        duals = {name: fwad.make_dual(p, tangents[name]) for name, p in model.named_parameters()}
        out = functional_call(model, duals, images())
        return fwad.unpack_dual(out).tangent


def gradient_penalty(model: nn.Module) -> Any:
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    for _ in range(3):
        x = images().requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        loss = (gradient.flatten(1).norm(dim=1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, gradients_of(model)


def retained_graph(model: nn.Module) -> Any:
    loss = F.cross_entropy(model(images()), labels())
    loss.backward(retain_graph=True)
    loss.backward()
    (first,) = torch.autograd.grad(model(images()).sum(), [next(model.parameters())])
    loss = model(images()).sum()
    torch.autograd.backward([loss, loss * 2], inputs=list(model.parameters())[:1])
    batched = torch.autograd.grad(model(images()), list(model.parameters()), torch.eye(40).view(40, 4, 10),
                                  is_grads_batched=True)  # fmt: skip
    return gradients_of(model), first, batched


def retrained_graph(model: nn.Module) -> Any:
    captured = torch.fx.symbolic_trace(model)
    return captured.code, train(captured), train(model)


def replayed_graph(model: nn.Module) -> Any:
    captured = make_fx(lambda x: model(x).relu())(images())
    return captured.code, captured(images())


def exported(model: nn.Module) -> Any:
    program = torch.export.export(model, (images(),))
    return str(program.graph), program.module()(images()), train(model, steps=1)


def functionalized(model: nn.Module) -> Any:
    def call(x: torch.Tensor) -> Any:
        y = model(x).clone()
        y[0].mul_(2)
        return y

    return torch.func.functionalize(call)(images()), call(images())


PROGRAMS = (
    Program("an ensemble by vmap over stack_module_state", Plain, ensemble),
    Program("per-sample gradients by vmap of grad", Plain, per_sample_gradients),
    Program("jacobians, hessians, jvp, vjp, linearize", Plain, derivatives),
    Program("forward-mode derivatives by dual numbers", Plain, dual_numbers),
    Program("forward-mode derivatives over parameters", Plain, forward_over_parameters),
    Program("a gradient penalty", Plain, gradient_penalty),
    Program("retained graphs, chosen inputs, batched gradients", Plain, retained_graph),
    Program("a graph captured by fx, trained", Plain, retrained_graph),
    Program("a graph captured by make_fx, replayed", Plain, replayed_graph),
    Program("a program exported, called", Plain, exported),
    Program("functionalize", Branching, functionalized),
)
