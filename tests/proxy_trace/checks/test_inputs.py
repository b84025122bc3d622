"""Large values that enter the first layer as they are, are told where the model is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")
LAYER = events.Module(2, "model.fc", "Linear", 1, 1)
NORM = events.Module(4, "model.bn", "BatchNorm1d", 1, 1)
FLAT, OTHER = events.Module(7, "model.flat", "Flatten", 1, 1), events.Module(8, "model.scale", "Scale", 1, 1)
SGD = events.Optimizer(1, id=1, optimizer="SGD", groups=[events.ParameterGroup({"lr": 0.1}, [1])], indices=[0])
STEP = (events.OptimizerStep(8, optimizer="SGD", optimizer_id=1), events.OptimizerStepEnd(9, optimizer="SGD"))


def call(
    size: float, *, number: int = 5, has_norm: bool = False, evaluation: bool = False, through: int = 0
) -> list[events.Event]:
    """A call of the model with four numbers of a size; its layer takes the tensor of that number.

    If `through` is the id of a module, that gets the input first, and puts out the tensor that the layer takes.
    """
    given = events.Statistics(0.0, 2 * size, 2 * size)
    below = [
        events.CallModule(3, module=2, input_ids=[number], training=not evaluation),
        events.ReturnModule(4, module=2, output_ids=[6]),
    ]
    norm = [events.CallModule(5, module=4, input_ids=[6], training=not evaluation), events.ReturnModule(6, module=4)]
    return [
        events.CallModule(1, module=1, location=3, input_ids=[5], training=not evaluation),
        events.Input(
            2, module=1, location=3, type="float32[2, 2]", input_id=5, statistics=given, evaluation=evaluation
        ),
        *([events.CallModule(3, module=through, input_ids=[5])] if through else []),
        *([events.ReturnModule(3, module=through, output_ids=[number])] if through else []),
        *below,
        *(norm if has_norm else []),
        events.ReturnModule(7, module=1),
    ]


@pytest.mark.parametrize(
    ("called", "is_told"),
    [
        pytest.param(call(120.0) * 2, True, id="bytes"),
        pytest.param(call(1.0) * 2, False, id="around one"),
        pytest.param(call(120.0, number=9, through=7) * 2, True, id="bytes in another shape"),
        pytest.param([*call(120.0), *call(1.0)], False, id="not in each call"),
        pytest.param(call(120.0, has_norm=True), False, id="a normalisation follows"),
        pytest.param([*call(1.0), *call(120.0, evaluation=True)], True, id="in evaluation alone"),
        pytest.param(
            [*call(1.0), *call(120.0, has_norm=True, evaluation=True)], True, id="a batch norm of other data follows"
        ),
        pytest.param([*call(20.0), *call(120.0, evaluation=True)], False, id="a little more in evaluation"),
    ],
)
def test_inputs_far_from_one_are_told(
    tmp_path: Path, write_trace: WriteTrace, called: list[events.Event], is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, LAYER, NORM, FLAT, OTHER, weight(), SGD, *called, *STEP)
    found = [each for each in find(path) if each.code == "inputs-not-normalized"]
    assert [(each.name, each.place) for each in found] == [("model", "train.py:20")] * is_told
    assert said(path, "inputs")[0] == ("finding" if is_told else "passed")


@pytest.mark.parametrize("through", [0, 8], ids=["by itself", "by a layer"])
def test_what_the_model_computes_of_its_inputs_is_no_input(
    tmp_path: Path, write_trace: WriteTrace, through: int
) -> None:
    """A model that divides by 255 itself."""
    called = call(120.0, number=9, through=through)
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, LAYER, OTHER, weight(), SGD, *called, *STEP)
    assert said(path, "inputs") == ("not checked", ["no values of inputs of layers"])
