"""The input of the checks: the summaries of all processes, and the comparison of ranks."""

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
    """Whether the level of a module records its calls and the updates of its parameters."""
    return module.level in RECORDED_LEVELS


def is_sampled(module: ModuleSummary) -> bool:
    """Whether some steps were not recorded, so that the trace may lack things that happened."""
    return module.every > 1 or module.is_cut_short


class Evidence:
    """A run, read to its end.

    Attributes:
        of_processes: the evidence of each process.
        damaged: the unreadable files.
        world_size: how many ranks the run has, by its own account.
        comparison: how the ranks compare; None if unknown.
        not_compared: why it is unknown.
        against: how the run deviates from a good one; None if it was not compared.
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
        """The summaries of the processes."""
        return [of_process.process for of_process in self.of_processes]

    @cached_property
    def first_us(self) -> int:
        """When the first process started, in microseconds of Unix time."""
        return min((of_process.started_us for of_process in self.of_processes), default=0)

    @cached_property
    def modules(self) -> list[ModuleSummary]:
        """The modules of all processes, without removed ones."""
        return [module for process in self.processes for module in process.modules if not module.removed]

    @cached_property
    def parameters(self) -> list[TensorSummary]:
        """The non-empty parameters of all processes, without removed ones."""
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
        """Why there is no record of `what`: "an optimizer", "a loss"."""
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
        """Whether the levels of all modules record neither calls nor updates."""
        return bool(self.modules) and not any(map(is_recorded, self.modules))

    @cached_property
    def level_words(self) -> list[str]:
        """Says which modules have a level that records no calls, gradients or updates; empty if none."""
        quiet = sum(not is_recorded(module) for module in self.modules)
        if not quiet:
            return []
        return ["level WARNING" if self.is_quiet else f"{of(quiet, len(self.modules), 'module')} at level WARNING"]

    @cached_property
    def sampling_words(self) -> list[str]:
        """Says that some steps are not recorded; empty if all are."""
        if any(module.every > 1 for module in self.modules):
            return ["only a sample of the steps is recorded"]
        is_cut_short = any(module.is_cut_short for module in self.modules)
        return ["the later steps are not recorded (max_size)"] if is_cut_short else []

    @cached_property
    def compiled_words(self) -> list[str]:
        """Says that no calls of modules are seen in compiled code; empty without compiled code."""
        runs_compiled = any(module.is_compiled for module in self.modules) or any(
            process.calls_compiled_functions for process in self.processes
        )
        return ["nothing is seen inside compiled code"] if runs_compiled else []

    @cached_property
    def device_words(self) -> list[str]:
        """Says how many parameters are on an accelerator, whose values are not read at once; empty if none."""
        tensors = [
            each for process in self.processes for each in process.tensors if not (each.removed or each.is_buffer)
        ]
        elsewhere = [each for each in tensors if each.device not in ("", "cpu")]
        return [f"{of(len(elsewhere), len(tensors), 'parameter')} not on the CPU"] if elsewhere else []

    @cached_property
    def watching_words(self) -> list[str]:
        """Says how many parameters and buffers are not watched; empty if all are."""
        tensors = [tensor for process in self.processes for tensor in process.tensors if not tensor.removed]
        unwatched = sum(not tensor.watched for tensor in tensors)
        return [f"{of(unwatched, len(tensors), 'tensor')} not watched"] if unwatched else []


def of(part: int, whole: int, what: str, plural: str = "") -> str:
    """A part of some things in words: "2 of 10 modules", "the only module"."""
    if whole == 1:
        return f"the only {what}"
    return f"{part:,} of {whole:,} {plural or what + 's'}"
