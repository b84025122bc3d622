"""Several of the programs in a row on one model, with the proxy set up, changed and taken away between them.

What each leaves behind (hooks, parametrizations, tied or replaced parameters, an open graph) the next one finds. They
are drawn at random: PROXY_EXAMPLES says how many; without it the same few each time.
"""

from __future__ import annotations

import gc
import os
import tempfile
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Problem, StateTensor, Update
from proxy_wrapper.levels import INFO
from proxy_wrapper.values.statistics import summarize, unobserved
from proxy_wrapper.writing.observers.memory import MemoryObserver
from tests.conformance.bits import difference, frozen
from tests.proxy_wrapper import programs
from tests.proxy_wrapper.programs import Branching, Plain, Program, Tied
from tests.proxy_wrapper.traps import copies, hooks, tensors, transforms
from tests.proxy_wrapper.traps import settings as settings_programs

EXAMPLES = int(os.environ.get("PROXY_EXAMPLES", "10"))
_MODULES = (programs, copies, hooks, transforms, tensors, settings_programs)
_LEFT_OUT = (
    # These take seconds.
    "a program exported, called",
    "workers that load data",
    # Whether tensors can be swapped depends on when the garbage collector finds what others left.
    "conversion by swapping tensors",
)


def programs_for(*classes: type[nn.Module]) -> list[Program]:
    """Those that are made for a model of one of these classes."""
    every = [program for module in _MODULES for program in module.PROGRAMS]
    return [program for program in every if program.build in classes and program.name not in _LEFT_OUT]


@dataclass(frozen=True)
class Setting:
    """A call of `Proxy`, or another of its functions, between two programs; a run that is not traced leaves it out."""

    call: str = "proxy"
    part: str = ""
    level: str | None = None
    recurse: bool = True
    first: int | None = None
    every: int | None = None

    def make(self, model: nn.Module, logdir: str) -> None:
        """Call it."""
        module = dict(model.named_modules()).get(self.part, model)
        if self.call == "proxy":
            folder = None if self.part else logdir
            Proxy.Proxy(module, self.recurse, folder, self.level, first=self.first, every=self.every)
        elif self.call == "unproxy":
            Proxy.unproxy(module)
        elif self.call == "stage":
            Proxy.stage("late")
        else:
            Proxy.flush()


parts = st.sampled_from(["", "", "first", "rest", "conv", "head"])
calls = st.builds(
    Setting,
    st.sampled_from(["proxy", "proxy", "proxy", "unproxy", "stage", "flush"]),
    parts,
    st.sampled_from(["WARNING", "INFO", "DEBUG", None]),
    st.booleans(),
    st.sampled_from([None, 0, 2]),
    st.sampled_from([None, 1, 3]),
)
compositions = st.one_of(
    st.tuples(st.just(Plain), st.lists(st.sampled_from(programs_for(Plain)) | calls, min_size=2, max_size=7)),
    st.tuples(st.just(Branching), st.lists(st.sampled_from(programs_for(Branching)) | calls, min_size=2, max_size=7)),
    st.tuples(st.just(Tied), st.lists(st.sampled_from(programs_for(Plain, Tied)) | calls, min_size=2, max_size=7)),
)


def outcome(model: nn.Module, steps: list[Program | Setting], logdir: str = "") -> list[Any]:
    """What each program gave, or the exception that ended it, and the state of the generators after it.

    Args:
        model: what all of them are run on.
        steps: them, and what is set between them.
        logdir: where the trace goes; without one nothing is traced.
    """
    found = []
    for step in steps:
        if isinstance(step, Setting):
            if logdir:
                step.make(model, logdir)
            continue
        torch.manual_seed(1)
        try:
            result: Any = step.run(model)
        except Exception as error:  # noqa: BLE001  What an earlier program left may be too much for a later one.
            result = (type(error).__name__, str(error))
        found.append(frozen([result, torch.get_rng_state()]))
        del result
    return found


def untold(seen: MemoryObserver) -> list[str]:
    """The names of parameters and buffers whose numbers now are not those that were recorded last."""
    tracer = Proxy._installed.tracer
    if tracer is None:
        return []
    told: dict[int, Any] = {}
    for event in seen.events:
        if isinstance(event, StateTensor):
            told[event.id] = event.statistics
        elif isinstance(event, Update):
            told[event.tensor] = event.statistics
    wrong = []
    for state in tracer.registry.state.values():
        tensor = state.tensor()
        if tensor is None or not state.watched or state.holder.configured_level > INFO:
            continue
        with unobserved():
            (numbers,) = summarize([tensor])
        if numbers != told.get(state.id):
            wrong.append(f"{state.name}: {numbers}, but recorded was {told.get(state.id)}")
    return wrong


@given(compositions, st.sampled_from(["INFO", "DEBUG"]))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PROXY_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_programs_in_a_row_give_the_same_bits_and_their_trace_ends_with_the_state_that_they_leave(
    composition: tuple[type[nn.Module], list[Program | Setting]], level: str
) -> None:
    cls, steps = composition
    for step in steps:
        note(step.name if isinstance(step, Program) else str(step))
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as logdir:
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        plain = outcome(cls(), steps)
        torch.manual_seed(0)
        model = cls()
        seen = MemoryObserver()
        try:
            Proxy.observe(seen)
            # Beside the model, so that the observer stays when that is unproxied.
            other = Proxy.Proxy(nn.Identity(), name="other", logdir=logdir)
            traced = outcome(model, [Setting("proxy", level=level), *steps], logdir)
            Proxy.flush()
            wrong = untold(seen)
        finally:
            Proxy._installed.take_down()
            gc.collect()
    assert isinstance(other, nn.Identity)
    assert difference(plain, traced) is None
    assert not wrong
    assert not [event for event in seen.events if isinstance(event, Problem)]
