"""Discriminators with one label for everything are told, and generators are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.checks import labels
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "gan.py", 20, "main"), events.Location(4, "gan.py", 24, "main"))
OPTIMIZER = events.Optimizer(1, id=1, optimizer="Adam", groups=[events.ParameterGroup({}, [1])], indices=[0])


def pattern(what: str = "one-label", location: int = 3, label: float = 1.0, outputs: float = 1.0) -> events.Event:
    return events.GraphPattern(2, location=location, what=what, weights=[1], values=[label, outputs])


def passes(*locations: int) -> list[events.Event]:
    """Backward passes and a step."""
    own: list[events.Event] = [events.Backward(3, location=each, function="backward") for each in locations]
    return [*own, events.OptimizerStep(4, optimizer="Adam", optimizer_id=1), events.OptimizerStepEnd(5)]


@pytest.mark.parametrize(
    ("patterns", "steps", "told"),
    [
        pytest.param([pattern(outputs=2.0)], passes(3) * 16, ["gan.py:20"], id="two outputs in one pass"),
        pytest.param([pattern(), pattern(location=4)], passes(3, 4) * 16, ["gan.py:24"], id="two passes"),
        pytest.param([pattern(outputs=2.0, label=0.1)], passes(3) * 16, ["gan.py:20"], id="a smooth label"),
        pytest.param([pattern(outputs=2.0)], passes(3) * 15, [], id="too few steps"),
        pytest.param([pattern()], passes(3) * 16, [], id="one output"),
        pytest.param([pattern(outputs=2.0, label=0.5)], passes(3) * 16, [], id="a label between both"),
        pytest.param([pattern(outputs=2.0)], passes(3, 4) * 16, [], id="another pass before the steps"),
        pytest.param([pattern(), pattern(location=4, label=0.0)], passes(3, 4) * 16, [], id="another label elsewhere"),
        pytest.param([pattern(outputs=2.0), pattern("several-labels")], passes(3) * 16, [], id="other labels later"),
        pytest.param([pattern(outputs=2.0)], passes(), [], id="no pass"),
        pytest.param([pattern(outputs=2.0)], passes(3) * 16 + passes(), [], id="a step without a pass"),
    ],
)
def test_labels_before_the_steps_of_an_optimizer(
    tmp_path: Path,
    write_trace: WriteTrace,
    patterns: list[events.Event],
    steps: list[events.Event],
    told: list[str],
) -> None:
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, weight(), OPTIMIZER, *patterns, *steps)
    found = [each for each in find(path, labels.CHECK) if each.code == "discriminator-labels-equal"]
    assert [each.place for each in found] == told
    assert all(each.name == "model.w" for each in found)


def test_an_optimizer_without_the_layer_is_that_of_a_generator(tmp_path: Path, write_trace: WriteTrace) -> None:
    other = events.Optimizer(1, id=1, optimizer="Adam", groups=[events.ParameterGroup({}, [2])], indices=[0])
    path = write_trace(
        tmp_path / "a.jsonl", *PLACES, NET, weight(), weight(2, "model.v"), other, pattern(outputs=2.0), *passes(3) * 16
    )
    assert find(path, labels.CHECK) == []


@pytest.mark.parametrize(
    ("settings", "label", "own", "is_told"),
    [
        pytest.param({}, 0.0, [2], True, id="the label of generated samples"),
        pytest.param({"maximize": True}, 0.0, [2], False, id="maximized"),
        pytest.param({}, 0.5, [2], False, id="a label between both"),
        pytest.param({}, 0.0, [1, 2], False, id="trains both"),
    ],
)
def test_a_generator_with_the_label_of_its_samples_is_told_where_its_loss_is_computed(
    tmp_path: Path, write_trace: WriteTrace, settings: dict[str, bool], label: float, own: list[int], is_told: bool
) -> None:
    generator = events.ParameterGroup({**settings}, own)
    optimizers = [OPTIMIZER, events.Optimizer(1, id=2, optimizer="Adam", groups=[generator], indices=[0])]
    seen = events.GraphPattern(2, location=4, what="label-of-generated", weights=[1], values=[label])
    step = [events.Backward(5, location=4, function="backward"), events.OptimizerStep(6, optimizer_id=2)]
    steps = [*passes(3), *step, events.OptimizerStepEnd(7)] * 16
    model = [NET, weight(), weight(2, "generator.w")]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, *model, *optimizers, seen, *steps)
    found = [(each.name, each.place) for each in find(path) if each.code == "generator-label-of-fakes"]
    assert found == [("generator" if own == [2] else "model", "gan.py:24")] * is_told


def test_a_discriminator_with_one_label_is_told_alone(tmp_path: Path, write_trace: WriteTrace) -> None:
    optimizers = [OPTIMIZER, events.Optimizer(1, id=2, groups=[events.ParameterGroup({}, [2])], indices=[0])]
    seen = events.GraphPattern(2, location=4, what="label-of-generated", weights=[1], values=[1.0])
    step = [events.Backward(5, location=4, function="backward"), events.OptimizerStep(6, optimizer_id=2)]
    steps = [*passes(3), *step, events.OptimizerStepEnd(7)] * 16
    model = [NET, weight(), weight(2, "generator.w")]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, *model, *optimizers, pattern(outputs=2.0), seen, *steps)
    assert [each.code for each in find(path, labels.CHECK)] == ["discriminator-labels-equal"]
