"""Traces one model from the start to the end of its training, and returns the findings."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks.finding import ERROR, NOTE, WARNING
from proxy_trace.reading.trace import Trace
from proxy_trace.summary.last_line import find_run
from proxy_trace.summary.run_summary import summarize
from proxy_wrapper.process.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from proxy_trace.checks.finding import Finding


class TracedTraining:
    """The trace of a training run by a library."""

    def __init__(self, logdir: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        """Trace into `logdir`, with other `settings` of `Proxy.Proxy`."""
        self._logdir = Path(logdir).absolute()
        self._settings = settings
        self._model: nn.Module | None = None
        self._began_s = 0.0

    def begin(self, model: nn.Module) -> None:
        """Trace `model`, unless the program already does."""
        if self._model is None and not Proxy.is_proxied(model):
            self._began_s = time.time()
            self._model = Proxy.Proxy(model, recurse=True, name="model", logdir=self._logdir, **self._settings)

    def end(self) -> Sequence[Finding]:
        """End the trace, and return its findings, except notes. Empty if no trace was written."""
        model, self._model = self._model, None
        if model is None:
            return ()
        run = Launch.of_this_process().run
        Proxy.flush()
        Proxy.unproxy(model)
        folder = find_run(self._logdir, os.getpid(), run, self._began_s)
        if folder is None:
            return ()
        return [finding for finding in summarize(Trace.open(folder)).findings if finding.severity != NOTE]


def metrics_of(findings: Sequence[Finding]) -> dict[str, float]:
    """The numbers of findings, as metrics: in total and by severity."""
    counted = {severity: sum(each.severity == severity for each in findings) for severity in (ERROR, WARNING)}
    return {
        "trace/findings": float(len(findings)),
        "trace/errors": float(counted[ERROR]),
        "trace/warnings": float(counted[WARNING]),
    }


def words_of(finding: Finding) -> str:
    """A finding on one line."""
    place = f" ({finding.place})" if finding.place else ""
    return f"{finding.severity}[{finding.code}] {finding.name}: {finding.reason}{place}"
