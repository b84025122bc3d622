"""The callback for Lightning: the same weights with it and without, a trace, and the findings in Lightning's logs."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lightning = pytest.importorskip("lightning", reason="the callback is for Lightning, which is not installed")

from proxy_callbacks.lightning import TraceCallback
from tests.proxy_callbacks.conftest import kinds_in

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")


class Regression(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self, has_idle_layer: bool = False) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
        if has_idle_layer:
            self.idle = nn.Linear(3, 3)

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        loss = F.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def fit(folder: Path, callbacks: list[Any], *, has_idle_layer: bool = False) -> tuple[dict[str, Any], Any]:
    """The weights after a small fit, and the trainer."""
    from lightning.pytorch.loggers import CSVLogger

    lightning.seed_everything(3, verbose=False)
    model = Regression(has_idle_layer)
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=CSVLogger(folder / "logs"),
        callbacks=callbacks,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8, shuffle=True))
    return {**model.state_dict(), "random state": torch.get_rng_state()}, trainer


def test_weights_are_the_same_and_there_is_a_trace(tmp_path: Path) -> None:
    plain, _ = fit(tmp_path / "plain", [])
    traced, trainer = fit(tmp_path / "traced", [TraceCallback(tmp_path / "trace")])
    assert list(plain) == list(traced)
    assert all(torch.equal(plain[name], traced[name]) for name in plain)
    kinds = kinds_in(tmp_path / "trace")
    assert kinds.count("optimizer_step") == 8
    assert kinds[-1] == "run_end"
    trainer.logger.save()
    header = (tmp_path / "traced" / "logs").rglob("metrics.csv")
    assert "trace/findings" in next(header).read_text().splitlines()[0]


def test_findings_go_to_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("lightning.pytorch").propagate = True
    with caplog.at_level(logging.WARNING, "lightning.pytorch.proxy_trace"):
        fit(tmp_path, [TraceCallback(tmp_path / "trace")], has_idle_layer=True)
    assert any("[never-updated] model.idle" in record.message for record in caplog.records)


def test_a_training_that_fails_leaves_a_whole_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> torch.Tensor:
        raise ValueError("no more data")

    monkeypatch.setattr(Regression, "training_step", fail)
    with pytest.raises(ValueError, match="no more data"):
        fit(tmp_path, [TraceCallback(tmp_path / "trace")])
    assert kinds_in(tmp_path / "trace")[-1] == "run_end"
