"""What a script can call, and the rules that hold for it."""

from __future__ import annotations

import gc
import logging
import re
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.errors import SettingsNameError, SettingsTypeError, SettingsValueError, UnknownLevelError
from proxy_wrapper.events import CallModule, Happening, Module, ReturnModule
from tests.proxy_wrapper.global_hooks import has_module_hooks
from tests.proxy_wrapper.programs import Plain, images, train

if TYPE_CHECKING:
    from proxy_wrapper.writing.observers.memory import MemoryObserver


def names_called(observer: MemoryObserver) -> list[str]:
    names = {event.id: event.name for event in observer.events if isinstance(event, Module)}
    return [names[event.module] for event in observer.events if isinstance(event, CallModule)]


def test_gives_back_the_very_object(logdir: str) -> None:
    model = Plain()
    assert Proxy.Proxy(model, recurse=True, logdir=logdir) is model


def test_isinstance_and_is_proxied_say_what_is_traced(logdir: str) -> None:
    model, other = Plain(), Plain()
    Proxy.Proxy(model, recurse=True, logdir=logdir)
    assert isinstance(model, Proxy.Proxy)
    assert isinstance(model.rest[0], Proxy.Proxy)
    assert Proxy.is_proxied(model.first.weight)
    assert not isinstance(other, Proxy.Proxy)
    assert not Proxy.is_proxied(other.first.weight)
    assert not Proxy.is_proxied("model")


def test_nothing_is_proxied_before_the_first_proxy() -> None:
    assert not isinstance(Plain(), Proxy.Proxy)
    assert Proxy.unproxy(7) == 7
    Proxy.flush()


@pytest.mark.parametrize("thing", [None, "resnet", 3, [nn.Linear(1, 1)], torch.ones(2), print], ids=repr)
def test_what_is_no_module_comes_back_untouched(thing: Any, logdir: str) -> None:
    assert Proxy.Proxy(thing, recurse=True, logdir=logdir) is thing
    assert not isinstance(thing, Proxy.Proxy)


