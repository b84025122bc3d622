"""What is not finite because something before it was not is told under that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from proxy_trace.cli import run_command
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import CALLS, find, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_trace.checks.finding import Finding
    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(1, "train.py", 12, "main")


def model(id_: int, name: str) -> events.Module:
    return events.Module(id_, name, "Net", id_)


def output(time_us: int, step: int, module: int) -> events.NonFinite:
    return events.NonFinite(time_us, step, module, 1, count=2, type="float32[4]")


def non_finite(path: Path) -> list[Finding]:
    return [finding for finding in find(path) if finding.code == "non-finite"]


def test_loss_gradients_weights_and_outputs_follow_from_the_first(tmp_path: Path, write_trace: WriteTrace) -> None:
    loss = events.NonFinite(20, 4, location=1, where="loss", count=1, type="float32[]")
    parameters = [weight(id_, f"model.{id_}") for id_ in (1, 2, 3, 4)]
    gradients = [
        events.NonFinite(30, 4, 1, 1, where="gradient", tensor=id_, count=1, type="float32[2]") for id_ in (1, 2, 3, 4)
    ]
    path = write_trace(
        tmp_path / "a.jsonl", model(1, "model"), PLACE, *parameters, *CALLS, loss, *gradients, output(90, 5, 1)
    )
    (first,) = non_finite(path)
    assert (first.name, first.step) == ("loss", 4)
    assert first.evidence == [
        "then gradient of model.1, model.2, model.3 and 1 more, at step 4, train.py:12",
        "then output of model, at step 5, train.py:12",
    ]
    for check in ("losses", "gradients", "outputs"):
        assert said(path, check)[0] == "finding"


@pytest.mark.parametrize(("step", "causes"), [(3, 1), (4, 1), (5, 2)])
def test_another_model_has_a_cause_of_its_own_if_it_comes_later_than_a_step(
    step: int, causes: int, tmp_path: Path, write_trace: WriteTrace
) -> None:
    records = [model(1, "one"), model(2, "two"), PLACE, *CALLS, output(10, 3, 1), output(20 + step, step, 2)]
    assert len(non_finite(write_trace(tmp_path / "a.jsonl", *records))) == causes


def test_ranks_have_causes_of_their_own(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"{rank}.jsonl", model(1, "model"), PLACE, *CALLS, output(10, 3, 1), rank=rank, pid=rank)
    assert [finding.ranks for finding in non_finite(tmp_path)] == [[0], [1]]


def test_at_debug_a_loss_is_told_with_the_calls_that_made_it(tmp_path: Path, write_trace: WriteTrace) -> None:
    made = [
        events.CallFunction(
            10,
            location=1,
            target="torch.log",
            inputs=["float32[4]"],
            input_ids=[1],
            outputs=["float32[4]"],
            output_ids=[2],
        ),
        events.CallMethod(
            11, location=2, target="sum", inputs=["float32[4]"], input_ids=[2], outputs=["float32[]"], output_ids=[3]
        ),
        events.Backward(20, location=3, inputs=["float32[]"], input_ids=[3], loss_value="inf"),
        events.NonFinite(20, location=3, where="loss", count=1, type="float32[]"),
        events.BackwardEnd(21, location=3),
    ]
    places = [events.Location(id_, "train.py", 10 + id_, "main") for id_ in (1, 2, 3)]
    path = write_trace(tmp_path / "a.jsonl", model(1, "model"), *places, *CALLS, *made)
    (first,) = non_finite(path)
    assert first.trail == ["sum at train.py:12", "log at train.py:11"]
    assert first.place == "train.py:13"


def test_what_follows_from_a_known_finding_is_not_new(
    tmp_path: Path, write_trace: WriteTrace, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_trace(
        tmp_path / "a.jsonl", model(1, "model"), model(2, "model.fc"), PLACE, *CALLS, output(10, 3, 2), output(11, 3, 1)
    )
    known = tmp_path / "known.json"
    assert run_command(["summary", str(path), "--write-baseline", str(known)]) == 0
    assert {each["name"] for each in json.loads(known.read_text()) if each["code"] == "non-finite"} == {"model.fc"}
    capsys.readouterr()
    arguments = ["--baseline", str(known), "--fail-on", "warning", "--format", "json"]
    assert run_command(["summary", str(path), *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["findings"] == []
    assert next(each["state"] for each in told["checks"] if each["name"] == "outputs") == "left out"
