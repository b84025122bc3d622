"""Which parameters count as never updated, for which reason, and which are worth a note."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import torch
from msgspec import structs

from proxy_trace.checks import updates
from proxy_wrapper import events
from proxy_wrapper.events import Statistics
from proxy_wrapper.loss_graph.graph import LossGraph
from proxy_wrapper.loss_graph.roundings import rounded_parameters
from tests.proxy_trace.checks.judged import (
    BACKWARD,
    CALLS,
    NET,
    OTHER_VALUES,
    STEP,
    VALUES,
    find,
    of_code,
    said,
    weight,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

ZEROS = Statistics(0.0, 0.0, 0.0, bits="0000000000000000")
TINY = Statistics(-1e-30, 1e-30, 0.0, bits="00000000000000cc")
"""A gradient whose squares are too small for a norm."""

IN_STEP = events.Update(2, tensor=1, statistics=VALUES, version=1, cause="step")
UNCHANGED = events.Update(2, tensor=1, statistics=VALUES, cause="unchanged")

NOT_UPDATED: dict[str, tuple[list[events.Event], str]] = {
    "it never had a gradient": (
        [events.Gradient(1, tensor=1), UNCHANGED],
        "in an optimizer, but it never had a gradient",
    ),
    "its gradient was set to None before the step": (
        [events.Gradient(1, tensor=1, cleared=True), UNCHANGED],
        "in an optimizer, but its gradient was cleared before the step",
    ),
    "its gradient was zeroed before the step": (
        [events.Gradient(1, tensor=1, statistics=ZEROS, cleared=True), IN_STEP],
        "in an optimizer, but its gradient was cleared before the step",
    ),
    "its gradient was cleared, but not before each step": (
        [events.Gradient(1, tensor=1, cleared=True), events.Gradient(1, tensor=1, statistics=VALUES), IN_STEP],
        "in an optimizer, but its values never changed",
    ),
    "it had gradients that no step used": (
        [events.Gradient(1, tensor=1, statistics=VALUES)],
        "had gradients, but no optimizer's step updated it",
    ),
    "it had gradients that no optimizer was there for": (
        [events.Gradient(1, tensor=1, statistics=VALUES, has_optimizer=False)],
        "had gradients, but no optimizer has it",
    ),
    "steps left its values as they were": (
        [events.Gradient(1, tensor=1, statistics=VALUES), IN_STEP],
        "in an optimizer, but its values never changed",
    ),
    "its gradient was always zero": (
        [events.Gradient(1, tensor=1, statistics=ZEROS), IN_STEP],
        "in an optimizer, but its values never changed; its gradient was always zero",
    ),
    "its gradient was too small for a norm": (
        [events.Gradient(1, tensor=1, statistics=TINY), IN_STEP],
        "in an optimizer, but its values never changed",
    ),
    "its gradient was zero or missing": (
        [events.Gradient(1, tensor=1, statistics=ZEROS), events.Gradient(2, tensor=1), IN_STEP],
        "in an optimizer, but it had no gradient, or only zeros",
    ),
    "it was only converted": (
        [
            events.Gradient(1, tensor=1),
            events.Update(1, tensor=1, statistics=OTHER_VALUES, cause="converted", type="float64[2]"),
            events.Update(2, tensor=1, statistics=OTHER_VALUES, cause="unchanged"),
        ],
        "in an optimizer, but it never had a gradient",
    ),
    "training did not keep what evaluation tried": (
        [
            events.Gradient(1, tensor=1),
            UNCHANGED,
            events.Update(3, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place", stage="eval"),
            events.Update(4, 1, tensor=1, statistics=VALUES, cause="in-place"),
        ],
        "in an optimizer, but it never had a gradient",
    ),
    "the steps found what training began with": (
        [
            events.Gradient(1, tensor=1),
            UNCHANGED,
            events.Update(3, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place", stage="eval"),
            events.Update(4, 1, tensor=1, statistics=VALUES, cause="in-place", stage="eval"),
            events.Update(5, 1, tensor=1, statistics=VALUES, cause="unchanged"),
        ],
        "in an optimizer, but it never had a gradient",
    ),
}

UPDATED: dict[str, list[events.Event]] = {
    "a step changed its values": [events.Update(2, tensor=1, statistics=OTHER_VALUES, cause="step"), STEP],
    "it was changed by hand during training": [
        STEP,
        events.Update(200, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place"),
    ],
    "it was changed by hand in the first step": [
        events.Backward(1),
        events.BackwardEnd(2),
        events.Update(3, tensor=1, statistics=OTHER_VALUES, cause="data"),
        STEP,
    ],
    "values came back to the first ones": [
        events.Update(2, tensor=1, statistics=OTHER_VALUES, cause="step"),
        STEP,
        events.Update(3, 1, tensor=1, statistics=VALUES, cause="step"),
    ],
    "it changed, and was converted later": [
        events.Update(2, tensor=1, statistics=OTHER_VALUES, cause="step"),
        STEP,
        events.Update(3, 1, tensor=1, statistics=VALUES, cause="converted", type="float64[2]"),
    ],
    "a step found what evaluation had put there": [
        events.Gradient(1, tensor=1),
        UNCHANGED,
        events.Update(3, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place", stage="eval"),
        events.Update(4, 1, tensor=1, statistics=OTHER_VALUES, cause="unchanged"),
    ],
    "nothing was trained": [],
}

NOT_KNOWN: dict[str, list[events.Event]] = {
    "its statistics could not be read": [events.Update(2, tensor=1, cause="step"), STEP],
    "its model was freed after its last gradient": [
        STEP,
        events.Gradient(3, tensor=1, statistics=VALUES, has_optimizer=False),
        events.Parameter(1, "net.weight", 1, "float32[2]", statistics=VALUES, freed=True),
    ],
    "the trace has no fingerprints": [
        events.Update(2, tensor=1, statistics=Statistics(-1.0, 1.0, 2.0), cause="step"),
        STEP,
    ],
    "an older version saw nothing change": [
        events.Update(2, tensor=1, statistics=Statistics(-1.0, 1.0, 2.0), cause="unchanged"),
        STEP,
    ],
    "other values were converted": [
        events.Update(1, tensor=1, cause="in-place", step=1),
        events.Update(2, 1, tensor=1, statistics=VALUES, cause="converted"),
        STEP,
    ],
}


_MISSED = "optimizer-misses-parameters"


def judged(path: Path) -> list[tuple[str, str]]:
    """The kinds and names of what is said of parameters that have not changed."""
    kinds = ("never-updated", "only-evaluated", "untrained", "frozen")
    return [(finding.code, finding.name) for finding in find(path, updates.CHECK) if finding.code in kinds]


@pytest.mark.parametrize(("records", "reason"), NOT_UPDATED.values(), ids=NOT_UPDATED)
def test_a_parameter_counts_as_never_updated_if(
    records: list[events.Event], reason: str, tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *records, STEP)
    kind = "optimizer-misses-parameters" if reason == "had gradients, but no optimizer has it" else "never-updated"
    assert of_code(path, kind, updates.CHECK) == [("model.w", reason)]
    assert said(path, "updates") == ("finding", [])


@pytest.mark.parametrize("records", UPDATED.values(), ids=UPDATED)
def test_a_parameter_does_not_count_as_never_updated_if(
    records: list[events.Event], tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *records)
    assert of_code(path, "never-updated", updates.CHECK) == []


@pytest.mark.parametrize("records", NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_nothing_is_said_of_a_parameter_if(
    records: list[events.Event], tmp_path: Path, write_trace: WriteTrace
) -> None:
    trained = events.Update(2, tensor=2, statistics=OTHER_VALUES)
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), weight(2, "model.v"), trained, *records)
    assert judged(path) == []
    assert said(path, "updates") == ("passed", ["the values of 1 of 2 parameters were not compared"])


def test_without_fingerprints_other_statistics_prove_a_change(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=True, statistics=Statistics(0.0, 1.0, 1.0)),
        events.Parameter(2, "model.v", 1, "float32[1]", requires_grad=True, statistics=Statistics(0.0, 1.0, 1.0)),
        events.Gradient(1, tensor=1, statistics=Statistics(0.0, 1.0, 1.0)),
        events.Gradient(1, tensor=2),
        events.Update(2, tensor=1, statistics=Statistics(0.0, 2.0, 2.0)),
        events.Update(2, tensor=2, statistics=Statistics(0.0, 1.0, 1.0), cause="unchanged"),
        STEP,
    )
    assert judged(path) == []
    assert said(path, "updates") == ("passed", ["the values of 1 of 2 parameters were not compared"])


def test_a_parameter_that_no_optimizer_has_and_that_had_no_gradient_is_worth_a_note(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), STEP)
    assert judged(path) == [("untrained", "model.w")]
    assert of_code(path, "untrained", updates.CHECK) == [
        ("model.w", "no optimizer has it, and it never had a gradient")
    ]
    assert said(path, "updates") == ("passed", [])


@pytest.mark.parametrize(
    ("is_training", "kind", "reason"),
    [
        (False, "only-evaluated", "no optimizer has it; the module was called in evaluation mode only"),
        (True, "optimizer-misses-parameters", "had gradients, but no optimizer has it"),
    ],
    ids=["a feature extractor", "a model that was forgotten"],
)
@pytest.mark.parametrize("is_below", [True, False])
def test_a_model_that_had_gradients_is_judged_by_its_mode(
    is_training: bool, kind: str, reason: str, is_below: bool, tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        events.Module(2, "features", "Net", 1 if is_below else 2, 1 if is_below else 0),
        weight(),
        weight(2, "features.w", 2),
        *CALLS,
        events.CallModule(3, module=2, training=is_training, stage="eval"),
        events.ReturnModule(4, module=2, stage="eval"),
        events.Gradient(5, tensor=2, statistics=VALUES, has_optimizer=False, stage="eval"),
        events.Gradient(6, tensor=1, statistics=VALUES, stage="eval"),
        events.Update(7, tensor=1, statistics=OTHER_VALUES, stage="eval"),
        events.OptimizerStepEnd(8, optimizer="Adam", stage="eval"),
    )
    assert [(f.code, f.name, f.reason) for f in find(path, updates.CHECK)] == [(kind, "features.w", reason)]


@pytest.mark.parametrize(("largest", "kind"), [(1e-9, "untrained"), (1e-3, "never-updated")])
@pytest.mark.parametrize("has_optimizer", [True, False])
def test_a_bias_before_a_normalisation_is_worth_a_note(
    largest: float, kind: str, has_optimizer: bool, tmp_path: Path, write_trace: WriteTrace
) -> None:
    """Its gradient is 0 but for rounding, and a step with that is too small to change it."""
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        weight(),
        weight(2, "model.bias"),
        events.Gradient(1, tensor=1, statistics=Statistics(-0.1, 0.1, 0.2), has_optimizer=has_optimizer),
        events.Gradient(1, tensor=2, statistics=Statistics(-largest, 0.0, 1.0), has_optimizer=has_optimizer),
        events.Update(2, 1, tensor=1, statistics=OTHER_VALUES, cause="step" if has_optimizer else "data"),
        *([events.Update(2, 1, tensor=2, statistics=VALUES, cause="step"), STEP] if has_optimizer else []),
    )
    assert judged(path) == [(kind, "model.bias")]


def test_where_all_is_trained_in_evaluation_mode_that_mode_tells_nothing(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        weight(),
        weight(2, "model.v"),
        events.CallModule(1, module=1, stage="eval"),
        events.ReturnModule(2, module=1, stage="eval"),
        events.Gradient(3, tensor=1, statistics=VALUES, stage="eval"),
        events.Gradient(3, tensor=2, statistics=VALUES, has_optimizer=False, stage="eval"),
        events.Update(4, tensor=1, statistics=OTHER_VALUES, stage="eval"),
        events.OptimizerStepEnd(5, optimizer="SGD", stage="eval"),
    )
    assert of_code(path, _MISSED, updates.CHECK) == [("model.v", "had gradients, but no optimizer has it")]


def test_what_the_level_the_watch_and_no_training_leave_out_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    quiet = events.Module(2, "model.quiet", "Linear", 1, 1, "WARNING")
    trained = events.Update(2, tensor=1, statistics=OTHER_VALUES)
    unwatched = events.Parameter(3, "model.v", 1, "float32[1]", requires_grad=True, watched=False)
    path = write_trace(tmp_path / "a.jsonl", NET, quiet, weight(), unwatched, trained, STEP)
    assert said(path, "updates") == ("passed", ["1 of 2 modules at level WARNING", "1 of 2 tensors not watched"])
    assert said(write_trace(tmp_path / "b.jsonl", NET, weight()), "updates") == (
        "not checked",
        ["no training was traced"],
    )
    all_quiet = events.Module(1, "model", "Net", 1, level="WARNING")
    path = write_trace(tmp_path / "c.jsonl", all_quiet, weight(), events.Problem(9, 5, message="a step later"))
    assert said(path, "updates") == ("not checked", ["level WARNING"])


def test_a_parameter_without_elements_has_nothing_to_update(tmp_path: Path, write_trace: WriteTrace) -> None:
    """As the part has that a rank holds of a parameter with fewer rows than there are ranks."""
    nothing = Statistics(None, None, 0.0, bits="00")
    empty = events.Parameter(1, "model.w", 1, "float32[0, 5]", requires_grad=True, statistics=nothing)
    gradient = events.Gradient(1, tensor=1, statistics=nothing)
    path = write_trace(tmp_path / "a.jsonl", NET, empty, gradient, STEP)
    assert of_code(path, "never-updated", updates.CHECK) == []


def test_a_change_in_evaluation_is_no_training(tmp_path: Path, write_trace: WriteTrace) -> None:
    """The best weights so far are loaded for validation: that is not what an optimizer did."""
    parameter = weight()
    loaded = events.Update(200, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place", stage="validation")
    other = events.Parameter(2, "model.v", 1, "float32[1]", requires_grad=True, statistics=VALUES)
    trained = events.Update(90, tensor=2, statistics=OTHER_VALUES)
    path = write_trace(tmp_path / "a.jsonl", NET, parameter, other, trained, STEP, loaded)
    assert of_code(path, "never-updated", updates.CHECK) == []


def test_a_model_that_is_only_given_weights_is_not_missing_from_an_optimizer(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    """Averages of what others trained, loaded in each round, and seen when the model is next called: for evaluation."""
    weights = [
        events.Parameter(number, f"{name}.w", number, "float32[1]", requires_grad=True, statistics=VALUES)
        for number, name in ((1, "model"), (2, "average"), (3, "idle"))
    ]
    modules = [events.Module(number, name, "Net", 1) for number, name in ((1, "model"), (2, "average"), (3, "idle"))]
    trained = events.Update(90, tensor=1, statistics=OTHER_VALUES)
    loaded = events.Update(200, 1, tensor=2, statistics=OTHER_VALUES, cause="in-place", stage="eval")
    path = write_trace(tmp_path / "a.jsonl", *modules, *weights, trained, STEP, loaded)
    assert judged(path) == [("untrained", "idle.w")]


@pytest.mark.parametrize("is_in_optimizer", [True, False])
def test_what_was_frozen_later_on_is_told_as_frozen(
    is_in_optimizer: bool, tmp_path: Path, write_trace: WriteTrace
) -> None:
    proxied, frozen = (
        events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=requires_grad, statistics=VALUES)
        for requires_grad in (True, False)
    )
    records = [events.Gradient(80, tensor=1), events.Update(90, tensor=1, statistics=VALUES, cause="unchanged")]
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        proxied,
        frozen,
        *(records if is_in_optimizer else []),
        STEP,
    )
    assert of_code(path, "never-updated", updates.CHECK) == []
    assert of_code(path, "frozen", updates.CHECK) == [("model.w", "frozen (requires_grad is False)")]


def test_a_model_may_be_trained_in_evaluation_mode(tmp_path: Path, write_trace: WriteTrace) -> None:
    parameter = weight()
    update = events.Update(90, tensor=1, statistics=OTHER_VALUES, stage="eval")
    step = events.OptimizerStepEnd(100, optimizer="SGD", stage="eval")
    path = write_trace(tmp_path / "a.jsonl", NET, parameter, update, step)
    assert of_code(path, "never-updated", updates.CHECK) == []


def test_training_by_hand_is_judged_too(tmp_path: Path, write_trace: WriteTrace) -> None:
    names = ("model.trained", "model.idle")
    weights = [
        events.Parameter(number, name, 1, "float32[1]", requires_grad=True, statistics=VALUES)
        for number, name in enumerate(names, 1)
    ]
    gradient = events.Gradient(80, tensor=1, statistics=VALUES, has_optimizer=False)
    update = events.Update(90, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place")
    path = write_trace(tmp_path / "a.jsonl", NET, *weights, gradient, update)
    assert of_code(path, "never-updated", updates.CHECK) == [
        ("model.idle", "it never had a gradient, and nothing changed it")
    ]


@pytest.mark.parametrize(("stage", "kinds"), [("eval", ["only-evaluated"]), ("train", ["untrained"])])
def test_a_model_that_was_only_evaluated_is_worth_a_note_where_training_is_by_hand_too(
    stage: str, kinds: list[str], tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Linear", 1),
        events.Parameter(1, "model.weight", 1, "float32[1]", requires_grad=True, statistics=VALUES),
        events.Module(2, "best", "Linear", 2),
        events.Parameter(2, "best.weight", 2, "float32[1]", requires_grad=True, statistics=VALUES),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        events.Gradient(3, tensor=1, statistics=VALUES),
        events.Update(4, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place"),
        events.CallModule(5, 1, 2, stage=stage),
        events.ReturnModule(6, 1, 2, stage=stage),
    )
    assert [(finding.code, finding.name) for finding in find(path, updates.CHECK)] == [
        (kind, "best.weight") for kind in kinds
    ]


def test_what_was_not_watched_is_not_judged(tmp_path: Path, write_trace: WriteTrace) -> None:
    parameter = events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=True, statistics=VALUES, watched=False)
    path = write_trace(tmp_path / "a.jsonl", NET, parameter, STEP)
    assert of_code(path, "never-updated", updates.CHECK) == []


def test_of_a_sample_of_the_steps_nothing_is_said_but_what_it_shows(tmp_path: Path, write_trace: WriteTrace) -> None:
    """Whether a module was called, or a gradient was there, at a step that was left out, is not known."""
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1, every=10),
        events.Module(2, "model.rare", "Linear", 1, 1, every=10),
        weight(),
        weight(2, "model.kept"),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        events.Gradient(90, tensor=1),
        IN_STEP,
        STEP,
    )
    reason = "it still has its initial values; only a sample of its gradients and steps is recorded"
    assert [(finding.code, finding.name, finding.reason) for finding in find(path, updates.CHECK)] == [
        ("never-updated", "model.w", reason),
        ("untrained", "model.kept", reason),
    ]


def test_a_frozen_parameter_is_worth_a_note(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", events.Parameter(1, "model.w", 1, "float32[1]"), STEP)
    assert of_code(path, "frozen", updates.CHECK) == [("model.w", "frozen (requires_grad is False)")]
    assert of_code(path, "never-updated", updates.CHECK) == []


@pytest.mark.parametrize(
    ("stage", "kinds"), [("eval", ["only-evaluated"]), ("train", ["untrained"]), ("", ["untrained"])]
)
def test_a_model_that_was_only_evaluated_is_worth_a_note(
    stage: str, kinds: list[str], tmp_path: Path, write_trace: WriteTrace
) -> None:
    calls = [events.CallModule(3, 0, 2, stage=stage), events.ReturnModule(4, 0, 2, stage=stage)] if stage else []
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Linear", 1),
        events.Module(2, "best", "Net", 2),
        events.Module(3, "best.fc", "Linear", 2, 2),
        events.Parameter(1, "best.fc.weight", 3, "float32[1]", requires_grad=True, statistics=VALUES),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        *calls,
        *([events.CallModule(4, 0, 3, stage=stage), events.ReturnModule(4, 0, 3, stage=stage)] if stage else []),
        STEP,
    )
    assert [finding.code for finding in find(path, updates.CHECK)] == kinds


def test_modules_whose_level_records_no_calls_and_updates_are_not_judged(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        events.Module(2, "model.quiet", "Linear", 1, 1, "WARNING"),
        events.Parameter(1, "model.quiet.weight", 2, "float32[1]", requires_grad=True),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        STEP,
    )
    assert find(path, updates.CHECK) == []


def test_what_was_taken_out_of_its_model_is_no_finding(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        events.Module(2, "model.aux", "Linear", 1, 1),
        events.Parameter(1, "model.weight", 1, "float32[1]", requires_grad=True, statistics=VALUES),
        events.Parameter(2, "model.aux.weight", 2, "float32[1]", requires_grad=True, statistics=VALUES),
        events.Parameter(3, "model.bias", 1, "float32[1]", requires_grad=True, statistics=VALUES),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        events.Gradient(1, tensor=1, statistics=VALUES),
        events.Update(3, tensor=1, statistics=OTHER_VALUES),
        STEP,
        events.Module(2, "model.aux", "Linear", 1, 1, removed=True),
        events.Parameter(2, "model.aux.weight", 2, "float32[1]", requires_grad=True, removed=True),
        events.Parameter(3, "model.bias", 1, "float32[1]", requires_grad=True, removed=True),
        events.Parameter(3, "model.bias", 1, "float32[1]", requires_grad=True),
    )
    assert [(f.code, f.name) for f in find(path, updates.CHECK)] == [("untrained", "model.bias")]


def test_a_layer_in_the_place_of_another_is_judged_by_what_became_of_it(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    """As a new head is, which the optimizer of the old one knows nothing of."""
    trained = [
        *CALLS,
        *BACKWARD,
        events.Gradient(5, tensor=1, statistics=VALUES),
        events.Update(6, tensor=1, statistics=OTHER_VALUES),
        STEP,
    ]
    head = msgspec.structs.replace(weight(), type="float32[7]", statistics=VALUES)
    starved = [*CALLS, *BACKWARD, events.Gradient(7, 1, tensor=1, statistics=VALUES, has_optimizer=False)]
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *trained, head, *starved)
    assert of_code(path, _MISSED, updates.CHECK) == [("model.w", "had gradients, but no optimizer has it")]

    renamed = msgspec.structs.replace(weight(), name="net.w", statistics=OTHER_VALUES)
    path = write_trace(tmp_path / "b.jsonl", NET, weight(), *trained, renamed)
    assert of_code(path, "never-updated", updates.CHECK) == []


@pytest.mark.parametrize("is_derived", [True, False])
def test_what_is_computed_in_place_of_a_parameter_is_not_one_to_train(
    tmp_path: Path, write_trace: WriteTrace, *, is_derived: bool
) -> None:
    copy = events.Module(2, "copy", "Net", 2)
    put_in = structs.replace(weight(2, "copy.w", 2), derived=is_derived)
    trained = [
        *BACKWARD,
        events.Gradient(6, tensor=1, statistics=VALUES),
        events.Update(7, tensor=1, statistics=OTHER_VALUES),
        STEP,
    ]
    path = write_trace(tmp_path / "a.jsonl", NET, copy, weight(), put_in, *CALLS, *trained)
    assert of_code(path, "untrained", updates.CHECK) == [
        ("copy.w", "no optimizer has it, and it never had a gradient")
    ] * (not is_derived)


@pytest.mark.parametrize(
    ("settings", "create_graph", "aliases", "cut", "code"),
    [
        pytest.param({"in_features": 2}, True, [], 0, "untrained", id="of which the loss has only derivatives"),
        pytest.param({"in_features": 2}, False, [], 0, "grad-cut-off", id="in a run without derivatives"),
        pytest.param({}, True, [], 0, "grad-cut-off", id="of a layer that may not use it"),
        pytest.param({"in_features": 2}, True, ["model.tied"], 0, "grad-cut-off", id="beside a weight used elsewhere"),
        pytest.param({"in_features": 2}, True, [], 1, "grad-cut-off", id="in a loss with a line that cuts the graph"),
    ],
)
def test_a_bias_without_gradients_is_not_cut_off_if_only_derivatives_are_in_the_loss(
    tmp_path: Path,
    write_trace: WriteTrace,
    settings: dict[str, events.Setting],
    *,
    create_graph: bool,
    aliases: list[str],
    cut: int,
    code: str,
) -> None:
    layer = events.Module(2, "model.fc", "Linear", 1, 1, settings=settings)
    state = [structs.replace(weight(1, "model.fc.weight", 2), aliases=aliases), weight(2, "model.fc.bias", 2)]
    called = [CALLS[0], events.CallModule(1, module=2, training=True), events.ReturnModule(2, module=2), CALLS[1]]
    loss = [events.Location(1, "train.py", 9, "main"), events.Loss(2, id=1, cut=cut)]
    trained = [
        events.Backward(3, function="grad", create_graph=create_graph),
        events.BackwardEnd(3),
        *BACKWARD,
        events.Gradient(6, tensor=1, statistics=VALUES),
        events.Gradient(6, tensor=2),
        events.Update(7, tensor=1, statistics=OTHER_VALUES),
        events.Update(7, tensor=2, statistics=VALUES, cause="unchanged"),
        STEP,
    ]
    path = write_trace(tmp_path / "a.jsonl", NET, layer, *state, *called, *loss, *trained)
    assert [(each.code, each.name) for each in find(path, updates.CHECK)] == [(code, "model.fc.bias")]


@pytest.mark.parametrize(
    ("cut_off", "place"),
    [
        pytest.param([], "train.py:9", id="outside of the model's part"),
        pytest.param([2], "net.py:3", id="in the part, behind its layer"),
        pytest.param([2, 3], "net.py:3", id="at a layer, and not at another one"),
        pytest.param([2, 3, 4], "train.py:9", id="at all layers of the part"),
        pytest.param([2, 3, -4], "train.py:9", id="at all layers of the part that are not frozen"),
        pytest.param([5], "train.py:9", id="outside of the part, which is also called without a graph elsewhere"),
    ],
)
def test_parameters_that_no_gradient_reaches_are_told_where_the_graph_is_cut(
    tmp_path: Path, write_trace: WriteTrace, cut_off: list[int], place: str
) -> None:
    places = (
        events.Location(1, "train.py", 9, "Net.forward"),
        events.Location(2, "net.py", 3, "Part.forward"),
        events.Location(3, "train.py", 30, "Net.sample"),
    )
    modules = [
        events.Module(2, "model.part", "Part", 1, 1, parameters=4),
        events.Module(3, "model.part.fc", "Linear", 1, 2, parameters=2),
        events.Module(4, "model.part.other", "Linear", 1, 2, parameters=2),
    ]
    called = [
        CALLS[0],
        events.CallModule(1, module=2, location=1, training=True),
        events.CallModule(1, module=3, location=2, training=True),
        events.ReturnModule(2, module=3, cut_off=3 in cut_off),
        events.CallModule(1, module=4, location=2, training=True),
        events.ReturnModule(2, module=4, cut_off=4 in cut_off),
        events.ReturnModule(2, module=2, cut_off=2 in cut_off),
        CALLS[1],
    ]
    if 5 in cut_off:
        sampled = [
            events.CallModule(1, module=2, location=3, training=True),
            events.CallModule(1, module=3, location=2, training=True),
            events.ReturnModule(2, module=3, cut_off=True),
            events.ReturnModule(2, module=2, cut_off=True),
        ]
        called = [*called, *called, CALLS[0], *sampled, CALLS[1]]
    state = [weight(), weight(2, "model.part.fc.w", 3), weight(3, "model.part.v", 2)]
    if -4 in cut_off:
        state.append(structs.replace(weight(4, "model.part.other.w", 4), requires_grad=False))
    group = events.ParameterGroup({"lr": 0.1}, [1, 2, 3])
    optimizer = events.Optimizer(1, id=1, optimizer="SGD", groups=[group], indices=[0])
    trained = [
        *BACKWARD,
        events.OptimizerStep(5, optimizer="SGD", optimizer_id=1),
        events.Gradient(6, tensor=1, statistics=VALUES),
        *(events.Gradient(6, tensor=number) for number in (2, 3)),
        events.Update(7, tensor=1, statistics=OTHER_VALUES),
        *(events.Update(7, tensor=number, statistics=VALUES, cause="unchanged") for number in (2, 3)),
        STEP,
    ]
    path = write_trace(tmp_path / "a.jsonl", *places, NET, *modules, *state, optimizer, *called, *trained)
    assert {each.place for each in find(path) if each.code == "grad-cut-off"} == {place}


@pytest.mark.parametrize(
    ("steps", "is_stepped", "is_told"),
    [
        pytest.param(10, False, True, id="others had ten steps since"),
        pytest.param(9, False, False, id="others had nine steps since"),
        pytest.param(10, True, False, id="a new optimizer has it"),
    ],
)
def test_what_was_unfrozen_and_not_given_to_an_optimizer_is_told(
    steps: int, is_stepped: bool, is_told: bool, tmp_path: Path, write_trace: WriteTrace
) -> None:
    trained, frozen = (
        events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=requires_grad, statistics=VALUES)
        for requires_grad in (True, False)
    )
    head = events.Parameter(2, "model.head", 1, "float32[1]", requires_grad=True, statistics=VALUES)
    changed = events.Update(9, tensor=1, statistics=OTHER_VALUES)
    after = msgspec.structs.replace(trained, statistics=OTHER_VALUES)
    later: list[events.Event] = []
    for step in range(1, steps + 2):
        if is_stepped:
            later.append(events.Gradient(80, step, tensor=1, statistics=VALUES))
        later += [events.Gradient(80, step, tensor=2, statistics=VALUES), msgspec.structs.replace(STEP, step=step)]
    frozen = msgspec.structs.replace(frozen, statistics=OTHER_VALUES)
    path = write_trace(tmp_path / "a.jsonl", NET, trained, head, *CALLS, changed, STEP, frozen, after, *later)
    expected = [("model.w", "unfrozen after 1 step, but no optimizer has it")]
    assert of_code(path, "optimizer-misses-parameters", updates.CHECK) == expected * is_told


@pytest.mark.parametrize(
    ("end", "told"),
    [
        pytest.param(
            [events.RunEnd(9)], [("other.w", "had gradients, but its optimizer never stepped")], id="in order"
        ),
        pytest.param([events.RunEnd(9, reason="exception", error="KeyboardInterrupt")], [], id="interrupted"),
        pytest.param([], [], id="killed"),
    ],
)
def test_nothing_is_said_if_a_run_ended_early_before_a_second_optimizer_stepped(
    end: list[events.Event], told: list[tuple[str, str]], tmp_path: Path, write_trace: WriteTrace
) -> None:
    """As when a GAN is interrupted after the discriminator's step."""
    groups = [events.ParameterGroup({"lr": 0.1}, [number]) for number in (1, 2)]
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        events.Module(2, "other", "Net", 1),
        weight(),
        weight(2, "other.w", 2),
        *(events.Optimizer(1, id=n, optimizer="SGD", groups=[groups[n - 1]], indices=[0]) for n in (1, 2)),
        *CALLS,
        events.CallModule(1, module=2, training=True),
        events.ReturnModule(2, module=2),
        *BACKWARD,
        events.OptimizerStep(5, optimizer="SGD", optimizer_id=1),
        events.Gradient(6, tensor=1, statistics=VALUES),
        events.Update(7, tensor=1, statistics=OTHER_VALUES),
        STEP,
        events.Gradient(8, tensor=2, statistics=VALUES, has_optimizer=False),
        *end,
        ends=False,
    )
    judged = ("never-updated", "optimizer-misses-parameters")
    assert [(f.name, f.reason) for f in find(path) if f.code in judged] == told


