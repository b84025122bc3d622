from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_trace.findings import Finding, fold_names
from proxy_trace.summary import summarize
from proxy_trace.trace import Trace
from proxy_wrapper import events
from proxy_wrapper.events import Statistics

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


@pytest.fixture
def write_trace(write_trace: WriteTrace) -> WriteTrace:
    """Writes the traces of processes that ended in an orderly way."""
    return partial(write_trace, ends=True)


STEP = events.OptimizerStepEnd(100, optimizer="SGD")
VALUES = Statistics(-1.0, 1.0, 2.0)
OTHER_VALUES = Statistics(-1.0, 1.0, 3.0)

NOT_UPDATED: dict[str, tuple[list[events.Event], str]] = {
    "no optimizer has it": ([], "in no optimizer's step"),
    "it never had a gradient": (
        [events.Gradient(1, tensor=1), events.Update(2, tensor=1, statistics=VALUES, cause="unchanged")],
        "in an optimizer, but it never had a gradient",
    ),
    "it had gradients that no step used": (
        [events.Gradient(1, tensor=1, statistics=VALUES)],
        "had gradients, but no optimizer's step updated it",
    ),
    "steps left its values as they were": (
        [
            events.Gradient(1, tensor=1, statistics=VALUES),
            events.Update(2, tensor=1, statistics=VALUES, version=1, cause="step"),
        ],
        "in an optimizer, but its values never changed",
    ),
    "its gradient was always zero": (
        [
            events.Gradient(1, tensor=1, statistics=Statistics(0.0, 0.0, 0.0)),
            events.Update(2, tensor=1, statistics=VALUES, version=1, cause="step"),
        ],
        "in an optimizer, but its values never changed; its gradient was always zero",
    ),
    "it was only initialised by hand before training": (
        [events.Update(1, tensor=1, statistics=OTHER_VALUES, cause="in-place")],
        "in no optimizer's step",
    ),
}

UPDATED: dict[str, list[events.Event]] = {
    "a step changed its values": [events.Update(2, tensor=1, statistics=OTHER_VALUES, cause="step"), STEP],
    "it was changed by hand during training": [
        STEP,
        events.Update(200, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place"),
    ],
    "values came back to the first ones": [
        events.Update(2, tensor=1, statistics=OTHER_VALUES, cause="step"),
        STEP,
        events.Update(3, 1, tensor=1, statistics=VALUES, cause="step"),
    ],
    "its statistics could not be read": [events.Update(2, tensor=1, cause="step"), STEP],
    "nothing was trained": [],
}


def find(path: Path) -> list[Finding]:
    return summarize(Trace.open(path)).findings


def of_kind(path: Path, kind: str) -> list[tuple[str, str]]:
    return [(finding.name, finding.reason) for finding in find(path) if finding.kind == kind]


def test_a_layer_that_is_left_out_is_found(small_trace: Path) -> None:
    assert [(finding.kind, finding.name, finding.names) for finding in find(small_trace)] == [
        ("never_updated", "model.spare.*", 2),
        ("never_called", "model.spare", 1),
    ]


@pytest.mark.parametrize(("records", "reason"), NOT_UPDATED.values(), ids=NOT_UPDATED)
def test_a_parameter_counts_as_never_updated_if(
    records: list[events.Event], reason: str, tmp_path: Path, write_trace: WriteTrace
) -> None:
    weight = events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=True, statistics=VALUES)
    path = write_trace(tmp_path / "a.jsonl", events.Module(1, "model", "Net", 1), weight, *records, STEP)
    assert of_kind(path, "never_updated") == [("model.w", reason)]


@pytest.mark.parametrize("records", UPDATED.values(), ids=UPDATED)
def test_a_parameter_does_not_count_as_never_updated_if(
    records: list[events.Event], tmp_path: Path, write_trace: WriteTrace
) -> None:
    weight = events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=True, statistics=VALUES)
    path = write_trace(tmp_path / "a.jsonl", events.Module(1, "model", "Net", 1), weight, *records)
    assert of_kind(path, "never_updated") == []


