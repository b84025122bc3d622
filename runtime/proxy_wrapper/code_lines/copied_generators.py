"""Finds random generators that a data set keeps and that each worker process copies.

A generator in an attribute is copied into each worker with its state, and again in each epoch. So all workers draw the
same numbers, and draw them again in the next epoch.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.program_code.assigned_lines import AssignedLine, named_instructions
from proxy_wrapper.program_code.called_functions import Body, body_of, reachable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

_OF_NUMPY: Final = frozenset({"numpy.random.mtrand.RandomState", "numpy.random._generator.Generator"})
_SEEDS: Final = frozenset(
    {
        *("seed", "manual_seed", "set_state", "setstate", "get_worker_info", "initial_seed", "default_rng"),
        *("RandomState", "Random", "Generator", "spawn", "worker_id"),
    }
)
"""Names that a data set uses to give each worker or sample a generator or a state of its own."""


class CopiedGenerator(NamedTuple):
    """A generator that a data set keeps: its attribute, and the line that draws from it."""

    name: str
    line: AssignedLine


def copied_generator(dataset: Any, is_followed: Callable[[CodeType], bool]) -> CopiedGenerator | None:
    """The first generator among the attributes of a data set that its `__getitem__` reads, and never seeds; else None.

    Args:
        dataset: a data set whose samples are fetched by worker processes.
        is_followed: whether the code of a function is the program's.
    """
    kept = {f".{name}" for name, value in getattr(dataset, "__dict__", {}).items() if _is_generator(value)}
    body = body_of(getattr(type(dataset), "__getitem__", None)) if kept else None
    if body is None or not is_followed(body.code) or not body.code.co_argcount:
        return None
    start = Body(body.code, body.names, {body.code.co_varnames[0]: dataset})
    read = [
        (called.body.code, each)
        for called in reachable(start, is_followed)
        for each in named_instructions(called.body.code)
    ]
    if any(each.name.lstrip(".") in _SEEDS or (each.is_store and each.name in kept) for _, each in read):
        return None
    found = (CopiedGenerator(each.name[1:], AssignedLine(code, each.line)) for code, each in read if each.name in kept)
    return next(found, None)


def _is_generator(value: Any) -> bool:
    kind = type(value)
    return kind in (torch.Generator, random.Random) or f"{kind.__module__}.{kind.__qualname__}" in _OF_NUMPY
