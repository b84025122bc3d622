"""Attributes of proxied modules, at level DEBUG."""

from __future__ import annotations

import enum
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import DelAttr, GetAttr, SetAttr
from tests.proxy_wrapper.programs import Plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def test_parameters_and_submodules_are_named_when_read(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
    assert model.first.weight is not None
    reads = [(event.owner, event.target, event.value) for event in seen.events if isinstance(event, GetAttr)]
    assert reads == [("net", "first", "net.first"), ("net.first", "weight", "net.first.weight")]


def test_writes_and_deletions_are_seen(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
    model.scale = 3  # type: ignore[assignment]
    model.eval()
    del model.first
    writes = [(event.owner, event.target, event.value) for event in seen.events if isinstance(event, SetAttr)]
    assert writes[0] == ("net", "scale", "3")
    assert ("net.rest.0", "training", "False") in writes
    assert [(event.owner, event.target) for event in seen.events if isinstance(event, DelAttr)] == [("net", "first")]


class Colour(enum.IntEnum):
    """A number whose `__str__` is the program's own."""

    RED = 3

    def __str__(self) -> str:
        raise AssertionError


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param(0.7, "0.7", id="float"),
        pytest.param(float("nan"), "nan", id="NaN"),
        pytest.param(np.float64(0.25), "0.25", id="float of numpy"),
        pytest.param(-3, "-3", id="integer"),
        pytest.param(Colour.RED, "3", id="enumeration"),
        pytest.param(1 + 2j, "(1+2j)", id="complex"),
        pytest.param(True, "True", id="truth value"),
        pytest.param(None, "None", id="None"),
        pytest.param("password", "str", id="text"),
        pytest.param(b"password", "bytes", id="bytes"),
        pytest.param([1, 2], "list", id="list"),
    ],
)
def test_numbers_are_said_as_they_are_and_texts_by_type_only(
    value: Any, said: str, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
    model.temperature = value
    writes = [(event.target, event.value) for event in seen.events if isinstance(event, SetAttr)]
    assert writes == [("temperature", said)]


def test_a_missing_attribute_is_the_same_error(logdir: str) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="DEBUG")
    with pytest.raises(AttributeError, match="'Plain' object has no attribute 'missing'"):
        _ = model.missing


def test_other_modules_and_levels_leave_nothing(logdir: str, seen: MemoryObserver) -> None:
    watched = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="DEBUG")
    quiet = Proxy.Proxy(nn.Linear(1, 1), logdir=logdir)
    seen.events.clear()
    assert quiet.weight is not None
    assert Plain().first is not None
    reads = {event.target for event in seen.events if isinstance(event, (GetAttr, SetAttr))}
    assert not reads & {"weight", "first", "rest"}
    assert watched.first is not None


def test_the_methods_say_what_they_are(logdir: str) -> None:
    before = [(method.__qualname__, method.__doc__, inspect.signature(method)) for method in methods()]
    model = Proxy.Proxy(nn.Linear(1, 1), logdir=logdir, log_level="DEBUG")
    assert [(method.__qualname__, method.__doc__, inspect.signature(method)) for method in methods()] == before
    del model


def methods() -> tuple[Callable[..., Any], ...]:
    return nn.Module.__getattr__, nn.Module.__setattr__, nn.Module.__delattr__
