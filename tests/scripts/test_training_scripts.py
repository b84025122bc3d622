"""Whole scripts, as people write them: instrumented and run, they print and learn the same to the last bit."""

from __future__ import annotations

import contextlib
import io
import random
import runpy
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings
from proxy_wrapper.events import BackwardEnd, CallFunction, CallModule, Module, Problem, Update
from proxy_wrapper.writing.observers.memory import MemoryObserver
from tests.conformance.bits import difference, frozen

if TYPE_CHECKING:
    from instrumentor.settings import LogLevel

SCRIPTS = sorted((Path(__file__).parent / "training").glob("*.py"))


class Run(NamedTuple):
    """What a script printed, what its variables hold, and where the generators stand."""

    printed: str
    state: dict[str, Any]
    random_state: Any


def run(path: Path) -> Run:
    printed = io.StringIO()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            variables = runpy.run_path(str(path), run_name="__main__")
            state = {name: states_of(value) for name, value in variables.items() if holds_state(value)}
    finally:
        torch.set_num_threads(threads)
    return Run(printed.getvalue(), frozen(state), frozen((torch.get_rng_state(), hash(random.getstate()))))


def holds_state(value: object) -> bool:
    return isinstance(value, (nn.Module, torch.optim.Optimizer, torch.Tensor, list))


def states_of(value: Any) -> Any:
    """Everything in a variable that training can have changed."""
    if isinstance(value, nn.Module):
        return [value.state_dict(), [parameter.grad for parameter in value.parameters()]]
    if isinstance(value, torch.optim.Optimizer):
        return value.state_dict()
    if isinstance(value, list):
        return [states_of(item) for item in value if holds_state(item)]
    return value


@cache
def plain_run(path: Path) -> Run:
    return run(path)


@pytest.mark.sample(18)
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_an_instrumented_script_does_the_same(
    path: Path, level: LogLevel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = plain_run(path)
    result = instrument_source(path.read_bytes(), Settings(log_level=level), source_name=path.name)
    assert result.changed
    script = tmp_path / path.name
    script.write_bytes(result.instrumented)
    monkeypatch.chdir(tmp_path)
    observer = MemoryObserver()
    Proxy.observe(observer)
    try:
        traced = run(script)
        Proxy.flush()
    finally:
        Proxy._installed.take_down()
    assert traced.printed == plain.printed
    assert difference(plain.state, traced.state) is None
    assert difference(plain.random_state, traced.random_state) is None
    assert "proxy_wrapper" not in capfd.readouterr().err
    kinds = {type(event) for event in observer.events}
    assert {Module, CallModule, BackwardEnd, Update} <= kinds
    assert (CallFunction in kinds) == (level == "DEBUG")
    assert Problem not in kinds
    assert len(list(tmp_path.glob("proxy_trace/*/*.jsonl"))) == 1
