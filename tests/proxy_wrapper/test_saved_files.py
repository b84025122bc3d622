"""What a traced program saves is loaded where this package is not installed, and is what it would have saved."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def build() -> nn.Module:
    """Of torch's own classes only, so that another process can load it whole."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def trained(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.Adam(model.parameters())
    torch.manual_seed(1)
    for _ in range(2):
        optimizer.zero_grad()
        model[:3](torch.randn(5, 3)).sum().backward()  # type: ignore[index]
        optimizer.step()
    return optimizer


def hooked(model: nn.Module) -> nn.Module:
    """With hooks of its own, which are registered after the model was proxied."""
    model.register_forward_hook(pass_on)
    model.register_state_dict_pre_hook(pass_on)
    return model


def pass_on(*_: object) -> None:
    """A hook that pickle finds by its name."""


SAVED: dict[str, Callable[[Any, Any], Any]] = {
    "the model": lambda model, optimizer: model,
    "the state": lambda model, optimizer: model.state_dict(),
    "model and optimizer": lambda model, optimizer: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
    "a parameter": lambda model, optimizer: model[0].weight,
    "an output": lambda model, optimizer: model[0](torch.ones(1, 3)),
}

LOAD = """
import sys, torch
assert not any("proxy_wrapper" in name for name in sys.modules)
sys.modules["proxy_wrapper"] = None  # Python's way to have no such package, installed or not.
loaded = torch.load(sys.argv[1], weights_only=False)
if isinstance(loaded, torch.nn.Module):
    loaded.eval()
    print(float(loaded(torch.ones(2, 3)).sum()))
print(type(loaded).__name__)
"""


@pytest.mark.sample(4)
@pytest.mark.parametrize("what", SAVED)
def test_it_loads_without_this_package(what: str, level: str, logdir: str, tmp_path: Path) -> None:
    model = Proxy.Proxy(build(), recurse=True, logdir=logdir, log_level=level)
    torch.save(SAVED[what](model, trained(model)), tmp_path / "saved.pt")
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOAD, str(tmp_path / "saved.pt")], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", SAVED)
def test_it_is_the_same_to_the_byte(what: str, level: str, logdir: str) -> None:
    def saved(traced: bool) -> dict[str, bytes]:
        model = build()
        if traced:
            Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
        file = io.BytesIO()
        torch.save(SAVED[what](model, trained(model)), file)
        with zipfile.ZipFile(file) as archive:
            return {name: archive.read(name) for name in archive.namelist() if not name.endswith("serialization_id")}

    assert saved(traced=False) == saved(traced=True)


def test_hooks_of_the_program_have_the_numbers_that_they_have_without_us(level: str, logdir: str) -> None:
    def numbers() -> list[int]:
        model = hooked(build())
        return [*model._forward_hooks, *model._state_dict_pre_hooks]

    first = numbers()[0]
    Proxy.Proxy(build(), recurse=True, logdir=logdir, log_level=level)
    assert numbers() == [first + 2, first + 3]
    handles = [nn.modules.module.register_module_forward_hook(pass_on) for _ in range(20)]
    assert len({handle.id for handle in handles} | set(nn.modules.module._global_forward_hooks)) == 20 + 1
    for handle in handles:
        handle.remove()


def test_weights_load_with_weights_only(level: str, logdir: str, tmp_path: Path) -> None:
    model = Proxy.Proxy(build(), recurse=True, logdir=logdir, log_level=level)
    trained(model)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    other = build()
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_a_pickle_names_nothing_of_this_package(level: str, logdir: str) -> None:
    model = Proxy.Proxy(build(), recurse=True, logdir=logdir, log_level=level)
    trained(model)
    assert b"proxy_wrapper" not in pickle.dumps(model)
    assert not Proxy.is_proxied(pickle.loads(pickle.dumps(model)))
