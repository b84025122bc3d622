"""The order of execution: which call is taken, what counts as a use, and what is said to be unknown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy_trace import open_trace
from proxy_trace.cli import run_command
from proxy_trace.errors import NoCallError, OrderTooLongError, UnknownClassesError
from proxy_trace.order import execution_order as order_module
from proxy_trace.order.execution_order import ParamUsageInfo, execution_order
from proxy_trace.reading.names import Names
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_trace.order.execution_order import ExecutionOrder
    from tests.proxy_trace.conftest import WriteTrace

LINEAR = "torch.nn.modules.linear"


def definitions(level: str = "DEBUG", classes: tuple[str, str] = ("net", LINEAR)) -> list[Any]:
    """`model` has a parameter `scale`, and a linear layer `fc`; `head` has the weight of `fc` and a bias of its own."""
    own, of_torch = classes
    return [
        events.Module(1, "model", "Net", 1, 0, level, module_of_type=own),
        events.Module(2, "model.fc", "Linear", 1, 1, level, module_of_type=of_torch),
        events.Module(3, "model.head", "Linear", 1, 1, level, module_of_type=of_torch),
        events.Parameter(1, "model.scale", 1, "float32[3]"),
        events.Parameter(2, "model.fc.weight", 2, "float32[3, 3]", aliases=["model.head.weight"]),
        events.Parameter(3, "model.head.bias", 3, "float32[3]"),
        events.Buffer(4, "model.fc.mean", 2, "float32[3]"),
    ]


def call(module: int, *inside: Any, thread: int = 0, raised: bool = False, **fields: Any) -> list[Any]:
    return [
        events.CallModule(1, module=module, thread=thread, **fields),
        *inside,
        events.ReturnModule(2, module=module, thread=thread, raised=raised),
    ]


def torch_call(*inputs: str, target: str = "torch.add", outputs: tuple[str, ...] = ("float32[3]",)) -> Any:
    return events.CallFunction(1, target=target, inputs=inputs, outputs=outputs, input_ids=[0] * len(inputs))


def parameters_of(order: ExecutionOrder) -> list[str]:
    assert order.param_forward_order is not None
    return order.param_forward_order


def test_a_call_at_info_has_modules_and_no_parameters() -> None:
    order = execution_order([*definitions("INFO"), *call(1, *call(2))])
    assert order.module_forward_order == ["", "fc"]
    assert (order.param_forward_order, order.module_to_param_usage_infos, order.unseen) == (None, None, [])


def test_a_tied_weight_has_its_name_within_the_module_that_is_called() -> None:
    order = execution_order([*definitions(), *call(1, *call(3))])
    assert order.module_to_param_usage_infos is not None
    named = [("weight", "fc.weight"), ("bias", "head.bias")]
    assert order.module_to_param_usage_infos[""] == [ParamUsageInfo("head", named)]
    assert parameters_of(order) == ["fc.weight", "head.bias"]


def test_a_part_of_a_model_has_an_order_with_its_own_names() -> None:
    happened = [*definitions(), *call(1, *call(3, torch_call("float32[3]", "model.fc.weight")))]
    order = execution_order(happened, is_wanted=lambda each, module: each.module == 3)
    assert (order.root, order.module_forward_order, parameters_of(order)) == ("model.head", [""], ["weight"])


@pytest.mark.parametrize(
    ("event", "is_use"),
    [
        pytest.param(torch_call("model.scale"), True, id="a call"),
        pytest.param(torch_call("float32[3]", "model.scale", outputs=(), target="__setitem__"), True, id="no output"),
        pytest.param(torch_call("model.scale", outputs=(), target="size"), False, id="a question"),
        pytest.param(events.ReadValue(1, target="__iter__", inputs=["model.scale"]), True, id="its values"),
        pytest.param(events.ReadValue(1, target="__len__", inputs=["model.scale"]), False, id="its length"),
        pytest.param(events.GetAttr(1, target="T", owner="model.scale", value_id=4), True, id="a view"),
        pytest.param(events.GetAttr(1, target="dtype", owner="model.scale"), False, id="its dtype"),
        pytest.param(events.GetAttr(1, target="grad", owner="model.scale", value_id=4), False, id="its gradient"),
        pytest.param(events.GetAttr(1, target="scale", owner="model", value="model.scale"), False, id="its name"),
        pytest.param(torch_call("model.fc.mean"), False, id="a buffer"),
    ],
)
def test_what_counts_as_a_use(event: events.Event, is_use: bool) -> None:
    order = execution_order([*definitions(), *call(1, event)])
    assert parameters_of(order) == (["scale"] if is_use else [])


def test_another_thread_and_a_backward_pass_inside_are_no_part_of_it() -> None:
    again: list[Any] = [events.Backward(1), *call(2), torch_call("model.scale"), events.BackwardEnd(1)]
    order = execution_order([*definitions(), *call(1, *call(3, thread=7), *again, *call(2))])
    assert order.module_forward_order == ["", "fc"]
    assert parameters_of(order) == ["fc.weight"]


def test_nothing_is_read_beyond_the_end_of_the_call() -> None:
    happened = iter([*definitions(), *call(1), torch_call("model.scale")])
    assert parameters_of(execution_order(happened)) == []
    assert next(happened) == torch_call("model.scale")


@pytest.mark.parametrize("leaf_rule", ["fsdp", None])
def test_within_torch_nn_is_looked_only_if_asked(leaf_rule: Any) -> None:
    """One that looks at nothing but its name, as `Sequential` does not."""
    happened = [*definitions(), *call(1, *call(2, torch_call("model.scale"), *call(3, torch_call("model.head.bias"))))]
    order = execution_order(happened, leaf_rule)
    assert order.module_forward_order == (["", "fc"] if leaf_rule else ["", "fc", "head"])
    assert parameters_of(order) == (["fc.weight"] if leaf_rule else ["scale", "head.bias"])


@pytest.mark.parametrize(
    ("inside", "unseen"),
    [
        pytest.param(call(2), ["fc"], id="a module on the blacklist"),
        pytest.param(call(2, torch_call("model.fc.weight")), [], id="one that was seen"),
        pytest.param([torch_call("model.scale"), *call(2, *call(3))], ["fc"], id="two in one another"),
        pytest.param([torch_call("model.scale"), *call(2, *call(3, torch_call()))], [], id="one that passes on"),
    ],
)
def test_modules_without_calls_of_torch_are_named(inside: list[Any], unseen: list[str]) -> None:
    order = execution_order([*definitions(), *call(1, torch_call(), *inside)], None)
    assert order.unseen == unseen


def test_a_compiled_model_is_one_call_of_which_nothing_is_known() -> None:
    order = execution_order([*definitions(), *call(1, compiled=True)])
    assert (order.module_forward_order, parameters_of(order), order.unseen) == ([""], [], [""])


@pytest.mark.parametrize("is_looked_into", [True, False])
def test_a_wrapper_around_the_model_is_not_there(is_looked_into: bool) -> None:
    wrapped: list[Any] = [
        events.Module(9, "DataParallel(model)", "DataParallel", 9, 0, "DEBUG", module_of_type="torch.nn.parallel"),
        *definitions(),
    ]
    inner = call(1, torch_call("model.scale"), *call(2)) if is_looked_into else []
    order = execution_order([*wrapped, *call(9, *inner)])
    assert (order.root, order.type) == ("model", "Net")
    assert order.module_forward_order == (["", "fc"] if is_looked_into else [""])
    assert parameters_of(order) == (["scale", "fc.weight"] if is_looked_into else [])
    assert (order.unseen, order.is_whole) == ([] if is_looked_into else [""], True)


def test_a_call_that_was_interrupted_is_not_whole_and_one_that_raised_is() -> None:
    order = execution_order([*definitions(), *call(1, *call(2)[:1])[:-1]])
    assert (order.module_forward_order, order.is_whole, order.raised) == (["", "fc"], False, False)
    order = execution_order([*definitions(), *call(1, *call(2)[:1], raised=True)])
    assert (order.module_forward_order, order.is_whole, order.raised) == (["", "fc"], True, True)


def test_definitions_may_come_apart_from_the_events() -> None:
    names = Names()
    for event in definitions():
        names.learn(event)
    assert parameters_of(execution_order(call(1, *call(2)), names=names)) == ["fc.weight"]


def test_a_model_that_is_part_of_a_larger_one_by_then_has_its_longer_name() -> None:
    larger: list[Any] = [
        events.Module(4, "big", "Big", 4, 0, "DEBUG", module_of_type="net"),
        events.Module(1, "big.model", "Net", 4, 4, "DEBUG", module_of_type="net"),
        events.Module(2, "big.model.fc", "Linear", 4, 1, "DEBUG", module_of_type=LINEAR),
        events.Parameter(1, "big.model.scale", 1, "float32[3]"),
        events.Parameter(2, "big.model.fc.weight", 2, "float32[3, 3]"),
    ]
    inside = call(1, torch_call("big.model.scale"), *call(2))
    order = execution_order([*definitions(), *larger, *call(4, *inside)])
    assert order.module_forward_order == ["", "model", "model.fc"]
    assert parameters_of(order) == ["model.scale", "model.fc.weight"]


def test_old_traces_do_not_say_which_modules_are_torchs() -> None:
    happened = [*definitions(classes=("", "")), *call(1, *call(2, torch_call("model.fc.weight")))]
    with pytest.raises(UnknownClassesError, match="--every-call"):
        execution_order(happened)
    assert parameters_of(execution_order(happened, None)) == ["fc.weight"]


def test_without_a_call_there_is_no_order() -> None:
    with pytest.raises(NoCallError):
        execution_order(definitions())


@pytest.mark.parametrize("limit", ["MOST_EVENTS", "_MOST_CHARACTERS", "_MOST_NAMES"])
def test_one_that_is_too_long_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, limit, 3)
    with pytest.raises(OrderTooLongError):
        execution_order([*definitions(), *call(1, *call(2), *call(3), torch_call("model.scale"))])


# The command


@pytest.fixture
def run(tmp_path: Path, write_trace: WriteTrace) -> Path:
    """Two steps; in the second one the head is called first, then what was called in evaluation."""
    happened = [
        events.Location(1, "train.py", 20, "main"),
        *definitions(),
        *call(1, *call(2), torch_call("model.scale"), location=1),
        *call(1, *call(3), step=1),
        *call(1, step=1, stage="eval"),
    ]
    return write_trace(tmp_path / "proxy_trace" / "20261121T080911-3f2a9c" / "rank0-100.jsonl", *happened).parent


def test_the_command_lists_modules_and_parameters(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["order", str(run)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "model (Net)",
        "  call        train.py:20, step 0, train, rank 0",
        "  modules     2 calls of 2 modules",
        "  parameters  2 used",
        "",
        "Modules, in the order of their calls",
        "  1  model",
        "  2  fc",
        "",
        "Parameters, in the order of their first use",
        "  1  fc.weight",
        "  2  scale",
    ]


@pytest.mark.parametrize(
    ("options", "modules"),
    [([], ["", "fc"]), (["--step", "1-"], ["", "head"]), (["--stage", "eval"], [""]), (["-m", "*.head"], [""])],
    ids=" ".join,
)
def test_options_choose_the_call(
    options: list[str], modules: list[str], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["order", str(run), "--format", "json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["module_forward_order"] == modules


def test_the_command_as_json_has_fsdps_three_lists(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["order", str(run), "--format", "json"]) == 0
    of_fc = {"module": "fc", "named_params": [["weight", "fc.weight"]]}
    of_model = {"module": "", "named_params": [["scale", "scale"]]}
    assert json.loads(capsys.readouterr().out) == {
        "run": "20261121T080911-3f2a9c",
        "rank": 0,
        "step": 0,
        "stage": "train",
        "place": "train.py:20",
        "root": "model",
        "type": "Net",
        "is_whole": True,
        "raised": False,
        "module_forward_order": ["", "fc"],
        "param_forward_order": ["fc.weight", "scale"],
        "module_to_param_usage_infos": {"": [of_fc, of_model], "fc": [of_fc]},
        "unseen": [],
    }


@pytest.mark.parametrize(
    ("level", "happened", "note"),
    [
        pytest.param("INFO", call(1), "the model was not recorded at level DEBUG", id="at INFO"),
        pytest.param("DEBUG", call(1)[:1], "the trace ends before the call does", id="cut"),
        pytest.param("DEBUG", call(1, raised=True), "the call ended with an exception", id="an exception"),
        pytest.param("DEBUG", call(1, compiled=True), "no torch call was recorded in model", id="compiled"),
    ],
)
def test_what_is_not_known_is_said(
    level: str,
    happened: list[Any],
    note: str,
    tmp_path: Path,
    write_trace: WriteTrace,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_trace(tmp_path / "rank0-1.jsonl", *definitions(level), *happened)
    assert run_command(["order", str(path)]) == 0
    out = capsys.readouterr().out
    assert f"  note        {note}" in out
    assert ("  parameters  not known" in out) is (level == "INFO")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--step", "7"], "no call of a module was recorded in step 7. "),
        (["--module", "modle"], "no call of a module was recorded of such a module. "),
        (["--rank", "3"], "no file of rank 3 in this run"),
    ],
)
def test_a_call_that_is_not_there_is_told_in_one_line(
    options: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["order", str(run), *options]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert message in error


def test_in_python_a_trace_has_the_order_of_a_step(run: Path) -> None:
    trace = open_trace(run)
    assert trace.execution_order().module_forward_order == ["", "fc"]
    assert trace.execution_order(step=1).module_forward_order == ["", "head"]
