from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_trace.errors import (
    NewerFormatError,
    NoSuchRankError,
    NotATraceError,
    TextLogError,
    UnreadableFileError,
)
from proxy_trace.reading.trace import KINDS, Trace, TraceFile
from proxy_wrapper import events

if TYPE_CHECKING:
    from tests.proxy_trace.conftest import WriteTrace

MALFORMED = {
    "not JSON": b"{oops\n",
    "a list": b"[]\n",
    "no kind": b"{}\n",
    "a field missing": b'{"kind":"update"}\n',
    "a field of another type": b'{"kind":"update","time_us":"soon"}\n',
    "bytes that are no UTF-8": b'{"kind":"problem","time_us":1,"message":"\xff"}\n',
    "NULs after a power cut": b"\0\0\0\n",
}


def test_events_come_back_as_they_were_written(small_trace: Path, small_run: list[events.Event]) -> None:
    trace = Trace.open(small_trace)
    run, *rest = trace.files[0].read()
    assert run == trace.files[0].run
    assert rest == small_run


def test_every_class_of_event_has_a_kind() -> None:
    classes = set(get_args(events.AnyEvent))
    assert KINDS["call_module"] is events.CallModule
    assert set(KINDS.values()) == classes
    assert len(KINDS) == len(classes)


@given(cut=st.integers(0, 10_000))
def test_a_trace_cut_at_any_byte_is_read_up_to_the_cut(cut: int, small_run: list[events.Event]) -> None:
    from_bytes = msgspec.json.Encoder().encode_lines
    header = events.Run(1, "r", "2026-11-21T08:09:11+00:00", 1, "t.py", [], "3", "2", "0")
    start, body = from_bytes([header]), from_bytes(small_run)
    kept = body[: cut % (len(body) + 1)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rank0-1.jsonl")
        path.write_bytes(start + kept)
        reading = TraceFile.open(path).read()
        read = list(reading)[1:]
    whole_lines = kept.count(b"\n")
    lacks_only_newline = kept + b"\n" == b"".join(body.splitlines(keepends=True)[: whole_lines + 1])
    assert read == small_run[: whole_lines + lacks_only_newline]
    assert reading.is_cut == (not kept.endswith(b"\n") and bool(kept) and not lacks_only_newline)
    assert reading.malformed == 0


@given(st.binary(max_size=200))
def test_a_file_of_any_bytes_is_refused_or_read_but_never_breaks_the_reader(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.jsonl")
        path.write_bytes(content)
        with pytest.raises((NotATraceError, TextLogError)):
            Trace.open(path)


@given(st.binary(max_size=200))
def test_any_bytes_after_the_header_are_read_over(content: bytes) -> None:
    header = events.Run(1, "r", "2026-11-21T08:09:11+00:00", 1, "t.py", [], "3", "2", "0")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.jsonl")
        path.write_bytes(msgspec.json.encode(header) + b"\n" + content)
        assert list(Trace.open(path).files[0].read()) == [header]


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_line_in_the_middle_is_counted_and_read_over(
    line: bytes, tmp_path: Path, write_trace: WriteTrace
) -> None:
    after = msgspec.json.encode(events.Problem(5, message="after")) + b"\n"
    path = write_trace(tmp_path / "a.jsonl", events.Problem(1, message="before"), tail=line + after)
    reading = TraceFile.open(path).read()
    assert [event.message for event in reading if isinstance(event, events.Problem)] == ["before", "after"]
    assert (reading.malformed, reading.first_malformed_line, reading.is_cut) == (1, 3, False)


def test_blank_lines_are_nothing(tmp_path: Path, write_trace: WriteTrace) -> None:
    reading = TraceFile.open(write_trace(tmp_path / "a.jsonl", tail=b"\n  \n")).read()
    assert len(list(reading)) == 1
    assert reading.malformed == 0


def test_records_of_unknown_kinds_are_counted_by_kind(tmp_path: Path, write_trace: WriteTrace) -> None:
    tail = b'{"kind":"teleport","to":1}\n' * 2 + b'{"kind":"fold"}\n'
    reading = TraceFile.open(write_trace(tmp_path / "a.jsonl", tail=tail)).read()
    list(reading)
    assert reading.unknown == {"teleport": 2, "fold": 1}
    assert reading.malformed == 0


def test_fields_of_a_newer_minor_version_are_read_over(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", tail=b'{"kind":"problem","time_us":1,"message":"m","mood":"blue"}\n')
    assert list(TraceFile.open(path).read())[1] == events.Problem(1, message="m")


def test_a_trace_of_a_later_format_is_refused(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", format=events.FORMAT + 1)
    with pytest.raises(NewerFormatError, match=r"has trace format 2.*formats up to 1.*Upgrade"):
        Trace.open(path)


def test_beside_files_of_a_later_format_the_others_are_read(tmp_path: Path, write_trace: WriteTrace) -> None:
    write_trace(tmp_path / "rank0-1.jsonl", rank=0)
    newer = write_trace(tmp_path / "rank1-1.jsonl", rank=1, format=events.FORMAT + 1)
    trace = Trace.open(tmp_path)
    assert trace.ranks() == [0]
    (damaged,) = trace.damaged
    assert damaged.path == newer
    assert damaged.reason == "it has trace format 2, and this proxy-trace reads formats up to 1"


def test_a_later_format_is_refused_even_if_its_header_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"kind":"run","format":99,"script":{"name":"train.py"}}\n')
    with pytest.raises(NewerFormatError):
        Trace.open(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "it is empty", id="empty"),
        pytest.param(b"\n\n", "its first line is empty", id="blank"),
        pytest.param(b'{"kind":"run","for', "it ends within its first record", id="cut in the header"),
        pytest.param(b"{", "it ends within its first record", id="cut at once"),
        pytest.param(b"import torch\n", "its first line is not a record", id="a script"),
        pytest.param(b'{"kind":"update","time_us":1}\n', "its first record is not of kind 'run'", id="no header"),
        pytest.param(b'{"kind":"run","format":1}\n', "its first record is malformed", id="a poor header"),
        pytest.param(b'{"kind":"run","format":"x"}\n', "its first line is not a record", id="no format"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_reason(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(NotATraceError) as caught:
        Trace.open(path)
    assert str(caught.value).startswith(f"{path}: is not a trace: {reason}")


def test_a_text_log_is_told_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("found the root object\n")
    with pytest.raises(TextLogError, match=r"logdir that does not end in \.log"):
        Trace.open(path)


def test_files_are_ordered_by_rank_as_a_number(tmp_path: Path, write_trace: WriteTrace) -> None:
    for rank in (10, 2, 0):
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", rank=rank, pid=rank)
    trace = Trace.open(tmp_path)
    assert [file.run.rank for file in trace.files] == trace.ranks() == [0, 2, 10]
    assert [file.run.pid for file in trace.of_rank(2).files] == [2]
    with pytest.raises(NoSuchRankError, match=r"no file of rank 3 in this run\. Ranks are: 0, 2, 10\."):
        trace.of_rank(3)


def test_a_damaged_file_beside_good_ones_is_set_aside(tmp_path: Path, write_trace: WriteTrace) -> None:
    write_trace(tmp_path / "rank0-1.jsonl")
    (tmp_path / "rank1-2.jsonl").touch()
    trace = Trace.open(tmp_path)
    assert [file.path.name for file in trace.files] == ["rank0-1.jsonl"]
    assert trace.damaged == [(tmp_path / "rank1-2.jsonl", "it is empty")]


def test_all_names_of_a_file_are_the_last_ones_defined(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl",
        events.Module(1, "encoder", "Encoder", 1),
        events.CallModule(1, module=1),
        events.Module(2, "model", "Net", 2),
        events.Module(1, "model.encoder", "Encoder", 2, 2),
        tail=b'{"kind":"module","id":',
    )
    names = TraceFile.open(path).names()
    assert (names.module_name(1), names.module_name(2)) == ("model.encoder", "model")


def test_a_reading_knows_how_far_it_has_come(small_trace: Path) -> None:
    file = Trace.open(small_trace).files[0]
    reading = file.read()
    assert reading.bytes_read == 0
    list(reading)
    assert reading.bytes_read == file.size_bytes() == file.path.stat().st_size


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        ("1970-01-01T00:00:01.500+00:00", 1_500_000),
        ("1970-01-01T01:00:01.500000+01:00", 1_500_000),
        ("1970-01-01T00:00:02Z", 2_000_000),
        ("1970-01-01T00:00:02", 2_000_000),
        ("yesterday", 0),
    ],
)
def test_the_start_is_read_from_the_header(
    started: str, expected: int, tmp_path: Path, write_trace: WriteTrace
) -> None:
    assert TraceFile.open(write_trace(tmp_path / "a.jsonl", started=started)).started_us() == expected


def test_a_file_that_vanishes_is_an_error_with_its_name(small_trace: Path) -> None:
    file = Trace.open(small_trace).files[0]
    file.path.unlink()
    for read in (lambda: list(file.read()), file.names, file.size_bytes):
        with pytest.raises(UnreadableFileError, match=r"rank0-100.jsonl: cannot be read: No such file"):
            read()
