"""Runs a case plain, plain again, traced at each level and profiled, and says where the runs differ."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import (
    CallFunction,
    CallModule,
    DelAttr,
    GetAttr,
    Problem,
    ReadValue,
    ReturnModule,
    SetAttr,
)
from proxy_wrapper.intercept.calls.blacklist import Blacklist
from proxy_wrapper.writing.observers.memory import MemoryObserver
from tests.conformance.bits import difference, frozen

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from proxy_wrapper.events import AnyEvent
    from tests.conformance.cases import Case, Trial

_STATISTICS: Final = {"INFO": ("state",), "DEBUG": ("state", "all")}
"""The levels, and of what there are statistics at each."""

_MORE_RUNS: Final = 100
_TORCH_CALLS: Final = (CallFunction, ReadValue, GetAttr, SetAttr, DelAttr)


class Raised(NamedTuple):
    """What is compared of a run that ended in an exception."""

    type: str
    message: str


class Outcome(NamedTuple):
    """What a trial left behind, tensors as their bits."""

    result: Any
    state: Any
    random_state: Any
    messages: list[str]
    """The warnings, each as "category: text"."""

    def raised(self) -> bool:
        """Whether it ended in an exception."""
        return isinstance(self.result, Raised)


@dataclass
class Findings:
    """What came out of comparing the runs of one case."""

    samples: int = 0
    raised: int = 0
    """Samples that raise an exception, the same one traced."""
    nondeterministic: list[str] = field(default_factory=list)
    """Labels of samples that differ between two plain runs."""
    differences: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    """Where tracing left no record of the call."""
    without_torch_calls: int = 0
    """Samples in which, at level DEBUG, the module called nothing of torch that a function mode is told of."""


def compare(case: Case, folder: Path) -> Findings:
    """Run `case` untraced twice and at each level, with traces written to `folder`."""
    torch.set_num_threads(1)
    torch.set_warn_always(True)
    trials = _trials(case)
    first = [_outcome(case, number, trial) for number, trial in enumerate(trials)]
    second = [_outcome(case, number, trial) for number, trial in enumerate(_trials(case))]
    findings = Findings(samples=len(trials), raised=sum(each.raised() for each in second))
    same = []
    for trial, one, other in zip(trials, first, second, strict=True):
        same.append(difference(one[:3], other[:3]) is None)
        if not same[-1]:
            findings.nondeterministic.append(trial.label)
    for level, choices in _STATISTICS.items():
        for statistics in choices:
            _compare_level(case, level, statistics, folder, second, same, findings)
    _compare_profiled(case, second, same, findings)
    if findings.differences:
        _doubt(case, second, findings)
    return findings


def _doubt(case: Case, plain: list[Outcome], findings: Findings) -> None:
    """Take a difference for what it is only where many more untraced runs agree; two may do so by chance.

    LAPACK's `gels`, for one, gives other last bits in one run of twenty or so, by where its memory happens to lie. So
    each run finds the heap in another state.
    """
    doubtful = {each.partition(" at ")[0] for each in findings.differences}
    changing: set[str] = set()
    for turn in range(_MORE_RUNS):
        ballast = [torch.empty(size) for size in range(1, 2 * turn + 1)]
        del ballast[::2]
        for number, trial in enumerate(_trials(case)):
            if trial.label in doubtful - changing:
                again = _outcome(case, number, trial)
                if difference(plain[number][:3], again[:3]) is not None:
                    changing.add(trial.label)
        if changing == doubtful:
            break
    findings.nondeterministic += sorted(changing.difference(findings.nondeterministic))
    findings.differences = [each for each in findings.differences if each.partition(" at ")[0] not in changing]


def _compare_level(
    case: Case,
    level: str,
    statistics: str,
    folder: Path,
    plain: list[Outcome],
    same: list[bool],
    findings: Findings,
) -> None:
    observer = MemoryObserver()
    Proxy.observe(observer)
    try:
        trials = _trials(case)
        for trial in trials:
            Proxy.Proxy(
                trial.model, recurse=True, logdir=folder / level / statistics, log_level=level, statistics=statistics
            )
        roots = _roots(trials)
        for number, trial in enumerate(trials):
            observer.events.clear()
            traced = _outcome(case, number, trial)
            found = difference(plain[number], traced)
            if found is not None and same[number]:
                findings.differences.append(f"{trial.label} at {level} with {statistics}: {found}")
            findings.unseen += _unseen(trial, level, observer.events, roots[id(trial.model)], traced.raised())
            if level == "DEBUG" and not traced.raised() and trial.model not in Blacklist():
                findings.without_torch_calls += not any(
                    isinstance(each, _TORCH_CALLS) and each.module for each in observer.events
                )
        tracer = Proxy._installed.tracer
        if tracer is not None and not tracer.active:
            findings.unseen.append(f"tracing stopped at {level}")
    finally:
        Proxy._installed.take_down()


class _Watching(TorchDispatchMode):
    """Does nothing, as a dispatch mode."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _compare_profiled(case: Case, plain: list[Outcome], same: list[bool], findings: Findings) -> None:
    try:
        for number, trial in enumerate(_trials(case)):
            with Proxy.trace(trial.model, profile=True) as trace:
                profiled = _outcome(case, number, trial)
            found = difference(plain[number], profiled)
            if found is not None and same[number] and not _is_other_when_watched(case, number, plain[number]):
                findings.differences.append(f"{trial.label} at a profile: {found}")
            trace.profile()
    finally:
        Proxy._installed.take_down()


