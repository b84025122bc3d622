"""While a CUDA graph is captured no thread of ours waits for a device.

Nothing here needs one: a class with the two methods stands for PyTorch's, and the CPU's tensors go the way of a
device's. `tests/devices/test_cuda.py` captures graphs where there is a CUDA device.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.values import statistics
from proxy_wrapper.values.pending import HostCopy
from proxy_wrapper.writing.observers import trace_writer
from tests.proxy_wrapper.programs import Plain, train

if TYPE_CHECKING:
    from collections.abc import Callable


class Graph:
    """What `torch.cuda.CUDAGraph` is to whoever captures."""

    fails = False

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> str:
        if self.fails:
            raise RuntimeError("CUDA error")
        return capture_error_mode

    def capture_end(self) -> str:
        if self.fails:
            raise RuntimeError("CUDA error")
        return "captured"


@pytest.fixture(autouse=True)
def original(monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[..., Any], Callable[..., Any]]:
    class FreshGraph(Graph):
        capture_begin = Graph.capture_begin
        capture_end = Graph.capture_end

    monkeypatch.setattr(torch.cuda, "CUDAGraph", FreshGraph)
    monkeypatch.setattr(trace_writer, "PATIENCE_S", 0.5)
    monkeypatch.setattr(statistics, "is_hosted", lambda tensor: False)
    return FreshGraph.capture_begin, FreshGraph.capture_end


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that have waited for numbers, in order."""
    seen: list[str] = []
    rows = HostCopy.rows

    def wait(copy: HostCopy) -> Any:
        seen.append(threading.current_thread().name)
        return rows(copy)

    monkeypatch.setattr(HostCopy, "rows", wait)
    return seen


def proxied(logdir: str) -> nn.Module:
    return Proxy.Proxy(Plain(), recurse=True, logdir=logdir)


def pause() -> None:
    """Give the writer time for several turns."""
    time.sleep(3 * trace_writer.INTERVAL_S)


def test_nobody_waits_during_a_capture(logdir: str, waits: list[str]) -> None:
    model = proxied(logdir)
    graph = torch.cuda.CUDAGraph()
    assert graph.capture_begin(capture_error_mode="thread_local") == "thread_local"  # type: ignore[func-returns-value]
    waits.clear()
    train(model)
    pause()
    assert waits == []
    assert graph.capture_end() == "captured"  # type: ignore[func-returns-value]
    pause()
    assert waits


def test_a_capture_within_another_does_not_end_it(logdir: str, waits: list[str]) -> None:
    model = proxied(logdir)
    outer, inner = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    outer.capture_begin()
    inner.capture_begin()
    inner.capture_end()
    waits.clear()
    train(model)
    pause()
    assert waits == []
    outer.capture_end()
    pause()
    assert waits


def test_a_capture_that_fails_holds_nobody_up(logdir: str, waits: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    model = proxied(logdir)
    graph = torch.cuda.CUDAGraph()
    monkeypatch.setattr(Graph, "fails", True)
    with pytest.raises(RuntimeError, match="CUDA error"):
        graph.capture_begin()
    monkeypatch.setattr(Graph, "fails", False)
    graph.capture_begin()
    monkeypatch.setattr(Graph, "fails", True)
    with pytest.raises(RuntimeError, match="CUDA error"):
        graph.capture_end()
    waits.clear()
    train(model)
    pause()
    assert waits


def test_flushing_during_a_capture_comes_back(logdir: str) -> None:
    model = proxied(logdir)
    graph = torch.cuda.CUDAGraph()
    train(model, steps=1)
    graph.capture_begin()
    Proxy.flush()
    graph.capture_end()
    Proxy.flush()


def test_the_methods_are_put_back(logdir: str, original: tuple[Any, Any]) -> None:
    proxied(logdir)
    graph: Any = torch.cuda.CUDAGraph
    assert (graph.capture_begin, graph.capture_end) != original
    Proxy._installed.take_down()
    assert (graph.capture_begin, graph.capture_end) == original
