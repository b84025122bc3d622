"""The five rules of what is proxied, how settings go down the tree, and settings changed while training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import CallFunction, CallModule, Module, Parameter, ReturnModule, Update
from tests.proxy_wrapper.programs import Plain, images, labels, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def called(observer: MemoryObserver) -> list[str]:
    """The names of the modules called, in order."""
    names = {event.id: event.name for event in observer.events if isinstance(event, Module)}
    return [names[event.module] for event in observer.events if isinstance(event, CallModule)]


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]


class Gives(nn.Module):
    """Gives its input back in a container."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Any) -> Any:
        y, z = x + 1, x + 2
        ways: dict[str, Callable[[], Any]] = {
            "tensor": lambda: y,
            "tuple": lambda: (y, z),
            "list": lambda: [y, [z]],
            "dict": lambda: {"y": y, "deep": {"z": z}},
            "named tuple": lambda: Pair(y, z),
            "dataclass": lambda: Output(y, (z,)),
        }
        return ways[self.kind]()


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Output):
        return [value.logits, *value.hidden]
    values = value.values() if isinstance(value, dict) else value
    return [tensor for item in values for tensor in tensors_in(item)]


class TestRule1AProxiedObjectIsNotProxiedAgain:
    def test_it_comes_back_as_it_is(self, logdir: str, seen: MemoryObserver) -> None:
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        for again in (model, model.rest, model.rest[0]):
            assert Proxy.Proxy(again, recurse=True, name="other") is again
        model(images())
        assert called(seen) == ["net", "net.first", "net.rest", "net.rest.0", "net.rest.1"]

    def test_what_a_function_proxies_and_returns_is_called_as_its_caller_says(
        self, logdir: str, seen: MemoryObserver
    ) -> None:
        def build(name: str) -> Plain:
            return Proxy.Proxy(Plain(), recurse=True, name=name, logdir=logdir)

        model, other = (Proxy.Proxy(build("build"), recurse=True, name=name) for name in ("net", "other"))
        model(images())
        assert called(seen) == ["net", "net.first", "net.rest", "net.rest.0", "net.rest.1"]
        train(other, steps=1)
        build_again = Proxy.Proxy(build("net"), recurse=True, name="net")
        build_again(images())
        assert called(seen)[-5] == "net_1"

        def rename() -> None:
            Proxy.Proxy(other, recurse=True, name="late")

        rename()
        other(images())
        assert called(seen)[-5] == "other"

    def test_only_the_settings_given_change(self, tmp_path: Path, seen: MemoryObserver) -> None:
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=tmp_path / "a", log_level="DEBUG")
        Proxy.Proxy(model, recurse=True, logdir=tmp_path / "b")
        model(images())
        levels = {event.level for event in seen.events if isinstance(event, Module)}
        assert levels == {"DEBUG"}
        assert any(isinstance(event, CallFunction) and event.module for event in seen.events)
        Proxy.flush()
        (second,) = (tmp_path / "b").glob("*/*.jsonl")
        assert '"call_module"' in second.read_text()

    def test_modules_shared_by_two_models_have_one_name(self, logdir: str, seen: MemoryObserver) -> None:
        shared = nn.Linear(4, 4)
        first = Proxy.Proxy(nn.Sequential(shared), recurse=True, name="a", logdir=logdir)
        second = Proxy.Proxy(nn.Sequential(nn.ReLU(), shared), recurse=True, name="b", logdir=logdir)
        first(torch.ones(1, 4))
        second(torch.ones(1, 4))
        assert len({event.id for event in seen.events if isinstance(event, Module)}) == 4
        assert len(called(seen)) == 5


