"""What is told of NaN and infinity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.checks.non_finite_values import NON_FINITE
from proxy_wrapper import events
from proxy_wrapper.events import Statistics
from tests.proxy_trace.checks.judged import BACKWARD, CALLS, NET, STEP, VALUES, find, of_code, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


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
    first, second = (finding for finding in find(tmp_path) if finding.code == "non-finite")
    assert first == NON_FINITE.finding(
        "model.w",
        "gradient: 3 non-finite elements of float32[3]",
        [1],
        step=1,
        time_us=400,
        place="train.py:12",
    )
    assert (second.name, second.reason) == ("model", "output (Net): 1 non-finite element of float32[2]")


def test_a_loss_is_told_where_it_was_computed_with_the_variable_that_held_a_nan_first(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    places = (events.Location(1, "train.py", 12, "main"), events.Location(2, "train.py", 5, "advantage"))
    loss = events.NonFinite(5, 1, 0, 1, where="loss", count=1, type="float32[]", computed=2, variable="advantage")
    path = write_trace(tmp_path / "a.jsonl", NET, *places, weight(), *CALLS, *BACKWARD, loss)
    (found,) = (finding for finding in find(path) if finding.code == "non-finite")
    assert found.place == "train.py:5"
    assert found.evidence == ["`advantage` is the first variable that contains a NaN"]


def test_a_gradient_is_told_where_an_operation_without_a_derivative_was_called(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    places = (events.Location(1, "train.py", 12, "main"), events.Location(2, "train.py", 5, "distance"))
    gradient = events.NonFinite(
        5, 1, 0, 1, where="gradient", tensor=1, count=1, type="float32[3]", computed=2, operation="sqrt"
    )
    path = write_trace(tmp_path / "a.jsonl", NET, *places, weight(), *CALLS, *BACKWARD, gradient)
    (found,) = (finding for finding in find(path) if finding.code == "non-finite")
    assert found.place == "train.py:5"
    assert found.evidence == ["its graph has a square root of 0, whose derivative is infinite"]


HUGE = Statistics(-1e30, 1e30, "inf", bits="00000000000000ff")
"""Values that are all finite, and whose squares are not."""


def test_a_norm_that_overflows_is_told_of_gradients_and_of_parameters_once_each(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    place = events.Location(1, "train.py", 12, "main")
    gradient = events.Gradient(10, 2, 1, 1, tensor=1, statistics=HUGE)
    update = events.Update(20, 2, 1, 1, tensor=1, statistics=HUGE)
    path = write_trace(tmp_path / "a.jsonl", NET, place, weight(), *CALLS, gradient, update, gradient, update, STEP)
    words = "the norm is infinite, although each element is finite"
    (first,) = (finding for finding in find(path) if finding.code == "non-finite")
    assert (first.name, first.reason, first.step, first.place) == ("model.w", f"gradient: {words}", 2, "train.py:12")
    assert first.evidence == ["then values of model.w, at step 2, train.py:12"]
    assert (said(path, "gradients")[0], said(path, "parameters")[0]) == ("finding", "finding")


@pytest.mark.parametrize(
    ("start", "count"), [pytest.param(HUGE, 0, id="made so, as a mask is"), pytest.param(VALUES, 1, id="grown so")]
)
def test_the_norm_of_a_buffer_may_be_infinite_if_it_was_made_so(
    start: Statistics, count: int, tmp_path: Path, write_trace: WriteTrace
) -> None:
    mask = events.Buffer(1, "model.mask", 1, "float32[2]", statistics=start)
    update = events.Update(20, 1, tensor=1, statistics=HUGE, cause="in-place")
    path = write_trace(tmp_path / "a.jsonl", NET, mask, *CALLS, update)
    assert len(of_code(path, "non-finite")) == count


def test_a_parameter_that_starts_with_nan_is_told_unless_it_was_loaded_before_training(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    nan = Statistics("nan", "nan", "nan", 2, bits="00000000000000ee")
    parameter = events.Parameter(1, "model.w", 1, "float32[2]", statistics=nan)
    path = write_trace(tmp_path / "a.jsonl", NET, parameter, *CALLS)
    assert of_code(path, "non-finite") == [
        ("model.w", "parameter: 2 non-finite elements of float32[2], from the start")
    ]
    told = events.NonFinite(1, module=1, where="parameter", tensor=1, count=2, type="float32[2]")
    path = write_trace(tmp_path / "b.jsonl", NET, parameter, *CALLS, told)
    assert of_code(path, "non-finite") == [("model.w", "parameter: 2 non-finite elements of float32[2]")]
    loaded = events.Update(1, tensor=1, statistics=VALUES, cause="in-place")
    path = write_trace(tmp_path / "c.jsonl", NET, parameter, loaded, *CALLS, *BACKWARD)
    assert of_code(path, "non-finite") == []


def test_a_loss_that_is_not_finite_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    loss = events.NonFinite(3, where="loss", count=1, type="float32[]")
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *CALLS, loss, *BACKWARD)
    finding = next(finding for finding in find(path) if finding.code == "non-finite")
    assert finding == NON_FINITE.finding(
        "loss",
        "start of a backward pass: 1 non-finite element of float32[]",
        [0],
        step=0,
        time_us=3,
    )
    assert said(path, "losses") == ("finding", [])


CHECKED: dict[str, tuple[list[events.Event], str]] = {
    "outputs": ([*CALLS], "no call of a module was traced"),
    "losses": ([*BACKWARD], "no backward pass was traced"),
    "gradients": ([events.Gradient(5, tensor=1, statistics=VALUES)], "no gradient was recorded"),
}


@pytest.mark.parametrize("name", CHECKED)
def test_a_check_passes_only_if_there_was_something_to_look_at(
    name: str, tmp_path: Path, write_trace: WriteTrace
) -> None:
    seen, why_not = CHECKED[name]
    assert said(write_trace(tmp_path / "a.jsonl", NET, weight(), *seen), name) == ("passed", [])
    assert said(write_trace(tmp_path / "b.jsonl", NET, weight()), name) == ("not checked", [why_not])


def test_level_warning_looks_at_outputs_only_as_far_as_the_trace_tells(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", events.Module(1, "model", "Net", 1, level="WARNING"), weight())
    assert said(path, "outputs") == ("passed", [])
    for name in ("losses", "gradients", "parameters"):
        assert said(path, name) == ("not checked", ["level WARNING"])


def test_losses_are_not_said_to_be_checked_in_older_traces(tmp_path: Path, write_trace: WriteTrace) -> None:
    old = events.Parameter(1, "model.w", 1, "float32[2]", statistics=Statistics(-1.0, 1.0, 2.0))
    path = write_trace(tmp_path / "a.jsonl", NET, old, *BACKWARD)
    assert said(path, "losses") == ("not checked", ["older traces do not record this"])


def test_what_compiled_code_hides_and_values_that_could_not_be_read_are_told(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    compiled = events.CallFunction(1, target="torch.compile(step)")
    unread = events.Parameter(2, "model.v", 1, "float32[2]")
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), unread, *CALLS, compiled)
    assert said(path, "outputs") == ("passed", ["nothing is seen inside compiled code"])
    assert said(path, "parameters") == ("passed", ["the values of 1 of 2 tensors could not be read"])


def test_a_sample_of_the_steps_and_what_is_not_watched_limit_the_checks(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    unwatched = events.Parameter(2, "model.v", 1, "float32[2]", statistics=VALUES, watched=False)
    gradient = events.Gradient(5, tensor=1, statistics=VALUES)
    sampled = events.Module(1, "model", "Net", 1, every=10)
    path = write_trace(tmp_path / "a.jsonl", sampled, weight(), unwatched, *CALLS, *BACKWARD, gradient)
    sample, watch = "only a sample of the steps is recorded", "1 of 2 tensors not watched"
    assert said(path, "losses") == ("passed", [sample])
    assert said(path, "gradients") == said(path, "parameters") == ("passed", [sample, watch])
