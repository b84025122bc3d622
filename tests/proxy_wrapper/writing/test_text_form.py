from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from proxy_wrapper import events
from proxy_wrapper.writing.text_form import TextForm, torch_size

MODEL = events.Module(1, "model", "Net", 1)
CONV = events.Module(2, "model.conv1", "Conv2d", 1, 1)
WEIGHT = events.Parameter(1, "model.conv1.weight", 2, "float32[32, 1, 3, 3]")
BIAS = events.Parameter(2, "model.conv1.bias", 2, "float32[10]")
MEAN = events.Buffer(3, "model.bn.running_mean", 2, "float32[64]")
VALUES = events.Statistics(-0.09099041670560837, 0.07728726416826248, 1.0)


def render(*records: events.Event, after: tuple[events.Event, ...] = ()) -> list[str]:
    """The lines of `records`, once the form has seen `after`."""
    form = TextForm()
    for event in after:
        form.lines(event)  # type: ignore[arg-type]
    return [line for event in records for line in form.lines(event)]  # type: ignore[arg-type]


def test_the_log_of_the_seed_is_reproduced_to_the_letter() -> None:
    grad_read = events.GetAttr(1, target="grad", owner="model.conv1.bias", value="float32[10]", known=True)
    updates = events.Update(1, tensor=2, statistics=VALUES)
    moment = events.Statistics(3.43624378729146e-07, 0.0027863564901053905, 1.0)
    lines = render(
        grad_read,
        updates,
        events.GetAttr(1, target="is_sparse", owner="float32[10]", value="bool"),
        grad_read,
        updates,
        events.CallFunction(1, target="torch.is_complex", inputs=["float32[10]"]),
        events.CallMethod(1, target="mul_", inputs=["float32[10]"], outputs=["float32[10]"], in_place=True),
        events.Update(1, tensor=1, statistics=moment),
        after=(WEIGHT, BIAS, events.CallMethod(1, target="mul_")),
    )
    assert (
        lines
        == """\
INFO:root:Accessing attribute 'grad'
INFO:root:Object 'Tensor' is already proxied
INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([10])'
INFO:root:Minimum value: -0.09099041670560837
INFO:root:Maximum value: 0.07728726416826248
INFO:root:Accessing attribute 'is_sparse'
INFO:root:Accessing attribute 'grad'
INFO:root:Object 'Tensor' is already proxied
INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([10])'
INFO:root:Minimum value: -0.09099041670560837
INFO:root:Maximum value: 0.07728726416826248
INFO:root:Go to __torch_function__ for function 'is_complex'
INFO:root:Accessing attribute 'mul_'
INFO:root:Object 'builtin_function_or_method' is already proxied
INFO:root:Go to __call__ for object 'builtin_function_or_method'
INFO:root:Object 'Tensor' is already proxied
INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([32, 1, 3, 3])'
INFO:root:Minimum value: 3.43624378729146e-07
INFO:root:Maximum value: 0.0027863564901053905""".splitlines()
    )


def test_a_tensor_is_announced_once() -> None:
    call = events.CallFunction(1, target="torch._C._nn.linear", outputs=["float32[2]"], output_ids=[7])
    inner = events.ReturnModule(2, module=2, outputs=["float32[2]"], output_ids=[7])
    outer = events.ReturnModule(2, module=1, outputs=["float32[2]"], output_ids=[7])
    other = events.ReturnModule(2, module=1, outputs=["float32[2]", "float32[2]"], output_ids=[7, 6])
    assert render(call, inner, outer, other, after=(MODEL, CONV)) == [
        "INFO:root:Go to __torch_function__ for function 'linear'",
        "INFO:root:Go to __init__ for object 'Tensor'",
        "INFO:root:Object 'Tensor' is already proxied",
        "INFO:root:Object 'Tensor' is already proxied",
        "INFO:root:Object 'Tensor' is already proxied",
        "INFO:root:Go to __init__ for object 'Tensor'",
    ]


def test_a_gradient_is_announced_once_however_often_it_is_read_and_made_anew() -> None:
    gradient = events.Gradient(1, tensor=2, statistics=VALUES)
    first = events.GetAttr(1, target="grad", owner="model.conv1.bias", value="float32[10]", value_id=3)
    later = events.GetAttr(1, target="grad", owner="model.conv1.bias", value="float32[10]", value_id=9, known=True)
    met = [line for line in render(gradient, first, later, gradient, after=(WEIGHT, BIAS)) if "object" in line.lower()]
    assert met == [
        "INFO:root:Go to __init__ for object 'Tensor'",
        *["INFO:root:Object 'Tensor' is already proxied"] * 3,
    ]