def test_rule_1_a_proxied_object_is_not_proxied_again(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    assert Proxy.Proxy(model, recurse=True, name="other") is model
    model(images())
    assert names_called(seen) == ["net", "net.first", "net.rest", "net.rest.0", "net.rest.1"]


def test_rule_1_a_second_proxy_changes_the_settings(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=Proxy.WARNING)
    model(images())
    assert names_called(seen) == []
    Proxy.Proxy(model.rest, recurse=True, log_level="info")
    model(images())
    assert names_called(seen) == ["net.rest", "net.rest.0", "net.rest.1"]


def test_rule_2_modules_put_in_later_are_proxied(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    model.rest[1] = nn.Tanh()
    model(images())
    assert names_called(seen)[-1] == "net.rest.1"
    assert isinstance(model.rest[1], Proxy.Proxy)


def test_rule_2_a_wrapper_around_a_proxied_module_is_proxied(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    wrapped = nn.DataParallel(model)
    wrapped(images())
    assert isinstance(wrapped, Proxy.Proxy)
    assert names_called(seen)[:3] == ["DataParallel(net)", "net", "net.first"]


@pytest.mark.parametrize(("name", "root"), [("net.last", "net"), ("head", "head")])
def test_rule_2_a_root_put_in_later_is_taken_in_if_it_has_the_name_of_its_place(
    name: str, root: str, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Sequential(), recurse=True, name="net", logdir=logdir)
    model.last = Proxy.Proxy(nn.Linear(2, 2), recurse=True, name=name, logdir=logdir)
    model(torch.randn(1, 2))
    defined = {each.id: each for each in seen.events if isinstance(each, Module)}
    names = {each.name: defined[each.root].name for each in defined.values()}
    assert names == {"net": "net", name: root}
    assert names_called(seen) == ["net", name]


def test_rule_2_names_leave_out_what_wrappers_insert(logdir: str, seen: MemoryObserver) -> None:
    wrapped = Proxy.Proxy(nn.DataParallel(Plain()), recurse=True, name="net", logdir=logdir)
    wrapped(images())
    assert names_called(seen)[:3] == ["DataParallel(net)", "net", "net.first"]


def test_rule_2_a_larger_module_takes_in_a_proxied_one(logdir: str, seen: MemoryObserver) -> None:
    backbone = Proxy.Proxy(Plain(), recurse=True, name="backbone", logdir=logdir)
    model = Proxy.Proxy(nn.Sequential(backbone, nn.Linear(10, 2)), recurse=True, name="net", logdir=logdir)
    model(images())
    assert names_called(seen)[:3] == ["net", "net.0", "net.0.first"]


def test_rules_3_and_4_tensors_that_go_in_and_come_out_are_proxied(logdir: str) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
    x = images()
    assert not Proxy.is_proxied(x)
    out = model(x)
    assert isinstance(x, Proxy.Proxy)
    assert isinstance(out, Proxy.Proxy)
    assert not isinstance(out.detach().numpy(), Proxy.Proxy)
    assert not isinstance(out.sum().item(), Proxy.Proxy)


def test_without_recurse_only_the_module_itself_is_traced(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.Linear(2, 2)), name="net", logdir=logdir)
    assert not isinstance(model[0], Proxy.Proxy)
    model(torch.ones(1, 2))
    assert names_called(seen) == ["net"]


def test_settings_go_down_the_tree_unless_set_below(tmp_path: Path, seen: MemoryObserver) -> None:
    model = Plain()
    Proxy.Proxy(model.rest, recurse=True, name="rest", logdir=tmp_path / "a", log_level="WARNING")
    Proxy.Proxy(model, recurse=True, name="net", logdir=tmp_path / "b")
    model(images())
    assert names_called(seen) == ["net", "net.first"]


def test_two_roots_of_one_name_are_told_apart(logdir: str, seen: MemoryObserver) -> None:
    for _ in range(2):
        Proxy.Proxy(nn.Linear(2, 2), name="model", logdir=logdir)(torch.ones(1, 2))
    assert names_called(seen) == ["model", "model_1"]


def test_a_proxied_model_is_freed_as_any_other(logdir: str) -> None:
    model = Plain()
    gone = weakref.ref(model)
    Proxy.Proxy(model, recurse=True, logdir=logdir)
    train(model)
    del model
    gc.collect()
    assert gone() is None


def test_outputs_are_freed_as_any_other(logdir: str, level: str) -> None:
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=level)
    out = model(images())
    gone = weakref.ref(out)
    del out
    assert gone() is None


def test_unproxy_ends_the_tracing_of_a_model(logdir: str, seen: MemoryObserver) -> None:
    first = Proxy.Proxy(Plain(), recurse=True, name="a", logdir=logdir)
    second = Proxy.Proxy(Plain(), recurse=True, name="b", logdir=logdir)
    assert Proxy.unproxy(first) is first
    assert not isinstance(first, Proxy.Proxy)
    first(images())
    second(images())
    assert set(names_called(seen)) == {"b", "b.first", "b.rest", "b.rest.0", "b.rest.1"}


def test_with_the_last_proxy_everything_is_as_it_was(logdir: str) -> None:
    methods = [nn.Module.__getattr__, nn.Module.__setattr__, nn.Module.__delattr__]
    functions = [torch.autograd.backward, torch.autograd.grad]
    model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level=Proxy.DEBUG)
    train(model)
    assert torch._C._len_torch_function_stack() == 1
    Proxy.unproxy(model)
    assert methods == [nn.Module.__getattr__, nn.Module.__setattr__, nn.Module.__delattr__]
    assert functions == [torch.autograd.backward, torch.autograd.grad]
    assert torch._C._len_torch_function_stack() == 0
    assert not has_module_hooks()
    optimizers = sys.modules["torch.optim.optimizer"]
    assert not optimizers._global_optimizer_pre_hooks
    assert not optimizers._global_optimizer_post_hooks


@pytest.mark.parametrize("level", [logging.INFO, "INFO", "info", Proxy.INFO])
def test_levels_are_those_of_logging(level: int | str, logdir: str, seen: MemoryObserver) -> None:
    Proxy.Proxy(nn.Linear(1, 1), name="a", logdir=logdir, log_level=level)
    assert [event.level for event in seen.events if isinstance(event, Module)] == ["INFO"]


@pytest.mark.parametrize("level", ["loud", 15, 0, True, 20.0, [20]])
def test_an_unknown_level_is_an_error_that_lists_the_levels(level: Any, logdir: str) -> None:
    with pytest.raises(UnknownLevelError, match=r"is no level of tracing; give one of WARNING, INFO, DEBUG\."):
        Proxy.Proxy(nn.Linear(1, 1), logdir=logdir, log_level=level)