class TestRule2EveryModuleAboveOrBelowIsProxied:
    @pytest.mark.parametrize("how", ["attribute", "add_module", "append", "setitem", "register_module", "dict"])
    def test_below_however_it_is_put_in(self, how: str, logdir: str, seen: MemoryObserver) -> None:
        model: Any = Proxy.Proxy(nn.Sequential(nn.Identity()), recurse=True, name="net", logdir=logdir)
        new = nn.ReLU()
        ways: dict[str, Callable[[], Any]] = {
            "attribute": lambda: setattr(model, "new", new),
            "add_module": lambda: model.add_module("new", new),
            "append": lambda: model.append(new),
            "setitem": lambda: model.__setitem__(0, new),
            "register_module": lambda: model.register_module("new", new),
            "dict": lambda: setattr(model, "new", nn.ModuleDict({"in": new})),
        }
        ways[how]()
        if how == "dict":
            model.forward = lambda x: model.new["in"](x)
        model(images())
        assert isinstance(new, Proxy.Proxy)
        assert called(seen)[-1] == {"setitem": "net.0", "append": "net.1", "dict": "net.new.in"}.get(how, "net.new")

    @pytest.mark.parametrize("tried_before", [False, True])
    def test_what_is_put_into_a_model_that_is_never_called_itself(
        self, tried_before: bool, level: str, logdir: str, seen: MemoryObserver
    ) -> None:
        def run(model: nn.Module) -> list[torch.Tensor]:
            torch.manual_seed(0)
            net = Plain()
            if tried_before:  # As a dry run that materialises lazy layers: it is a stranger then.
                net(images())
            model.net = net  # As `LightningModule.configure_model` does; what trains is a method.
            _, state = train(net)
            return list(state)

        plain = run(nn.Module())
        traced = run(Proxy.Proxy(nn.Module(), recurse=True, name="model", logdir=logdir, log_level=level))
        assert all(map(torch.equal, plain, traced))
        updates = [event for event in seen.events if isinstance(event, Update) and event.cause == "step"]
        assert len(updates) == 3 * len(plain)
        sizes = [event.parameters for event in seen.events if isinstance(event, Module) and event.name == "model"]
        assert sizes == [0, sum(tensor.numel() for tensor in plain)]
        assert "model.net.rest.0" in called(seen)

    def test_what_was_called_before_it_was_put_in(self, level: str, logdir: str, seen: MemoryObserver) -> None:
        model = Proxy.Proxy(nn.Sequential(nn.Flatten()), recurse=True, name="model", logdir=logdir, log_level=level)
        head = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 10))
        head(images().flatten(1))  # As one does to see which shape comes out.
        model.append(head)
        model(images())
        assert called(seen) == ["model", "model.0", "model.1", "model.1.0", "model.1.1"]

    def test_what_is_put_in_is_not_where_nothing_below_is(self, logdir: str, seen: MemoryObserver) -> None:
        model = Proxy.Proxy(nn.Module(), name="model", logdir=logdir)
        model.net = Plain()
        train(model.net)
        assert called(seen) == []

    def test_what_takes_the_place_of_a_module_is_that_module(
        self, level: str, logdir: str, seen: MemoryObserver
    ) -> None:
        model: Any = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level=level)
        train(model)
        new = nn.Linear(64, 8)
        new.weight = model.first.weight  # As quantisation does: another layer around the same parameter.
        model.first = new
        train(model)
        modules = [event for event in seen.events if isinstance(event, Module) and event.name == "net.first"]
        assert len(modules) == 2
        assert len({event.id for event in modules}) == 1
        for key, steps in (("weight", 6), ("bias", 6)):
            (number,) = {
                event.id for event in seen.events if isinstance(event, Parameter) and event.name == f"net.first.{key}"
            }
            updates = [event for event in seen.events if isinstance(event, Update) and event.tensor == number]
            assert [event.cause for event in updates].count("step") == steps
        assert called(seen).count("net.first") == 6

    def test_one_that_is_still_used_elsewhere_keeps_its_number(self, logdir: str, seen: MemoryObserver) -> None:
        model: Any = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        old, model.first = model.first, nn.Linear(64, 8)
        model(images())
        old(images().flatten(1))
        modules = [event for event in seen.events if isinstance(event, Module) and event.name == "net.first"]
        assert len({event.id for event in modules}) == 2

    def test_those_in_a_plain_list_are_told_apart(self, logdir: str, seen: MemoryObserver) -> None:
        class Stack(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]

            def forward(self, x: torch.Tensor) -> Any:
                for layer in self.layers:
                    x = layer(x)
                return nn.ReLU()(nn.ReLU()(x))  # The first is gone when the second is made.

        model = Proxy.Proxy(Stack(), recurse=True, name="net", logdir=logdir)
        for _ in range(2):
            model(torch.ones(1, 2))
        assert called(seen) == ["net", "net.Linear", "net.Linear_1", "net.ReLU", "net.ReLU"] * 2
        states = [event.name for event in seen.events if isinstance(event, Parameter)]
        assert states == ["net.Linear.weight", "net.Linear.bias", "net.Linear_1.weight", "net.Linear_1.bias"]

    def test_modules_that_are_made_in_each_call_and_kept_share_names_in_the_end(
        self, logdir: str, seen: MemoryObserver
    ) -> None:
        class Hoards(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.kept: list[nn.Module] = []

            def forward(self, x: torch.Tensor) -> Any:
                self.kept.append(nn.Tanh())
                return self.kept[-1](x)

        model = Proxy.Proxy(Hoards(), recurse=True, name="net", logdir=logdir)
        for _ in range(250):
            model(torch.ones(1))
        assert len({event.id for event in seen.events if isinstance(event, Module)}) == 1 + 100

    def test_wrappers_made_for_each_call_are_one(self, logdir: str, seen: MemoryObserver) -> None:
        class Times(nn.Module):
            def __init__(self, inner: nn.Module) -> None:
                super().__init__()
                self.inner = inner
                self.scale = nn.Parameter(torch.ones(()))

            def forward(self, x: torch.Tensor) -> Any:
                return self.inner(x) * self.scale

        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        for _ in range(3):  # As solvers of differential equations do.
            Times(model)(images())
            Times(Times(model))(images())
        modules = {(event.name, event.id) for event in seen.events if isinstance(event, Module)}
        assert len({number for _, number in modules}) == 5 + 2
        scales = {event.id for event in seen.events if isinstance(event, Parameter) and event.name.endswith("scale")}
        assert len(scales) == 2
        assert called(seen).count("net.first") == 6

    def test_above_whatever_calls_it(self, logdir: str, seen: MemoryObserver) -> None:
        class Wraps(nn.Module):
            def __init__(self, inner: nn.Module) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, x: torch.Tensor) -> Any:
                return self.inner(x) * 2

        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        outer = Wraps(Wraps(model))
        outer(images())
        assert isinstance(outer, Proxy.Proxy)
        assert isinstance(outer.inner, Proxy.Proxy)
        assert called(seen)[:4] == ["Wraps", "Wraps.inner", "net", "net.first"]

    def test_what_a_library_makes_around_models_leaves_their_names_alone(
        self, logdir: str, seen: MemoryObserver
    ) -> None:
        class Sums(nn.Module):
            def __init__(self, *nets: nn.Module) -> None:
                super().__init__()
                self.nets = nn.ModuleList(nets)
                self.scale = nn.Linear(1, 1)

            def forward(self, x: torch.Tensor) -> Any:
                return sum(net(x).sum() for net in self.nets)

        first, second = (
            Proxy.Proxy(Plain(), recurse=True, name=name, logdir=logdir, log_level=level)
            for name, level in (("first", "INFO"), ("second", "WARNING"))
        )
        for outer in (Sums(first, second.first), Sums(second)):
            outer(images(64).flatten(1) if outer.nets[-1] is second.first else images())
            first.rest.append(nn.Sigmoid())
            first(images())
            Proxy.flush()
        names = {event.name for event in seen.events if isinstance(event, Module)}
        own = {f"first.{name}" if name else "first" for name, _ in first.named_modules()}
        own |= {f"second.{name}" if name else "second" for name, _ in second.named_modules()}
        around = {f"Sums{number}{part}" for number in ("", "_1") for part in ("", ".nets", ".scale")}
        assert names == own | around
        levels = {event.name: event.level for event in seen.events if isinstance(event, Module)}
        assert (levels["first.rest.3"], levels["second.first"]) == ("INFO", "WARNING")

    def test_a_module_taken_out_and_called_alone_keeps_its_name(self, logdir: str, seen: MemoryObserver) -> None:
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        part = model.first
        del model.first
        part(images().flatten(1))
        assert called(seen) == ["net.first"]

    @pytest.mark.filterwarnings("ignore")
    def test_the_compiled_wrapper_too(self, logdir: str, seen: MemoryObserver) -> None:
        torch._dynamo.reset()
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        compiled: Any = torch.compile(model, backend="eager")
        compiled(images())
        assert isinstance(compiled, Proxy.Proxy)

    def test_several_wrappers_of_one_model_leave_its_name_alone(self, logdir: str, seen: MemoryObserver) -> None:
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        first, second = nn.DataParallel(model), nn.DataParallel(model)
        first(images())
        second(images())
        nn.DataParallel(first)(images())
        assert {name.partition(".")[0] for name in called(seen)} == {"DataParallel(net)", "net"}

    def test_a_module_made_of_a_model_takes_its_name_over(self, logdir: str, seen: MemoryObserver) -> None:
        for _ in range(2):
            model: nn.Module = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
            model = Proxy.Proxy(nn.Sequential(model), recurse=True, name="net", logdir=logdir)
            model(images())
        assert [name for name in called(seen) if name.count(".") < 2] == ["net", "net.0", "net_1", "net_1.0"]


