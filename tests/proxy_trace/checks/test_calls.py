"""Which modules count as never called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy_wrapper import events
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
    from collections.abc import Sequence
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def test_only_the_topmost_module_that_was_never_called_is_named(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        events.Module(2, "model.old", "Block", 1, 1),
        events.Module(3, "model.old.fc", "Linear", 1, 2),
        weight(1, "model.old.fc.w", 3),
        events.Module(4, "model.layers", "ModuleList", 1, 1),
        events.Module(5, "model.layers.0", "Linear", 1, 4),
        events.Module(6, "model.nothing", "ModuleList", 1, 1),
        events.Module(7, "model.attention.out_proj", "NonDynamicallyQuantizableLinear", 1, 1),
        events.CallModule(1, module=1),
        events.CallModule(2, module=5),
        events.ReturnModule(3, module=5),
        events.ReturnModule(4, module=1),
    )
    assert [(f.code, f.name, f.names) for f in find(path)] == [("never-called", "model.old", 2)]


@pytest.mark.parametrize("calls", [0, 1])
def test_of_what_holds_modules_whose_calls_are_not_seen_nothing_is_said(
    calls: int, tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
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
        weight(1, "head.w", 3),
        weight(2, "net.spare.w", 2),
        events.CallFunction(1, target=target),
        events.CallModule(2, module=1),
        events.ReturnModule(3, module=1),
    )
    assert [name for name, _ in of_code(path, "never-called")] == missed


def test_a_module_that_another_reads_the_weights_of_is_told_apart(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        events.Module(2, "model.out_proj", "Linear", 1, 1),
        events.Parameter(1, "model.out_proj.weight", 2, "float32[1]", requires_grad=True, statistics=VALUES),
        events.CallModule(1, module=1),
        events.ReturnModule(2, module=1),
        events.Update(3, tensor=1, statistics=OTHER_VALUES),
        STEP,
    )
    reason = "its parameters were updated: another module uses them, or provides them"
    assert of_code(path, "uncalled") == [("model.out_proj", reason)]
    assert said(path, "calls") == ("passed", [])


@pytest.mark.parametrize(
    ("trained", "code", "words"),
    [
        pytest.param(BACKWARD, "never-called", "perhaps its forward is called directly", id="not trained"),
        pytest.param(
            [weight(1, "model.fc.w", 2), *BACKWARD, events.Update(3, tensor=1, statistics=OTHER_VALUES), STEP],
            "uncalled",
            "its parameters were updated",
            id="trained by direct calls of forward",
        ),
        pytest.param((), "uncalled", "nothing was trained", id="made, and no more"),
    ],
)
def test_a_model_that_is_never_called_is_one_finding(
    tmp_path: Path, write_trace: WriteTrace, trained: Sequence[events.Event], code: str, words: str
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, events.Module(2, "model.fc", "Linear", 1, 1), *trained)
    (found,) = (each for each in find(path) if each.code in ("never-called", "uncalled"))
    assert (found.code, found.name, found.names) == (code, "model", 2)
    assert words in found.reason


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
        weight(1, "other.w", 4),
        weight(2, "model.kernel.features.w", 3),
        *BACKWARD,
        *([events.CallModule(1, module=4), events.ReturnModule(2, module=4)] if spare_is_called else []),
    )
    missed = [("model.kernel.features", "never called")]
    reason = "no module was ever called (perhaps its forward is called directly)"
    assert of_code(path, "never-called") == (missed if spare_is_called else [("other", reason)])


def test_a_process_that_only_holds_the_model_is_not_judged(tmp_path: Path, write_trace: WriteTrace) -> None:
    model = NET
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
    assert [name for name, _ in of_code(tmp_path, "uncalled")] == ["shared"]
    assert of_code(tmp_path, "never-updated") == []


def test_what_another_process_of_the_rank_calls_is_called(tmp_path: Path, write_trace: WriteTrace) -> None:
    shared_model(tmp_path, write_trace)
    called = [events.CallModule(1, module=1), events.ReturnModule(2, module=1)]
    called += [events.CallModule(3, module=2), events.ReturnModule(4, module=2)]
    modules = [events.Module(1, "shared", "Net", 1), events.Module(2, "shared.fc", "Linear", 1, 1)]
    write_trace(tmp_path / "rank0-4.jsonl", *modules, *called, pid=4, parent_pid=1)
    assert of_code(tmp_path, "never-called") == []


def test_a_model_that_has_nothing_registered_is_called_by_what_it_holds(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    """Its layers lie in a plain list, and `predict` goes through them: it is a module by name alone."""
    holder = events.Module(3, "net", "Net", 3)
    alone = write_trace(tmp_path / "a.jsonl", holder)
    beside = write_trace(tmp_path / "b.jsonl", NET, holder, *CALLS)
    assert find(alone) == find(beside) == []
    assert said(alone, "calls") == ("not checked", ["no call of a module was traced"])
    assert said(beside, "calls") == ("passed", [])


def test_a_part_without_parameters_that_is_never_called_is_worth_a_note(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    """As a dropout whose probability a fused attention is given."""
    dropout = events.Module(2, "model.dropout", "Dropout", 1, 1)
    path = write_trace(tmp_path / "a.jsonl", NET, dropout, *CALLS)
    reason = "it has no parameters, and something else may do its work"
    assert of_code(path, "uncalled") == [("model.dropout", reason)]
    assert said(path, "calls") == ("passed", [])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({"level": "WARNING"}, "1 of 2 modules at level WARNING", id="level"),
        pytest.param({"every": 10}, "only a sample of the steps is recorded", id="sampling"),
        pytest.param({"calls_seen": False}, "calls of 1 of 2 modules bypass PyTorch's hooks", id="own call"),
    ],
)
def test_what_may_have_been_called_unseen_is_told(
    fields: dict[str, Any], words: str, tmp_path: Path, write_trace: WriteTrace
) -> None:
    hidden = events.Module(2, "model.hidden", "Linear", 1, 1, **fields)
    path = write_trace(tmp_path / "a.jsonl", NET, hidden, *CALLS)
    assert find(path) == []
    assert said(path, "calls") == ("passed", [words])


def test_at_level_warning_calls_are_not_checked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", events.Module(1, "model", "Net", 1, level="WARNING"))
    assert said(path, "calls") == ("not checked", ["level WARNING"])


def test_parents_in_a_circle_are_told_once(tmp_path: Path, write_trace: WriteTrace) -> None:
    one, other = events.Module(1, "one", "Net", 2, 2), events.Module(2, "other", "Net", 1, 1)
    path = write_trace(tmp_path / "a.jsonl", one, other, events.Module(3, "own", "Net", 3, 3), weight(1, "own.w", 3))
    assert [(finding.name, finding.names) for finding in find(path)] == [("one", 2), ("own", 1)]


INTERRUPT = events.RunEnd(9, reason="exception", error="KeyboardInterrupt")


@pytest.mark.parametrize(
    ("returned", "end", "missed"),
    [
        pytest.param([], INTERRUPT, [], id="interrupted in the first call"),
        pytest.param([events.ReturnModule(4, module=1, raised=True)], INTERRUPT, [], id="the first call failed"),
        pytest.param([events.ReturnModule(4, module=1)], INTERRUPT, ["model.spare"], id="interrupted afterwards"),
        pytest.param([events.ReturnModule(4, module=1)], events.RunEnd(9), ["model.spare"], id="in order"),
    ],
)
def test_below_a_module_none_of_whose_calls_returned_nothing_is_judged(
    returned: list[events.Event], end: events.RunEnd, missed: list[str], tmp_path: Path, write_trace: WriteTrace
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        NET,
        events.Module(2, "model.fc", "Linear", 1, 1),
        events.Module(3, "model.spare", "Linear", 1, 1),
        weight(1, "model.spare.w", 3),
        events.CallModule(1, module=1),
        events.CallModule(2, module=2),
        events.ReturnModule(3, module=2),
        *returned,
        end,
        ends=False,
    )
    assert [name for name, _ in of_code(path, "never-called")] == missed


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param([INTERRUPT], "uncalled", id="interrupted"),
        pytest.param([], "uncalled", id="killed"),
        pytest.param([events.RunEnd(9)], "never-called", id="in order"),
    ],
)
def test_a_model_that_a_run_did_not_come_to_before_it_ended_early_is_a_note(
    end: list[events.Event], code: str, tmp_path: Path, write_trace: WriteTrace
) -> None:
    other = events.Module(2, "other", "Net", 1)
    path = write_trace(tmp_path / "a.jsonl", NET, other, weight(1, "other.w", 2), *CALLS, *end, ends=False)
    assert [f.code for f in find(path) if f.name == "other"] == [code]


@pytest.mark.parametrize(
    ("is_changed", "code"), [(True, "uncalled"), (False, "never-called")], ids=["a snapshot", "a copy of the start"]
)
def test_a_copy_of_a_model_in_training_may_never_be_called(
    tmp_path: Path, write_trace: WriteTrace, is_changed: bool, code: str
) -> None:
    changed = [events.Update(5, tensor=1, statistics=OTHER_VALUES), STEP] if is_changed else []
    copy = events.Parameter(
        2, "old.w", 2, "float32[2]", requires_grad=True, statistics=OTHER_VALUES if is_changed else VALUES
    )
    path = write_trace(
        tmp_path / "a.jsonl", NET, weight(), *CALLS, *BACKWARD, *changed, events.Module(2, "old", "Net", 1), copy
    )
    assert [each.code for each in find(path) if each.name == "old"] == [code]


@pytest.mark.parametrize(
    ("copied", "code"),
    [
        pytest.param(2, "uncalled", id="a template of which a copy is called"),
        pytest.param(1, "never-called", id="a copy that is never called, of a model that is"),
    ],
)
def test_a_template_is_not_missed(tmp_path: Path, write_trace: WriteTrace, copied: int, code: str) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        *[events.Module(1, "one", "Net", 1), weight(1, "one.w", 1), events.Module(2, "two", "Net", 2)],
        *[weight(2, "two.w", 2), events.CallModule(1, module=copied), events.ReturnModule(2, module=copied)],
        *BACKWARD,
    )
    assert [each.name for each in find(path) if each.code == code] == ["one" if copied == 2 else "two"]
