"""A variable is followed through all iterations, by the place where it is made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy_trace import open_trace
from proxy_trace.cli import run_command
from proxy_trace.errors import UnknownNameError, UnknownPlaceError
from proxy_trace.history import variable_history
from proxy_trace.history.history_text import history_lines
from proxy_trace.terminal.colour import Palette
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def debug_run(steps: int) -> list[Any]:
    """`forward` has `h = relu(fc(x))` on line 20, `h + h` on 21; `main` has the loss on 11, its item() on 12."""
    run: list[Any] = [
        events.Location(1, "src/train.py", 10, "main"),
        events.Location(2, "src/train.py", 20, "Net.forward"),
        events.Location(3, "src/train.py", 21, "Net.forward"),
        events.Location(4, "src/train.py", 11, "main"),
        events.Location(5, "src/train.py", 12, "main"),
        events.Module(1, "model", "Net", 1, level="DEBUG", parameters=3),
        events.Module(2, "model.fc", "Linear", 1, 1, level="DEBUG", parameters=3),
        events.Parameter(1, "model.fc.weight", 2, "float32[3]", statistics=events.Statistics(0.0, 1.0, 1.0)),
    ]
    for step in range(steps):
        t, first = 100 * step, 10 * step
        x, linear, h, total, loss = range(first + 1, first + 6)
        stage = "train" if step % 2 == 0 else "validation"
        common: Any = {"step": step, "stage": stage}
        text = ["float32[3]"]
        run += [
            events.CallModule(t + 1, module=1, location=1, inputs=text, input_ids=[x], **common),
            events.CallModule(t + 2, module=2, location=2, inputs=text, input_ids=[x], **common),
            events.CallFunction(
                t + 3,
                module=2,
                location=2,
                target="torch._C._nn.linear",
                inputs=["float32[3]", "model.fc.weight"],
                outputs=text,
                input_ids=[x, 0],
                output_ids=[linear],
                **common,
            ),
            events.ReturnModule(t + 4, module=2, outputs=text, output_ids=[linear], **common),
            events.CallFunction(
                t + 5,
                module=1,
                location=2,
                target="torch.relu",
                inputs=text,
                outputs=text,
                input_ids=[linear],
                output_ids=[h],
                **common,
            ),
            events.CallMethod(
                t + 6,
                module=1,
                location=3,
                target="add",
                inputs=text * 2,
                outputs=text,
                input_ids=[h, h],
                output_ids=[total],
                **common,
            ),
            events.ReturnModule(t + 7, module=1, outputs=text, output_ids=[total], **common),
            events.CallMethod(
                t + 8,
                location=4,
                target="sum",
                inputs=text,
                outputs=["float32[]"],
                input_ids=[total],
                output_ids=[loss],
                **common,
            ),
            events.ReadValue(
                t + 9, location=5, target="item", inputs=["float32[]"], input_ids=[loss], value=0.5, **common
            ),
            events.Gradient(
                t + 10, module=2, location=5, tensor=1, statistics=events.Statistics(0.0, 0.1, 0.2), **common
            ),
            events.Update(
                t + 11, module=2, location=5, tensor=1, statistics=events.Statistics(0.0, 0.9, 1.0), **common
            ),
        ]
    return run


@pytest.fixture
def trace_path(tmp_path: Path, write_trace: WriteTrace) -> Path:
    return write_trace(tmp_path / "r" / "rank0-1.jsonl", *debug_run(4))


def test_a_tensor_remade_in_each_iteration_is_one_variable(trace_path: Path) -> None:
    entries = list(open_trace(trace_path).history("train.py:20:relu"))
    assert [entry.step for entry in entries] == [0, 1, 2, 3]
    assert {entry.name for entry in entries} == {"src/train.py:20:torch.relu:0"}
    assert {entry.stage for entry in entries} == {"train", "validation"}
    first = entries[0]
    assert first.types == ["float32[3]"]
    assert first.inputs == ["model.fc"]
    assert first.module == "model"
    assert [(use.by, use.step, use.place) for use in first.uses] == [("add", 0, "src/train.py:21")]
    assert first.place is not None
    assert (first.place.file, first.place.line, first.place.function) == ("src/train.py", 20, "Net.forward")


def test_what_takes_a_tensor_is_told_wherever_it_is(trace_path: Path) -> None:
    (first, *_) = open_trace(trace_path).history("train.py:11")
    assert first.target == "sum"
    assert first.inputs == ["model"]
    assert [(use.by, use.place) for use in first.uses] == [("item", "src/train.py:12")]


def test_a_backward_pass_takes_a_tensor_too(tmp_path: Path, write_trace: WriteTrace) -> None:
    backward = events.Backward(10, location=5, function="backward", inputs=["float32[]"], input_ids=[5])
    path = write_trace(tmp_path / "r" / "rank0-1.jsonl", *debug_run(1), backward)
    (loss,) = open_trace(path).history("train.py:11")
    assert [use.by for use in loss.uses] == ["item", "backward"]
    (call,) = (entry for entry in open_trace(path).history("train.py:12") if entry.kind == "backward")
    assert (call.name, call.inputs) == ("src/train.py:12:backward:0", ["src/train.py:11:sum"])


def test_a_line_has_all_that_is_made_on_it(trace_path: Path) -> None:
    entries = [entry for entry in open_trace(trace_path).history("src/train.py:20") if entry.step == 2]
    assert [entry.target for entry in entries] == ["model.fc", "torch._C._nn.linear", "torch.relu"]
    assert [entry.kind for entry in entries] == ["call_module", "call_function", "call_function"]


def test_a_parameter_has_every_gradient_and_update_and_every_call_that_takes_it(trace_path: Path) -> None:
    entries = list(open_trace(trace_path).history("model.fc.weight"))
    assert [entry.kind for entry in entries] == ["parameter", *["call_function", "gradient", "update"] * 4]
    assert {entry.name for entry in entries} == {"model.fc.weight"}
    assert entries[3].statistics == events.Statistics(0.0, 0.9, 1.0)
    assert entries[3].cause == "step"
    gradients = list(open_trace(trace_path).history("model.fc.weight.grad"))
    assert [entry.kind for entry in gradients] == ["gradient"] * 4


def test_updates_that_left_the_values_as_they_were_are_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    def holds(bits: str) -> events.Statistics:
        return events.Statistics(0.0, 1.0, 1.0, bits=bits)

    path = write_trace(
        tmp_path / "a.jsonl",
        events.Parameter(1, "model.w", 1, "float32[2]", statistics=holds("aa")),
        events.Update(1, tensor=1, statistics=holds("aa"), cause="step"),
        events.Update(2, 1, tensor=1, statistics=holds("bb"), cause="step"),
        events.Update(3, 2, tensor=1, statistics=holds("cc"), cause="converted"),
        events.Update(4, 3, tensor=1, statistics=events.Statistics(0.0, 1.0, 1.0), cause="step"),
    )
    entries = [entry for entry in open_trace(path).history("model.w") if entry.kind == "update"]
    assert [entry.is_same for entry in entries] == [True, False, None, None]
    text = list(history_lines(entries, Palette(enabled=False), with_rank=False))
    assert text[1].endswith("model.w (step, same values): min 0  max 1  norm 1")
    assert text[2].endswith("model.w (step): min 0  max 1  norm 1")


def test_a_module_has_its_calls_with_what_takes_their_outputs(trace_path: Path) -> None:
    entries = list(open_trace(trace_path).history("model.fc"))
    assert [entry.kind for entry in entries] == ["call_module"] * 4
    assert entries[0].types == ["float32[3]"]
    assert [use.by for use in entries[0].uses] == ["torch.relu"]


def test_ordinals_tell_calls_at_one_place_apart(tmp_path: Path, write_trace: WriteTrace) -> None:
    run: list[Any] = [events.Location(1, "net.py", 5, "forward")]
    for step in range(2):
        for ordinal in range(3):
            number = 10 * step + ordinal + 1
            call = events.CallFunction(
                number, step, 0, 1, target="torch.mul", outputs=["float32[]"], output_ids=[number], ordinal=ordinal
            )
            run.append(call)
    trace = open_trace(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run))
    assert [entry.time_us for entry in trace.history("net.py:5:1")] == [2, 12]
    assert [entry.name for entry in trace.history("net.py:5:mul:2")] == ["net.py:5:torch.mul:2"] * 2
    assert len(list(trace.history("net.py:5"))) == 6


def test_a_tensor_changed_in_place_is_still_the_one_that_was_made(tmp_path: Path, write_trace: WriteTrace) -> None:
    run = [
        events.Location(1, "net.py", 5, "forward"),
        events.Location(2, "net.py", 6, "forward"),
        events.CallFunction(1, 0, 0, 1, target="torch.zeros", outputs=["float32[2]"], output_ids=[1]),
        events.CallMethod(
            2,
            0,
            0,
            2,
            target="add_",
            inputs=["float32[2]"],
            outputs=["float32[2]"],
            in_place=True,
            input_ids=[1],
            output_ids=[1],
        ),
        events.CallMethod(
            3, 0, 0, 2, target="sum", inputs=["float32[2]"], outputs=["float32[]"], input_ids=[1], output_ids=[2]
        ),
    ]
    trace = open_trace(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run))
    (made,) = trace.history("net.py:5")
    assert [use.by for use in made.uses] == ["add_", "sum"]
    changed, _ = trace.history("net.py:6")
    assert changed.cause == "in place"
    assert changed.inputs == ["net.py:5:torch.zeros"]


def test_a_line_that_only_calls_user_code_has_what_is_made_in_there(tmp_path: Path, write_trace: WriteTrace) -> None:
    run = [
        events.Location(1, "train.py", 5, "main"),
        events.Location(2, "losses.py", 8, "loss", 1),
        events.CallFunction(1, 0, 0, 2, target="torch.mul", outputs=["float32[]"], output_ids=[1]),
    ]
    trace = open_trace(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run))
    (entry,) = trace.history("train.py:5")
    assert str(entry.place) == "losses.py:8"
    assert entry.place is not None
    assert entry.place.callers == ["train.py:5"]


def test_processes_are_merged_by_time(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank in range(2):
        started = f"2026-11-21T08:00:00.{5 * rank:06d}+00:00"
        write_trace(tmp_path / "r" / f"rank{rank}-{rank}.jsonl", *debug_run(2), rank=rank, started=started)
    entries = list(open_trace(tmp_path / "r").history("model.fc"))
    assert [(entry.rank, entry.time_us) for entry in entries] == [(0, 2), (1, 7), (0, 102), (1, 107)]


def test_memory_does_not_grow_with_the_run(
    tmp_path: Path, write_trace: WriteTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variable_history, "OPEN_ENTRIES", 8)
    trace = open_trace(write_trace(tmp_path / "r" / "rank0-1.jsonl", *debug_run(100)))
    entries = list(trace.history("train.py:20:relu"))
    assert len(entries) == 100
    assert all([use.by for use in entry.uses] == ["add"] for entry in entries)


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        pytest.param("fc.weight", UnknownNameError, "Did you mean model.fc.weight", id="the root's name is missing"),
        pytest.param("model.fc.wieght", UnknownNameError, "Did you mean model.fc.weight", id="a misspelled name"),
        pytest.param("zzz*", UnknownNameError, "no module, parameter or buffer", id="a glob that matches nothing"),
        pytest.param("train.py:19", UnknownPlaceError, "Places near it: .*src/train.py:20", id="the line beside"),
        pytest.param("tarin.py:20", UnknownPlaceError, "Files: src/train.py", id="a misspelled file"),
    ],
)
def test_what_is_not_there_is_told_with_what_is_near(
    what: str, error: type[Exception], message: str, trace_path: Path
) -> None:
    with pytest.raises(error, match=message):
        open_trace(trace_path).history(what)


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_the_level_is_named_where_a_higher_one_would_show_more(
    level: str, tmp_path: Path, write_trace: WriteTrace
) -> None:
    run = [events.Location(1, "net.py", 5, "forward"), events.Module(1, "model", "Net", 1, level=level)]
    trace = open_trace(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run))
    with pytest.raises(UnknownPlaceError) as caught:
        trace.history("net.py:6")
    assert ("level DEBUG only" in str(caught.value)) == (level == "INFO")


def test_the_command_prints_text_and_json(trace_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["history", str(trace_path), "train.py:20:relu", "--limit", "1"]) == 0
    header, entry, place, uses = capsys.readouterr().out.splitlines()
    assert header.split() == ["time/s", "step", "stage", "kind", "what"]
    assert entry.split()[1:5] == ["0", "train", "call_function", "src/train.py:20:torch.relu:0"]
    assert "torch.relu(model.fc) -> float32[3]" in entry
    assert place.strip() == "at src/train.py:20 in Net.forward, in a call of model"
    assert uses.strip() == "-> add at src/train.py:21"
    assert run_command(["history", str(trace_path), "model.fc.weight", "--format", "json", "--kind", "update"]) == 0
    assert capsys.readouterr().out.count('"kind":"update"') == 4


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        (["--step", "1-2"], [1, 2]),
        (["--stage", "validation"], [1, 3]),
        (["--stage", "train,none"], [0, 2]),
        (["--module", "model.*"], []),
        (["--rank", "0", "--limit", "1"], [0]),
    ],
)
def test_the_command_narrows_down(
    options: list[str], steps: list[int], trace_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["history", str(trace_path), "train.py:20:relu", "--format", "json", *options]) == 0
    assert [json.loads(line)["step"] for line in capsys.readouterr().out.splitlines()] == steps


def test_questions_about_a_tensor_are_no_uses(tmp_path: Path, write_trace: WriteTrace) -> None:
    run = [
        events.Location(1, "net.py", 5, "forward"),
        events.CallFunction(1, 0, 0, 1, target="torch.zeros", outputs=["float32[2]"], output_ids=[1]),
        events.CallMethod(2, 0, 0, 1, target="dim", inputs=["float32[2]"], input_ids=[1]),
        events.ReadValue(3, 0, 0, 1, target="__len__", inputs=["float32[2]"], input_ids=[1], value=2),
        events.ReadValue(4, 0, 0, 1, target="item", inputs=["float32[2]"], input_ids=[1], value=0.0),
    ]
    made, read = open_trace(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run)).history("net.py:5")
    assert [use.by for use in made.uses] == ["item"]
    assert (read.target, read.value, read.inputs) == ("item", 0.0, ["net.py:5:torch.zeros"])


def test_a_tensor_kept_in_an_attribute_is_still_from_where_it_was_made(tmp_path: Path, write_trace: WriteTrace) -> None:
    words = ["float32[2]"]
    run = [
        events.Location(1, "net.py", 5, "forward"),
        events.CallFunction(1, 0, 0, 1, target="torch.zeros", outputs=words, output_ids=[1]),
        events.GetAttr(2, 0, 0, 1, target="state", owner="model", value="float32[2]", known=True, value_id=1),
        events.GetAttr(3, 0, 0, 1, target="grad", owner="model.w", value="float32[2]", value_id=2),
        events.CallMethod(
            4,
            0,
            0,
            1,
            target="add",
            inputs=words * 2,
            outputs=words,
            input_ids=[1, 2],
            output_ids=[3],
        ),
    ]
    trace = open_trace(write_trace(tmp_path / "r" / "rank0-1.jsonl", *run))
    (added,) = trace.history("net.py:5:add")
    assert added.inputs == ["net.py:5:torch.zeros", "model.w.grad"]


def test_the_module_of_a_call_is_the_one_around_it(trace_path: Path) -> None:
    (first, *_) = open_trace(trace_path).history("model.fc")
    assert first.module == "model"


def test_the_command_says_if_nothing_is_left(trace_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["history", str(trace_path), "train.py:20:tanh"]) == 0
    assert "nothing of 'train.py:20:tanh' was recorded\n" in capsys.readouterr().err
    assert run_command(["history", str(trace_path), "model.fc.weight", "--step", "100"]) == 0
    assert "nothing of 'model.fc.weight' was recorded that these options select" in capsys.readouterr().err


def test_where_calls_are_not_recorded_it_says_at_which_level_they_are(
    small_trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["history", str(small_trace), "train.py:10:relu"]) == 0
    assert capsys.readouterr().err == (
        "proxy-trace: nothing of 'train.py:10:relu' was recorded; "
        "calls of torch functions are recorded at level DEBUG only\n"
    )


def test_the_command_takes_the_run_in_the_default_folder_if_none_is_given(
    trace_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trace_path.parent)
    trace_path.rename("proxy_trace")
    assert run_command(["history", "model.fc.weight"]) == 0
    assert "model.fc.weight" in capsys.readouterr().out


def test_the_command_says_what_is_wrong(trace_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["history", str(trace_path), "model.fc.wight"]) == 2
    assert "Did you mean model.fc.weight" in capsys.readouterr().err
