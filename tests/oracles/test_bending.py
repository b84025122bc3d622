"""Bends give what interventions of nnsight give, at modules, which both can replace."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from proxy_views import Affine, Bias, Lambda, Scale, bend
from tests.oracles import torchvision_models
from tests.oracles.models import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")  # What it warns of is its own.


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> Any:
        return self.fc(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


@pytest.fixture(scope="module")
def nnsight() -> Any:
    if importlib.util.find_spec("torchvision") is not None:
        torchvision_models.load()  # It imports transformers, which import that where it is installed.
    return pytest.importorskip("nnsight", reason="nnsight is not installed; the extra models has it")


CHANGES: dict[str, tuple[Any, Callable[[torch.Tensor], torch.Tensor]]] = {
    "scale": (Scale(2.0), lambda value: value * 2.0),
    "bias": (Bias(0.5), lambda value: value + 0.5),
    "affine": (Affine(2.0, -1.0), lambda value: value * 2.0 + -1.0),
    "chain": (Bias(0.5) >> Scale(3.0), lambda value: (value + 0.5) * 3.0),
    "own": (Lambda(lambda value: value.clamp(-0.1, 0.1)), lambda value: value.clamp(-0.1, 0.1)),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("module", ["conv", "norm", "fc"])
def test_a_module_s_output_with_gradients(nnsight: Any, module: str, name: str) -> None:
    callback, change = CHANGES[name]
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 3, 8, 8)
    net = nnsight.NNsight(model)
    with net.trace(x):
        net.get(module).output = change(net.get(module).output)
        wanted = net.output.save()
    wanted.square().sum().backward()
    gradients = [each.grad.clone() for each in model.parameters() if each.grad is not None]
    model.zero_grad()
    with bend(model, module, callback):
        found = model(x)
    assert torch.equal(found, wanted)
    found.square().sum().backward()
    assert len(gradients) > 1
    assert all(torch.equal(each.grad, one) for each, one in zip(model.parameters(), gradients, strict=True))  # type: ignore[arg-type]
    assert not torch.equal(found, model(x))


def test_two_modules_of_a_model_of_transformers(nnsight: Any) -> None:
    torch.manual_seed(0)
    model = MODELS["gpt2"].make().eval()
    given = MODELS["gpt2"].inputs(2)
    net = nnsight.NNsight(model)
    with torch.no_grad(), net.trace(**given.kwargs):
        net.transformer.h[0].mlp.output = net.transformer.h[0].mlp.output * 0.5
        net.transformer.ln_f.output = net.transformer.ln_f.output + 1.0
        wanted = net.output.logits.save()
    with (
        torch.no_grad(),
        bend(model, r"transformer\.h\.0\.mlp", Scale(0.5)),
        bend(model, r"transformer\.ln_f", Bias(1.0)),
    ):
        found = model(**given.kwargs).logits
    assert torch.equal(found, wanted)