def test_a_parameter_without_elements_has_nothing_to_update(tmp_path: Path, write_trace: WriteTrace) -> None:
    """As the part has that a rank holds of a parameter with fewer rows than there are ranks."""
    nothing = Statistics(None, None, 0.0)
    empty = events.Parameter(1, "model.w", 1, "float32[0, 5]", requires_grad=True, statistics=nothing)
    gradient = events.Gradient(1, tensor=1, statistics=nothing)
    path = write_trace(tmp_path / "a.jsonl", events.Module(1, "model", "Net", 1), empty, gradient, STEP)
    assert of_kind(path, "never_updated") == []


def test_a_change_in_evaluation_is_no_training(tmp_path: Path, write_trace: WriteTrace) -> None:
    """The best weights so far are loaded for validation: that is not what an optimizer did."""
    weight = events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=True, statistics=VALUES)
    loaded = events.Update(200, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place", stage="validation")
    other = events.Parameter(2, "model.v", 1, "float32[1]", requires_grad=True, statistics=VALUES)
    trained = events.Update(90, tensor=2, statistics=OTHER_VALUES)
    path = write_trace(tmp_path / "a.jsonl", events.Module(1, "model", "Net", 1), weight, other, trained, STEP, loaded)
    assert of_kind(path, "never_updated") == [("model.w", "in no optimizer's step")]


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
    assert of_kind(path, "never_updated") == [("idle.w", "in no optimizer's step")]


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
        events.Module(1, "model", "Net", 1),
        proxied,
        frozen,
        *(records if is_in_optimizer else []),
        STEP,
    )
    assert of_kind(path, "never_updated") == []
    assert of_kind(path, "frozen") == [("model.w", "frozen (requires_grad is False)")]


def test_a_model_may_be_trained_in_evaluation_mode(tmp_path: Path, write_trace: WriteTrace) -> None:
    weight = events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=True, statistics=VALUES)
    update = events.Update(90, tensor=1, statistics=OTHER_VALUES, stage="eval")
    step = events.OptimizerStepEnd(100, optimizer="SGD", stage="eval")
    path = write_trace(tmp_path / "a.jsonl", events.Module(1, "model", "Net", 1), weight, update, step)
    assert of_kind(path, "never_updated") == []


def test_training_by_hand_is_judged_too(tmp_path: Path, write_trace: WriteTrace) -> None:
    names = ("model.trained", "model.idle")
    weights = [
        events.Parameter(number, name, 1, "float32[1]", requires_grad=True, statistics=VALUES)
        for number, name in enumerate(names, 1)
    ]
    update = events.Update(90, 1, tensor=1, statistics=OTHER_VALUES, cause="in-place")
    path = write_trace(tmp_path / "a.jsonl", events.Module(1, "model", "Net", 1), *weights, update)
    assert of_kind(path, "never_updated") == [("model.idle", "it never had a gradient, and nothing changed it")]


@pytest.mark.parametrize(("stage", "kinds"), [("eval", ["evaluated"]), ("train", ["never_updated"])])
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
    assert [(finding.kind, finding.name) for finding in find(path)] == [(kind, "best.weight") for kind in kinds]


def test_what_was_not_watched_is_not_judged(tmp_path: Path, write_trace: WriteTrace) -> None:
    weight = events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=True, statistics=VALUES, watched=False)
    path = write_trace(tmp_path / "a.jsonl", events.Module(1, "model", "Net", 1), weight, STEP)
    assert of_kind(path, "never_updated") == []


def test_of_a_sample_of_the_steps_nothing_is_said_but_what_it_shows(tmp_path: Path, write_trace: WriteTrace) -> None:
    """Whether a module was called, or a gradient was there, at a step that was left out, is not known."""
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1, every=10),
        events.Module(2, "model.rare", "Linear", 1, 1, every=10),
        events.Parameter(1, "model.w", 1, "float32[1]", requires_grad=True, statistics=VALUES),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        STEP,
    )
    reason = "its values never changed; of its gradients and steps only a sample is recorded"
    assert [(finding.kind, finding.reason) for finding in find(path)] == [("never_updated", reason)]


