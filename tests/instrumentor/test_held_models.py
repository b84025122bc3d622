"""A model that a library makes for itself is traced from its first step, and trains as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import proxy_wrapper.proxy as Proxy
from instrumentor.instrument import instrument_source
from instrumentor.settings import LogLevel, Settings

if TYPE_CHECKING:
    from tests.instrumentor.conftest import Run

# Makes its model of a word, and the optimizer when it is first needed.
LIBRARY = """\
import torch
from torch import nn

class PPO:
    def __init__(self, policy, env, **kwargs):
        self.env = env
        self.policy = {"MlpPolicy": nn.Sequential}[policy](nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2))
        self._last = self.policy
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=0.01)
    def learn(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = self._last(torch.randn(3, 4)).pow(2).mean()
            loss.backward()
            self.optimizer.step()
            print(loss.item())
        return self
"""
SCRIPT = b"""\
import torch
from stable_baselines3 import PPO

agent = PPO("MlpPolicy", "CartPole-v1")
agent.learn(4)
print(torch.rand(2).tolist())
"""


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_a_model_that_a_library_keeps_trains_the_same(
    level: LogLevel, run_script: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"stable_baselines3/__init__.py": LIBRARY}
    attached: list[torch.nn.Module] = []

    def weights(names: dict[str, Any]) -> list[torch.Tensor]:
        return [each.detach().clone() for each in names["agent"].policy.parameters()]

    def attach(model: torch.nn.Module, **settings: Any) -> torch.nn.Module:
        attached.append(model)
        traced = original(model, **settings)
        assert traced is model
        return traced

    plain = run_script(SCRIPT, files, weights)
    printed = capsys.readouterr().out
    original = Proxy.Proxy
    monkeypatch.setattr(Proxy, "Proxy", attach)
    result = instrument_source(SCRIPT, Settings(log_level=level), source_name="script.py")
    traced = run_script(result.instrumented, files, weights)
    assert len(attached) == 1
    assert capsys.readouterr().out == printed
    assert len(plain) == 4
    assert all(torch.equal(one, other) for one, other in zip(plain, traced, strict=True))
    lines = b"".join(path.read_bytes() for path in Path("proxy_trace").rglob("*.jsonl")).splitlines()
    records = [json.loads(line) for line in lines]
    assert next(each["name"] for each in records if each["kind"] == "module") == "agent.policy"
    assert sum(each["kind"] == "update" for each in records) == 4 * len(plain)  # four steps
