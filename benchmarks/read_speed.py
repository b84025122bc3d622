"""Measures how fast a trace is read, as ratios to `msgspec` decoding its lines and nothing else.

Makes traces of any length: the training step of a model as the runtime records it at DEBUG, over and over, with steps,
times, tensor numbers and statistics that go on. Then decodes, reads, summarises, follows a variable, exports, and
compares it record by record with another run: with one that is the same, and with one in which each parameter and
gradient has other values (the records counted are those of one run). Each is done in a fresh process, in turn. CPU
time, and peak memory at two lengths: what does not grow with the trace has a slope of 0.

    python benchmarks/read_speed.py
    python benchmarks/read_speed.py --records 200000 --rounds 2

With `--ranks`, a run of many ranks instead: CPU time of `summary` and `ranks` of all of it, as a ratio to what one rank
by itself takes, times their number. For `ranks`, which compares no rank alone, that is half of what two take. Memory
is that of the largest process.

    python benchmarks/read_speed.py --ranks 64
    python benchmarks/read_speed.py --ranks 1024 --jobs 2
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from proxy_trace.comparison.ranks import compare_ranks
from proxy_trace.comparison.records.compare_records import compare_records
from proxy_trace.export.parquet import export_parquet
from proxy_trace.open_trace import open_trace
from proxy_trace.reading.trace import Trace
from proxy_trace.reading.workers import Workers
from proxy_trace.summary.run_summary import summarize as sum_up
from proxy_trace.terminal.table import format_table
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COLUMNS: Final = ("task", "ratio", "CPU", "records/s", "peak memory", "bytes more per record")
COLUMNS_OF_RANKS: Final = ("task", "ratio", "a rank alone", "CPU", "elapsed", "peak memory")
_SHORT: Final = 4
"""The short trace, for the slope of memory, is the long one's length divided by this."""

RECORDS_OF_A_RANK: Final = 20_000


class Spent(NamedTuple):
    """The cost of a task: CPU seconds, peak memory in bytes, and wall-clock seconds."""

    seconds: float
    peak: int
    elapsed: float


def run_of_a_model(layers: int) -> list[events.AnyEvent]:
    """One training step of a model of `layers` linear layers at DEBUG, as the runtime records it; definitions first."""
    made: list[events.AnyEvent] = [events.Location(1, "train.py", 30, "main"), events.Module(1, "model", "Net", 1)]
    numbers = events.Statistics(-0.12345678, 0.23456789, 3.4567891)
    for layer in range(layers):
        module, weight = layer + 2, layer + 1
        made.append(events.Location(layer + 2, "net.py", 10 + layer, "Net.forward"))
        made.append(events.Module(module, f"model.{layer}", "Linear", 1, 1))
        made.append(
            events.Parameter(weight, f"model.{layer}.weight", module, "float32[64, 64]", "cuda:0", statistics=numbers)
        )
    words = ["float32[16, 64]"]
    made.append(events.CallModule(1, module=1, location=1, inputs=words, training=True, input_ids=[1]))
    for layer in range(layers):
        module, x = layer + 2, layer + 1
        text = [*words, f"model.{layer}.weight"]
        made += [
            events.CallModule(2, module=module, location=module, inputs=words, training=True, input_ids=[x]),
            events.CallFunction(
                3, module=module, location=module, target="torch._C._nn.linear", inputs=text, outputs=words,
                input_ids=[x, 0], output_ids=[x + 1],
            ),
            events.ReturnModule(4, module=module, outputs=words, duration_us=2, output_ids=[x + 1]),
        ]  # fmt: skip
    made.append(events.ReturnModule(5, module=1, outputs=words, duration_us=4, output_ids=[layers + 1]))
    made.append(events.Backward(6, location=1, inputs=words, input_ids=[layers + 1]))
    made.append(events.BackwardEnd(7, location=1, duration_us=1))
    made.append(events.OptimizerStep(8, location=1, optimizer="AdamW", tensors=layers))
    for layer in range(layers):
        made.append(events.Gradient(8, module=layer + 2, location=1, tensor=layer + 1, statistics=numbers))
        made.append(events.Update(9, module=layer + 2, location=1, tensor=layer + 1, statistics=numbers, version=1))
    made.append(events.OptimizerStepEnd(9, location=1, optimizer="AdamW", duration_us=1))
    return made


