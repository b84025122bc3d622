"""The cases of `op_db`: every operator called in the forward of a module, with gradients where it has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves

from tests.conformance.cases import DTYPES, Case, Trial, dtype_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_UNINITIALISED: Final = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)


class Calls(nn.Module):
    """Calls one function of torch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def operator_cases(device: str) -> list[Case]:
    """One case for each operator and dtype on `device`, and one for the inputs that it is to refuse."""
    cases = []
    for op in op_db:
        supported = op.supported_dtypes(device)
        dtypes = [dtype for dtype in DTYPES if dtype in supported] or sorted(supported, key=str)[:1]
        skip = "" if dtypes else f"has no dtype on {device}"
        fills = op.name in _UNINITIALISED
        for dtype in dtypes or [torch.float32]:
            variants = _functions(op, first=dtype is dtypes[0]) if dtypes else {"": op.op}
            for suffix, function in variants.items():
                variant = dtype_name(dtype) + suffix
                make = _maker(op, dtype, function, in_place=suffix == "-inplace", device=device)
                cases.append(Case("operator", op.formatted_name, variant, make, skip, fills))
        if op.error_inputs_func is not None:
            cases.append(Case("operator", op.formatted_name, "errors", _error_maker(op, device)))
    return cases


def _functions(op: Any, *, first: bool) -> dict[str, Callable[..., Any]]:
    """The ways to call `op` by suffix: as a function, and for its first dtype as method and in place too."""
    ways = {"": op.op}
    if first and op.method_variant is not None and op.method_variant is not op.op:
        ways["-method"] = op.method_variant
    if first and op.inplace_variant is not None:
        ways["-inplace"] = op.inplace_variant
    return ways


def _maker(
    op: Any, dtype: torch.dtype, function: Callable[..., Any], *, in_place: bool, device: str
) -> Callable[[], list[Trial]]:
    differentiable = (
        op.supports_autograd
        and (dtype.is_floating_point or dtype.is_complex)
        and dtype in op.supported_backward_dtypes(device)
    )

    def make_trials() -> list[Trial]:
        model = Calls(function)
        samples = op.sample_inputs(device, dtype, requires_grad=differentiable)
        return [
            Trial(f"sample {number}", model, _run(model, sample, in_place=in_place))
            for number, sample in enumerate(samples)
        ]

    return make_trials


def _error_maker(op: Any, device: str) -> Callable[[], list[Trial]]:
    def make_trials() -> list[Trial]:
        model = Calls(op.op)
        return [
            Trial(f"error {number}", model, _run(model, error.sample_input, in_place=False))
            for number, error in enumerate(op.error_inputs(device))
        ]

    return make_trials


def _run(model: nn.Module, sample: Any, *, in_place: bool) -> Callable[[], Any]:
    def run() -> Any:
        given = [value for value in tree_leaves((sample.input, sample.args, sample.kwargs)) if _is_tensor(value)]
        # What is changed in place must not be a leaf that wants a gradient.
        first = sample.input.clone() if in_place and _is_tensor(sample.input) else sample.input
        output = model(first, *sample.args, **sample.kwargs)
        processed = sample.output_process_fn_grad(output)
        backward(processed)
        return output, first, given, [value.grad if value.is_leaf else None for value in given]

    return run


def backward(output: Any) -> None:
    """Differentiate every tensor in `output` that can be, from the same random gradients each time."""
    wanted = [value for value in tree_leaves(output) if _is_tensor(value) and value.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, list(_gradients(wanted)))


def _gradients(outputs: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    for output in outputs:
        is_dense = output.layout is torch.strided and not output.is_nested
        yield torch.randn_like(output) if is_dense else torch.ones_like(output)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
