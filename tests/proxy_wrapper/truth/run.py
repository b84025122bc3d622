"""What a program says of itself: which are its models and optimizers, and when it has made a step by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    import torch
    from torch import nn

M = TypeVar("M", bound="nn.Module")
O = TypeVar("O", bound="torch.optim.Optimizer")  # noqa: E741


class Run:
    """A plain run: nobody looks."""

    def model(self, module: M, name: str = "model") -> M:
        """Take up `module` as a model called `name`, and give it back."""
        return module

    def optimizer(self, optimizer: O) -> O:
        """Take up an optimizer of the program's own, none that another one drives, and give it back."""
        return optimizer

    def hand_step(self) -> None:
        """The program has changed parameters by hand, after a backward pass."""


class TracedRun(Run):
    """A run with the proxy, as `instrument` writes it into a script."""

    def __init__(self, logdir: str, level: str) -> None:
        self._logdir = logdir
        self._level = level
        self._models: list[nn.Module] = []  # Alive to the end, so that the trace has their last values.

    def model(self, module: M, name: str = "model") -> M:
        """Proxy `module` with all below it."""
        self._models.append(module)
        return Proxy.Proxy(module, recurse=True, name=name, logdir=self._logdir, log_level=self._level)
