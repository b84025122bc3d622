"""What bending does not take, and models that are not easily bent."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
from torch import nn

import proxy_views
from proxy_views import (
    BendingConfig,
    BendingError,
    BendingParameter,
    Bias,
    Capture,
    Lambda,
    Mask,
    Normal,
    Permute,
    Scale,
    Versions,
    bend,
    bending,
)

if TYPE_CHECKING:
    from pathlib import Path


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(10, 4), nn.Linear(4, 3)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("shift", torch.arange(3))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.head(self.embed(torch.remainder(x + 1, 10)))
        y.add_(self.shift)
        return y


TOKENS = torch.tensor([[1, 2, 3]])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Mask(1.5),
        lambda: Mask(-0.1),
        lambda: Mask("half"),  # type: ignore[arg-type]
        lambda: Mask(float("nan")),
        lambda: Mask(seed=-1),
        lambda: Mask(dim="x"),  # type: ignore[arg-type]
        lambda: Normal(-1.0),
        lambda: Normal(op="sub"),
        lambda: Permute(None),  # type: ignore[arg-type]
        lambda: Lambda(3),  # type: ignore[arg-type]
        lambda: Scale(torch.ones(2)),  # type: ignore[arg-type]
        lambda: Scale(2.0) >> 3,  # type: ignore[operator]
        lambda: BendingParameter("c", 2.0, range=(0, 1)),
        lambda: BendingParameter("c", 0.0, range=(1, 0)),
        lambda: BendingParameter("not a name", 0.0),
        lambda: BendingConfig(("a",)),
        lambda: BendingConfig(("a", Scale(BendingParameter("c", 1))), ("b", Scale(BendingParameter("c", 2)))),
    ],
)
def test_settings_that_make_no_sense(make: Any) -> None:
    with pytest.raises(BendingError):
        make()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param((nn.ReLU, "x", Scale()), "`nn.Module`", id="a class in place of a model"),
        pytest.param((Tokens(), "head", lambda x: x), "a callback", id="a plain function"),
        pytest.param((Tokens(), "he(ad", Scale()), "not a regular expression", id="no regular expression"),
        pytest.param((Tokens(), [], Scale()), "targets", id="no targets"),
        pytest.param((Tokens(), 3, Scale()), "targets", id="a number"),
        pytest.param((Tokens(), "shift", Scale()), "matches no module", id="a buffer"),
    ],
)
def test_arguments_of_the_wrong_kind(arguments: Any, words: str) -> None:
    with pytest.raises(BendingError, match=words):
        bend(*arguments)


@pytest.mark.parametrize(
    ("target", "callback", "words"),
    [
        pytest.param("head", Lambda(cast("Any", lambda value: None)), "returned a NoneType", id="no tensor"),
        pytest.param("head", Lambda(lambda value: value[..., :1]), "keep the shape", id="another shape"),
        pytest.param("head", Lambda(lambda value: value.double()), "keep the dtype", id="another dtype"),
        pytest.param("head", Lambda(lambda value: value.reshape(7)), "raised RuntimeError", id="an error"),
        pytest.param(
            "head.weight", Lambda(lambda value: value[:1], keeps_shape=False), "keep the shape", id="a weight"
        ),
        pytest.param("remainder", Scale(0.5), "keep the dtype", id="whole numbers"),
        pytest.param("add_", Lambda(lambda value: value[:, :1], keeps_shape=False), "in place", id="in place"),
        pytest.param("head", Mask(dim=7), "a dimension of", id="no such dimension"),
    ],
)
def test_a_callback_that_gives_what_cannot_stand_there(target: str, callback: Any, words: str) -> None:
    model = Tokens()
    wanted = model(TOKENS)
    with bend(model, target, callback), pytest.raises(BendingError, match=words):
        model(TOKENS)
    assert torch.equal(model(TOKENS), wanted)


def test_whole_numbers_and_in_place_results_are_bent() -> None:
    model = Tokens()
    wanted = model(TOKENS)
    with bend(model, "remainder", Scale(0)):
        assert torch.equal(model(TOKENS), model.head(model.embed(torch.zeros_like(TOKENS))) + model.shift)
    with bend(model, "add_", Lambda(lambda value: value.square())) as handle:
        bent = model(TOKENS)
        bent.sum().backward()
    assert handle.count == 1
    assert torch.equal(bent, wanted.square())
    assert model.head.bias.grad is not None
    assert torch.equal(model.head.bias.grad, (2 * wanted).sum((0, 1)))


def test_what_is_never_called_or_frozen() -> None:
    model = Tokens()
    wanted = model(TOKENS)
    model.head.weight.requires_grad_(False)
    with bend(model, "unused", Scale(2.0)) as unused, bend(model, "head.weight", Scale(1.0)):
        bent = model(TOKENS)
        bent.sum().backward()
    assert unused.count == 0
    assert model.head.weight.grad is None
    assert model.embed.weight.grad is not None
    assert torch.equal(bent, wanted)


def test_a_callback_cannot_write_into_a_weight() -> None:
    model = Tokens()
    weight = model.head.weight.detach().clone()
    with bend(model, "head.weight", Lambda(lambda value: value.mul_(2.0))), torch.no_grad():
        model(TOKENS)
    assert torch.equal(model.head.weight, weight)


def test_blocks_that_end_in_another_order_and_twice() -> None:
    model = Tokens()
    wanted = model(TOKENS)
    handles = [bend(model, "", Scale(2.0)), bend(model, "", Bias(1.0)), bend(model, "", Scale(3.0))]
    handles[1].remove()
    handles[1].remove()
    assert torch.equal(model(TOKENS), wanted * 2.0 * 3.0)
    handles[0].remove()
    assert torch.equal(model(TOKENS), wanted * 3.0)
    other = threading.Thread(target=handles[2].remove)
    other.start()
    other.join()
    assert handles[2].is_removed
    assert torch.equal(model(TOKENS), wanted)


def test_a_model_that_raises_leaves_bends_as_they_were() -> None:
    model = Tokens()
    wanted = model(TOKENS)
    with bend(model, "embedding", Scale(2.0)), bend(model, "head.bias", Scale(0.0)):
        bent = model(TOKENS)
        with pytest.raises(RuntimeError):
            model(TOKENS.double())
        assert torch.equal(model(TOKENS), bent)
    assert torch.equal(model(TOKENS), wanted)


def test_a_bent_model_that_is_copied_saved_and_trained(tmp_path: Path) -> None:
    model = Tokens()
    wanted, before = model(TOKENS), copy.deepcopy(model.state_dict())
    with bend(model, "head", Scale(2.0)), bend(model, "head.weight", Scale(2.0)):
        again = copy.deepcopy(model)
        torch.save(model.state_dict(), tmp_path / "weights.pt")
        assert torch.equal(again(TOKENS), wanted)
        assert torch.equal(pickle.loads(pickle.dumps(model)).head.weight, model.head.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
        model(TOKENS).sum().backward()
        assert model.head.weight.grad is not None
        gradient = model.head.weight.grad.clone()
        optimizer.step()
    saved = torch.load(tmp_path / "weights.pt")
    assert all(torch.equal(each, before[name]) for name, each in saved.items())
    weight = before["head.weight"]
    assert torch.equal(model.head.weight, weight.add(gradient.add(weight, alpha=0.1), alpha=-0.1))


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_is_bent_and_compiled_again_afterwards() -> None:
    model, compiled_calls = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        def call(*args: Any) -> Any:
            compiled_calls.append(1)
            return graph.forward(*args)

        return call

    compiled, x = torch.compile(model, backend=backend), torch.randn(2, 3)
    wanted = compiled(x)
    with bend(model, "0", Scale(-1.0)):
        assert torch.equal(compiled(x), torch.relu(-model[0].forward(x)))
        assert len(compiled_calls) == 1
    assert torch.equal(compiled(x), wanted)
    assert len(compiled_calls) == 2


def test_configurations_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "bends.json"
    with pytest.raises(BendingError, match="cannot be saved"):
        BendingConfig(("head", Lambda(torch.tanh))).save(path)
    for text in ("", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "parameters": [], "bends": [{}]}'):
        path.write_text(text, "utf-8")
        with pytest.raises(BendingError, match=r"bends\.json"):
            BendingConfig.load(path)
    BendingConfig(("head", Capture() >> Scale(2.0)), ("conv", Scale(2.0))).save(path)
    model = Tokens()
    wanted = model(TOKENS)
    with pytest.raises(BendingError, match="'conv'"):
        BendingConfig.load(path).bind(model)
    assert torch.equal(model(TOKENS), wanted)


def test_versions_of_a_model_that_has_changed() -> None:
    model = Tokens()
    versions = Versions(model)
    for name in ("original", "not a name"):
        with pytest.raises(BendingError):
            versions.write(name)
    versions.write("v")
    with pytest.raises(BendingError, match="force=True"):
        versions.write("v")
    with pytest.raises(BendingError):
        versions.interpolate(1.0, v=-1.0)
    model.head = nn.Linear(4, 5)
    with pytest.raises(BendingError, match="head"):
        versions.set_version("v")


def test_all_of_it_can_be_imported_from_the_package() -> None:
    assert set(proxy_views.__all__) <= set(bending.__all__)
    assert all(getattr(proxy_views, name) is getattr(bending, name) for name in proxy_views.__all__)
