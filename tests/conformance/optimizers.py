"""The cases of `optim_db`: every optimizer in every configuration, for several steps."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.testing._internal.common_optimizers import (
    OptimizerErrorEnum,
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
)

from tests.conformance.cases import Case, Trial, dtype_name

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS: Final = 4


class Regression(nn.Module):
    """Takes (n, 4), gives (n, 2). Without biases for optimizers that take matrices only."""

    def __init__(self, dtype: torch.dtype, device: str, *, bias: bool) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3, bias=bias, dtype=dtype, device=device)
        self.second = nn.Linear(3, 2, bias=bias, dtype=dtype, device=device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(torch.tanh(self.first(x)))
        return out

    def loss(self) -> torch.Tensor:
        x = torch.randn(5, 4, dtype=self.first.weight.dtype, device=self.first.weight.device)
        out: torch.Tensor = self(x)
        return out.abs().square().mean()


class Lookup(nn.Module):
    """A table whose gradient is sparse."""

    def __init__(self, dtype: torch.dtype, device: str) -> None:
        super().__init__()
        self.table = nn.Embedding(6, 3, sparse=True, dtype=dtype, device=device)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.table(index)
        return out

    def loss(self) -> torch.Tensor:
        out: torch.Tensor = self(torch.randint(6, (4,), device=self.table.weight.device))
        return out.abs().square().mean()


def optimizer_cases(device: str) -> list[Case]:
    """One case for each optimizer and dtype on `device` (all configurations in it), its schedulers, and its errors."""
    cases = []
    for info in optim_db:
        dtypes = [torch.float32, torch.float64, torch.bfloat16]
        if info.supports_complex:
            dtypes.append(torch.complex64)
        for dtype in dtypes:
            name = info.name
            cases.append(Case("optimizer", name, dtype_name(dtype), _maker(info, dtype, device, closure=False)))
            cases.append(
                Case("optimizer", name, f"{dtype_name(dtype)}-closure", _maker(info, dtype, device, closure=True))
            )
        if info.supports_sparse or info.only_supports_sparse_grads:
            cases.append(Case("optimizer", info.name, "sparse", _sparse_maker(info, device)))
        if not info.only_supports_sparse_grads:
            cases.append(Case("optimizer", info.name, "schedulers", _scheduler_maker(info, device)))
        if info.optim_error_inputs_func is not None:
            cases.append(Case("optimizer", info.name, "errors", _error_maker(info, device)))
    return cases


def _configurations(info: Any, dtype: torch.dtype, device: str) -> list[Any]:
    """Each set of arguments with each implementation that the device has, and as capturable, which the CPU refuses."""
    inputs = _get_optim_inputs_including_global_cliquey_kwargs(device, dtype, info)
    if info.has_capturable_arg:
        capturable = copy.copy(inputs[0])
        capturable.kwargs = {**inputs[0].kwargs, "capturable": True}
        capturable.desc = "capturable"
        inputs.append(capturable)
    return list(inputs)


def _maker(info: Any, dtype: torch.dtype, device: str, *, closure: bool) -> Callable[[], list[Trial]]:
    def make_trials() -> list[Trial]:
        trials = []
        for each in _configurations(info, dtype, device):
            kwargs = copy.deepcopy(each.kwargs)
            model = Lookup(dtype, device) if info.only_supports_sparse_grads else _regression(info, dtype, device)
            if kwargs.get("differentiable"):
                run = _run_differentiably(model, info, kwargs)
            else:
                run = _run(model, info, kwargs, closure=closure or info.step_requires_closure)
            trials.append(Trial(each.desc, model, run))
        return trials

    return make_trials


def _sparse_maker(info: Any, device: str) -> Callable[[], list[Trial]]:
    def make_trials() -> list[Trial]:
        kwargs, schedulers = info.metadata_for_sparse
        model = Lookup(torch.float32, device)
        return [Trial("sparse", model, _run(model, info, copy.deepcopy(kwargs), closure=False, schedulers=schedulers))]

    return make_trials


def _scheduler_maker(info: Any, device: str) -> Callable[[], list[Trial]]:
    def make_trials() -> list[Trial]:
        trials = []
        for number, schedulers in enumerate(info.scheduler_inputs):
            model = _regression(info, torch.float32, device)
            closure = info.step_requires_closure
            run = _run(model, info, {"lr": 0.01}, closure=closure, schedulers=schedulers)
            trials.append(Trial(f"schedulers {number}", model, run))
        return trials

    return make_trials


def _error_maker(info: Any, device: str) -> Callable[[], list[Trial]]:
    def make_trials() -> list[Trial]:
        trials = []
        for error in info.optim_error_inputs_func(device=device, dtype=torch.float32):
            given = error.optimizer_error_input
            model = _regression(info, torch.float32, device)
            parameters = given.params if given.params is not None else list(model.parameters())
            steps = error.error_on is OptimizerErrorEnum.STEP_ERROR
            trials.append(Trial(given.desc, model, _run_error(model, info, parameters, given.kwargs, steps=steps)))
        return trials

    return make_trials


def _regression(info: Any, dtype: torch.dtype, device: str) -> Regression:
    return Regression(dtype, device, bias=info.name != "Muon")


def _run(model: Any, info: Any, kwargs: dict[str, Any], *, closure: bool, schedulers: Any = ()) -> Callable[[], Any]:
    def run() -> Any:
        optimizer = info.optim_cls(model.parameters(), **kwargs)
        scheduled = [make(optimizer) for make in schedulers]
        losses = []

        def compute() -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = model.loss()
            loss.backward()
            return loss

        for _ in range(_STEPS):
            if closure:
                losses.append(optimizer.step(compute))
            else:
                losses.append(compute())
                optimizer.step()
            for scheduler in scheduled:
                if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                    scheduler.step(float(losses[-1]))
                else:
                    scheduler.step()
        gradients = [parameter.grad for parameter in model.parameters()]
        return losses, list(model.parameters()), gradients, optimizer.state_dict()

    return run


def _run_differentiably(model: Any, info: Any, kwargs: dict[str, Any]) -> Callable[[], Any]:
    """As PyTorch's own test does: steps on copies that are no leaves, then backward through the steps."""

    def run() -> Any:
        originals = list(model.parameters())
        copies = [parameter.clone() for parameter in originals]
        optimizer = info.optim_cls(copies, **kwargs)
        loss = model.loss()
        gradients = torch.autograd.grad(loss, originals, create_graph=True)
        for _ in range(2):
            for parameter, gradient in zip(copies, gradients, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
        torch.stack([value.abs().sum() for value in copies]).sum().backward()
        state = optimizer.state_dict()
        return loss, copies, [parameter.grad for parameter in originals], state

    return run


def _run_error(model: Any, info: Any, parameters: Any, kwargs: dict[str, Any], *, steps: bool) -> Callable[[], Any]:
    def run() -> Any:
        loss = model.loss()
        loss.backward()
        optimizer = info.optim_cls(parameters, **kwargs)
        if steps:
            for group in optimizer.param_groups:
                for parameter in itertools.chain(group["params"]):
                    if parameter.grad is None:
                        parameter.grad = torch.rand_like(parameter)
            optimizer.step()
        return loss

    return run
