"""Measures how fast a trace is read, as ratios to `msgspec` decoding its lines and nothing else.

Makes traces of any length: the training step of a model as the runtime records it at DEBUG, over and over, with steps,
times, tensor numbers and statistics that go on. Then decodes, reads, summarises, follows a variable and exports, each
in a fresh process, in turn. CPU time, and peak memory at two lengths: what does not grow with the trace has a slope
of 0.

    python benchmarks/read_speed.py
    python benchmarks/read_speed.py --records 200000 --rounds 2
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_trace.export.parquet import export_parquet
from proxy_trace.open_trace import open_trace
from proxy_trace.table import format_table
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS: Final = ("task", "ratio", "CPU", "records/s", "peak memory", "bytes more per record")
_SHORT: Final = 4
"""The short trace, for the slope of memory, is the long one's length divided by this."""


def run_of_a_model(layers: int) -> list[events.AnyEvent]:
    """One training step of a model of `layers` linear layers at DEBUG, as the runtime records it; definitions first."""
    made: list[events.AnyEvent] = [events.Location(1, "train.py", 30, "main"), events.Module(1, "model", "Net", 1)]
    numbers = events.Statistics(-0.12345678, 0.23456789, 3.4567891)
    for layer in range(layers):
        module, weight = layer + 2, layer + 1
        made.append(events.Location(layer + 2, "net.py", 10 + layer, "Net.forward"))
        made.append(events.Module(module, f"model.{layer}", "Linear", 1, 1))
        made.append(events.Parameter(weight, f"model.{layer}.weight", module, "float32[64, 64]", statistics=numbers))
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


def write_trace(path: Path, records: int) -> int:
    """Write a trace of about `records` records; how many it has."""
    model = run_of_a_model(layers=24)
    definitions = [event for event in model if not isinstance(event, events.Happening)]
    happenings = [event for event in model if isinstance(event, events.Happening)]
    encode_lines = msgspec.json.Encoder().encode_lines
    header = events.Run(events.FORMAT, "r", "2026-11-21T08:00:00+00:00", 1, "train.py", [], "3.11", "2.13", "0.1.0")
    count = 1 + len(definitions)
    with path.open("wb") as file:
        file.write(encode_lines([header, *definitions]))
        step = 0
        while count < records:
            file.write(encode_lines([later(event, step) for event in happenings]))
            count += len(happenings)
            step += 1
    return count


def later(event: events.Happening, step: int) -> events.Happening:
    """`event` as it is in a later step."""
    changes: dict[str, Any] = {"step": step, "time_us": event.time_us + 20 * step}
    for name in ("input_ids", "output_ids"):
        ids = getattr(event, name, None)
        if ids:
            changes[name] = [number and number + 100 * step for number in ids]
    if isinstance(event, events.Update):
        changes["statistics"] = events.Statistics(-0.1 - step * 1e-6, 0.2 + step * 1e-6, 3.0 + step * 1e-5)
    return msgspec.structs.replace(event, **changes)


def decode(path: Path) -> None:
    """The yardstick: what any reader of this format must do."""
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


def export(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        export_parquet(open_trace(path), Path(folder, "dataset"))


TASKS: Final[dict[str, Callable[[Path], None]]] = {
    "decode": decode,
    "read": read,
    "summary": summarize,
    "history": history,
    "export": export,
}


def in_a_process_of_its_own(task: str, path: Path) -> tuple[float, int]:
    """CPU seconds of a task, and the peak of its memory in bytes."""
    command = [sys.executable, __file__, "--task", task, "--path", str(path)]
    seconds, peak = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return float(seconds), int(peak)


def do(task: str, path: Path) -> None:
    began = time.process_time()
    TASKS[task](path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps([time.process_time() - began, peak]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="how fast traces are read, as ratios to decoding alone")
    parser.add_argument("--records", type=int, default=1_000_000, help="length of the trace (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="times that all tasks take their turn (default: 3)")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        do(args.task, args.path)
        return
    with tempfile.TemporaryDirectory() as folder:
        long, short = Path(folder, "long.jsonl"), Path(folder, "short.jsonl")
        records, few = write_trace(long, args.records), write_trace(short, args.records // _SHORT)
        seconds: dict[str, list[float]] = {task: [] for task in TASKS}
        peaks: dict[str, int] = {}
        for _ in range(args.rounds):
            for task in TASKS:
                spent, peaks[task] = in_a_process_of_its_own(task, long)
                seconds[task].append(spent)
        small = {task: in_a_process_of_its_own(task, short)[1] for task in TASKS}
    rows = []
    for task, of_task in seconds.items():
        ratio = statistics.median(one / base for one, base in zip(of_task, seconds["decode"], strict=True))
        cpu = statistics.median(of_task)
        slope = (peaks[task] - small[task]) / (records - few)
        cells = [f"{ratio:.2f}", f"{cpu:.2f} s", f"{records / cpu:,.0f}", f"{peaks[task] / 1e6:.0f} MB", f"{slope:.1f}"]
        rows.append([task, *cells])
    print(f"{records:,} records, medians of {args.rounds} rounds\n")
    print("\n".join(format_table(COLUMNS, rows, "lrrrrr")))


if __name__ == "__main__":
    main()
