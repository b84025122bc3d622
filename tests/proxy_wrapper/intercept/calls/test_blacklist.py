"""Rule 5: modules on the blacklist are never looked into, whether they are proxied or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.overrides import has_torch_function

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.errors import SettingsTypeError
from proxy_wrapper.events import CallFunction, CallModule
from proxy_wrapper.intercept.calls.torch_calls import TorchCallMode
from tests.proxy_wrapper.programs import Plain, encoder, images

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.writing.observers.memory import MemoryObserver


@pytest.fixture(autouse=True)
def the_blacklist_is_as_it_was() -> Iterator[None]:
    before = Proxy._installed.blacklist._types
    yield
    Proxy._installed.blacklist._types = before


class Looks(nn.Module):
    """Takes another way when a function mode is active."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) if has_torch_function((x,)) else torch.relu(x) + 1e-6


def modes() -> list[type]:
    return [type(torch._C._get_function_stack_at(depth)) for depth in range(torch._C._len_torch_function_stack())]


def test_a_type_of_the_users_own_is_run_without_the_mode(logdir: str, seen: MemoryObserver) -> None:
    plain = Looks()(torch.ones(3))
    assert Proxy.blacklist(Looks) is Looks
    model = Proxy.Proxy(nn.Sequential(Looks()), recurse=True, logdir=logdir, log_level="DEBUG")
    assert torch.equal(model(torch.ones(3)), plain)
    assert not any(isinstance(event, CallFunction) and event.module for event in seen.events)
    assert sum(isinstance(event, CallModule) for event in seen.events) == 2
    assert modes() == [TorchCallMode]


def test_subclasses_are_on_it_too_and_it_decorates(logdir: str, seen: MemoryObserver) -> None:
    @Proxy.blacklist
    class Own(Looks):
        pass

    class Derived(Own):
        pass

    plain = Derived()(torch.ones(3))
    assert torch.equal(Proxy.Proxy(Derived(), logdir=logdir, log_level="DEBUG")(torch.ones(3)), plain)


def test_it_may_be_extended_while_a_model_is_traced(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Looks(), logdir=logdir, log_level="DEBUG")
    watched = model(torch.ones(3))
    Proxy.blacklist(Looks)
    assert not torch.equal(model(torch.ones(3)), watched)


def test_it_outlives_the_last_proxy(logdir: str) -> None:
    Proxy.blacklist(Looks)
    Proxy.unproxy(Proxy.Proxy(nn.Linear(1, 1), logdir=logdir))
    model = Proxy.Proxy(Looks(), logdir=logdir, log_level="DEBUG")
    assert torch.equal(model(torch.ones(3)), torch.ones(3) + 1e-6)


@pytest.mark.parametrize("thing", [Looks(), int, "Looks", None], ids=repr)
def test_what_is_no_class_of_modules_is_an_error(thing: Any) -> None:
    with pytest.raises(SettingsTypeError, match=r"a class derived from `nn\.Module`"):
        Proxy.blacklist(thing)


def test_a_module_that_is_not_proxied_is_run_without_the_mode_too(logdir: str) -> None:
    """The encoder is none of the traced model's, but the mode is on the stack while it runs."""
    stranger = encoder().eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        plain = stranger(x)
        model = Proxy.Proxy(nn.Linear(1, 1), logdir=logdir, log_level="DEBUG")
        assert torch.equal(stranger(x), plain)
    assert modes() == [TorchCallMode]
    assert Proxy.is_proxied(model)  # With the last proxied model the mode goes, too.


def test_a_module_below_one_proxied_without_recursion_is_run_without_the_mode(logdir: str) -> None:
    model = nn.Sequential(encoder()).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        plain = model(x)
        Proxy.Proxy(model, logdir=logdir, log_level="DEBUG")
        assert torch.equal(model(x), plain)
    assert modes() == [TorchCallMode]


def test_an_exception_inside_brings_the_mode_back(logdir: str) -> None:
    model = Proxy.Proxy(nn.MultiheadAttention(4, 2), logdir=logdir, log_level="DEBUG")
    with pytest.raises(AssertionError):
        model(torch.ones(2, 1, 3), torch.ones(2, 1, 3), torch.ones(2, 1, 3))
    assert modes() == [TorchCallMode]


@pytest.mark.parametrize("is_proxied", [True, False])
def test_an_interrupt_inside_brings_the_mode_back_with_the_next_call(
    is_proxied: bool, logdir: str, seen: MemoryObserver
) -> None:
    class Interrupted(nn.MultiheadAttention):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            raise KeyboardInterrupt

    attention = Interrupted(4, 2)
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="DEBUG")
    if is_proxied:
        Proxy.Proxy(attention, logdir=logdir, log_level="DEBUG")
    with pytest.raises(KeyboardInterrupt):
        attention(1, 2, 3)
    model(images())
    assert modes() == [TorchCallMode]
    assert any(isinstance(event, CallFunction) and event.target == "torch.tanh" for event in seen.events)


@pytest.mark.filterwarnings("ignore")
def test_compiled_code_inside_does_not_bring_the_mode_back_early(logdir: str) -> None:
    torch._dynamo.reset()
    found: list[list[type]] = []

    class Outer(nn.TransformerEncoder):
        def forward(self, src: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            function = torch.compile(lambda x: x * 2, backend="eager")
            out: torch.Tensor = function(src)
            found.append(modes())
            return out

    model = Outer(nn.TransformerEncoderLayer(4, 1, batch_first=True), 1)
    Proxy.Proxy(model, recurse=True, logdir=logdir, log_level="DEBUG")
    model(torch.ones(1, 2, 4))
    assert found == [[]]
    assert modes() == [TorchCallMode]