@pytest.mark.parametrize("make", [str, Path], ids=["string", "path"])
def test_a_path_in_the_place_of_recurse_is_the_logdir_and_submodules_are_proxied(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.log"
    model = Proxy.Proxy(Plain(), make(path), log_level=logging.INFO)
    assert all(isinstance(module, Proxy.Proxy) for module in model.modules())
    train(model)
    Proxy.flush()
    assert path.read_text().startswith("found the root object\n")


def test_two_logdirs_are_an_error() -> None:
    with pytest.raises(SettingsTypeError, match=r"recurse='model\.log' is a str; `Proxy` wants True or False there"):
        Proxy.Proxy(nn.Linear(1, 1), "model.log", "other.log")


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        pytest.param("log_dir", "Did you mean `logdir`?", id="as the first description spelled it"),
        pytest.param("loglevel", "Did you mean `log_level`?", id="no underscore"),
        pytest.param("statistic", "Did you mean `statistics`?", id="singular"),
        pytest.param("xyz", "It has recurse, logdir, log_level, name, first, every, include,", id="nothing near"),
    ],
)
def test_an_argument_that_there_is_not_is_answered_with_the_nearest(given: str, answer: str) -> None:
    with pytest.raises(SettingsNameError, match=re.escape(f"`Proxy` has no argument `{given}`. {answer}")):
        Proxy.Proxy(nn.Linear(1, 1), **{given: "x"})  # type: ignore[arg-type]


@pytest.mark.parametrize("of", ["everything", "", "ALL", 1, ["all"]])
def test_unknown_statistics_are_an_error_that_lists_the_three(of: Any) -> None:
    with pytest.raises(SettingsValueError, match=r"`Proxy` wants one of 'state', 'outputs', 'all' there\."):
        Proxy.Proxy(nn.Linear(1, 1), statistics=of)


def test_statistics_are_inherited_apart_from_other_settings(logdir: str) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.Sequential(nn.Linear(1, 1)), nn.Linear(1, 1)), recurse=True, logdir=logdir)
    Proxy.Proxy(model[0], recurse=True, statistics="all")
    Proxy.Proxy(model, recurse=True, every=3)
    Proxy.Proxy(model, recurse=True, statistics="outputs")
    entries = [Proxy._installed.get().registry.module_entry(module) for module in model.modules()]
    found = {entry.name: (entry.watch.statistics, entry.watch.every) for entry in entries if entry is not None}
    assert found == {
        "Sequential": ("outputs", 3),
        "Sequential.0": ("all", 3),
        "Sequential.0.0": ("all", 3),
        "Sequential.1": ("outputs", 3),
    }


def test_a_logdir_that_is_no_path_is_an_error() -> None:
    with pytest.raises(SettingsTypeError, match="logdir=3 is a int; `Proxy` wants a path there"):
        Proxy.Proxy(nn.Linear(1, 1), logdir=3)  # type: ignore[arg-type]


def test_a_module_made_in_forward_is_one_module_in_the_trace(logdir: str, seen: MemoryObserver) -> None:
    class MakesOne(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = nn.Softmax(dim=1)(x)
            return out

    model = Proxy.Proxy(MakesOne(), recurse=True, name="net", logdir=logdir)
    for _ in range(3):
        model(torch.ones(1, 2))
    assert names_called(seen) == ["net", "net.Softmax"] * 3
    assert sum(isinstance(event, Module) for event in seen.events) == 2
    assert sum(isinstance(event, ReturnModule) for event in seen.events) == 6


def test_a_larger_module_without_a_logdir_of_its_own_makes_no_second_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backbone = Proxy.Proxy(Plain(), recurse=True, name="backbone", logdir="mine")
    train(Proxy.Proxy(nn.Sequential(backbone, nn.Linear(10, 10)), recurse=True, name="net"))
    Proxy.flush()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_at_warning_a_healthy_run_leaves_definitions_only(logdir: str, seen: MemoryObserver) -> None:
    train(Proxy.Proxy(Plain(), recurse=True, logdir=logdir, log_level="WARNING"))
    Proxy.flush()
    assert not any(isinstance(event, Happening) for event in seen.events)
