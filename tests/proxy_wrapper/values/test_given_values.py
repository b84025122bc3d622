"""Statistics of what modules, torch calls and attributes give: those that a plain run has at the same point."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.intercept.calls.torch_calls import identify
from proxy_wrapper.values.fingerprint import as_text, fingerprint
from proxy_wrapper.values.given_values import leaves_uninitialized
from tests.proxy_wrapper.programs import images, labels

if TYPE_CHECKING:
    from collections.abc import Callable

    Numbers = tuple[float, float, str]


class Net(nn.Module):
    """Takes (n, 1, 8, 8), gives (n, 10), through layers of several kinds, a view and a change in place."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.head = nn.Linear(144, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x).flatten(1).clone()
        x[:, 0] = 1.5
        out: torch.Tensor = self.head(x).mul_(2.0)
        return out


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(images()), labels()).backward()
        optimizer.step()


def numbers_of(tensor: torch.Tensor) -> Numbers:
    with torch._C.DisableTorchFunction(), torch.no_grad():
        return tensor.min().item(), tensor.max().item(), as_text(fingerprint(tensor))


def records(logdir: str) -> list[dict[str, Any]]:
    Proxy.flush()
    (path,) = Path(logdir).glob("*/*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def as_call(record: dict[str, Any]) -> dict[str, Any]:
    """A read of an attribute that gave a tensor, as if it had been a call."""
    if record["kind"] != "get_attr" or "statistics" not in record:
        return record
    return {**record, "kind": "call_method", "statistics": [record["statistics"]]}


def told(statistics: dict[str, Any] | None) -> Numbers | None:
    return None if statistics is None else (statistics["minimum"], statistics["maximum"], statistics["bits"])


class PlainObserver(TorchFunctionMode):
    """Notes what calls of torch give and change, and the gradients that are read, by means of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[Numbers], list[Numbers]]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind, name = identify(func)
        kwargs = kwargs or {}
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        given += [each for value in args if isinstance(value, (list, tuple)) for each in value if torch.is_tensor(each)]
        before = [each.detach().clone() for each in given]
        result = func(*args, **kwargs)
        if kind == "get_attr" and isinstance(result, torch.Tensor):
            self.seen.append((name, [numbers_of(result)], []))
        elif kind in ("call_function", "call_method"):
            given_back = result if isinstance(result, (list, tuple)) else [result]
            tensors = [each for each in given_back if isinstance(each, torch.Tensor)]
            changed = [
                each
                for each, old in zip(given, before, strict=True)
                if not torch.equal(each, old) and not any(each is other for other in tensors)
            ]
            self.seen.append((name, list(map(numbers_of, tensors)), list(map(numbers_of, changed))))
        return result


@pytest.mark.parametrize("foreach", [False, True], ids=["one by one", "foreach"])
def test_numbers_of_calls_are_those_of_a_plain_run(foreach: bool, logdir: str) -> None:
    plain_model, model = Net(), Net()
    model.load_state_dict(plain_model.state_dict())
    optimizer = torch.optim.Adam(plain_model.parameters(), foreach=foreach)
    with PlainObserver() as plain:
        train(plain_model, optimizer)
    Proxy.Proxy(model, recurse=True, name="net", logdir=logdir, log_level="DEBUG", statistics="all")
    train(model, torch.optim.Adam(model.parameters(), foreach=foreach))
    found = [
        (record["target"], *[list(map(told, record.get(field, []))) for field in ("statistics", "changed_statistics")])
        for record in map(as_call, records(logdir))
        if record["kind"] in ("call_function", "call_method")
    ]
    final = plain_model.state_dict()
    assert all(torch.equal(tensor, final[name]) for name, tensor in model.state_dict().items())
    made = [each for each in found if each[0] in {name for name, _, _ in plain.seen}]
    assert [each for each in made if each[1] or each[2]] == [each for each in plain.seen if each[1] or each[2]]
    assert any(changed for _, _, changed in found)


@pytest.mark.parametrize("of", ["outputs", "all"])
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_numbers_of_modules_are_those_of_a_plain_run(of: str, level: str, logdir: str) -> None:
    seen: list[Numbers] = []
    plain_model, model = Net(), Net()
    model.load_state_dict(plain_model.state_dict())
    for module in plain_model.modules():
        module.register_forward_hook(lambda _module, _args, output: seen.append(numbers_of(output)))
    train(plain_model, torch.optim.SGD(plain_model.parameters(), lr=0.1))
    Proxy.Proxy(model, recurse=True, name="net", logdir=logdir, log_level=level, statistics=of)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    found = [told(record["statistics"][0]) for record in records(logdir) if record["kind"] == "return_module"]
    assert found == seen


def test_without_being_asked_for_there_are_none(logdir: str) -> None:
    model = Proxy.Proxy(Net(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
    train(model, torch.optim.Adam(model.parameters()))
    kinds = {record["kind"] for record in records(logdir) if "statistics" in record or "changed" in record}
    assert kinds == {"parameter", "buffer", "input", "gradient", "update"}


def test_one_part_of_a_model_alone_has_them(logdir: str) -> None:
    model = Proxy.Proxy(Net(), recurse=True, name="net", logdir=logdir, log_level="DEBUG")
    Proxy.Proxy(model.head, statistics="all")
    train(model, torch.optim.Adam(model.parameters()))
    of_modules = {record["id"]: record["name"] for record in records(logdir) if record["kind"] == "module"}
    kinds = ("return_module", "call_function", "call_method", "get_attr")
    found = {
        of_modules[record["module"]]
        for record in records(logdir)
        if record["kind"] in kinds and record.get("statistics") is not None
    }
    assert found == {"net.head"}
    updated = {record["tensor"] for record in records(logdir) if record["kind"] == "update"}
    states = {record["id"]: record["name"] for record in records(logdir) if record["kind"] == "optimizer_state"}
    assert "net.body.0.weight.exp_avg" in states.values()
    assert {states[each].rpartition(".")[0] for each in updated if each in states} == {
        "net.head.weight",
        "net.head.bias",
    }


def test_what_batch_norm_writes_behind_the_version_count_is_a_change(logdir: str) -> None:
    model = Proxy.Proxy(nn.BatchNorm1d(3), name="net", logdir=logdir, log_level="DEBUG", statistics="all")
    x = torch.arange(12.0).view(4, 3)
    model(x)
    call = next(each for each in records(logdir) if each.get("target", "").endswith("batch_norm"))
    assert [call["inputs"][position] for position in call["changed"]] == ["net.running_mean", "net.running_var"]
    assert [told(each) for each in call["changed_statistics"]] == [
        numbers_of(model.running_mean),  # type: ignore[arg-type]
        numbers_of(model.running_var),  # type: ignore[arg-type]
    ]
    model.eval()
    model(x)
    call = [each for each in records(logdir) if each.get("target", "").endswith("batch_norm")][-1]
    assert "changed" not in call


def test_memory_that_nobody_has_written_to_has_no_statistics(logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(2, 2), name="net", logdir=logdir, log_level="DEBUG", statistics="all")
    x = torch.empty(3, 2)
    x.new_empty(4)
    torch.empty_like(x)
    model(x.fill_(1.0))
    calls = {each["target"]: each for each in records(logdir) if each["kind"] in ("call_function", "call_method")}
    assert [name for name in calls if leaves_uninitialized(name)] == ["torch.empty", "new_empty", "torch.empty_like"]
    assert not any("statistics" in calls[name] for name in calls if leaves_uninitialized(name))
    assert told(calls["fill_"]["statistics"][0]) == numbers_of(x)


class Subclass(torch.Tensor):
    """A tensor of another type."""


def kinds_of_tensors() -> dict[str, Callable[[], torch.Tensor]]:
    return {
        "meta": lambda: torch.zeros(2, device="meta"),
        "sparse": lambda: torch.eye(3).to_sparse(),
        "compressed": lambda: torch.eye(3).to_sparse_csr(),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "complex": lambda: torch.tensor([1 + 2j, 3j]),
        "half complex": lambda: torch.tensor([1 + 2j, 3j], dtype=torch.complex32),
        "conjugate": lambda: torch.tensor([1 + 2j, 3j]).conj(),
        "negative": lambda: torch.tensor([1 + 2j, 3j]).conj().imag,
        "no elements": lambda: torch.zeros(0, 3),
        "truth values": lambda: torch.tensor([True, False]),
        "float8": lambda: torch.ones(3).to(torch.float8_e4m3fn),
        "half": lambda: torch.ones(3, dtype=torch.float16),
        "unsigned": lambda: torch.ones(3, dtype=torch.uint16),
        "scalar": lambda: torch.tensor(2.5),
        "stride 0": lambda: torch.ones(1).expand(4, 5),
        "backwards": lambda: torch.arange(6.0).view(2, 3).t(),
        "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "subclass": lambda: torch.ones(3).as_subclass(Subclass),
        "not finite": lambda: torch.tensor([1.0, float("nan"), float("inf")]),
        "large": lambda: torch.arange(70_000.0),
    }


# What torch stores and does not compute with, as packed weights have it.
STORED_ONLY = {
    dtype
    for name in ("bits8", "bits2x4", "int4", "uint4", "uint1", "float4_e2m1fn_x2")
    if (dtype := getattr(torch, name, None)) is not None
}


@pytest.mark.parametrize("statistics", ["state", "all"])
def test_buffers_that_torch_only_stores_have_no_statistics_and_stop_nothing(logdir: str, statistics: str) -> None:
    class Gives(nn.Module):
        def __init__(self, dtype: torch.dtype) -> None:
            super().__init__()
            self.register_buffer("packed", torch.arange(8, dtype=torch.uint8).view(dtype))
            self.layer = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> Any:
            return self.layer(x), self.packed

    def trained(layers: nn.ModuleList) -> list[torch.Tensor]:
        optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
        for layer in layers:
            layer(torch.ones(1, 2))[0].sum().backward()
        optimizer.step()
        return list(layers.parameters()) + [packed.view(torch.uint8) for packed in layers.buffers()]

    layers = nn.ModuleList(map(Gives, STORED_ONLY))
    expected = trained(copy.deepcopy(layers))
    Proxy.Proxy(layers, recurse=True, name="net", logdir=logdir, log_level="DEBUG", statistics=statistics)
    assert all(map(torch.equal, trained(layers), expected))
    assert Proxy._installed.get().active
    buffers = [each for each in records(logdir) if each["kind"] == "buffer"]
    assert len(buffers) == len(STORED_ONLY)
    assert not any(each.get("statistics") for each in buffers)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", kinds_of_tensors())
def test_a_tensor_of_any_kind_has_statistics_or_none_and_stays_what_it_is(
    kind: str, logdir: str, capfd: pytest.CaptureFixture[str]
) -> None:
    class Gives(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return [x, x.detach(), {"again": x}]

    model = Proxy.Proxy(Gives(), name="net", logdir=logdir, log_level="DEBUG", statistics="all")
    made = kinds_of_tensors()[kind]()
    given, detached, again = model(made)
    assert given is made is again["again"]
    assert (detached.dtype, detached.layout, type(detached)) == (made.dtype, made.layout, type(made))
    returned = next(each for each in records(logdir) if each["kind"] == "return_module")
    statistics = returned["statistics"]
    assert len(statistics) == len(returned["outputs"]) == 3
    assert statistics[0] == statistics[1] == statistics[2]
    assert (statistics[0] is None) is (kind in {"meta", "compressed", "nested", "quantized", "subclass"})
    assert Proxy._installed.get().active
    assert capfd.readouterr().err == ""


def test_thousands_of_tensors_and_outputs_that_are_freed_at_once(logdir: str) -> None:
    class Gives(nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [x + number for number in range(2000)]

    model = Proxy.Proxy(Gives(), name="net", logdir=logdir, log_level="DEBUG", statistics="all")
    model(torch.zeros(2))
    torch.stack(model(torch.zeros(2)))
    returned = next(each for each in records(logdir) if each["kind"] == "return_module")
    assert [each["maximum"] for each in returned["statistics"]] == list(map(float, range(2000)))


def test_values_are_those_of_the_moment_though_they_change_right_after(logdir: str) -> None:
    class Fills(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.detach()

    model = Proxy.Proxy(Fills(), name="net", logdir=logdir, log_level="INFO", statistics="outputs")
    x = torch.zeros(3)
    for number in range(600):
        x.data.fill_(number)
        model(x)
    found = [each["statistics"][0]["minimum"] for each in records(logdir) if each["kind"] == "return_module"]
    assert found == list(map(float, range(600)))


def test_the_first_output_that_is_not_finite_is_reported_as_without(logdir: str) -> None:
    model = Proxy.Proxy(nn.Identity(), name="net", logdir=logdir, statistics="outputs")
    for size in (3, 70_000):
        model(torch.full((size,), float("inf")))
    model(torch.ones(3))
    assert not any(
        each["kind"] == "non_finite" for each in records(logdir)
    )  # What only passes through is nobody's output.
    layer = Proxy.Proxy(nn.Linear(2, 2), name="layer", logdir=logdir, statistics="outputs")
    for _ in range(2):
        layer(torch.full((1, 2), float("nan")))
    found = [each["count"] for each in records(logdir) if each["kind"] == "non_finite"]
    assert found == [2]


def test_inside_transforms_there_are_none_and_nothing_is_disturbed(logdir: str) -> None:
    model = nn.Linear(3, 3)
    x = torch.arange(6.0).view(2, 3)
    expected = torch.func.vmap(torch.func.grad(lambda row: model(row).sum()))(x)
    Proxy.Proxy(model, name="net", logdir=logdir, log_level="DEBUG", statistics="all")
    assert torch.equal(torch.func.vmap(torch.func.grad(lambda row: model(row).sum()))(x), expected)
    returned = next(each for each in records(logdir) if each["kind"] == "return_module")
    assert returned["statistics"] == [None]


def add_behind_torch(tensor: torch.Tensor) -> None:
    """Add one to each element through memory that is shared, of which torch counts nothing."""
    array = tensor.detach().numpy()
    array += 1.0


class AddsBehindTorch(nn.Module):
    """Changes what its layer has given, and gives that."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(x)
        add_behind_torch(out)
        return out


def hooked() -> nn.Module:
    layer = nn.Linear(3, 3)
    layer.register_forward_hook(lambda _module, _args, output: add_behind_torch(output))
    return nn.Sequential(layer)


def patched() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3))
    inner: Callable[..., Any] = model.forward

    def forward(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = inner(x)
        add_behind_torch(out)
        return out

    model.forward = forward  # type: ignore[method-assign]
    return model


@pytest.mark.parametrize("make", [AddsBehindTorch, hooked, patched])
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_what_changes_behind_torch_between_two_returns_is_told(
    make: Callable[[], nn.Module], level: str, logdir: str
) -> None:
    model = Proxy.Proxy(make(), recurse=True, name="net", logdir=logdir, log_level=level, statistics="all")
    model(torch.ones(2, 3))
    inner, outer = (told(each["statistics"][0]) for each in records(logdir) if each["kind"] == "return_module")
    assert inner is not None
    assert outer is not None
    assert outer[0] == pytest.approx(inner[0] + 1.0)
    assert outer[2] != inner[2]


def test_a_gradient_that_changes_behind_torch_between_two_reads_is_told(logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(3, 3), name="net", logdir=logdir, log_level="DEBUG", statistics="all")
    model(torch.ones(2, 3)).sum().backward()
    assert model.bias.grad is not None
    array = model.bias.grad.numpy()
    for _ in range(3):
        assert model.bias.grad is not None
        array += 1.0
    found = [each["statistics"]["minimum"] for each in records(logdir) if each.get("target") == "grad"]
    assert found[-3:] == [2.0, 3.0, 4.0]


def test_layers_of_torch_s_give_what_a_function_gave(logdir: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Dropout(0.5)), nn.LayerNorm(3))
    Proxy.Proxy(model, recurse=True, name="net", logdir=logdir, log_level="DEBUG", statistics="all")
    out = model(torch.ones(2, 3))
    returned = [told(each["statistics"][0]) for each in records(logdir) if each["kind"] == "return_module"]
    assert returned[-1] == returned[-2] == numbers_of(out)