def test_a_frozen_parameter_is_worth_a_note(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", events.Parameter(1, "model.w", 1, "float32[1]"), STEP)
    assert of_kind(path, "frozen") == [("model.w", "frozen (requires_grad is False)")]
    assert of_kind(path, "never_updated") == []


@pytest.mark.parametrize(
    ("stage", "kinds"), [("eval", ["evaluated"]), ("train", ["never_updated"]), ("", ["never_updated", "never_called"])]
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
    assert [finding.kind for finding in find(path)] == kinds


def test_modules_whose_level_records_no_calls_and_updates_are_not_judged(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.quiet", "Linear", 1, 1, "WARNING"),
        events.Parameter(1, "model.quiet.weight", 2, "float32[1]", requires_grad=True),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        STEP,
    )
    assert find(path) == []


def test_only_the_topmost_module_that_was_never_called_is_named(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.old", "Block", 1, 1),
        events.Module(3, "model.old.fc", "Linear", 1, 2),
        events.Module(4, "model.layers", "ModuleList", 1, 1),
        events.Module(5, "model.layers.0", "Linear", 1, 4),
        events.Module(6, "model.nothing", "ModuleList", 1, 1),
        events.Module(7, "model.attention.out_proj", "NonDynamicallyQuantizableLinear", 1, 1),
        events.CallModule(1, module=1),
        events.CallModule(2, module=5),
        events.ReturnModule(3, module=5),
        events.ReturnModule(4, module=1),
    )
    assert [(f.kind, f.name, f.names) for f in find(path)] == [("never_called", "model.old", 2)]


def test_what_was_taken_out_of_its_model_is_no_finding(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
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
    assert [(f.kind, f.name) for f in find(path)] == [("never_updated", "model.bias")]


@pytest.mark.parametrize("calls", [0, 1])
def test_of_what_holds_modules_whose_calls_are_not_seen_nothing_is_said(
    calls: int, tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.layers", "Stack", 1, 1),
        events.Module(3, "model.layers.0", "Own", 1, 2, calls_seen=False),
        events.Module(4, "model.layers.0.fc", "Linear", 1, 3),
        events.Module(5, "model.layers.1", "Linear", 1, 2),
        *[events.CallModule(1, module=1), events.ReturnModule(2, module=1)] * calls,
    )
    expected = ["model.layers.0.fc", "model.layers.1"] if calls else []
    assert [f.name for f in find(path)] == expected


def test_containers_are_judged_by_what_is_in_them_whatever_the_order_of_definition(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "encoder", "Linear", 1),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        events.Module(2, "model", "Wrapper", 2),
        events.Module(1, "model.encoder", "Linear", 2, 2),
    )
    assert find(path) == []


@pytest.mark.parametrize("kind", ["OptimizedModule", "RecursiveScriptModule", "TopLevelTracedModule"])
def test_what_compiled_code_may_call_is_not_missed(tmp_path: Path, write_trace: WriteTrace, kind: str) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, f"{kind}(model)", kind, 1),
        events.Module(2, "model", "Net", 1, 1),
        events.Module(3, "block", "Block", 3),
        events.Module(4, "block.fc", "Linear", 3, 3),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        events.CallModule(3, module=3, compiled=True),
        events.ReturnModule(4, module=3),
    )
    assert find(path) == []


@pytest.mark.parametrize(
    ("target", "missed"), [("torch.compile(step)", ["net.spare"]), ("torch.add", ["net.spare", "head"])]
)
def test_a_compiled_function_may_call_models_and_what_was_trained(
    tmp_path: Path, write_trace: WriteTrace, target: str, missed: list[str]
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "net", "Net", 1),
        events.Module(2, "net.spare", "Linear", 1, 1),
        events.Module(3, "head", "Linear", 3),
        events.CallFunction(1, target=target),
        events.CallModule(2, module=1),
        events.ReturnModule(3, module=1),
    )
    assert [name for name, _ in of_kind(path, "never_called")] == missed


