"""What the checks look at: the sums of all processes, and how the ranks compare."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from proxy_trace.process.module_tree import ModuleTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.comparison.against.compare_with_good_run import GoodRunComparison
    from proxy_trace.comparison.ranks import Comparison
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence, ProcessSummary, TensorSummary
    from proxy_trace.reading.trace import DamagedFile

RECORDED_LEVELS: Final = frozenset({"INFO", "DEBUG"})
NO_TRAINING: Final = "no training was traced"


def is_recorded(module: ModuleSummary) -> bool:
    """Whether the calls of a module and the updates of its parameters are recorded at all, at its level."""
    return module.level in RECORDED_LEVELS


def is_sampled(module: ModuleSummary) -> bool:
    """Whether some steps were not recorded, so that what the trace lacks may have happened all the same."""
    return module.every > 1 or module.is_cut_short


class Evidence:
    """A run, read to its end.

    Attributes:
        of_processes: what the processes recorded.
        damaged: the files from which nothing can be read.
        world_size: how many ranks the run says that it has.
        comparison: how the ranks compare; None if that is not known.
        not_compared: why it is not.
        against: how the run deviates from a good one; None if it was compared with none.
    """

    def __init__(
        self,
        of_processes: Sequence[ProcessEvidence],
        damaged: Sequence[DamagedFile] = (),
        world_size: int = 1,
        comparison: Comparison | None = None,
        not_compared: str = "",
        against: GoodRunComparison | None = None,
    ) -> None:
        self.of_processes = of_processes
        self.damaged = damaged
        self.world_size = world_size
        self.comparison = comparison
        self.not_compared = not_compared
        self.against = against

    @cached_property
    def processes(self) -> list[ProcessSummary]:
        """The sums of the processes."""
        return [of_process.process for of_process in self.of_processes]

    @cached_property
    def first_us(self) -> int:
        """When the first process started, in microseconds of Unix time."""
        return min((of_process.started_us for of_process in self.of_processes), default=0)

    @cached_property
    def modules(self) -> list[ModuleSummary]:
        """The modules of all processes, those that were taken out aside."""
        return [module for process in self.processes for module in process.modules if not module.removed]

    @cached_property
    def parameters(self) -> list[TensorSummary]:
        """The parameters of all processes that have elements, those that were taken out aside."""
        return [
            tensor
            for process in self.processes
            for tensor in process.tensors
            if not (tensor.is_buffer or tensor.is_empty or tensor.removed)
        ]

    @cached_property
    def trees(self) -> list[ModuleTree]:
        """The tree of modules of each process, in the order of `of_processes`."""
        return [ModuleTree(process.modules) for process in self.processes]

    def unseen_training(self, what: str) -> list[str]:
        """Why there is no record of an optimizer, or of a loss, as `what` says."""
        return self.level_words or [f"no record of {what}"]

    @cached_property
    def of_rank(self) -> dict[int, list[ProcessSummary]]:
        """The processes of each rank."""
        found: dict[int, list[ProcessSummary]] = {}
        for process in self.processes:
            found.setdefault(process.rank, []).append(process)
        return found

    @cached_property
    def is_quiet(self) -> bool:
        """Whether no module has a level that records calls and updates."""
        return bool(self.modules) and not any(map(is_recorded, self.modules))

    @cached_property
    def level_words(self) -> list[str]:
        """That some modules have a level that does not record calls, gradients and updates."""
        quiet = sum(not is_recorded(module) for module in self.modules)
        if not quiet:
            return []
        return ["level WARNING" if self.is_quiet else f"{of(quiet, len(self.modules), 'module')} at level WARNING"]

    @cached_property
    def sampling_words(self) -> list[str]:
        """That some steps are not recorded."""
        if any(module.every > 1 for module in self.modules):
            return ["only a sample of the steps is recorded"]
        is_cut_short = any(module.is_cut_short for module in self.modules)
        return ["the later steps are not recorded (max_size)"] if is_cut_short else []

    @cached_property
    def compiled_words(self) -> list[str]:
        """That in compiled code no calls of modules are seen."""
        runs_compiled = any(module.is_compiled for module in self.modules) or any(
            process.calls_compiled_functions for process in self.processes
        )
        return ["nothing is seen inside compiled code"] if runs_compiled else []

    @cached_property
    def device_words(self) -> list[str]:
        """That some parameters are on an accelerator, whose values are not read at once."""
        tensors = [
            each for process in self.processes for each in process.tensors if not (each.removed or each.is_buffer)
        ]
        elsewhere = [each for each in tensors if each.device not in ("", "cpu")]
        return [f"{of(len(elsewhere), len(tensors), 'parameter')} not on the CPU"] if elsewhere else []

    @cached_property
    def watching_words(self) -> list[str]:
        """That some parameters and buffers are not watched."""
        tensors = [tensor for process in self.processes for tensor in process.tensors if not tensor.removed]
        unwatched = sum(not tensor.watched for tensor in tensors)
        return [f"{of(unwatched, len(tensors), 'tensor')} not watched"] if unwatched else []


def of(part: int, whole: int, what: str, plural: str = "") -> str:
    """A part of some things in words: "2 of 10 modules", "the only module"."""
    if whole == 1:
        return f"the only {what}"
    return f"{part:,} of {whole:,} {plural or what + 's'}"
