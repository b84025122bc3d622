"""Backward passes are seen, however they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Backward, BackwardEnd
from tests.proxy_wrapper.programs import Plain, images

if TYPE_CHECKING:
    from proxy_wrapper.observers.memory import MemoryObserver


def test_backward_of_a_tensor_is_seen_from_begin_to_end(level: str, logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    model(images()).sum().backward()
    (begin,) = (event for event in seen.events if isinstance(event, Backward))
    (end,) = (event for event in seen.events if isinstance(event, BackwardEnd))
    assert (begin.function, begin.inputs, end.raised) == ("backward", ("float32[]",), False)
    assert begin.location


def test_autograd_grad_is_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    torch.autograd.grad(outputs=model(images()).sum(), inputs=list(model.parameters()))
    assert [event.function for event in seen.events if isinstance(event, Backward)] == ["grad"]


def test_a_backward_pass_that_raises_is_recorded_as_raised(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        model(images()).backward()
    assert [event.raised for event in seen.events if isinstance(event, BackwardEnd)] == [True]
