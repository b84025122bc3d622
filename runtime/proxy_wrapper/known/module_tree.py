"""Modules and their submodules, read from PyTorch's registries without running the program's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

_WRAPPED_ATTRIBUTES: Final = ("module", "_orig_mod")
"""The attributes under which PyTorch's wrappers hold a module. Names omit them."""


class NamedModule(NamedTuple):
    """A module, its name, and the module in which it was found."""

    module: nn.Module
    name: str
    parent: nn.Module | None


def named_modules(
    root: nn.Module, root_name: str, is_left_out: Callable[[nn.Module], bool] | None = None
) -> list[NamedModule]:
    """`root` and every module below it, parents first, each once, named `<root_name>.<qualified name>`.

    As `nn.Module.named_modules`, but through the registries themselves, so that no code of the program runs, and
    without what PyTorch's wrappers put into names: in `DistributedDataParallel(net)` it is `net` that is called
    `root_name`, and the wrapper is called "DistributedDataParallel(<root_name>)".

    Args:
        root: where to begin.
        root_name: what it is called.
        is_left_out: tells of a module that it is left out, with all below it.
    """
    found: list[NamedModule] = []
    _visit(root, root_name, None, found, set(), is_left_out)
    return found


def _visit(
    module: nn.Module,
    name: str,
    parent: nn.Module | None,
    found: list[NamedModule],
    seen: set[int],
    is_left_out: Callable[[nn.Module], bool] | None,
) -> None:
    # No closure: one that calls itself lives until the garbage collector runs, and the modules with it.
    if id(module) in seen or (is_left_out is not None and is_left_out(module)):
        return
    seen.add(id(module))
    wraps = is_wrapper(module)
    found.append(NamedModule(module, f"{type(module).__name__}({name})" if wraps else name, parent))
    for key, child in list((module.__dict__.get("_modules") or {}).items()):  # Other threads may add children.
        if child is not None:
            _visit(child, name if wraps else f"{name}.{key}", module, found, seen, is_left_out)


def innermost(module: nn.Module) -> nn.Module:
    """The module inside `module`, through all of PyTorch's wrappers; `module` itself if it is not a wrapper."""
    while is_wrapper(module):
        (module,) = module.__dict__["_modules"].values()
    return module


def is_wrapper(module: nn.Module) -> bool:
    """Whether `module` is one of PyTorch's wrappers around its only child (`DataParallel`, a compiled module, ...)."""
    children = module.__dict__.get("_modules") or {}
    return (
        len(children) == 1
        and next(iter(children.keys())) in _WRAPPED_ATTRIBUTES  # TorchScript's dictionary is not iterable itself.
        and type(module).__module__.startswith("torch.")
    )


def has_state(module: nn.Module) -> bool:
    """Whether `module` holds parameters, buffers or submodules. Most loss functions hold none."""
    registered = module.__dict__
    return bool(registered.get("_parameters") or registered.get("_buffers") or registered.get("_modules"))