class TestRule3WhatACallReturnsIsProxied:
    @pytest.mark.parametrize("kind", ["tensor", "tuple", "list", "dict", "named tuple", "dataclass"])
    def test_every_tensor_in_it(self, kind: str, level: str, logdir: str, seen: MemoryObserver) -> None:
        out = Proxy.Proxy(Gives(kind), logdir=logdir, log_level=level)(torch.ones(2))
        found = tensors_in(out)
        assert len(found) == 2 - (kind == "tensor")
        assert all(isinstance(tensor, Proxy.Proxy) for tensor in found)
        (end,) = (event for event in seen.events if isinstance(event, ReturnModule))
        assert end.outputs == ("float32[2]",) * len(found)

    @pytest.mark.parametrize(
        "unwrap",
        [
            lambda t: t.item(), float, int, bool, lambda t: t.tolist(), lambda t: t.detach().numpy(), str, repr,
            lambda t: t.shape, lambda t: t.dtype, lambda t: t.data_ptr(), format, hash,
        ],
    )  # fmt: skip
    def test_what_unwraps_by_contract_is_not(self, unwrap: Any, level: str, logdir: str) -> None:
        out = Proxy.Proxy(Gives("tensor"), logdir=logdir, log_level=level)(torch.ones(()))
        assert not isinstance(unwrap(out), Proxy.Proxy)


