"""Small programs that use PyTorch in the ways that tracers are known to break, for comparing runs bit by bit."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_, prune
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Program:
    """A model, and what is done with it; what `run` returns is compared leaf by leaf."""

    name: str
    build: Callable[[], nn.Module]
    run: Callable[[Any], Any]


class Plain(nn.Module):
    """Takes (n, 1, 8, 8), gives (n, 10); nothing in it depends on a value."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 8)
        self.rest = nn.Sequential(nn.Linear(8, 10), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.rest(torch.tanh(self.first(x.flatten(1))))
        return out


class Branching(nn.Module):
    """Convolution, batch norm, dropout and a branch on a value. Takes (n, 1, 8, 8), gives (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(4 * 6 * 6, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        if x.mean() > 0.1:
            x = x * 1.5
        out: torch.Tensor = self.head(self.drop(x).flatten(1))
        return out


class Tied(Plain):
    """A second layer that shares the first one's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Linear(64, 8)
        self.again.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.rest(torch.tanh(self.first(x.flatten(1)) + self.again(x.flatten(1))))
        return out


def images(count: int = 4) -> torch.Tensor:
    """(count, 1, 8, 8) float32, the same each time, without touching the global generator."""
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(3))


def labels() -> torch.Tensor:
    """(4,) int64."""
    return torch.tensor([1, 2, 3, 4])


def train(model: nn.Module, optimizer: torch.optim.Optimizer | None = None, steps: int = 3) -> Any:
    """Losses, parameters and buffers after some steps."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images()), labels())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, state_of(model)


def state_of(model: nn.Module) -> list[torch.Tensor]:
    """Copies of all parameters and buffers."""
    return [tensor.detach().clone() for tensor in (*model.parameters(), *model.buffers())]


def gradients_of(model: nn.Module) -> list[torch.Tensor | None]:
    return [parameter.grad for parameter in model.parameters()]


def train_with_closure(model: nn.Module) -> Any:
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images()), labels())
        loss.backward()
        return loss

    return [torch.as_tensor(optimizer.step(closure)).detach() for _ in range(3)], state_of(model)


def recompute(model: nn.Module) -> Any:
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for use_reentrant in (True, False):
        x = images().requires_grad_()
        optimizer.zero_grad()
        loss = F.cross_entropy(checkpoint(model, x, use_reentrant=use_reentrant), labels())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, state_of(model)


def open_modes(model: nn.Module) -> Any:
    names: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(getattr(func, "__name__", "?"))
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Functions():
        first = train(model)
    with Operators():  # type: ignore[no-untyped-call]
        second = train(model)
    return first, second, names


def choose_devices(model: nn.Module) -> Any:
    with torch.device("cpu"):
        first = train(model)
    torch.set_default_device("cpu")
    try:
        second = train(model)
    finally:
        torch.set_default_device(None)
    with torch.device("meta"):
        kind = torch.empty(3).device.type
    return first, second, kind


def differentiate_twice(model: nn.Module) -> Any:
    x = images().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    (gradient**2).sum().backward()
    return gradients_of(model)


def transform(model: nn.Module) -> Any:
    parameters: dict[str, torch.Tensor] = dict(model.named_parameters())
    call = torch.func.functional_call
    return (
        call(model, parameters, (images(),)),
        torch.func.grad(lambda values: call(model, values, (images(),)).sum())(parameters),
        torch.vmap(lambda image: model(image[None]))(images()),
        torch.func.jacrev(lambda x: model(x).sum(0))(images()),
    )


def save(model: nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    return len(file.getvalue()), len(pickle.dumps(model)), sorted(model.state_dict()), train(loaded)


def encode(model: nn.Module) -> Any:
    """Evaluation takes PyTorch's fused kernels unless it notices that somebody looks."""
    x = torch.randn(2, 5, 16)
    padding = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)
    model.eval()
    with torch.no_grad():
        fused = model(x)
    with torch.inference_mode():
        padded = model(x, src_key_padding_mask=padding)
    model.train()
    out = model(x)
    out.sum().backward()
    return fused, padded.clone(), out, gradients_of(model)


def attend(model: nn.Module) -> Any:
    model.eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        return model(x, x, x)


