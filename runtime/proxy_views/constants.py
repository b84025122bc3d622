"""Everything that nodes of a graph refer to by name: parameters, buffers, modules, and constants of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from proxy_views.call_under import CallUnder

if TYPE_CHECKING:
    from proxy_views.call_state import CallState
    from proxy_views.recording import Recording
    from proxy_views.steps import ModuleCall


class Constants:
    """Builds a module that holds all of it under the names from the model. Nothing is copied."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._root = nn.Module()
        self._modules: dict[str, nn.Module] = {}
        self._state: dict[str, torch.Tensor] = {}
        self._tensors: dict[int, str] = {}
        self._objects: dict[int, tuple[str, Any]] = {}
        self._kept: dict[str, torch.Tensor] = {}

    def state(self, name: str, tensor: torch.Tensor) -> str:
        """The name for a parameter or buffer of the model."""
        self._state[name] = tensor
        return name

    def module(self, name: str, module: nn.Module) -> str:
        """The name for a module."""
        known = self._modules.get(name)
        number = 0
        wanted = name or "model"
        name = wanted
        while known is not None and known is not module:
            number += 1
            name = f"{wanted}_{number}"
            known = self._modules.get(name)
        self._modules[name] = module
        return name

    def module_under(self, target: str, call: ModuleCall, outer: CallState) -> str:
        """The name for a module that calls the one named `target` under the state of `call`."""
        inner = _ModuleUnder(call.module, call.state, outer)
        return self.module(f"{target.replace('.', '_')}_{call.state.words(outer)}", inner)

    def tensor(self, tensor: torch.Tensor) -> str:
        """The name for a tensor that is a constant of the graph, numbered in order."""
        known = self._tensors.get(id(tensor))
        if known is not None:
            return known
        number = len(self._tensors)
        while hasattr(self._recording.model, name := f"_tensor_constant{number}"):
            number += 1
        self._tensors[id(tensor)] = name
        self._kept[name] = tensor
        return name

    def object(self, value: Any) -> str:
        """The name for any other value that is a constant of the graph."""
        known = self._objects.get(id(value))
        if known is None:
            known = self._objects[id(value)] = (f"_constant{len(self._objects)}", value)
        return known[0]

    def root(self) -> nn.Module:
        """The module that holds all of it."""
        root = self._root
        for name, module in sorted(self._modules.items(), key=lambda item: item[0].count(".")):
            holder, key = self._holder(name)
            if holder is not None:
                holder.add_module(key, module)
        for name, tensor in (*self._state.items(), *self._kept.items()):
            holder, key = self._holder(name)
            if holder is None:
                continue
            if isinstance(tensor, nn.Parameter):
                holder.register_parameter(key, tensor)
            else:
                holder.register_buffer(key, tensor, persistent=False)
        for name, value in self._objects.values():
            setattr(root, name, value)
        root.training = self._recording.model.training
        return root

    def _holder(self, name: str) -> tuple[nn.Module | None, str]:
        """The module that is to hold `name`, and the key in it; None if that is inside one of the model's modules."""
        *above, key = name.split(".")
        holder = self._root
        path = ""
        for each in above:
            path = f"{path}.{each}".lstrip(".")
            if path in self._modules:
                return None, key
            if each not in holder._modules:
                holder.add_module(each, nn.Module())
            below = holder._modules[each]
            assert below is not None
            holder = below
        return holder, key

    def finish(self, module: fx.GraphModule) -> None:
        """Exclude constants and the model's non-persistent buffers from `state_dict`, as `torch.fx` would not."""
        left_out = {name for name in self._state if name in self._recording.non_persistent} | set(self._kept)
        for name in left_out:
            *above, key = name.split(".")
            path = ".".join(above)
            if not any(path == each or path.startswith(f"{each}.") for each in self._modules):
                module.get_submodule(path)._non_persistent_buffers_set.add(key)


class _ModuleUnder(nn.Module):
    """Calls a module under a different `CallState` than the graph's."""

    def __init__(self, module: nn.Module, state: CallState, outer: CallState) -> None:
        super().__init__()
        self.module = module
        self._state, self._outer = state, outer

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, and return its result."""
        return CallUnder(self.module, self._state, self._outer)(*args, **kwargs)
