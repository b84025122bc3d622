"""Tensors that are none of the usual: subclasses, nested, sparse, quantized, complex, empty, without values."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

from tests.proxy_wrapper.programs import Plain, Program, gradients_of, images, labels, train


class Units(torch.Tensor):
    """Carries a unit through all functions, and counts them."""

    unit: str = ""
    calls: int = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Units.calls += 1
        result = super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]
        unit = next((value.unit for value in args if isinstance(value, Units)), "")
        if isinstance(result, Units):
            result.unit = unit
        return result


class Scaled(torch.Tensor):
    """A wrapper subclass: holds half of its values, and works below `__torch_dispatch__`."""

    inner: torch.Tensor  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, half: torch.Tensor) -> Scaled:
        made = torch.Tensor._make_wrapper_subclass(cls, half.shape, dtype=half.dtype, requires_grad=half.requires_grad)
        made.inner = half.detach()
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return "Scaled()"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        args, kwargs = tree_map(lambda v: v.inner * 2 if isinstance(v, Scaled) else v, (args, kwargs or {}))
        return func(*args, **kwargs)


class OwnParameter(nn.Parameter):
    """A parameter of the program's own class."""


def use_units(model: nn.Module) -> Any:
    Units.calls = 0
    x = images().as_subclass(Units)
    x.unit = "metre"
    out = model(x)
    out.sum().backward()
    return out.as_subclass(torch.Tensor), type(out).__name__, out.unit, Units.calls, gradients_of(model)


def use_wrapper(model: nn.Module) -> Any:
    out = model(Scaled(images()))
    out.sum().backward()
    return out, gradients_of(model)


def use_own_parameters(model: Any) -> Any:
    model.first.weight = OwnParameter(model.first.weight.detach())
    model.first.bias = nn.Parameter(model.first.bias.detach().as_subclass(Units))
    Units.calls = 0
    trained = train(model, torch.optim.AdamW(model.parameters(), foreach=True))
    return type(model.first.weight).__name__, type(model.first.bias).__name__, [len(trained[0])], [
        tensor.as_subclass(torch.Tensor) for tensor in trained[1]
    ]  # fmt: skip


def use_nested(model: nn.Module) -> Any:
    nested = torch.nested.nested_tensor([torch.ones(2, 64), torch.ones(3, 64)], layout=torch.jagged)
    out = model.first(nested)  # type: ignore[operator]
    strided = torch.nested.nested_tensor([torch.ones(2, 64), torch.ones(3, 64)])
    other = model.first(strided)  # type: ignore[operator]
    return out.values(), [part.detach() for part in other.unbind()]


def use_sparse(model: Any) -> Any:
    sparse = torch.eye(64).to_sparse()
    csr = torch.eye(64).to_sparse_csr()
    model.register_buffer("mask", sparse)
    out = model.first(torch.sparse.mm(sparse, torch.ones(64, 64)))
    other = torch.mm(csr, model.first.weight.t())
    (out.sum() + other.sum()).backward()
    return out, other, gradients_of(model)


def use_quantized(model: nn.Module) -> Any:
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    weight = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    return quantized(images()), weight.int_repr(), [type(module).__name__ for module in quantized.modules()]


def use_complex(model: Any) -> Any:
    out = torch.fft.rfft(model(images()))
    loss = torch.view_as_real(out.conj().resolve_conj()).square().sum() + out.imag.sum()
    loss.backward()
    return out, gradients_of(model)


def use_odd_parameters(model: Any) -> Any:
    """Shapes and dtypes that fingerprints trip over."""
    model.empty = nn.Parameter(torch.empty(0, 3))
    model.scalar = nn.Parameter(torch.tensor(2.0))
    model.complex = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    model.narrow = nn.Parameter(torch.ones(2, dtype=torch.float16))
    model.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float8_e4m3fn, torch.bfloat16):
        model.register_buffer(f"of_{str(dtype)[6:]}", torch.ones(3).to(dtype))
    model.register_buffer("none", None)
    model.register_parameter("nothing", None)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images()), labels()) * model.scalar + model.complex.abs().sum()
        (loss + model.narrow.float().sum() + model.empty.sum()).backward()
        model.of_bool.logical_not_()
        model.of_int64 += 1
        optimizer.step()
        losses.append(loss.detach())
    return losses, list(model.parameters()), list(model.buffers())


def use_views(model: Any) -> Any:
    """Parameters that share one storage, changed through it, as flat-parameter schemes do."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    offset = 0
    for parameter in model.parameters():
        parameter.data = flat[offset : offset + parameter.numel()].view_as(parameter)
        offset += parameter.numel()
    first = train(model)
    flat.mul_(0.5)
    return first, flat, train(model), model.first.weight[2:4, ::3], model.first.weight.t()


def use_containers(model: Any) -> Any:
    model.extra = nn.ParameterList([torch.ones(2), torch.zeros(3)])
    model.more = nn.ModuleDict({"a": nn.Linear(10, 10), "b": nn.Identity()})
    first = train(model)
    model.extra.append(nn.Parameter(torch.ones(1)))
    model.more["c"] = nn.Linear(10, 2)
    del model.more["b"]
    model.rest.append(nn.Linear(10, 10))
    model.rest[1] = nn.GELU()
    model.rest.insert(0, nn.LayerNorm(8))
    out = model.more["c"](model.more["a"](model(images())))
    out.sum().backward()
    popped = model.rest.pop(3)
    return first, out, gradients_of(model), type(popped).__name__, sorted(model.state_dict()), len(model.extra)


def use_meta(model: nn.Module) -> Any:
    with torch.device("meta"):
        other = Plain()
        out = other(torch.empty(4, 1, 8, 8))
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = model(torch.empty(4, 1, 8, 8))
        shape = tuple(fake.shape)
    return tuple(out.shape), out.is_meta, shape, train(model)


def use_inference(model: nn.Module) -> Any:
    with torch.inference_mode():
        out = model(images())
        made = nn.Linear(2, 2)
    model.eval()
    with torch.no_grad():
        other = model(images())
    return out.is_inference(), out.clone(), other, made.weight.is_inference(), train(model.train())


def use_generator(model: nn.Module) -> Any:
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(4, 1, 8, 8, generator=generator)
    noisy = model(x + torch.empty_like(x).normal_(generator=generator))
    return noisy, generator.get_state(), torch.randperm(5, generator=generator), torch.rand(2)


PROGRAMS = (
    Program("a tensor subclass with __torch_function__", Plain, use_units),
    Program("a wrapper subclass with __torch_dispatch__", Plain, use_wrapper),
    Program("parameters of the program's own classes", Plain, use_own_parameters),
    Program("nested tensors", Plain, use_nested),
    Program("sparse tensors and buffers", Plain, use_sparse),
    Program("quantized modules", Plain, use_quantized),
    Program("complex results", Plain, use_complex),
    Program("parameters and buffers of odd shapes and dtypes", Plain, use_odd_parameters),
    Program("parameters that share a storage", Plain, use_views),
    Program("containers changed at run time", Plain, use_containers),
    Program("meta and fake tensors", Plain, use_meta),
    Program("inference mode", Plain, use_inference),
    Program("generators", Plain, use_generator),
)
