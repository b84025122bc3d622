"""What torchbend does with a bent model: each line of its checklist that is about bending, by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import distributions, nn

import proxy_wrapper.proxy as Proxy
from proxy_views import (
    Affine,
    BendingConfig,
    BendingError,
    BendingParameter,
    Bias,
    Capture,
    Lambda,
    Mask,
    Normal,
    OrderedMask,
    Permute,
    Scale,
    ThresholdActivation,
    Versions,
    bend,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy_views import Callback


@pytest.fixture(autouse=True)
def _no_tracer_is_left() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    Proxy._installed.take_down()


class Greg(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_module = nn.Conv1d(1, 4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.conv_module(x)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_modules: Any = nn.ModuleList([nn.Conv1d(1, 4, 3), nn.Conv1d(4, 4, 3)])

    def encode(self, x: torch.Tensor) -> Any:
        return torch.relu(self.conv_modules[0](x))

    def forward(self, x: torch.Tensor) -> Any:
        return self.conv_modules[1](self.encode(x)) + torch.relu(self.conv_modules[0](x)).mean()


def test_b12_bias_at_a_module_for_any_shape() -> None:
    model, x = Greg(), torch.randn(1, 1, 16)
    wanted = model(x)
    with bend(model, "conv_module$", Bias(1.0)):
        assert torch.equal(model(x), wanted + 1.0)
        assert model(torch.randn(4, 1, 32)).shape == (4, 4, 30)


def test_b13_a_mask_keeps_with_its_probability_and_is_drawn_once() -> None:
    model, x = Greg(), torch.randn(1, 1, 4002)
    wanted = model(x)
    with bend(model, "conv_mod.*e", Mask(1.0)):
        assert torch.equal(model(x), wanted)
    with bend(model, "conv_mod.*e", Mask(0.0)):
        assert torch.equal(model(x), torch.zeros_like(wanted))
    with bend(model, "conv_mod.*e", Mask(0.3)):
        bent = model(x)
        assert torch.equal(model(x), bent)
        kept = bent != 0
        assert torch.equal(bent[kept], wanted[kept])
        assert 0.27 < kept.double().mean().item() < 0.33
        with pytest.raises(BendingError, match=r"drawn for the shape \(1, 4, 4000\).*\(4, 4, 30\).*`dim=`"):
            model(torch.randn(4, 1, 32))


def test_b14_a_mask_of_whole_channels_for_any_length() -> None:
    model, x = Greg(), torch.randn(1, 1, 16)
    wanted = model(x)
    with bend(model, "conv_module", Mask(0.5, dim=-2, seed=4)):
        bent = model(x)
        kept = [channel for channel in range(4) if bent[0, channel].any()]
        assert 0 < len(kept) < 4
        assert torch.equal(bent[0, kept], wanted[0, kept])
        longer = model(torch.randn(4, 1, 32))
        assert [channel for channel in range(4) if longer[:, channel].any()] == kept


def test_b15_each_callback() -> None:
    model, x = Greg(), torch.randn(2, 1, 16)
    wanted = model(x)

    def bent(callback: Callback) -> torch.Tensor:
        with bend(model, "conv_module", callback):
            found: torch.Tensor = model(x)
            assert torch.equal(model(x), found)
        return found

    assert torch.equal(bent(Scale(2.0)), wanted * 2.0)
    assert torch.equal(bent(Affine(2.0, 1.0)), wanted * 2.0 + 1.0)
    assert torch.equal(bent(Lambda(torch.tanh)), torch.tanh(wanted))
    noise = bent(Normal(0.5)) - wanted
    assert 0.3 < noise.std().item() < 0.7
    assert torch.equal(bent(Normal(0.0)), wanted)
    permuted = bent(Permute(1, seed=5))
    order = [next(c for c in range(4) if torch.equal(permuted[:, place], wanted[:, c])) for place in range(4)]
    assert sorted(order) == [0, 1, 2, 3]
    assert order != [0, 1, 2, 3]
    fewer, more = (bent(OrderedMask(share, seed=1)) != 0 for share in (0.25, 0.5))
    assert fewer.sum() == wanted.numel() // 4
    assert more.sum() == wanted.numel() // 2
    assert bool((more | ~fewer).all())
    highest = bent(ThresholdActivation(0.5, dim=1))
    for sample in range(2):
        best = wanted[sample].mean(-1).topk(2).indices
        assert torch.equal(highest[sample, best], wanted[sample, best])
    assert int((highest != 0).any(-1).sum()) == 4


def test_b16_weights_by_regular_expression_stay_what_they_are() -> None:
    model, x = Layers(), torch.randn(1, 1, 16)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    with bend(model, r"conv_modules.\d.weight", Mask(0.0)):
        bent = model(x)
        assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    zeros = {name: torch.zeros_like(each) for name, each in before.items() if name.endswith("weight")}
    assert torch.equal(bent, torch.func.functional_call(model, zeros, (x,)))


def test_b17_two_bends_compose_in_order_and_so_does_a_chain() -> None:
    model, x = Greg(), torch.randn(1, 1, 16)
    wanted = model(x)
    with bend(model, "conv_module", Bias(1.0)), bend(model, "conv_module", Scale(2.0)):
        assert torch.equal(model(x), (wanted + 1.0) * 2.0)
    with bend(model, "conv_module", Bias(1.0) >> Scale(2.0)):
        assert torch.equal(model(x), (wanted + 1.0) * 2.0)
    with bend(model, "conv_module.weight", Bias(1.0) >> Scale(2.0)):
        bent = model(x)
    weight = (model.conv_module.weight + 1.0) * 2.0
    assert torch.equal(bent, torch.func.functional_call(model, {"conv_module.weight": weight}, (x,)))


def test_b18_what_is_taken_back_leaves_the_original() -> None:
    model, x = Greg(), torch.randn(1, 1, 16)
    wanted = model(x)
    handle = bend(model, ["conv_module", "conv_module.bias"], Scale(3.0))
    assert not torch.equal(model(x), wanted)
    handle.remove()
    assert torch.equal(model(x), wanted)
    with bend(model, "conv_module", Scale(3.0)):
        assert torch.equal(model(x), wanted * 3.0)
    assert torch.equal(model(x), wanted)


def test_b19_a_bend_in_one_method_only() -> None:
    model, x = Layers(), torch.randn(1, 1, 16)
    encoded, direct = model.encode(x), torch.relu(model.conv_modules[0](x))
    original = model(x)
    with bend(model, r"encode:conv_modules\.0", Scale(-1.0)) as handle:
        other = torch.relu(-model.conv_modules[0](x) * 1.0)
        assert torch.equal(model.encode(x), other)
        assert handle.count == 1
        assert torch.equal(model(x), model.conv_modules[1](other) + direct.mean())
        assert torch.equal(torch.relu(model.conv_modules[0](x)), direct)
        assert handle.count == 2
    with bend(model, "encode:relu", Bias(1.0)):
        assert torch.equal(model(x), model.conv_modules[1](encoded + 1.0) + direct.mean())
    with bend(model, r"encode:conv_modules\.0\.weight", Scale(0.0)) as handle:
        model(x)
        assert handle.count == 1
    assert torch.equal(model.encode(x), encoded)
    assert torch.equal(model(x), original)


def test_b20_what_matches_nothing_is_an_error_with_the_nearest_names() -> None:
    model = Layers()
    with pytest.raises(BendingError, match=r"conv_module.*Did you mean 'conv_modules\.0'"):
        bend(model, r"conv_module\.0", Scale(2.0))
    with pytest.raises(BendingError, match=r"'conv_modules.0.wieght'.*'conv_modules\.0\.weight'"):
        bend(model, "conv_modules.0.wieght", Scale(2.0))
    with pytest.raises(BendingError, match=r"'relu_5'.*nothing that its call computed.*'relu"):  # noqa: SIM117
        with bend(model, "relu_5", Scale(2.0)):
            model(torch.randn(1, 1, 16))
    with pytest.raises(BendingError, match=r"method 'decode'"):
        bend(model, "decode:relu", Scale(2.0))


def test_b21_capture_gathers_over_calls() -> None:
    model, capture = Layers(), Capture()
    inputs = [torch.randn(2, 1, 16), torch.randn(3, 1, 16)]
    wanted = [model(x) for x in inputs]
    with bend(model, r"conv_modules\.1", capture):
        assert all(torch.equal(model(x), each) for x, each in zip(inputs, wanted, strict=True))
        model.encode(inputs[0])  # A method that has none of it.
    model(inputs[0])
    assert torch.equal(capture.joined(), torch.cat([model.conv_modules[1](model.encode(x)) for x in inputs]))
    assert [len(each) for each in capture.captured.values()] == [2]


def test_b22_a_parameter_with_a_range_arithmetic_and_several_users() -> None:
    model, x = Layers(), torch.randn(1, 1, 16)
    m = BendingParameter("m", 1.0, range=(-1, 1))
    wanted = model(x)
    with bend(model, r"conv_modules\.1", Scale(2.0 * m - 1.0)), bend(model, "conv_modules.1.weight", Scale(m)):
        assert torch.equal(model(x), wanted)
        m.update(0.0)
        bias = model.conv_modules[1].bias.reshape(1, -1, 1)
        assert torch.equal(model(x), (torch.zeros(1, 4, 12) + bias) * -1.0 + model.encode(x).mean())
        with pytest.raises(BendingError, match=r"m=1.5.*from -1 to 1"):
            m.update(1.5)
        assert m.value == 0.0


def test_b23_a_configuration_adds_compares_binds_saves_and_loads(tmp_path: Path) -> None:
    c = BendingParameter("c", 0.5, range=(0, 1))
    first = BendingConfig((r"conv_modules\.0", Mask(0.5, seed=1) >> Scale(2.0 * c)))
    both = first + BendingConfig((["conv_modules.0.weight", "conv_modules.1.bias"], Bias(c), "parameter"))
    assert len(both) == 2
    assert both != first
    assert first + BendingConfig() == first
    both.save(tmp_path / "bends.json")
    again = BendingConfig.load(tmp_path / "bends.json")
    assert again == both
    model, x = Layers(), torch.randn(1, 1, 16)
    wanted = model(x)
    with both.bind(model):
        bent = model(x)
    assert not torch.equal(bent, wanted)
    with again.bind(model):
        assert torch.equal(model(x), bent)
        again.update("c", 0.25)
        assert not torch.equal(model(x), bent)
    assert torch.equal(model(x), wanted)
    with pytest.raises(BendingError):
        both.bind(Greg())
    assert again != both


def test_b24_versions_are_written_set_and_mixed() -> None:
    model, x = Layers(), torch.randn(1, 1, 16)
    m = BendingParameter("m", 0.0)
    wanted, weight = model(x), model.conv_modules[1].weight.detach().clone()
    versions = Versions(model, [m])
    with bend(model, "conv_modules.1.weight", Scale(3.0)):
        bent = model(x)
        m.update(1.0)
        versions.write("v")
    with versions.set_version("v"):
        assert torch.equal(model(x), bent)
        assert torch.equal(model.conv_modules[1].weight, weight * 3.0)
    versions.interpolate(1.0, v=1.0)
    assert torch.equal(model.conv_modules[1].weight, weight * 0.5 + weight * 3.0 * 0.5)
    assert m.value == 0.5
    versions.set_version("original")
    assert torch.equal(model(x), wanted)
    assert m.value == 0.0
    with pytest.raises(BendingError, match="no version 'w'"):
        versions.set_version("w")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        pytest.param(lambda x: distributions.Bernoulli(logits=x), "bernoulli_without_grad", id="Bernoulli"),
        pytest.param(lambda x: distributions.Normal(x, 1.0), "normal_without_grad", id="Normal"),
        pytest.param(lambda x: distributions.Categorical(logits=x), "multinomial", id="Categorical"),
        pytest.param(lambda x: distributions.Uniform(x, x + 1.0), "rand_without_grad", id="Uniform"),
    ],
)
def test_b27_draws_of_distributions_are_activations(make: Any, name: str) -> None:
    class Draws(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return make(x).sample()

    model, x = Draws(), torch.randn(3, 5)

    def drawn(call: Any) -> torch.Tensor:
        torch.manual_seed(11)
        found: torch.Tensor = call(x)
        return found

    wanted = drawn(model)
    with Proxy.trace(model) as trace:
        assert torch.equal(drawn(model), wanted)
    assert torch.equal(drawn(trace.graph()), wanted)
    with bend(model, name, Scale(0)) as handle:
        bent = drawn(model)
    assert handle.count == 1
    assert torch.equal(bent, x if name.startswith("rand") else torch.zeros_like(wanted))
    assert torch.equal(drawn(model), wanted)
