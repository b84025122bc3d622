"""Penalties on gradients that have no gradient are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, STEP, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


@pytest.mark.parametrize(
    ("function", "graphs", "is_told"),
    [
        pytest.param("Critic.gradient_penalty", [False] * 3, True, id="never with a graph"),
        pytest.param("calc_gp", [False] * 3, True, id="by a short name"),
        pytest.param("Solver.pde_residual", [False] * 3, True, id="of an equation"),
        pytest.param("physics_loss", [False] * 3, True, id="of physics"),
        pytest.param("evaluate_residual", [False] * 3, False, id="shown"),
        pytest.param("resample_by_residual", [False] * 3, False, id="to choose points"),
        pytest.param("explode", [False] * 3, False, id="another word"),
        pytest.param("penalty", [True] * 3, False, id="with a graph"),
        pytest.param("penalty", [True, False, False], False, id="with one in training"),
        pytest.param("attack", [False] * 3, False, id="for something else"),
        pytest.param("Penalty.saliency", [False] * 3, False, id="in another method"),
    ],
)
def test_a_penalty_is_known_by_the_name_of_its_function(
    tmp_path: Path, write_trace: WriteTrace, function: str, graphs: list[bool], is_told: bool
) -> None:
    place = events.Location(3, "train.py", 20, function)
    passes = [events.Backward(1, location=3, function="grad", create_graph=each) for each in graphs]
    trained = [events.Update(7, tensor=1, statistics=OTHER_VALUES), STEP]
    path = write_trace(tmp_path / "a.jsonl", place, NET, weight(), *passes, *trained)
    assert [each.place for each in find(path) if each.code == "penalty-without-graph"] == ["train.py:20"] * is_told
