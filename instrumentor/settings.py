"""What the user asked for, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LogLevel = Literal["WARNING", "INFO", "DEBUG"]
StatisticsOf = Literal["state", "outputs", "all"]
Confidence = Literal["certain", "likely", "possible"]
FactoryRule = Literal["auto", "always", "never"]
RANKS_PATTERN = r"[0-9]{1,7}(-[0-9]{1,7})?(,[0-9]{1,7}(-[0-9]{1,7})?)*"
"""How ranks are written: `0,8-15`."""

SIZE_PATTERN = r"[0-9]{1,12}(\.[0-9]{1,3})?[KMGT]?"
"""How sizes are written: `2G`, in powers of 1000."""

CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "possible")


@dataclass(frozen=True)
class Settings:
    """The settings that affect what is written into a script.

    Attributes:
        logdir: directory that the instrumented script writes its trace to; a name ending in `.log` means a text log.
        log_level: how much the runtime records.
        statistics_of: which tensors it records statistics of.
        first: how many iterations at the start are recorded.
        every: after those, every `every`-th iteration is recorded.
        ranks: which processes of a distributed run write a trace, such as `0,8-15`; empty for all.
        max_size: how large the trace of each process may grow, such as `2G`; empty for no limit.
        flow: whether the tests and loops of the models' code are recorded.
        recurse: whether the proxies cover the submodules of a wrapped model.
        select: name globs of the bindings to wrap, such as `model` or `self.net*`; empty selects all.
        skip: name globs of the bindings to skip, or dotted-name globs of what makes them; overrides `select`.
        min_confidence: the confidence that an object is a module from which on it is put under a proxy.
        wrap_factories: whether a public function that only returns the model it makes wraps it itself: "auto" for
            functions that none of the given files calls, "always", or "never".
        factories: dotted-name globs of functions that make a module, such as `mylib.models.build_*`.
        wrappers: dotted-name globs of callables whose result contains the module passed to them.
        identity_methods: names of methods that return the module they are called on.
        module_classes: dotted-name globs of classes that are modules, however they are defined.
    """

    logdir: str = "proxy_trace"
    log_level: LogLevel = "INFO"
    statistics_of: StatisticsOf = "state"
    first: int = 0
    every: int = 1
    ranks: str = ""
    max_size: str = ""
    flow: bool = False
    recurse: bool = True
    select: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    min_confidence: Confidence = "likely"
    wrap_factories: FactoryRule = "auto"
    factories: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    identity_methods: tuple[str, ...] = ()
    module_classes: tuple[str, ...] = ()