@pytest.mark.parametrize("rounded", [1, 2])
def test_what_is_rounded_is_told_where_it_is(tmp_path: Path, write_trace: WriteTrace, rounded: int) -> None:
    line = events.Location(3, "net.py", 12, "forward")
    pattern = events.GraphPattern(1, what="rounded", weights=[rounded], shape=[2], made=3)
    step = [
        *(events.Gradient(1, tensor=1, statistics=ZEROS), events.Gradient(1, tensor=2, statistics=VALUES)),
        *(IN_STEP, events.Update(2, tensor=2, statistics=OTHER_VALUES, version=1, cause="step"), STEP),
    ]
    other = [events.Module(2, "model.fc", "Linear", 1, 1), weight(2, "model.fc.w", 2)]
    happened = [*CALLS, *BACKWARD, pattern, *step]
    path = write_trace(tmp_path / "a.jsonl", line, NET, weight(), *other, *happened)
    found = [(each.name, each.place) for each in find(path) if each.code == "dead-units"]
    assert found == [("model.w", "net.py:12" if rounded == 1 else "")]


def rounded(loss: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    return [pattern.weights for pattern in rounded_parameters(LossGraph(loss.grad_fn))]


def test_parameters_behind_a_rounding_are_found_unless_the_gradient_is_let_through() -> None:
    weight, bias, x = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), torch.ones(3)
    scale = weight.detach().max() / 8
    assert rounded((torch.round(weight / scale) * scale * x + bias).sum()) == [(weight,)]
    through = weight + (weight.round() - weight).detach()
    assert rounded((through * x + bias).sum()) == []
    assert rounded((weight * x.round()).sum()) == []
