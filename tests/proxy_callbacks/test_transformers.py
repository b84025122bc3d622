"""The callback for transformers' Trainer: the same weights with it and without, a trace, and the findings."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers", reason="the callback is for transformers, not installed")
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate, which is not installed")

from proxy_callbacks.transformers import TraceCallback
from tests.proxy_callbacks.conftest import kinds_in

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 1))
        self.idle = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        put_out = self.net(x)
        return {"loss": (put_out - labels).square().mean(), "logits": put_out}


def train(folder: Path, callbacks: list[Any]) -> tuple[dict[str, Any], Any]:
    """The weights after a small training, and the trainer."""
    transformers.set_seed(5)
    model = Regression()
    data = [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(24)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=2,
        per_device_train_batch_size=8,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=data, callbacks=callbacks)
    trainer.train()
    return {**model.state_dict(), "random state": torch.get_rng_state()}, trainer


def test_weights_are_the_same_and_there_is_a_trace_with_findings(tmp_path: Path) -> None:
    plain, _ = train(tmp_path / "plain", [])
    traced, trainer = train(tmp_path / "traced", [TraceCallback(tmp_path / "trace")])
    assert list(plain) == list(traced)
    assert all(torch.equal(plain[name], traced[name]) for name in plain)
    kinds = kinds_in(tmp_path / "trace")
    assert kinds.count("optimizer_step") == 6
    assert kinds[-1] == "run_end"
    assert trainer.state.log_history[-1]["trace/findings"] >= 1
