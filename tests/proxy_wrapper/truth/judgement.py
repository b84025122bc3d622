"""Runs a program plain, counted and traced, and says what the tracing changed and what its trace says wrongly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

import proxy_wrapper.proxy as Proxy
from tests.conformance.bits import difference, frozen
from tests.proxy_wrapper.truth.comparison import untruths
from tests.proxy_wrapper.truth.counted_run import CountedRun
from tests.proxy_wrapper.truth.run import Run, TracedRun
from tests.proxy_wrapper.truth.traced_account import read_trace

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class TruthProgram:
    """What is run; what `run` returns is compared leaf by leaf.

    `in_order` as in `comparison.untruths`.
    """

    name: str
    run: Callable[[Run], Any]
    in_order: bool = True


def result_of(program: TruthProgram, run: Run) -> Any:
    """What the program gives, and the state of torch's generator after it, as bits."""
    torch.manual_seed(0)
    return frozen([program.run(run), torch.get_rng_state()])


def faults(program: TruthProgram, logdir: str, level: str) -> list[str]:
    """What a traced run of `program` changed, and what its trace says that is not so; nothing if all is well."""
    plain = result_of(program, Run())
    counted = CountedRun()
    with counted.counting():
        with_truth = result_of(program, counted)
    traced_run = TracedRun(logdir, level)
    traced = result_of(program, traced_run)
    Proxy._installed.take_down()
    found = []
    if (changed := difference(plain, with_truth)) is not None:
        found.append(f"the counting changed the program: {changed}")
    if (changed := difference(plain, traced)) is not None:
        found.append(f"the tracing changed the program: {changed}")
    return found + untruths(counted.truth, read_trace(logdir), in_order=program.in_order)
