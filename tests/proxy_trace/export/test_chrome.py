"""A timeline as the "Trace Event Format" wants it: what begins ends, in order, on each track."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_trace.export.chrome import export_chrome
from proxy_trace.reading.trace import Trace
from proxy_wrapper import events
from tests.proxy_trace.generated_records import records

if TYPE_CHECKING:
    from tests.proxy_trace.conftest import WriteTrace


def timeline(path: Path, target: Path) -> list[dict[str, Any]]:
    export_chrome(Trace.open(path), target)
    content = gzip.decompress(target.read_bytes()) if target.suffix == ".gz" else target.read_bytes()
    found: list[dict[str, Any]] = json.loads(content)["traceEvents"]
    return found


def spans(found: list[dict[str, Any]]) -> list[str]:
    """The spans of a process as indented names, by the rules of the format alone."""
    lines, depth = [], 0
    for event in found:
        if event["ph"] == "B":
            lines.append(". " * depth + event["name"])
            depth += 1
        elif event["ph"] == "E":
            depth -= 1
    assert depth == 0
    return lines


def test_calls_are_nested_spans(small_trace: Path, tmp_path: Path) -> None:
    found = timeline(small_trace, tmp_path / "run.json")
    assert spans(found) == ["model", ". model.fc", "backward", "SGD.step"] * 2
    steps = [event for event in found if event["ph"] == "X"]
    assert [(event["name"], event["ts"], event["dur"]) for event in steps] == [
        ("step 0", 0, 1430),
        ("step 1", 1430, 1000),
    ]
    norms = [event["args"]["gradient norm"] for event in found if event.get("name") == "gradient norm"]
    assert norms == [(2 * 1.5**2) ** 0.5] * 2


def test_calls_left_by_an_exception_end_with_the_call_around_them(tmp_path: Path, write_trace: WriteTrace) -> None:
    run = [
        events.Module(1, "model", "Net", 1),
        events.Module(2, "model.fc", "Linear", 1, 1),
        events.CallModule(10, module=1),
        events.CallModule(20, module=2),
        events.ReturnModule(30, module=1, raised=True),
        events.CallModule(40, module=1),
    ]
    found = timeline(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run), tmp_path / "run.json")
    assert spans(found) == ["model", ". model.fc", "model"]
    assert [event["ts"] for event in found if event["ph"] == "E"] == [30, 30, 40]


def test_a_step_that_raised_ends_where_the_next_one_begins(tmp_path: Path, write_trace: WriteTrace) -> None:
    run = [
        events.OptimizerStep(10, optimizer="SGD"),
        events.OptimizerStep(20, optimizer="SGD"),
        events.OptimizerStepEnd(30, optimizer="SGD"),
    ]
    found = timeline(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run), tmp_path / "run.json")
    assert spans(found) == ["SGD.step", "SGD.step"]
    assert [event["ts"] for event in found if event["ph"] == "E"] == [20, 30]


def test_processes_and_threads_have_tracks_of_their_own(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank, started in ((0, "2026-11-21T08:00:00+00:00"), (1, "2026-11-21T08:00:01+00:00")):
        call = events.CallModule(10, thread=77)
        write_trace(tmp_path / "r" / f"rank{rank}-5.jsonl", call, rank=rank, pid=5, started=started)
    found = timeline(tmp_path / "r", tmp_path / "run.json.gz")
    begun = [(event["pid"], event["tid"], event["ts"]) for event in found if event["ph"] == "B"]
    assert begun == [(1, 77, 10), (2, 77, 1_000_010)]
    names = {event["args"]["name"] for event in found if event["ph"] == "M" and event["name"] == "process_name"}
    assert names == {"rank 0 (pid 5)", "rank 1 (pid 5)"}


def test_what_is_wrong_is_marked(tmp_path: Path, write_trace: WriteTrace) -> None:
    run = [events.Module(1, "model", "Net", 1), events.NonFinite(10, 3, 1, count=2)]
    found = timeline(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run), tmp_path / "run.json")
    (mark,) = (event for event in found if event["ph"] == "i")
    assert (mark["name"], mark["s"], mark["args"]["count"]) == ("non-finite output: model", "p", 2)


def test_settings_losses_and_learning_rates_are_there(tmp_path: Path, write_trace: WriteTrace) -> None:
    groups = [events.ParameterGroup({"lr": 0.5, "momentum": 0.9}), events.ParameterGroup({"lr": 0.25})]
    run = [
        events.Configuration(5, settings={"cudnn.benchmark": True}),
        events.Loss(8, id=1, nodes=[events.LossNode("MseLossBackward0")]),
        events.Backward(10, loss_value=1.5, loss=1),
        events.Backward(11, loss_value="nan", loss=1),
        events.Optimizer(12, id=1, optimizer="SGD", groups=groups, indices=[0, 1]),
        events.Optimizer(20, 1, id=1, optimizer="SGD", groups=[events.ParameterGroup({"lr": 0.125})], indices=[1]),
    ]
    found = timeline(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run), tmp_path / "run.json")
    told = {event["name"]: event["args"] for event in found if event["ph"] == "i" and event["ts"] < 20}
    assert told["settings of torch"]["cudnn.benchmark"] is True
    assert told["a way to compute a loss"]["nodes"] == ["MseLossBackward0"]
    assert told["settings of SGD"]["group 0"] == {"lr": 0.5, "momentum": 0.9}
    assert [(event["ts"], event["name"], event["args"]) for event in found if event["ph"] == "C"] == [
        (10, "loss", {"loss": 1.5}),
        (12, "learning rate of SGD", {"group 0": 0.5, "group 1": 0.25}),
        (20, "learning rate of SGD", {"group 1": 0.125}),
    ]


@settings(max_examples=40, deadline=None)
@given(generated=st.lists(records(), max_size=40))
def test_any_records_make_a_timeline_in_which_all_that_begins_ends(
    generated: list[Any], write_trace: WriteTrace
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_trace(Path(folder, "r", "rank0-1.jsonl"), *generated)
        found = timeline(path, Path(folder, "run.json"))
    open_by_track: dict[tuple[int, int], int] = {}
    for event in found:
        if event["ph"] in "BE":
            track = (event["pid"], event["tid"])
            open_by_track[track] = open_by_track.get(track, 0) + (1 if event["ph"] == "B" else -1)
            assert open_by_track[track] >= 0
    assert not any(open_by_track.values())