def _is_other_when_watched(case: Case, number: int, plain: Outcome) -> bool:
    """Whether torch itself takes another path where anybody watches: under an empty mode, and hooks that do nothing."""
    for watching in (_Watching(), saved_tensors_hooks(lambda each: each, lambda each: each)):  # type: ignore[no-untyped-call]
        trial = _trials(case)[number]
        with watching:
            watched = _outcome(case, number, trial)
        if difference(plain, watched) is not None:
            return True
    return False


def _roots(trials: list[Trial]) -> dict[int, int]:
    """The number that the trace gives each trial's module, by identity."""
    registry = Proxy._installed.get().registry
    entries = {id(trial.model): registry.module_entry(trial.model) for trial in trials}
    return {key: entry.id for key, entry in entries.items() if entry is not None}


def _unseen(trial: Trial, level: str, events: list[AnyEvent], root: int, raised: bool) -> list[str]:
    """What is missing from the records of one trial, or should not be there."""
    begun = sum(isinstance(event, CallModule) and event.module == root for event in events)
    ended = sum(isinstance(event, ReturnModule) and event.module == root for event in events)
    problems = [event.message for event in events if isinstance(event, Problem)]
    found = [f"{trial.label} at {level}: {message}" for message in problems]
    if begun != ended or (not begun and not raised):
        found.append(f"{trial.label} at {level}: {begun} calls begun and {ended} ended")
    return found


def _trials(case: Case) -> list[Trial]:
    _seed(0)
    # PyTorch seeds before each sample. `torch.manual_seed` notes a traceback for every kind of accelerator that is not
    # there, which takes longer than to make the sample.
    seed_what_is_there = mock.patch.object(torch, "manual_seed", _seed_torch)
    with warnings.catch_warnings(), seed_what_is_there:
        warnings.simplefilter("ignore")
        return case.make_trials()


def _outcome(case: Case, number: int, trial: Trial) -> Outcome:
    _seed(number + 1)
    torch.use_deterministic_algorithms(case.fills_memory)
    result: Any
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = trial.run()
        except Exception as error:  # noqa: BLE001  Whatever it is, it is to be the same traced.
            result = Raised(type(error).__name__, str(error))
        finally:
            torch.use_deterministic_algorithms(False)
    messages = [f"{each.category.__name__}: {each.message}" for each in caught]
    return Outcome(frozen(result), frozen(_state(trial.model)), frozen(_random_state()), messages)


def _state(model: nn.Module) -> list[torch.Tensor]:
    tensors = (*model.parameters(), *model.buffers())
    return [tensor for tensor in tensors if not torch.nn.parameter.is_lazy(tensor)]


def _seed_torch(seed: int) -> torch.Generator:
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    return torch.default_generator.manual_seed(seed)


def _seed(seed: int) -> None:
    _seed_torch(seed)
    random.seed(seed)
    np.random.seed(seed)  # Some of PyTorch's samples draw from numpy's global generator.


def _random_state() -> tuple[list[torch.Tensor], int, bytes]:
    """The states of the generators of torch, Python and numpy; of Python's 625 numbers their hash."""
    of_numpy: Any = np.random.get_state()
    of_torch = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else ())]
    return of_torch, hash(random.getstate()), of_numpy[1].tobytes() + bytes([of_numpy[2] % 256])
