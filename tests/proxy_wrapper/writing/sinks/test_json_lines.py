"""A trace as JSON Lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.reading.trace import Trace
from proxy_wrapper.events import CallModule, Location, ReturnModule, Run
from proxy_wrapper.process.launch import Rank
from proxy_wrapper.writing.sinks.json_lines import JsonLinesSink

if TYPE_CHECKING:
    from pathlib import Path

RUN = Run(1, "20261121T080911-3f2a9c", "2026-11-21T08:09:11+00:00", 7, "train.py", [], "3.11.7", "2.13.0", "0.1.0")


def test_texts_that_are_no_utf_8_are_written_with_escapes(tmp_path: Path) -> None:
    """Linux gives a script its path and its arguments as bytes; Python has those that are no UTF-8 as surrogates."""
    run = Run(1, RUN.run, RUN.started, 7, "tr\udcffin.py", ["--name", "\udce9t\udce9"], "3.11.7", "2.13.0", "0.1.0")
    sink = JsonLinesSink(str(tmp_path), run, lambda: Rank(1, 2))
    location = Location(1, "tr\udcffin.py", 4, "main")
    returned = ReturnModule(3, keywords={"m\udcffsk": "bool[2]"})
    sink.refresh()
    sink.write([location, CallModule(2, inputs=("float32[2]",)), returned])
    sink.close()
    (file,) = Trace.open(tmp_path).files
    header, *events = file.read()
    assert isinstance(header, Run)
    assert (header.script, header.argv, header.rank) == ("tr\\udcffin.py", ["--name", "\\udce9t\\udce9"], 1)
    assert events == [
        Location(1, "tr\\udcffin.py", 4, "main"),
        CallModule(2, inputs=["float32[2]"]),
        ReturnModule(3, keywords={"m\\udcffsk": "bool[2]"}),
    ]


def test_the_rank_that_becomes_known_later_stands_in_header_and_name(tmp_path: Path) -> None:
    rank = Rank(0, 1)
    sink = JsonLinesSink(str(tmp_path), RUN, lambda: rank)
    sink.write([CallModule(2)])
    rank = Rank(12, 16)
    sink.refresh()
    sink.write([CallModule(3)])
    sink.close()
    (file,) = Trace.open(tmp_path).files
    assert file.path.name == "rank12-7.jsonl"
    assert (file.run.rank, file.run.world_size) == (12, 16)
    assert list(file.read())[1:] == [CallModule(2), CallModule(3)]