def test_a_module_that_another_reads_the_weights_of_is_told_apart(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.out_proj", "Linear", 1, 1),
        events.Parameter(1, "model.out_proj.weight", 2, "float32[1]", requires_grad=True, statistics=VALUES),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        events.Update(3, tensor=1, statistics=OTHER_VALUES),
        STEP,
    )
    reason = "never called, though its parameters were updated (another module uses them, or gives them)"
    assert of_kind(path, "never_called") == [("model.out_proj", reason)]


def test_a_model_that_is_never_called_is_one_finding(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.fc", "Linear", 1, 1),
    )
    assert [(f.name, f.names) for f in find(path)] == [("model", 2)]
    assert "forward is called directly" in find(path)[0].reason


@pytest.mark.parametrize("spare_is_called", [True, False])
def test_of_a_module_whose_calls_go_around_the_hooks_nothing_is_said(
    tmp_path: Path, write_trace: WriteTrace, spare_is_called: bool
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "model", "Process", 1, calls_seen=False),
        events.Module(2, "model.kernel", "Kernel", 1, 1, calls_seen=False),
        events.Module(3, "model.kernel.features", "Linear", 1, 2),
        events.Module(4, "other", "Linear", 4),
        *([events.CallModule(1, module=4), events.ReturnModule(2, module=4)] if spare_is_called else []),
    )
    missed = [("model.kernel.features", "never called")]
    reason = "no module was ever called (perhaps its forward is called directly)"
    assert of_kind(path, "never_called") == (missed if spare_is_called else [("other", reason)])


def test_a_process_that_only_holds_the_model_is_not_judged(tmp_path: Path, write_trace: WriteTrace) -> None:
    model = events.Module(1, "model", "Net", 1)
    write_trace(tmp_path / "rank0-1.jsonl", model)
    called = [events.CallModule(1, module=1), events.ReturnModule(2, module=1)]
    write_trace(tmp_path / "rank0-2.jsonl", model, *called, pid=2, parent_pid=1)
    assert find(tmp_path) == []


def shared_model(tmp_path: Path, write_trace: WriteTrace) -> None:
    """A process that shares a model out, a worker that trains it with the gradients of a copy, one that evaluates."""
    shared = [
        events.Module(1, "shared", "Net", 1),
        events.Module(2, "shared.fc", "Linear", 1, 1),
        events.Parameter(1, "shared.fc.w", 2, "float32[1]", requires_grad=True, statistics=VALUES),
        events.Module(3, "model", "Net", 1),
    ]
    called = [events.CallModule(1, module=3), events.ReturnModule(2, module=3)]
    update = events.Update(90, tensor=1, statistics=OTHER_VALUES)
    write_trace(tmp_path / "rank0-1.jsonl", *shared[:3])
    write_trace(tmp_path / "rank0-2.jsonl", *shared, *called, pid=2, parent_pid=1)
    write_trace(tmp_path / "rank0-3.jsonl", *shared, *called, update, STEP, pid=3, parent_pid=1)


def test_a_model_that_workers_train_and_only_share_is_told_once(tmp_path: Path, write_trace: WriteTrace) -> None:
    shared_model(tmp_path, write_trace)
    reason = "never called, though its parameters were updated (another module uses them, or gives them)"
    assert of_kind(tmp_path, "never_called") == [("shared", reason)]
    assert of_kind(tmp_path, "never_updated") == []


def test_what_another_process_of_the_rank_calls_is_called(tmp_path: Path, write_trace: WriteTrace) -> None:
    shared_model(tmp_path, write_trace)
    called = [events.CallModule(1, module=1), events.ReturnModule(2, module=1)]
    called += [events.CallModule(3, module=2), events.ReturnModule(4, module=2)]
    modules = [events.Module(1, "shared", "Net", 1), events.Module(2, "shared.fc", "Linear", 1, 1)]
    write_trace(tmp_path / "rank0-4.jsonl", *modules, *called, pid=4, parent_pid=1)
    assert of_kind(tmp_path, "never_called") == []


