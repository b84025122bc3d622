"""The cases of `module_db`: every module, in training and in evaluation, forward, backward and a step of SGD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves, tree_map

from tests.conformance.cases import DTYPES, Case, Trial, dtype_name
from tests.conformance.operators import backward

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


def module_cases(device: str) -> list[Case]:
    """One case for each module, dtype and mode on `device`, and one for the inputs that it is to refuse."""
    cases = []
    for info in module_db:
        supported = info.supported_dtypes(device)
        for dtype in [dtype for dtype in DTYPES if dtype in supported] or list(supported)[:1]:
            for training in (True, False):
                variant = f"{dtype_name(dtype)}-{'train' if training else 'eval'}"
                cases.append(Case("module", info.formatted_name, variant, _maker(info, dtype, training, device)))
        if info.module_error_inputs_func is not None:
            cases.append(Case("module", info.formatted_name, "errors", _error_maker(info, device)))
    return cases


def _maker(info: Any, dtype: torch.dtype, training: bool, device: str) -> Callable[[], list[Trial]]:
    def make_trials() -> list[Trial]:
        inputs = info.module_inputs_func(info, device=device, dtype=dtype, requires_grad=True, training=training)
        trials = []
        for number, each in enumerate(inputs):
            model = _build(info, each, dtype, device).train(training)
            trials.append(Trial(f"sample {number} {each.desc}", model, _run(model, each.forward_input)))
        return trials

    return make_trials


def _error_maker(info: Any, device: str) -> Callable[[], list[Trial]]:
    def make_trials() -> list[Trial]:
        errors = info.module_error_inputs_func(
            info, device=device, dtype=torch.float32, requires_grad=False, training=True
        )
        trials = []
        for number, error in enumerate(errors):
            each = error.module_error_input
            try:
                model = _build(info, each, torch.float32, device)
            except Exception:  # noqa: BLE001  What cannot be built cannot be proxied either.
                continue
            trials.append(Trial(f"error {number}", model, _run(model, each.forward_input)))
        return trials

    return make_trials


def _build(info: Any, each: Any, dtype: torch.dtype, device: str) -> nn.Module:
    made: nn.Module = info.module_cls(*each.constructor_input.args, **each.constructor_input.kwargs)
    return made.to(device, dtype)


def _run(model: nn.Module, given: Any) -> Callable[[], Any]:
    def forward() -> Any:
        # Copies, since modules that work in place must not be given leaves that want a gradient.
        args, kwargs = tree_map(_copy, (given.args, given.kwargs))
        return model(*args, **kwargs)

    def run() -> Any:
        results = []
        if not model.training:
            with torch.no_grad():  # Where fused kernels are taken.
                results.append(forward())
        parameters = list(model.parameters())
        for _ in range(2):
            output = forward()
            backward(output)
            parameters = list(model.parameters())
            results.append((output, [parameter.grad for parameter in parameters]))
            if parameters:
                torch.optim.SGD(parameters, lr=0.01).step()
        inputs = [value.grad for value in tree_leaves((given.args, given.kwargs)) if isinstance(value, torch.Tensor)]
        return results, inputs, parameters, list(model.buffers())

    return run


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
