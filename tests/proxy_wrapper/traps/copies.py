"""Models copied, saved, loaded and sent elsewhere."""

from __future__ import annotations

import copy
import io
import pickle
import pickletools
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.proxy_wrapper.programs import Branching, Plain, Program, Tied, images, labels, state_of, train


def shallow(model: nn.Module) -> Any:
    twin = copy.copy(model)
    return train(twin), state_of(model)


def deep_with_optimizer(model: nn.Module) -> Any:
    optimizer = torch.optim.Adam(model.parameters())
    first = train(model, optimizer)
    twin, state = copy.deepcopy(model), copy.deepcopy(optimizer.state_dict())
    other = torch.optim.Adam(twin.parameters())
    other.load_state_dict(state)
    return first, train(twin, other), [parameter.requires_grad for parameter in twin.parameters()], state_of(model)


def pickled_bytes(model: nn.Module) -> Any:
    """What is pickled is the same, storage keys (addresses) aside: the tracer leaves nothing on the model."""
    words = [arg for _, arg, _ in pickletools.genops(pickle.dumps(model)) if isinstance(arg, str)]
    return [word for word in words if not word.isdigit()], sorted(vars(model))


def assigned(model: nn.Module) -> Any:
    saved = {name: tensor.detach().clone() * 0.5 for name, tensor in model.state_dict().items()}
    before = train(model, steps=1)
    model.load_state_dict(saved, assign=True)
    return before, train(model), [parameter.data_ptr() == saved[n].data_ptr() for n, parameter in
                                  model.named_parameters()]  # fmt: skip


def resumed(model: nn.Module) -> Any:
    optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
    train(model, optimizer)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    other = Branching()
    keys = other.load_state_dict(loaded["model"])
    again = torch.optim.AdamW(other.parameters(), amsgrad=True)
    again.load_state_dict(loaded["optimizer"])
    return train(other, again), list(keys.missing_keys), list(keys.unexpected_keys)


def tied(model: Any) -> Any:
    shared = copy.deepcopy(model)
    loaded = pickle.loads(pickle.dumps(model))
    return (
        model.again.weight is model.first.weight,
        shared.again.weight is shared.first.weight,
        loaded.again.weight is loaded.first.weight,
        len(list(model.parameters())),
        train(shared),
    )


def moved(model: nn.Module) -> Any:
    before = [id(parameter) for parameter in model.parameters()]
    first = train(model.to(torch.float64).to(torch.float32))
    after = [id(parameter) for parameter in model.parameters()]
    meta = copy.deepcopy(model).to("meta")
    empty = meta.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*empty.parameters(), *empty.buffers()):
            tensor.fill_(0.01)
    return first, before == after, train(empty), model.half().float()(images())


def shared_memory(model: nn.Module) -> Any:
    model.share_memory()
    return train(model), [parameter.is_shared() for parameter in model.parameters()]


def optimizer_before(model: nn.Module) -> Any:
    """The optimizer is built on a copy's parameters, which are then put into the model."""
    other = Plain()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    for (_, module), (_, source) in zip(model.named_modules(), other.named_modules(), strict=True):
        for name, parameter in list(source.named_parameters(recurse=False)):
            setattr(module, name, parameter)
    return train(model, optimizer)


def cloned_layers(model: Any) -> Any:
    """As `nn.TransformerEncoder` makes its layers."""
    layers = nn.ModuleList(copy.deepcopy(model.first) for _ in range(3))
    out = sum(layer(images().flatten(1)) for layer in layers)
    F.cross_entropy(out, labels()).backward()
    return out, [layer.weight.grad for layer in layers]


PROGRAMS = (
    Program("copy.copy", Branching, shallow),
    Program("deepcopy of a trained model, with its optimizer's state", Branching, deep_with_optimizer),
    Program("the pickled bytes", Branching, pickled_bytes),
    Program("load_state_dict with assign", Plain, assigned),
    Program("a checkpoint of model and optimizer, resumed", Branching, resumed),
    Program("tied weights stay tied in copies", Tied, tied),
    Program("moved to other dtypes, to meta and back", Plain, moved),
    Program("parameters in shared memory", Plain, shared_memory),
    Program("an optimizer that is older than the model", Plain, optimizer_before),
    Program("layers cloned by deepcopy", Plain, cloned_layers),
)
