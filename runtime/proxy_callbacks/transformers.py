"""The callback for transformers' Trainer.

trainer = transformers.Trainer(..., callbacks=[TraceCallback(every=10)])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers.trainer_callback import TrainerCallback
from transformers.utils.logging import get_logger

from proxy_callbacks.traced_training import TracedTraining, metrics_of, words_of

if TYPE_CHECKING:
    import os

    from torch import nn
    from transformers.trainer_callback import TrainerControl, TrainerState
    from transformers.training_args import TrainingArguments


class TraceCallback(TrainerCallback):  # type: ignore[misc]  # transformers leaves it untyped.
    """Traces the trained model. At the end, it logs the findings and adds their number to the log history.

    The findings go to transformers' log. The history is `trainer.state.log_history`, also in `trainer_state.json`.
    """

    def __init__(self, logdir: str | os.PathLike[str] = "proxy_trace", **settings: Any) -> None:
        """Trace into `logdir`.

        Args:
            logdir: the folder that gets a subfolder for each run.
            settings: other settings of `Proxy.Proxy`, such as `log_level` or `every`.
        """
        self._training = TracedTraining(logdir, settings)

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002  transformers'.
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,  # noqa: ARG002
        model: nn.Module,
        **more: Any,  # noqa: ARG002
    ) -> None:
        """Begin the trace."""
        self._training.begin(model)

    def on_train_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **more: Any,  # noqa: ARG002
    ) -> None:
        """End the trace, and log the findings."""
        findings = self._training.end()
        if not state.is_world_process_zero:
            return
        log = get_logger("transformers.proxy_trace")
        for finding in findings:
            log.warning(words_of(finding))
        state.log_history.append({**metrics_of(findings), "step": state.global_step})
