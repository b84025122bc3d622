"""Attaches the other ways there are of watching a training step. For the workers, which import torch."""

from __future__ import annotations

import importlib
import json
import sys
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.weak import WeakIdKeyDictionary

from overhead.attachments import Attachment

if TYPE_CHECKING:
    from collections.abc import Callable

    from overhead.tasks import Task


_TORCH: Final = str(Path(torch.__file__).parent)
_MODULE_CALL: Final = nn.Module._call_impl.__code__  # noqa: SLF001  Nothing public says where a call begins.


class Hooks(Attachment):
    """Forward hooks on every module, as one writes them by hand: shapes in and out, one JSON line each."""

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        self.file = (folder / "hooks.jsonl").open("w", encoding="utf-8")
        self.step = 0
        for name, module in task.model.named_modules():
            module.register_forward_hook(self._hook(name))

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def record(_: nn.Module, inputs: Any, output: Any) -> None:
            shapes = [list(value.shape) for value in inputs if isinstance(value, torch.Tensor)]
            outputs = output if isinstance(output, tuple) else (output,)
            shapes_out = [list(value.shape) for value in outputs if isinstance(value, torch.Tensor)]
            self.write({"step": self.step, "module": name, "inputs": shapes, "outputs": shapes_out})

        return record

    def write(self, record: dict[str, Any]) -> None:
        """Put `record` into the file."""
        self.file.write(json.dumps(record) + "\n")

    def end_step(self, loss: torch.Tensor) -> None:  # noqa: ARG002
        """Count the steps."""
        self.step += 1

    def end(self) -> None:
        """Empty the file's buffer."""
        self.file.flush()


class HooksWithStatistics(Hooks):
    """The same, and the numbers of every parameter and gradient after each step."""

    def end_step(self, loss: torch.Tensor) -> None:
        """Write minimum, maximum and norm."""
        for name, tensor in self.task.model.named_parameters():
            self._write_statistics("parameter", name, tensor.detach())
            if tensor.grad is not None:
                self._write_statistics("gradient", name, tensor.grad)
        super().end_step(loss)

    def _write_statistics(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        numbers = {"min": tensor.min().item(), "max": tensor.max().item(), "norm": tensor.norm().item()}
        self.write({"step": self.step, kind: name, "shape": list(tensor.shape), **numbers})


class HooksAtSameDetail(Hooks):
    """By hand what INFO records: calls and returns with places, times and numbers of tensors, non-finite values.

    Written as one would who wants it right and not fast: PyTorch's own reductions, one tensor after the other.
    """

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        self._numbers: Any = WeakIdKeyDictionary()
        self._next = count(1)
        self._began: list[float] = []
        for name, module in task.model.named_modules():
            module.register_forward_pre_hook(self._pre_hook(name))
        task.optimizer.register_step_pre_hook(lambda *_: self._write_gradients())
        task.optimizer.register_step_post_hook(lambda *_: self._write_parameters())

    def _pre_hook(self, name: str) -> Callable[[nn.Module, Any], None]:
        def record(module: nn.Module, inputs: Any) -> None:
            began = time.perf_counter()
            self._began.append(began)
            self._write("call", name, began, inputs, place=_place(), training=module.training)

        return record

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def record(_: nn.Module, __: Any, output: Any) -> None:
            ended = time.perf_counter()
            outputs = output if isinstance(output, tuple) else (output,)
            finite = all(bool(torch.isfinite(value).all()) for value in outputs if isinstance(value, torch.Tensor))
            self._write("return", name, ended, outputs, took=ended - self._began.pop(), finite=finite)

        return record

    def _write(self, kind: str, name: str, at: float, values: Any, **fields: Any) -> None:
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        shapes = [f"{value.dtype}{list(value.shape)}" for value in tensors]
        numbers = [self._number(value) for value in tensors]
        self.write(
            {"kind": kind, "step": self.step, "at": at, "module": name, "tensors": shapes, "ids": numbers, **fields}
        )

    def _number(self, tensor: torch.Tensor) -> int:
        number: int | None = self._numbers.get(tensor)
        if number is None:
            number = self._numbers[tensor] = next(self._next)
        return number

    def _write_gradients(self) -> None:
        for name, tensor in self.task.model.named_parameters():
            if tensor.grad is not None:
                self._write_statistics("gradient", name, tensor.grad)

    def _write_parameters(self) -> None:
        for name, tensor in self.task.model.named_parameters():
            self._write_statistics("parameter", name, tensor.detach())

    def _write_statistics(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        numbers = {"min": tensor.min().item(), "max": tensor.max().item(), "norm": tensor.norm().item()}
        nonfinite = (~torch.isfinite(tensor)).sum().item()
        self.write({"step": self.step, kind: name, **numbers, "nonfinite": nonfinite})


def _place() -> str:
    """The lines of the program that led here, those of torch aside, up to the enclosing module's call."""
    frame = sys._getframe(2)  # noqa: SLF001  As `inspect.currentframe`, for less.
    lines: list[str] = []
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_TORCH):
            lines.append(f"{code.co_filename}:{frame.f_lineno}")
        elif lines and code is _MODULE_CALL:
            break
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join(lines)


class Wandb(Attachment):
    """Weights & Biases' `watch`, offline: histograms of gradients and parameters at each step."""

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        wandb: Any = importlib.import_module("wandb")
        settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
        self._run = wandb.init(mode="offline", dir=str(folder), settings=settings)
        self._run.watch(task.model, log="all", log_freq=1)

    def end_step(self, loss: torch.Tensor) -> None:
        """Log, which is what sends the histograms off."""
        self._run.log({"loss": loss.item()})


class Nnsight(Attachment):
    """nnsight's trace of each forward pass, with its cache of the outputs of all modules."""

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        nnsight: Any = importlib.import_module("nnsight")
        self._net = nnsight.NNsight(task.model)
        self.cache: Any = None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The model's output, which stays part of the graph; the cache is kept until the next step."""
        with self._net.trace(inputs) as tracer:
            cache = tracer.cache()
            output = self._net.output.save()
        self.cache = cache
        result: torch.Tensor = output
        return result


class Profiler(Attachment):
    """torch's own profiler over a block of steps, and its Chrome trace of them."""

    has_stacks = False

    def begin(self) -> None:
        """Start profiling."""
        self._profile = profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=self.has_stacks)
        self._profile.__enter__()

    def end(self) -> None:
        """Stop, and write the trace."""
        self._profile.__exit__(None, None, None)
        number = sum(1 for _ in self.folder.iterdir())
        self._profile.export_chrome_trace(str(self.folder / f"{number}.json"))


class ProfilerWithStacks(Profiler):
    """The same, with the place in the code of each operation."""

    has_stacks = True


class Torchlens(Attachment):
    """torchlens' record (the cheaper of its two ways) of each forward pass: all operations, all modules."""

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        self._torchlens: Any = importlib.import_module("torchlens")
        self.recording: Any = None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The model's output, which stays part of the graph; the recording is kept until the next step."""
        output, self.recording = self._torchlens.record(
            self.task.model, inputs, default_op=True, default_module=True, return_output=True
        )
        result: torch.Tensor = output
        return result


PEERS: dict[str, type[Attachment]] = {
    "hooks": Hooks,
    "hooks-statistics": HooksWithStatistics,
    "hooks-same-detail": HooksAtSameDetail,
    "wandb": Wandb,
    "nnsight": Nnsight,
    "profiler": Profiler,
    "profiler-stack": ProfilerWithStacks,
    "torchlens": Torchlens,
}