def edit_weights(model: Any) -> Any:
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    losses = []
    for _ in range(3):
        loss = F.cross_entropy(model(images()), labels())
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        for parameter in model.parameters():
            parameter.data.clamp_(-0.1, 0.1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad  # noqa: PLW2901
                parameter.mul_(0.99)
        losses.append(loss.detach())
    model.first.weight = nn.Parameter(torch.zeros(8, 64))
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    return losses, state_of(model)


def parametrize(model: Any) -> Any:
    weight_norm(model.first)
    spectral_norm(model.rest[0])
    return train(model)


def prune_weights(model: Any) -> Any:
    prune.l1_unstructured(model.first, "weight", 0.5)
    trained = train(model)
    prune.remove(model.first, "weight")
    return trained, state_of(model)


def convert_by_swapping(model: nn.Module) -> Any:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        first = train(model)
        model.double()
        model.float()
        return first, train(model)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def use_bfloat16(model: nn.Module) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(images())
    out.float().sum().backward()
    return out, gradients_of(model)


def recover(model: nn.Module) -> Any:
    try:
        model(torch.randn(3, 3))
    except RuntimeError as error:
        return str(error), train(model)
    raise AssertionError("a wrong shape went through")


def load_in_workers(model: nn.Module) -> Any:
    loader = DataLoader(
        TensorDataset(images(8)), batch_size=4, num_workers=2, multiprocessing_context="fork", shuffle=True
    )
    return [model(batch).detach() for (batch,) in loader]


def update_sparsely(model: nn.Module) -> Any:
    optimizer = torch.optim.SparseAdam(list(model.parameters()))
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.tensor([[1, 2], [3, 3]])).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, state_of(model)


def use_complex(model: nn.Module) -> Any:
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 3, dtype=torch.cfloat)).abs().sum().backward()
    optimizer.step()
    return state_of(model)


def recur(model: nn.Module) -> Any:
    out, hidden = model(torch.randn(3, 2, 64))
    out.sum().backward()
    return out, hidden, gradients_of(model)


def initialize_by_type(model: nn.Module) -> Any:
    def initialize(module: nn.Module) -> None:
        if type(module) == nn.Linear:  # noqa: E721  The idiom of PyTorch's own documentation.
            nn.init.ones_(module.weight)

    model.apply(initialize)
    return train(model)


def hook_modules(model: Any) -> Any:
    seen: list[str] = []
    model.first.register_forward_pre_hook(lambda module, args: seen.append("before"))

    def scale(module: nn.Module, args: Any, out: torch.Tensor) -> torch.Tensor:
        seen.append("after")
        return out * 1.5

    model.first.register_forward_hook(scale)
    model.first.register_full_backward_hook(lambda module, inner, outer: seen.append("backward"))
    return train(model), seen


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight.sum() ** 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, weight = ctx.saved_tensors
        total = weight.sum()
        return gradients[0] * total**2, (gradients[0] * x).sum() * 2 * total * torch.ones_like(weight)


def apply_function(model: Any) -> Any:
    apply: Any = Square.apply
    apply(model(images()), model.first.bias).sum().backward()
    return gradients_of(model)


def use_operators(model: Any) -> Any:
    p = model.first.bias
    return -p, p**2, abs(p), p > 0, 1 - p, 1 / p, p // 2, (p == 0).tolist(), float(p.detach()[0]), len(p), list(p)


def encoder() -> nn.Module:
    return nn.TransformerEncoder(encoder_layer(), 2)


def encoder_layer() -> Any:
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)


PROGRAMS = (
    Program("training with momentum", Branching, train),
    Program("a closure that is called many times", Plain, train_with_closure),
    Program("checkpointing", Branching, recompute),
    Program("the program's own function and dispatch modes", Branching, open_modes),
    Program("default devices", Branching, choose_devices),
    Program("double backward", Plain, differentiate_twice),
    Program("torch.func", Plain, transform),
    Program("deepcopy", Branching, lambda model: train(copy.deepcopy(model))),
    Program("pickle and torch.save", Branching, save),
    Program("the encoder's fast path", encoder, encode),
    Program("the encoder layer's fast path", encoder_layer, encode),
    Program("the attention's fast path", lambda: nn.MultiheadAttention(16, 2, batch_first=True), attend),
    Program("weights edited in place, through .data, and replaced", Plain, edit_weights),
    Program("parametrizations", Plain, parametrize),
    Program("pruning", Plain, prune_weights),
    Program("conversion by swapping tensors", Plain, convert_by_swapping),
    Program("autocast", Plain, use_bfloat16),
    Program("an exception in forward", Branching, recover),
    Program("workers that load data", Plain, load_in_workers),
    Program("tied weights", Tied, lambda model: train(model, torch.optim.AdamW(model.parameters()))),
    Program("lazy modules", lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(10)), lambda m: (m(images()), train(m))),
    Program("a sparse gradient", lambda: nn.EmbeddingBag(10, 4, sparse=True, mode="sum"), update_sparsely),
    Program("complex parameters", lambda: nn.Linear(3, 2, dtype=torch.cfloat), use_complex),
    Program("an LSTM", lambda: nn.LSTM(64, 8, 2, dropout=0.2), recur),
    Program("type(m) == nn.Linear in apply", Plain, initialize_by_type),
    Program("DataParallel without a GPU", Plain, lambda model: train(nn.DataParallel(model))),
    Program("the program's own module hooks", Plain, hook_modules),
    Program("an autograd.Function that takes a parameter", Plain, apply_function),
    Program("operators on a parameter", Plain, use_operators),
    Program("a fused optimizer", Plain, lambda m: train(m, torch.optim.AdamW(m.parameters(), fused=True))),
    Program("a foreach optimizer", Plain, lambda m: train(m, torch.optim.Adam(m.parameters(), foreach=True))),
)
