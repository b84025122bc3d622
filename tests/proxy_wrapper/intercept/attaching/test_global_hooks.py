"""Hooks of ours come and go without a trace in torch's registries, whoever goes through these meanwhile."""

from __future__ import annotations

from collections import OrderedDict
from types import ModuleType
from typing import Any

import pytest
from torch.utils.hooks import RemovableHandle

from proxy_wrapper.intercept.attaching.global_hooks import GlobalHooks


@pytest.fixture
def home() -> Any:
    module = ModuleType("home")
    module.before, module.after = OrderedDict(), OrderedDict()  # type: ignore[attr-defined]
    return module


def register(home: Any, hook: object) -> RemovableHandle:
    """As torch's functions do it."""
    handle = RemovableHandle(home.before)
    home.before[handle.id] = hook
    return handle


def test_hooks_are_put_in_once_and_taken_out(home: Any) -> None:
    before, after = home.before, home.after
    hooks = GlobalHooks(home, {"before": "ours", "after": "ours, too"})
    hooks.put_in()
    hooks.put_in()
    assert (list(home.before.values()), list(home.after.values())) == (["ours"], ["ours, too"])
    assert hooks.are_alone()
    hooks.take_out()
    hooks.take_out()
    assert home.before is before
    assert home.after is after
    assert not before


def test_who_goes_through_a_registry_goes_on(home: Any) -> None:
    hooks = GlobalHooks(home, {"before": "ours"})
    hooks.put_in()
    going = iter(home.before.values())
    hooks.take_out()
    assert list(going) == ["ours"]
    going = iter(home.before.values())
    hooks.put_in()
    assert list(going) == []


def test_numbers_of_hooks_are_what_they_are_without_ours(home: Any) -> None:
    number = RemovableHandle.next_id
    GlobalHooks(home, {"before": "ours"}).put_in()
    assert RemovableHandle.next_id == number
    assert register(home, "theirs").id == number


@pytest.mark.parametrize("is_older", [True, False], ids=["registered before ours", "registered after ours"])
def test_a_handle_of_the_program_removes_its_hook(home: Any, is_older: bool) -> None:
    hooks = GlobalHooks(home, {"before": "ours"})
    if is_older:
        handle = register(home, "theirs")
        hooks.put_in()
    else:
        hooks.put_in()
        handle = register(home, "theirs")
    assert not hooks.are_alone()
    hooks.take_out()
    assert list(home.before.values()) == ["theirs"]
    hooks.put_in()
    assert list(home.before.values()) == ["theirs", "ours"]
    handle.remove()
    assert list(home.before.values()) == ["ours"]
    hooks.take_out()
    assert not home.before


def test_what_is_there_without_ours_is_told(home: Any) -> None:
    hooks = GlobalHooks(home, {"before": "ours"})
    handle = register(home, "theirs")
    hooks.put_in()
    assert hooks.without_ours(home.before) == OrderedDict({handle.id: "theirs"})
    assert hooks.without_ours(home.after) is home.after
    assert hooks.without_ours("anything") == "anything"