def test_values_stand_behind_what_was_given_and_what_was_changed() -> None:
    average = events.OptimizerState(9, "model.conv1.weight.exp_avg", 2, "float32[32, 1, 3, 3]", parameter=1)
    call = events.CallMethod(
        1,
        target="mul_",
        inputs=["model.conv1.weight.exp_avg"],
        outputs=["model.conv1.weight.exp_avg"],
        in_place=True,
        statistics=[VALUES],
    )
    changing = events.CallMethod(
        1, target="__setitem__", inputs=["int64[]", "float32[10]"], changed=[1], changed_statistics=[VALUES]
    )
    values = [
        "INFO:root:Minimum value: -0.09099041670560837",
        "INFO:root:Maximum value: 0.07728726416826248",
    ]
    lines = render(call, changing, after=(MODEL, CONV, WEIGHT, average, events.CallMethod(1, target="mul_")))
    assert lines[2:7] == [
        "INFO:root:Go to __call__ for object 'builtin_function_or_method'",
        "INFO:root:Object 'Tensor' is already proxied",
        "INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([32, 1, 3, 3])'",
        *values,
    ]
    assert lines[-3:] == [
        "INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([10])'",
        *values,
    ]


def test_settings_that_change_are_a_line_each() -> None:
    assert render(events.Configuration(1, settings={"threads": 2, "autocast": None})) == [
        "INFO:root:Setting configuration 'threads' to '2'",
        "INFO:root:Setting configuration 'autocast' to 'None'",
    ]


def test_the_tree_of_modules_is_announced_from_the_root() -> None:
    assert render(MODEL, CONV) == [
        "found the root object",
        "logger_proxy: Proxying all submodules of 'Net'",
        "logger_proxy: Proxying submodule 'conv1'",
    ]


def test_a_second_root_is_announced_without_being_found_again() -> None:
    assert render(events.Module(3, "critic", "Critic", 3), after=(MODEL,)) == [
        "logger_proxy: Proxying all submodules of 'Critic'"
    ]


def test_a_module_whose_settings_change_is_already_proxied() -> None:
    changed = events.Module(2, "model.conv1", "Conv2d", 1, 1, "DEBUG")
    assert render(changed, after=(MODEL, CONV)) == ["INFO:root:Object 'Conv2d' is already proxied"]


def test_a_root_found_inside_another_becomes_a_submodule() -> None:
    moved = events.Module(1, "outer.model", "Net", 9, 9)
    assert render(moved, after=(MODEL,)) == ["logger_proxy: Proxying submodule 'model'"]


def test_a_parameter_is_met_with_its_first_values() -> None:
    first = events.Parameter(2, "model.b", 1, "float32[10]", statistics=VALUES)
    assert render(first, first, MEAN) == [
        "INFO:root:Go to __init__ for object 'Parameter'",
        "INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([10])'",
        "INFO:root:Minimum value: -0.09099041670560837",
        "INFO:root:Maximum value: 0.07728726416826248",
        "INFO:root:Object 'Parameter' is already proxied",
        "INFO:root:Go to __init__ for object 'Tensor'",
    ]


def test_a_gradient_is_new_once_and_then_known() -> None:
    gradient = events.Gradient(1, tensor=2, statistics=VALUES)
    values = [
        "INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([10])'",
        "INFO:root:Minimum value: -0.09099041670560837",
        "INFO:root:Maximum value: 0.07728726416826248",
    ]
    assert render(events.Gradient(1, tensor=2), gradient, gradient, after=(BIAS,)) == [
        "INFO:root:Accessing attribute 'grad'",
        "INFO:root:Accessing attribute 'grad'",
        "INFO:root:Go to __init__ for object 'Tensor'",
        *values,
        "INFO:root:Accessing attribute 'grad'",
        "INFO:root:Object 'Tensor' is already proxied",
        *values,
    ]