def write_trace(path: Path, records: int, world_size: int = 1, run: str = "r", factor: float = 1.0) -> int:
    """Write a trace of about `records` records, with norms that are `factor` times as large; how many it has."""
    model = run_of_a_model(layers=24)
    definitions = [event for event in model if not isinstance(event, events.Happening)]
    happenings = [event for event in model if isinstance(event, events.Happening)]
    encode_lines = msgspec.json.Encoder().encode_lines
    header = events.Run(events.FORMAT, run, "2026-11-21T08:00:00+00:00", 1, "train.py", [], "3.11", "2.13", "0.1.0")
    header = msgspec.structs.replace(header, world_size=world_size)
    count = 1 + len(definitions)
    with path.open("wb") as file:
        file.write(encode_lines([header, *definitions]))
        step = 0
        while count < records:
            file.write(encode_lines([later(event, step, factor) for event in happenings]))
            count += len(happenings)
            step += 1
    return count


def later(event: events.Happening, step: int, factor: float) -> events.Happening:
    """`event` as of a later step, with other values."""
    changes: dict[str, Any] = {"step": step, "time_us": event.time_us + 20 * step}
    for name in ("input_ids", "output_ids"):
        ids = getattr(event, name, None)
        if ids:
            changes[name] = [number and number + 100 * step for number in ids]
    if isinstance(event, events.Update | events.Gradient):
        norm = (3.0 + step * 1e-5) * factor
        bits = f"{1_000_003 * step + event.tensor + int(1e15 * (factor - 1)):016x}"
        changes["statistics"] = events.Statistics(-0.1 - step * 1e-6, 0.2 + step * 1e-6, norm, bits=bits)
    return msgspec.structs.replace(event, **changes)


def decode(path: Path) -> None:
    """The baseline: the minimum that any reader of this format must do."""
    decoder = msgspec.json.Decoder(events.AnyEvent)
    with path.open("rb", buffering=1 << 20) as file:
        for line in file:
            decoder.decode(line)


def read(path: Path) -> None:
    for _ in open_trace(path).files[0].read():
        pass


def summarize(path: Path) -> None:
    open_trace(path).summary()


def history(path: Path) -> None:
    for _ in open_trace(path).history("model.7.weight"):
        pass


def compare_with_equal(path: Path) -> None:
    compare_records(open_trace(path), open_trace(_equal_to(path)))


def compare_with_other(path: Path) -> None:
    compare_records(open_trace(path), open_trace(_other_than(path)))


def _equal_to(path: Path) -> Path:
    return path.with_name(f"equal-{path.name}")


def _other_than(path: Path) -> Path:
    return path.with_name(f"other-{path.name}")


