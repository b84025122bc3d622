"""Torch's global settings: all of them at the start, and each where it has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import CallModule, Configuration
from proxy_wrapper.known.torch_settings import TorchSettings, autocast_now
from tests.proxy_wrapper.programs import Plain, images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from proxy_wrapper.writing.observers.memory import MemoryObserver


@pytest.fixture(autouse=True)
def settings_stay_as_they_were() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    # `torch.testing._internal`, which other tests import, forbids to set the switches of cuDNN.
    with torch.backends.__allow_nonbracketed_mutation():
        yield
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.benchmark = False
        torch.set_default_device(None)
        torch.set_num_threads(1)


def told(seen: MemoryObserver) -> list[dict[str, Any]]:
    return [event.settings for event in seen.events if isinstance(event, Configuration)]


def test_all_are_told_before_anything_happens(logdir: str, seen: MemoryObserver) -> None:
    torch.manual_seed(12)
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    model(images())
    (settings,) = told(seen)
    first = next(index for index, event in enumerate(seen.events) if isinstance(event, CallModule))
    assert any(isinstance(event, Configuration) for event in seen.events[:first])
    expected = {"default_dtype": "float32", "default_device": "cpu", "seed": 12, "threads": 1, "autocast": None}
    assert expected.items() <= settings.items()
    assert {"float32_matmul_precision", "cuda.matmul.allow_tf32", "cudnn.benchmark"} <= settings.keys()
    assert "cuda_seed" in settings or not torch.cuda.is_initialized()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            lambda: torch.set_float32_matmul_precision("high"), {"float32_matmul_precision": "high"}, id="TF32"
        ),
        pytest.param(lambda: torch.manual_seed(7), {"seed": 7}, id="the seed"),
        pytest.param(lambda: torch.manual_seed(2**60 + 1), {"seed": str(2**60 + 1)}, id="a large seed"),
        pytest.param(lambda: torch.set_num_threads(2), {"threads": 2}, id="threads"),
        pytest.param(
            lambda: torch.use_deterministic_algorithms(True),
            {"deterministic_algorithms": True},
            id="deterministic algorithms",
        ),
        pytest.param(
            lambda: setattr(torch.backends.cudnn, "benchmark", True), {"cudnn.benchmark": True}, id="a switch of cuDNN"
        ),
        pytest.param(lambda: torch.set_default_dtype(torch.float64), {"default_dtype": "float64"}, id="default dtype"),
        pytest.param(lambda: torch.set_default_device("meta"), {"default_device": "meta"}, id="default device"),
    ],
)
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_what_changes_is_told_with_the_next_call_and_nothing_else(
    change: Callable[[], object], expected: dict[str, Any], level: str, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level=level)
    x = torch.ones(1, 2)
    model(x)
    change()
    model(x)
    model(x)
    settings = told(seen)[1:]
    assert len(settings) == 1
    assert expected.items() <= settings[0].items()
    related = {"float32_matmul_precision": {"cuda.matmul.allow_tf32"}}
    extra = {name for name in settings[0].keys() - expected.keys() if "fp32_precision" not in name}
    assert extra <= set().union(*(related.get(name, set()) for name in expected))


def test_a_step_tells_too_and_autocast_belongs_to_calls(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(images()).float().sum()
        loss.backward()
        optimizer.step()
    torch.manual_seed(99)
    optimizer.step()
    model(images())
    assert told(seen)[1:] == [{"autocast": "cpu bfloat16"}, {"seed": 99}, {"autocast": None}]


def test_at_warning_nothing_is_told(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), logdir=logdir, log_level="WARNING")
    model(torch.ones(1, 2))
    assert told(seen) == []


def test_iterations_that_are_not_recorded_lose_no_change(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, every=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for seed in range(4):
        torch.manual_seed(100 + seed)
        model(images()).sum().backward()
        optimizer.step()
    assert [each["seed"] for each in told(seen) if "seed" in each][1:] == [100, 103]


def test_a_setting_that_cannot_be_told_is_none_and_says_nothing_on_standard_error(tmp_path: Path) -> None:
    program = (
        "import torch, proxy_wrapper.proxy as Proxy\n"
        "model = Proxy.Proxy(torch.nn.Linear(1, 1), logdir='trace')\n"
        "if hasattr(torch.backends, 'fp32_precision'):\n"
        "    torch.backends.fp32_precision = 'tf32'\n"
        "    torch.backends.cuda.matmul.allow_tf32 = False\n"
        "model(torch.ones(1, 1))\n"
        "torch.set_num_interop_threads(3)\n"
        "assert not torch.cuda.is_initialized()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_reading_changes_nothing_and_draws_no_random_number() -> None:
    state = torch.get_rng_state()
    settings = TorchSettings()
    first = settings.look(autocast_now())
    assert settings.look(autocast_now()) == first
    assert torch.equal(torch.get_rng_state(), state)
    assert set(map(type, settings.name(first).values())) <= {bool, int, str, float, type(None)}


def test_the_innermost_device_context_is_the_default_device() -> None:
    settings = TorchSettings()
    torch.set_default_device("meta")
    with torch.device("cpu"):
        assert settings.name(settings.look(None))["default_device"] == "cpu"
    assert settings.name(settings.look(None))["default_device"] == "meta"
