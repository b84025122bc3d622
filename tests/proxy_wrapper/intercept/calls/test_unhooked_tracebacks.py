"""What a program prints when it fails inside a module is the same, to the last line, traced and untraced."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 keeps a traceback of its own")


class Failing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("failed")


class Wrapping(nn.Module):
    """Handles the error of another module, and raises one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Failing()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            out: torch.Tensor = self.inner(x)
        except ValueError as error:
            raise KeyError("wrapped") from error
        return out


class Calling(nn.Sequential):
    def __call__(self, *args: Any) -> Any:
        return super().__call__(*args)


def with_hook() -> nn.Module:
    model = nn.Sequential(Failing())
    model[0].register_forward_pre_hook(lambda *_: None)
    return model


def printed(model: nn.Module) -> str:
    with pytest.raises((ValueError, RuntimeError, KeyError)) as raised:
        model(torch.ones(2, 3))
    assert raised.value.__traceback__ is not None
    error = raised.value.with_traceback(raised.value.__traceback__.tb_next)  # The line above is this function's.
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "make",
    [
        Failing,
        Wrapping,
        with_hook,
        lambda: nn.Linear(5, 5),
        lambda: nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.Linear(5, 5))),
        lambda: Calling(Failing()),
        lambda: nn.DataParallel(Failing()),
        lambda: torch.jit.script(nn.Linear(5, 5)),
    ],
    ids=["raise", "raise from", "own hook", "torch's error", "nested", "own __call__", "wrapper", "TorchScript"],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:FutureWarning")  # in later releases
def test_the_traceback_is_that_of_the_untraced_program(make: Callable[[], nn.Module], level: str, logdir: str) -> None:
    plain = printed(make())
    model = Proxy.Proxy(make(), recurse=True, logdir=logdir, log_level=level)
    assert printed(model) == plain
    assert "line" in plain


def test_other_global_hooks_keep_their_place_in_it(logdir: str) -> None:
    handle = nn.modules.module.register_module_forward_pre_hook(lambda *_: None)
    try:
        plain = printed(Failing())
        assert printed(Proxy.Proxy(Failing(), logdir=logdir)) == plain
        assert "inner" in plain
    finally:
        handle.remove()