class TestRule4WhatIsPassedInIsProxied:
    def test_tensors_in_containers(self, level: str, logdir: str) -> None:
        class Takes(nn.Module):
            def forward(self, pair: Any, *, extra: dict[str, torch.Tensor]) -> Any:
                return pair[0] + pair[1][0] + extra["x"]

        a, b, c = torch.ones(2), torch.ones(2), torch.ones(2)
        Proxy.Proxy(Takes(), logdir=logdir, log_level=level)((a, [b]), extra={"x": c})
        assert Proxy.is_proxied(a)
        assert Proxy.is_proxied(b)

    def test_tensors_by_keyword(self, logdir: str) -> None:
        x = torch.ones(1, 3)
        Proxy.Proxy(nn.Linear(3, 2), logdir=logdir)(input=x)
        assert Proxy.is_proxied(x)

    def test_modules_are_not(self, logdir: str) -> None:
        class Applies(nn.Module):
            def forward(self, how: nn.Module | None, x: torch.Tensor) -> torch.Tensor:
                return x

        passed = nn.ReLU()
        Proxy.Proxy(Applies(), recurse=True, logdir=logdir)(passed, torch.ones(1))
        assert not isinstance(passed, Proxy.Proxy)

    def test_batches_of_a_loader(self, logdir: str) -> None:
        model = Proxy.Proxy(Plain(), recurse=True, logdir=logdir)
        for batch in DataLoader(images(8), batch_size=4):  # type: ignore[arg-type]
            model(batch)
            assert Proxy.is_proxied(batch)


