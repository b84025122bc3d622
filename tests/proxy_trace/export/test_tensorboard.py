"""What TensorBoard reads of a run are the numbers of its trace, and its findings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from proxy_trace.cli import run_command
from proxy_wrapper import events
from tests.proxy_trace.report.conftest import STEPS, drawn_records, gradient_at, loss_at, norm_at, rate_at

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.proxy_trace.conftest import WriteTrace


def exported(*arguments: str) -> None:
    assert run_command(["export", "--format", "tensorboard", *arguments]) == 0


def read(folder: Path) -> dict[str, list[tuple[int, Any]]]:
    """The values of each tag by step, as TensorBoard reads them."""
    accumulator = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    accumulator.Reload()
    return {
        tag: [(each.step, make_ndarray(each.tensor_proto).item()) for each in accumulator.Tensors(tag)]
        for tag in accumulator.Tags()["tensors"]
    }


def test_scalars_read_back_as_they_are_in_the_trace(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "run" / "rank0-1.jsonl", *drawn_records(), ends=True, run="a-run")
    exported(str(path), "-o", str(tmp_path / "logs"))
    found = read(tmp_path / "logs" / "a-run" / "rank0-1")
    steps = range(STEPS)
    assert found["norm/model.fc.weight"] == [(step, norm_at(step)) for step in steps]
    assert found["gradient_norm/model.fc.weight"] == [(step, gradient_at(step)) for step in steps]
    assert found["minimum/model.fc.weight"][7] == (7, -0.5 - 7 / 1024)
    assert found["loss/train.py:5"] == [(step, loss_at(step)) for step in steps]
    assert found["learning_rate/SGD"] == [(step, rate_at(step)) for step in steps]
    assert "findings/never-called" not in found


def test_the_pages_of_tensorboard_find_scalars_and_texts(small_trace: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
    from tensorboard.context import RequestContext

    exported(str(small_trace), "-o", str(tmp_path / "logs"))
    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(tmp_path / "logs"))
    multiplexer.Reload()
    provider = MultiplexerDataProvider(multiplexer, str(tmp_path / "logs"))
    of: dict[str, Any] = {"experiment_id": ""}
    scalars = provider.list_scalars(RequestContext(), plugin_name="scalars", **of)
    texts = provider.list_tensors(RequestContext(), plugin_name="text", **of)
    (run,) = scalars
    assert "norm/model.fc.weight" in scalars[run]
    assert "findings/never-called" in texts[run]


def test_findings_are_text_and_no_markup(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    hostile = "<img src=x onerror=alert(1)>\x1b[31m"
    records = [*small_run, events.Module(9, hostile, "Linear", 1, 1, "INFO", 0, 1)]
    path = write_trace(tmp_path / "run" / "rank0-1.jsonl", *records, ends=True, run="a-run")
    exported(str(path), "-o", str(tmp_path / "logs"))
    found = read(tmp_path / "logs" / "a-run" / "rank0-1")
    texts = [value.decode() for tag, of_tag in found.items() if tag.startswith("findings/") for _, value in of_tag]
    assert texts
    assert all(line.startswith("    ") for text in texts for line in text.splitlines())
    assert "\x1b" not in "".join(texts)


def test_values_that_are_not_finite_and_ranks(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank in range(2):
        loss = events.Backward(1, 0, loss_value="nan" if rank else "inf")
        write_trace(tmp_path / "run" / f"rank{rank}-1.jsonl", loss, ends=True, run="a-run", rank=rank, world_size=2)
    exported(str(tmp_path / "run"), "-o", str(tmp_path / "logs"))
    values = [str(read(tmp_path / "logs" / "a-run" / f"rank{rank}-1")["loss/unknown"][0][1]) for rank in range(2)]
    assert values == ["inf", "nan"]


def test_nothing_is_replaced_unasked(
    small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exported(str(small_trace))
    assert (tmp_path / "proxy_trace.tensorboard" / small_trace.name).is_dir()
    assert run_command(["export", "--format", "tensorboard", str(small_trace)]) == 2
    assert "already exists. Use --force" in capsys.readouterr().err
    exported(str(small_trace), "--force")


def test_without_tensorboard_the_extra_is_named(
    small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.record_writer", None)
    assert run_command(["export", "-f", "tensorboard", str(small_trace), "-o", str(tmp_path / "logs")]) == 2
    assert "pip install 'instrumentor[tensorboard]'" in capsys.readouterr().err