def test_a_method_is_new_once_and_then_known() -> None:
    method = events.CallMethod(1, target="view", inputs=["float32[4]"], outputs=["float32[2, 2]"])
    call = "INFO:root:Go to __call__ for object 'builtin_function_or_method'"
    assert render(method, method) == [
        "INFO:root:Accessing attribute 'view'",
        "INFO:root:Go to __init__ for object 'builtin_function_or_method'",
        call,
        "INFO:root:Go to __init__ for object 'Tensor'",
        "INFO:root:Accessing attribute 'view'",
        "INFO:root:Object 'builtin_function_or_method' is already proxied",
        call,
        "INFO:root:Go to __init__ for object 'Tensor'",
    ]


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        pytest.param(
            events.CallModule(1, module=2, location=1),
            ["INFO:root:Go to __call__ for object 'Conv2d'"],
            id="a module's call",
        ),
        pytest.param(
            events.ReturnModule(1, module=2, outputs=["float32[1]", "model.conv1.weight"]),
            ["INFO:root:Go to __init__ for object 'Tensor'", "INFO:root:Object 'Parameter' is already proxied"],
            id="what a module returns",
        ),
        pytest.param(
            events.ReturnModule(1, module=2, raised=True),
            ["INFO:root:Object 'Conv2d' raised an exception in __call__"],
            id="a module that raises",
        ),
        pytest.param(events.CallModule(1, module=7), ["INFO:root:Go to __call__ for object 'Module'"], id="a lost id"),
        pytest.param(events.Backward(1), ["INFO:root:Go to __call__ for object 'backward'"], id="a backward pass"),
        pytest.param(events.BackwardEnd(1), [], id="the end of a backward pass"),
        pytest.param(
            events.BackwardEnd(1, raised=True),
            ["INFO:root:Object 'backward' raised an exception in __call__"],
            id="a backward pass that raises",
        ),
        pytest.param(
            events.OptimizerStep(1, optimizer="Adadelta"),
            ["INFO:root:Go to __call__ for object 'Adadelta.step'"],
            id="an optimizer's step",
        ),
        pytest.param(events.OptimizerStepEnd(1, optimizer="Adadelta"), [], id="the end of a step"),
        pytest.param(
            events.Update(1, tensor=1, statistics=VALUES, cause="unchanged"),
            ["INFO:root:Object 'Parameter' is already proxied"],
            id="a step that changes nothing",
        ),
        pytest.param(
            events.Update(1, tensor=1, statistics=events.Statistics("nan", "nan"), type="float32[]"),
            [
                "INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([])'",
                "INFO:root:Minimum value: nan",
                "INFO:root:Maximum value: nan",
            ],
            id="another tensor with NaNs",
        ),
        pytest.param(
            events.Update(1, tensor=1, statistics=events.Statistics(), type="float32[0]"),
            ["INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([0])'"],
            id="a tensor without elements",
        ),
        pytest.param(
            events.CallFunction(1, target="torch.nn.functional.relu", outputs=["float32[1]"]),
            [
                "INFO:root:Go to __torch_function__ for function 'relu'",
                "INFO:root:Go to __init__ for object 'Tensor'",
            ],
            id="a function with a result",
        ),
        pytest.param(
            events.CallFunction(1, target="torch.relu_", outputs=["model.conv1.weight"], in_place=True),
            [
                "INFO:root:Go to __torch_function__ for function 'relu_'",
                "INFO:root:Object 'Parameter' is already proxied",
            ],
            id="a function that works in place on a parameter",
        ),
        pytest.param(
            events.ReadValue(1, target="__bool__", value=True),
            ["INFO:root:Go to __torch_function__ for function '__bool__'"],
            id="a read of a value",
        ),
        pytest.param(
            events.FlowStep(1, construct="elif", text="x.sum() > 0", value=False),
            ["INFO:root:Flow step 'elif x.sum() > 0': False"],
            id="a test",
        ),
        pytest.param(
            events.FlowStep(1, construct="for", text="t in x", iterations=1),
            ["INFO:root:Flow step 'for t in x': 1 iteration"],
            id="a loop",
        ),
        pytest.param(
            events.GetAttr(1, target="data", value="float32[1]"),
            ["INFO:root:Accessing attribute 'data'", "INFO:root:Go to __init__ for object 'Tensor'"],
            id="an attribute that is a new tensor",
        ),
        pytest.param(
            events.GetAttr(1, target="weight", value="model.conv1.weight", known=True),
            ["INFO:root:Accessing attribute 'weight'", "INFO:root:Object 'Parameter' is already proxied"],
            id="an attribute that is a parameter",
        ),
        pytest.param(
            events.GetAttr(1, target="conv1", value="model.conv1"),
            ["INFO:root:Accessing attribute 'conv1'", "INFO:root:Object 'Conv2d' is already proxied"],
            id="an attribute that is a module",
        ),
        pytest.param(
            events.GetAttr(1, target="mul_", value="builtin_function_or_method"),
            [
                "INFO:root:Accessing attribute 'mul_'",
                "INFO:root:Object 'builtin_function_or_method' is already proxied",
            ],
            id="an attribute that is a method",
        ),
        pytest.param(
            events.GetAttr(1, target="grad", value="None"),
            ["INFO:root:Accessing attribute 'grad'"],
            id="an attribute that is None",
        ),
        pytest.param(
            events.SetAttr(1, target="grad", value="None"),
            ["INFO:root:Setting attribute 'grad' to 'None'"],
            id="an attribute that is set",
        ),
        pytest.param(
            events.DelAttr(1, target="grad"), ["INFO:root:Deleting attribute 'grad'"], id="an attribute that is deleted"
        ),
        pytest.param(
            events.NonFinite(1, 5, module=2, location=1, count=1, type="float32[4]"),
            [
                (
                    "WARNING:root:First NaN or infinity in the output of module 'model.conv1' (Conv2d): "
                    "1 element of float32[4], at step 5, train.py:12 in main"
                )
            ],
            id="a NaN in an output",
        ),
        pytest.param(
            events.NonFinite(1, 5, where="gradient", tensor=1, count=2, type="float32[4]"),
            [
                (
                    "WARNING:root:First NaN or infinity in the gradient of parameter 'model.conv1.weight': "
                    "2 elements of float32[4], at step 5"
                )
            ],
            id="a NaN in a gradient",
        ),
        pytest.param(
            events.NonFinite(1, 5, where="loss", count=1, type="float32[]"),
            [("WARNING:root:First NaN or infinity in the loss of a backward pass: 1 element of float32[], at step 5")],
            id="a NaN in a loss",
        ),
        pytest.param(
            events.NonFinite(1, where="buffer", tensor=3, count=2),
            [
                "WARNING:root:First NaN or infinity in buffer 'model.bn.running_mean': 2 elements, at step 0",
            ],
            id="a NaN in a buffer",
        ),
        pytest.param(
            events.Problem(1, 2, module=2, location=1, message="disk\nfull"),
            [
                (
                    "WARNING:root:Tracing problem in module 'model.conv1' (Conv2d): disk full "
                    "(at step 2, train.py:12 in main)"
                )
            ],
            id="a problem",
        ),
        pytest.param(
            events.RunEnd(1, 2), ["INFO:root:The trace ends in order (exit), at step 2"], id="the end of a program"
        ),
        pytest.param(
            events.RunEnd(1, 2, reason="exception", error="ValueError"),
            ["WARNING:root:The run ended with an exception of type 'ValueError', at step 2"],
            id="an exception",
        ),
        pytest.param(events.Run(1, "r", "2026-11-21T08:09:11+00:00", 1, "t.py", [], "3", "2", "0"), [], id="a header"),
    ],
)
def test_the_words_for(event: events.Event, lines: list[str]) -> None:
    place = events.Location(1, "train.py", 12, "main")
    assert render(event, after=(MODEL, CONV, WEIGHT, BIAS, MEAN, place)) == lines


def test_there_are_words_for_every_kind_of_event() -> None:
    assert set(TextForm()._render) == set(get_args(events.AnyEvent))


@pytest.mark.parametrize(
    ("type_", "size"),
    [
        ("float32[64, 1, 28, 28]", "torch.Size([64, 1, 28, 28])"),
        ("float32[]", "torch.Size([])"),
        ("int64[0]", "torch.Size([0])"),
        ("uninitialized", "torch.Size([])"),
    ],
)
def test_shapes_are_printed_as_torch_prints_them(type_: str, size: str) -> None:
    assert torch_size(type_) == size


def test_importing_it_loads_no_torch() -> None:
    runtime = Path(__file__).parents[3] / "runtime"
    imports = "import proxy_wrapper.writing.text_form"
    code = f"import sys; sys.path.insert(0, sys.argv[1]); {imports}; print('torch' in sys.modules)"
    command = [sys.executable, "-c", code, str(runtime)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
