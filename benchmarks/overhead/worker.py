"""Trains one workload with one variant attached, when told to.

`python -m overhead.worker WORKLOAD VARIANT FOLDER DEVICE`

Reads a number of steps per line from standard input, and answers each with an `Answer` as a line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

from overhead.answer import Answer
from overhead.attachments import ATTACHMENTS, Attachment
from overhead.peers import PEERS
from overhead.tasks import BATCHES, Task, build


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Whatever else prints must not come between the answers.
    workload, variant, folder, device = sys.argv[1:]
    torch.set_num_threads(1)
    if device != "cpu":  # Weights are compared: everything that can be is to be the same each time.
        torch.use_deterministic_algorithms(True, warn_only=True)
    task = build(workload, device)
    attachment = {**ATTACHMENTS, **PEERS}[variant](task, Path(folder))
    trace = TraceSize(Path(folder))
    done = 0
    for line in sys.stdin:
        steps = int(line)
        wall, cpu, own_cpu = time.perf_counter(), time.process_time(), time.thread_time()
        times = sorted(train(task, attachment, done, steps))
        wall, cpu, own_cpu = time.perf_counter() - wall, time.process_time() - cpu, time.thread_time() - own_cpu
        done += steps
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 if sys.platform != "darwin" else 1024)
        answer = Answer(
            steps,
            wall,
            cpu,
            cpu - own_cpu,
            times[steps // 50],
            *trace.measure(),
            _weights_hash(task.model),
            peak_kb,
            _resident_bytes(),
        )
        print(json.dumps(asdict(answer)), file=answers, flush=True)


def train(task: Task, attachment: Attachment, first: int, steps: int) -> list[float]:
    """Run `steps` steps, beginning with batch `first`, and wait until what was recorded is out of the process.

    Returns:
        The time that each step took, in seconds; on an accelerator, the time that it took to ask for it.
    """
    model, optimizer = task.model, task.optimizer
    times = [time.perf_counter()]
    attachment.begin()
    for step in range(first, first + steps):
        optimizer.zero_grad()
        output = attachment.forward(task.inputs[step % BATCHES])
        loss = task.loss(output, task.targets[step % BATCHES])
        loss.backward()
        if task.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), task.clip)
        optimizer.step()
        attachment.end_step(loss)
        times.append(time.perf_counter())
    attachment.end()
    if task.inputs.device.type != "cpu":
        torch.accelerator.synchronize(task.inputs.device)
    return [after - before for before, after in pairwise(times)]


class TraceSize:
    """Counts what has been written below `folder`; reads only what is new, in pieces that leave the memory alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._records = 0

    def measure(self) -> tuple[int, int]:
        """Lines of all JSON Lines, and bytes of all files, so far."""
        size = 0
        for path in self._folder.rglob("*"):
            if not path.is_file() or path.is_symlink():
                continue
            size += path.stat().st_size
            if path.suffix == ".jsonl":
                with path.open("rb") as file:
                    file.seek(self._read.get(path, 0))
                    while piece := file.read(1 << 16):
                        self._records += piece.count(b"\n")
                    self._read[path] = file.tell()
        return self._records, size


def _weights_hash(model: nn.Module) -> str:
    """The BLAKE2b hash of the bytes of all parameters and buffers, in order."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(memoryview(tensor.detach().cpu().contiguous().numpy()).cast("B"))
    return digest.hexdigest()


def _resident_bytes() -> int:
    """The memory that the process has now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