def export(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        export_parquet(open_trace(path), Path(folder, "dataset"))


TASKS: Final[dict[str, Callable[[Path], None]]] = {
    "decode": decode,
    "read": read,
    "summary": summarize,
    "history": history,
    "export": export,
    "compare --records, equal": compare_with_equal,
    "compare --records, other values": compare_with_other,
}


def summarize_ranks(path: Path, workers: Workers) -> None:
    sum_up(Trace.open(path), workers)


def compare_all_ranks(path: Path, workers: Workers) -> None:
    assert compare_ranks(Trace.open(path), workers=workers).agrees


TASKS_OF_RANKS: Final[dict[str, Callable[[Path, Workers], None]]] = {
    "summary": summarize_ranks,
    "ranks": compare_all_ranks,
}


def in_a_process_of_its_own(task: str, path: Path, jobs: int = 1) -> Spent:
    """The cost of a task, run with `jobs` processes if that is more than one."""
    command = [sys.executable, __file__, "--task", task, "--path", str(path), "--jobs", str(jobs)]
    return Spent(*json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def do(task: str, path: Path, jobs: int) -> None:
    began, began_at = cpu_seconds(), time.perf_counter()
    if task in TASKS_OF_RANKS:
        with Workers(jobs) as workers:
            TASKS_OF_RANKS[task](path, workers)
    else:
        TASKS[task](path)
    own, of_children = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    peak = max(own, of_children) * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps([cpu_seconds() - began, peak, time.perf_counter() - began_at]))


def cpu_seconds() -> float:
    """The CPU time of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def write_ranks(folder: Path, ranks: int, records: int) -> int:
    """Write a run of data parallelism, whose ranks record the same from other devices; how many records each has."""
    first = folder / "rank0-1000.jsonl"
    count = write_trace(first, records, world_size=ranks)
    header, rest = first.read_bytes().split(b"\n", 1)
    for rank in range(1, ranks):
        of_rank = msgspec.structs.replace(msgspec.json.decode(header, type=events.Run), rank=rank, pid=1000 + rank)
        of_device = rest.replace(b'"cuda:0"', f'"cuda:{rank}"'.encode())
        path = folder / f"rank{rank}-{1000 + rank}.jsonl"
        path.write_bytes(msgspec.json.encode(of_rank) + b"\n" + of_device)
    return count


def measure_ranks(ranks: int, records: int, rounds: int, jobs: int) -> None:
    """Print the table of a run of many ranks."""
    rows = []
    with tempfile.TemporaryDirectory() as together, tempfile.TemporaryDirectory() as two:
        count = write_ranks(Path(together), ranks, records)
        write_ranks(Path(two), 2, records)
        for task in TASKS_OF_RANKS:
            alone, ratios, spent = [], [], []
            for _ in range(rounds):
                # Starting the process is not part of a rank's cost.
                of_two = in_a_process_of_its_own(task, Path(two)).seconds
                of_rank = of_two / 2 if task == "ranks" else in_a_process_of_its_own(task, path_of_rank(two)).seconds
                spent.append(in_a_process_of_its_own(task, Path(together), jobs))
                alone.append(of_rank)
                ratios.append(spent[-1].seconds / (ranks * of_rank))
            cells = [f"{statistics.median(ratios):.2f}", f"{statistics.median(alone):.3f} s"]
            cells += [f"{statistics.median(each.seconds for each in spent):.2f} s"]
            cells += [f"{statistics.median(each.elapsed for each in spent):.2f} s"]
            rows.append([task, *cells, f"{max(each.peak for each in spent) / 1e6:.0f} MB"])
    print(f"{ranks:,} ranks of {count:,} records each, {jobs} jobs, medians of {rounds} rounds\n")
    print("\n".join(format_table(COLUMNS_OF_RANKS, rows, "lrrrrr")))


def path_of_rank(folder: str) -> Path:
    return next(Path(folder).glob("rank0-*"))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="how fast traces are read, as ratios to decoding alone")
    parser.add_argument("--records", type=int, help="length of the trace (default: 1,000,000; of a rank 20,000)")
    parser.add_argument("--only", choices=TASKS, action="append", help="only this task, and decoding; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="times that all tasks take their turn (default: 3)")
    parser.add_argument("--ranks", type=int, help="measure a run of so many ranks")
    parser.add_argument("--jobs", type=int, default=1, help="processes that read the ranks (default: 1)")
    parser.add_argument("--task", choices={**TASKS, **TASKS_OF_RANKS}, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        do(args.task, args.path, args.jobs)
    elif args.ranks:
        measure_ranks(args.ranks, args.records or RECORDS_OF_A_RANK, args.rounds, args.jobs)
    else:
        measure_one_trace(
            args.records or 1_000_000,
            args.rounds,
            [task for task in TASKS if task in ("decode", *(args.only or TASKS))],
        )


def measure_one_trace(length: int, rounds: int, tasks: Sequence[str]) -> None:
    """Print the table of one trace."""
    with tempfile.TemporaryDirectory() as folder:
        long, short = Path(folder, "long.jsonl"), Path(folder, "short.jsonl")
        records, few = write_trace(long, length), write_trace(short, length // _SHORT)
        for path, count in ((long, length), (short, length // _SHORT)):
            if any(task.startswith("compare") for task in tasks):
                write_trace(_equal_to(path), count, run="equal")
                write_trace(_other_than(path), count, run="other", factor=1.01)
        seconds: dict[str, list[float]] = {task: [] for task in tasks}
        peaks: dict[str, int] = {}
        for _ in range(rounds):
            for task in tasks:
                spent = in_a_process_of_its_own(task, long)
                peaks[task] = spent.peak
                seconds[task].append(spent.seconds)
        small = {task: in_a_process_of_its_own(task, short).peak for task in tasks}
    rows = []
    for task, of_task in seconds.items():
        ratio = statistics.median(one / base for one, base in zip(of_task, seconds["decode"], strict=True))
        cpu = statistics.median(of_task)
        slope = (peaks[task] - small[task]) / (records - few)
        cells = [f"{ratio:.2f}", f"{cpu:.2f} s", f"{records / cpu:,.0f}", f"{peaks[task] / 1e6:.0f} MB", f"{slope:.1f}"]
        rows.append([task, *cells])
    print(f"{records:,} records, medians of {rounds} rounds\n")
    print("\n".join(format_table(COLUMNS, rows, "lrrrrr")))


if __name__ == "__main__":
    main()
