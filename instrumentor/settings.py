"""What the user asked for, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LogLevel = Literal["WARNING", "INFO", "DEBUG"]
StatisticsOf = Literal["state", "outputs", "all"]
Confidence = Literal["certain", "likely", "possible"]
CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "possible")


@dataclass(frozen=True)
class Settings:
    """The choices that change what is written into a script.

    Attributes:
        logdir: directory the instrumented script writes its trace to; a name ending in `.log` asks for a text log.
        log_level: how much the runtime records.
        statistics_of: which tensors it records statistics of.
        recurse: whether the proxies reach the submodules of a wrapped model.
        select: name globs of the bindings to wrap, such as `model` or `self.net*`; empty selects all.
        skip: name globs of the bindings to leave alone, or dotted-name globs of what makes them; wins over `select`.
        min_confidence: how sure it must be that an object is a module for it to be put under a proxy.
        factories: dotted-name globs of functions that make a module, such as `mylib.models.build_*`.
        wrappers: dotted-name globs of callables whose result holds the module passed to them.
        identity_methods: names of methods that return the module they are called on.
        module_classes: dotted-name globs of classes that are modules, however they are defined.
    """

    logdir: str = "proxy_trace"
    log_level: LogLevel = "INFO"
    statistics_of: StatisticsOf = "state"
    recurse: bool = True
    select: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    min_confidence: Confidence = "likely"
    factories: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    identity_methods: tuple[str, ...] = ()
    module_classes: tuple[str, ...] = ()
