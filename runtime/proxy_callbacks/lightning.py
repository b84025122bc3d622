"""The callback for Lightning.

trainer = lightning.Trainer(callbacks=[TraceCallback(every=10)])
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lightning.pytorch.callbacks import Callback

from proxy_callbacks.traced_training import TracedTraining, metrics_of, words_of

if TYPE_CHECKING:
    import os

    from lightning.pytorch import LightningModule, Trainer

_log = logging.getLogger("lightning.pytorch.proxy_trace")


class TraceCallback(Callback):  # type: ignore[misc]  # Untyped for mypy where Lightning is not installed.
    """Traces the fitted model. At the end, it logs the findings to Lightning's log and their number to the loggers."""

    def __init__(self, logdir: str | os.PathLike[str] = "proxy_trace", **settings: Any) -> None:
        """Trace into `logdir`.

        Args:
            logdir: the folder that gets a subfolder for each run.
            settings: other settings of `Proxy.Proxy`, such as `log_level` or `every`.
        """
        self._training = TracedTraining(logdir, settings)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002  Lightning's.
        """Begin the trace."""
        self._training.begin(pl_module)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """End the trace, and log the findings."""
        findings = self._training.end()
        if not trainer.is_global_zero:
            return
        for finding in findings:
            _log.warning(words_of(finding))
        for logger in trainer.loggers:
            logger.log_metrics(metrics_of(findings), step=trainer.global_step)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:  # noqa: ARG002
        """End the trace of a failed training."""
        self._training.end()