def test_non_finite_values_come_by_time_over_all_ranks(tmp_path: Path, write_trace: WriteTrace) -> None:
    module = events.Module(1, "model", "Net", 1)
    tensor = events.Parameter(1, "model.w", 1, "float32[3]")
    place = events.Location(1, "train.py", 12, "main")
    late = events.NonFinite(500, 2, 1, 1, where="output", count=1, type="float32[2]")
    early = events.NonFinite(100, 1, 1, 1, where="gradient", tensor=1, count=3, type="float32[3]")
    calls = [events.CallModule(1, module=1), events.ReturnModule(1, module=1)]
    write_trace(tmp_path / "0.jsonl", module, place, *calls, late, started="2026-11-21T08:00:00.000000+00:00")
    # The second process starts 300 us later: its 100 us lie before the first one's 500.
    write_trace(
        tmp_path / "1.jsonl", module, tensor, place, *calls, early, rank=1, started="2026-11-21T08:00:00.000300+00:00"
    )
    first, second = (finding for finding in find(tmp_path) if finding.kind == "non_finite")
    assert first == Finding(
        "non_finite",
        "model.w",
        "gradient: 3 non-finite elements of float32[3]",
        [1],
        step=1,
        time_us=400,
        place="train.py:12",
    )
    assert (second.name, second.reason) == ("model", "output (Net): 1 non-finite element of float32[2]")


def test_the_same_finding_in_several_ranks_is_one(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", *small_run, rank=rank, pid=rank)
    assert [(finding.name, finding.ranks) for finding in find(tmp_path)] == [
        ("model.spare.*", [0, 1]),
        ("model.spare", [0, 1]),
    ]


def test_the_same_problem_is_told_once_with_its_count(tmp_path: Path, write_trace: WriteTrace) -> None:
    problem = events.Problem(5, 1, message="no space\nleft")
    path = write_trace(tmp_path / "a.jsonl", problem, problem, events.Problem(9, message="other"))
    assert of_kind(path, "problem") == [("", "no space left (2 times)"), ("", "other")]
    assert (find(path)[0].step, find(path)[0].time_us) == (1, 5)


def test_incomplete_files_are_told_with_what_they_lack(tmp_path: Path, write_trace: WriteTrace) -> None:
    tail = b'nonsense\n{"kind":"fold"}\n{"kind":"fold"}\n{"kind":"mod'
    records = [events.Module(1, "model", "Net", 1), events.CallModule(1, module=1)]
    path = write_trace(tmp_path / "rank0-1.jsonl", *records, tail=tail)
    (tmp_path / "rank1-2.jsonl").touch()
    assert of_kind(tmp_path, "incomplete") == [
        (str(path), "cut off within its last line: the process was killed, or is still running"),
        (
            str(path),
            "ends inside a call of model: the process was killed or interrupted there, or is still running",
        ),
        (str(path), "1 malformed line left out, the first is line 4"),
        (str(path), "records of unknown kinds left out, perhaps of a newer version: fold (2)"),
        (str(tmp_path / "rank1-2.jsonl"), "it is empty"),
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["m.a.w"], [("m.a.w", 1)], id="one of two is itself"),
        pytest.param(["m.a.w", "m.a.b"], [("m.a.*", 2)], id="all of a module are its prefix"),
        pytest.param(["m.a.w", "m.a.b", "m.c.w"], [("m.*", 3)], id="all of a model are its prefix"),
        pytest.param(["m.c.w"], [("m.c.w", 1)], id="the only one of a module is itself"),
        pytest.param([], [], id="none is none"),
    ],
)
def test_names_are_folded_where(names: list[str], expected: list[tuple[str, int]]) -> None:
    assert fold_names(names, ["m.a.w", "m.a.b", "m.c.w"]) == expected


@given(st.sets(st.text("ab.", min_size=1, max_size=6)))
def test_folding_keeps_the_count_of_names(all_names: set[str]) -> None:
    names = sorted(all_names)[::2]
    assert sum(count for _, count in fold_names(names, all_names)) == len(names)