class TestRule5TheBlacklistIsNeverLookedInto:
    """What it is for, and how it is extended, is in intercept/calls/test_blacklist.py."""

    @pytest.mark.parametrize("training", [True, False])
    def test_torch_calls_inside_are_not_recorded(self, training: bool, logdir: str, seen: MemoryObserver) -> None:
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train(training)
        model = Proxy.Proxy(nn.Sequential(layer), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
        model(torch.ones(1, 2, 8))
        assert not any(isinstance(event, CallFunction) and event.module for event in seen.events)
        assert called(seen)[:2] == ["net", "net.0"]


class TestSettingsGoDownTheTree:
    def test_they_are_inherited_by_what_is_put_in_later(self, logdir: str, seen: MemoryObserver) -> None:
        model: Any = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
        model.rest.append(nn.Sigmoid())
        model(images())
        levels = {event.name: event.level for event in seen.events if isinstance(event, Module)}
        assert levels["net.rest.2"] == "DEBUG"
        assert any(type(event) is CallFunction and event.target == "torch.sigmoid" for event in seen.events)

    def test_the_nearest_setting_above_holds(self, logdir: str, seen: MemoryObserver) -> None:
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir, log_level="WARNING")
        Proxy.Proxy(model.rest, recurse=True, log_level="DEBUG")
        Proxy.Proxy(model.rest[1], log_level="WARNING")
        Proxy.Proxy(model, recurse=True, log_level="INFO")
        model(images())
        assert called(seen) == ["net", "net.first", "net.rest", "net.rest.0"]

    def test_without_recursion_only_the_module_itself_changes(self, logdir: str, seen: MemoryObserver) -> None:
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        Proxy.Proxy(model, log_level="WARNING")
        model(images())
        assert called(seen) == ["net.first", "net.rest", "net.rest.0", "net.rest.1"]

    def test_a_subtree_is_watched_more_closely_for_some_steps(self, logdir: str, seen: MemoryObserver) -> None:
        """Settings changed while training, and back, with the same results as without."""
        torch.manual_seed(0)
        plain = train(Plain(), steps=6)
        torch.manual_seed(0)
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses, inside = [], []
        for step in range(6):
            Proxy.Proxy(model.rest, recurse=True, log_level="DEBUG" if step in (2, 3) else "INFO")
            before = len(seen.events)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images()), labels())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            inside.append(sum(type(e) is CallFunction and e.module > 2 for e in seen.events[before:]))
        assert [bool(count) for count in inside] == [False, False, True, True, False, False]
        assert torch._C._len_torch_function_stack() == 0
        assert all(torch.equal(a, b) for a, b in zip(plain[0], losses, strict=True))
        assert all(torch.equal(a, b) for a, b in zip(plain[1], model.parameters(), strict=True))

    def test_a_subtree_is_sent_elsewhere(self, tmp_path: Path, seen: MemoryObserver) -> None:
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=tmp_path / "all")
        Proxy.Proxy(model.rest, recurse=True, logdir=tmp_path / "rest")
        train(model, steps=1)
        Proxy.flush()
        texts = {name: next((tmp_path / name).glob("*/*.jsonl")).read_text() for name in ("all", "rest")}
        assert texts["rest"].count('"kind":"update"') == 2
        assert texts["all"].count('"kind":"update"') == 2

    def test_a_model_may_be_proxied_again_after_it_was_unproxied(self, logdir: str) -> None:
        model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
        Proxy.unproxy(model)
        assert not isinstance(model.rest, Proxy.Proxy)
        Proxy.Proxy(model, recurse=True, name="net", logdir=logdir)
        train(model, steps=1)
        Proxy.flush()
        assert [path.read_text().count('"kind":"update"') for path in Path(logdir).glob("*/*.jsonl")].count(4) == 1
