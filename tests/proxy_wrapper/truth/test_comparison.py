"""The comparison of a trace with the truth finds every untruth that it is there for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import torch

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Statistics
from proxy_wrapper.values.statistics import summarize
from tests.proxy_wrapper.truth.comparison import untruths
from tests.proxy_wrapper.truth.counted_run import CountedRun, Truth
from tests.proxy_wrapper.truth.expected_bits import expected_bits
from tests.proxy_wrapper.truth.judgement import TruthProgram, faults, result_of
from tests.proxy_wrapper.truth.networks import Perceptron, loss_of, state_of, train
from tests.proxy_wrapper.truth.numbers import disagreement, values_of
from tests.proxy_wrapper.truth.run import Run, TracedRun
from tests.proxy_wrapper.truth.traced_account import Traced, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable


def learn(run: Run) -> Any:
    """Two steps, a change by hand, and a call that is not trained."""
    model = run.model(Perceptron())
    losses = train(model, run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1)), 2)
    with torch.no_grad():
        model.first.weight.mul_(0.5)
        losses.append(loss_of(model))
    return losses, state_of(model)


LEARN = TruthProgram("learn", learn)


def accounts(logdir: str) -> tuple[Truth, Traced]:
    """The truth of `LEARN`, and what its trace says."""
    counted = CountedRun()
    with counted.counting():
        result_of(LEARN, counted)
    traced_run = TracedRun(logdir, "INFO")
    result_of(LEARN, traced_run)
    Proxy._installed.take_down()
    return counted.truth, read_trace(logdir)


def first_gradient(traced: Traced) -> Statistics:
    values = traced.account.gradients["model.first.weight"][0].values
    assert values is not None
    return values


def with_other_gradient(traced: Traced, **numbers: Any) -> None:
    gradients = traced.account.gradients["model.first.weight"]
    gradients[0] = replace(gradients[0], values=msgspec.structs.replace(first_gradient(traced), **numbers))


def finding(traced: Traced, code: str, name: str) -> None:
    wrong = type("Finding", (), {"code": code, "name": name, "reason": "never"})()
    traced.summary.findings.append(wrong)


UNTRUTHS: dict[str, tuple[Callable[[Traced], Any], str]] = {
    "a call more": (lambda traced: traced.account.calls.update(["model.first"]), "4 calls of model.first where"),
    "no calls of a module": (lambda traced: traced.account.calls.pop("model.second"), "0 calls of model.second where"),
    "a module that is none": (lambda traced: traced.account.calls.update(["ghost"]), "1 calls of ghost where"),
    "an error that was none": (
        lambda traced: traced.account.raised.update(["model"]),
        "1 calls ended by an exception of model where",
    ),
    "a step more": (lambda traced: traced.account.optimizer_steps.update(["SGD"]), "3 steps of SGD where"),
    "another number of steps": (lambda traced: setattr(traced.account, "steps", 3), "3 steps where there were 2"),
    "a backward pass less": (lambda traced: setattr(traced.account, "backward_passes", 1), "1 backward passes where"),
    "a gradient less": (
        lambda traced: traced.account.gradients["model.first.weight"].pop(),
        "1 gradients of model.first.weight where",
    ),
    "a gradient in another step": (
        lambda traced: traced.account.gradients["model.first.weight"].reverse(),
        "gradient of model.first.weight in step 0: recorded in step 1",
    ),
    "another minimum": (
        lambda traced: with_other_gradient(
            traced, minimum=math.nextafter(float(first_gradient(traced).minimum or 0), 1)
        ),
        "gradient of model.first.weight in step 0: minimum",
    ),
    "another norm": (
        lambda traced: with_other_gradient(traced, norm=float(first_gradient(traced).norm or 0) * 1.0001),
        "gradient of model.first.weight in step 0: norm",
    ),
    "other bits": (
        lambda traced: with_other_gradient(traced, bits="0123456789abcdef"),
        "gradient of model.first.weight in step 0: bits",
    ),
    "a gradient that was cleared": (
        lambda traced: traced.account.gradients["model.first.weight"].__setitem__(
            0, replace(traced.account.gradients["model.first.weight"][0], cleared=True)
        ),
        "gradient of model.first.weight in step 0: said to have been cleared",
    ),
    "values that it never had": (
        lambda traced: traced.update_statistics["model.first.bias"].append(Statistics(bits="0123456789abcdef")),
        "model.first.bias was said to have values that it never had: 0123456789abcdef",
    ),
    "a parameter that was finite": (
        lambda traced: traced.nonfinite_state.add(("parameter", "model.first.bias")),
        "parameter model.first.bias is said to have been non-finite",
    ),
    "an infinity": (
        lambda traced: with_other_gradient(traced, nonfinite=1),
        "gradient of model.first.weight in step 0: 1 non-finite elements",
    ),
    "a gradient that no optimizer has": (
        lambda traced: traced.account.left_gradients["model.first.bias"].append(Statistics()),
        "1 gradients of model.first.bias, which no optimizer has, where",
    ),
    "an update by a step that left it alone": (
        lambda traced: traced.account.step_updates["model.first.bias"].append(2),
        "updates of model.first.bias by steps [0, 1, 2] where",
    ),
    "an update told twice": (
        lambda traced: traced.account.step_updates["model.first.bias"].append(1),
        "updates of model.first.bias by steps [0, 1, 1] where",
    ),
    "an update that is missing": (
        lambda traced: traced.account.step_updates.pop("model.first.bias"),
        "updates of model.first.bias by steps [] where",
    ),
    "a change that is missing": (
        lambda traced: traced.other_updates.pop("model.first.weight"),
        "0 updates of model.first.weight outside of steps {} where",
    ),
    "a change that was none": (
        lambda traced: traced.other_updates["model.second.weight"].update(["data"]),
        "1 updates of model.second.weight outside of steps",
    ),
    "values that are not those at the end": (
        lambda traced: traced.account.final.update({"model.first.bias": Statistics(0.0, 0.0, 0.0)}),
        "model.first.bias at the end: minimum",
    ),
    "nothing said of the end": (
        lambda traced: traced.account.final.pop("model.first.bias"),
        "model.first.bias at the end: nothing is said",
    ),
    "never updated": (
        lambda traced: finding(traced, "never-updated", "model.first.*"),
        "is said of model.first.weight, model.first.bias",
    ),
    "never called": (lambda traced: finding(traced, "never-called", "model"), "model: 'never'"),
    "a problem": (lambda traced: finding(traced, "tracing-problem", "model"), "a problem that is none: never"),
    "a loss that was finite": (
        lambda traced: setattr(traced.account, "nonfinite_loss", 1),
        "the loss is said to be non-finite from step 1 on where it is from step None on",
    ),
    "a NaN": (lambda traced: traced.nonfinite_outputs.append("model"), "non-finite outputs of ['model'] where"),
}


def test_what_is_true_has_no_untruths(logdir: str) -> None:
    assert untruths(*accounts(logdir)) == []


@pytest.mark.sample(15)
@pytest.mark.parametrize(("change", "complaint"), UNTRUTHS.values(), ids=UNTRUTHS.keys())
def test_each_untruth_is_found(change: Callable[[Traced], Any], complaint: str, logdir: str) -> None:
    truth, traced = accounts(logdir)
    change(traced)
    assert any(complaint in each for each in untruths(truth, traced))


def test_the_counting_sees_something_of_each_kind(logdir: str) -> None:
    truth, _ = accounts(logdir)
    account = truth.account
    assert account.calls == {"model": 3, "model.first": 3, "model.second": 3}
    assert (account.optimizer_steps, account.steps, account.backward_passes) == ({"SGD": 2}, 2, 2)
    assert {name: [each.step for each in found] for name, found in account.gradients.items()} == {
        name: [0, 1] for name in account.final
    }
    assert account.step_updates == {name: [0, 1] for name in account.final}
    assert {name: changes.surely for name, changes in truth.changes.items() if changes.surely} == {
        "model.first.weight": 1
    }


def test_a_run_that_the_tracing_changes_is_found(logdir: str) -> None:
    def draw(run: Run) -> Any:
        model = run.model(Perceptron())
        if isinstance(run, TracedRun):
            torch.rand(1)
        return state_of(model)

    (found,) = faults(TruthProgram("draws when traced", draw), logdir, "INFO")
    assert found.startswith("the tracing changed the program: leaf ")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.cfloat])
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e4])
def test_honest_statistics_agree(dtype: torch.dtype, scale: float) -> None:
    for size in (1, 2, 7, 1000):
        tensor = (torch.randn(size, dtype=torch.cfloat if dtype.is_complex else torch.float64) * scale).to(dtype)
        (said,) = summarize([tensor])
        assert isinstance(said, Statistics)
        assert disagreement(values_of(tensor), said) == ""
        assert "norm" in disagreement(
            values_of(tensor), msgspec.structs.replace(said, norm=float(said.norm or 0) * 1.01 + 1e-15)
        )


def test_the_bits_of_bytes_are_those_of_the_definition() -> None:
    """Worked out by hand for one word: itself, times the first weight, and four times the golden number."""
    assert expected_bits(b"") == "0" * 16
    first_weight = 0xE220A8397B1DCDAF  # What splitmix64 gives first from the seed 0, as its authors publish it.
    assert expected_bits(b"\x01\0\0\0") == f"{(first_weight + 4 * 0x9E3779B97F4A7C15) % 2**64:016x}"
    assert expected_bits(b"\x01") == f"{(first_weight + 0x9E3779B97F4A7C15) % 2**64:016x}"
    assert expected_bits(b"\xff" * 4) == f"{(-first_weight + 4 * 0x9E3779B97F4A7C15) % 2**64:016x}"
