"""Gradients that are clipped too late, or not at all, are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import clipping
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, VALUES, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


def clip(parameters: int, *, is_late: bool = False) -> events.Clip:
    return events.Clip(1, location=3, parameters=parameters, gradients=parameters, limit=1.0, is_late=is_late)


@pytest.mark.parametrize(
    ("gradients", "is_told"), [(2, True), (0, False)], ids=["it had some later", "it never had any"]
)
def test_clipping_before_the_backward_pass_is_told(
    tmp_path: Path, write_trace: WriteTrace, gradients: int, is_told: bool
) -> None:
    early = events.Clip(1, location=3, parameters=2, limit=1.0, tensor=1)
    found = [events.Gradient(4, tensor=1, statistics=VALUES), events.Update(5, tensor=1, statistics=OTHER_VALUES)]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), early, *found * gradients)
    told = [(each.code, each.place) for each in find(path) if each.code.startswith("clip-")]
    assert told == [("clip-before-backward", "train.py:20")] * is_told


@pytest.mark.parametrize(
    ("clips", "told"),
    [
        pytest.param([clip(2)], [], id="in time"),
        pytest.param([clip(2, is_late=True)], ["clip-after-step"], id="late"),
        pytest.param([clip(2, is_late=True), clip(2)], [], id="late once"),
        pytest.param([clip(0)], ["clip-without-parameters"], id="nothing"),
        pytest.param([clip(2), clip(0)], [], id="nothing after the first"),
    ],
)
def test_clipping_is_judged_by_its_place(
    tmp_path: Path, write_trace: WriteTrace, clips: list[events.Event], told: list[str]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), *clips)
    found = [each for each in find(path) if each.code.startswith("clip-")]
    assert [(each.code, each.place) for each in found] == [(code, "train.py:20") for code in told]


def codes(tmp_path: Path) -> list[str]:
    return [each.code for each in find(tmp_path, clipping.CHECK)]


@pytest.mark.parametrize("by_value", [False, True])
@pytest.mark.parametrize(
    ("when", "told"), [("each pass", ["clip-per-microbatch"]), ("before the step", []), ("cleared", [])]
)
def test_gradients_are_clipped_once_they_are_complete(
    when: str, told: list[str], by_value: bool, tmp_path: Path
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for batch in range(12):
        (model(torch.randn(3, 4)).pow(2).mean() / 3).backward()
        is_last = batch % 3 == 2
        if when != "before the step" or is_last:
            if by_value:
                nn.utils.clip_grad_value_(model.parameters(), 0.5)
            else:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        if is_last:
            optimizer.step()
        if is_last or when == "cleared":
            optimizer.zero_grad(set_to_none=batch % 2 == 0)
    Proxy.unproxy(model)
    assert codes(tmp_path) == told


@pytest.mark.parametrize(
    ("clipped", "limit", "told"),
    [
        ("critic", 0.5, ["clip-of-other-parameters"]),
        ("critic", 1e9, []),
        ("actor", 0.5, []),
        ("both", 0.5, []),
        ("critic now and then", 0.5, []),
    ],
)
def test_what_is_clipped_is_what_the_step_updates(clipped: str, limit: float, told: list[str], tmp_path: Path) -> None:
    actor = Proxy.Proxy(nn.Linear(4, 2), recurse=True, name="actor", logdir=tmp_path, log_level=Proxy.INFO)
    critic = Proxy.Proxy(nn.Linear(2, 1), recurse=True, name="critic", logdir=tmp_path, log_level=Proxy.INFO)
    of_actor, of_critic = (torch.optim.SGD(model.parameters(), 0.01) for model in (actor, critic))
    for step in range(8):
        of_critic.zero_grad()
        critic(torch.randn(3, 2)).pow(2).mean().backward()
        of_critic.step()
        of_actor.zero_grad()
        (-critic(actor(torch.randn(3, 4))).mean()).backward()
        given = {"actor": [actor], "both": [actor, critic]}.get(clipped, [critic])
        nn.utils.clip_grad_norm_([each for model in given for each in model.parameters()], limit)
        of_actor.step()
        if clipped == "critic now and then" and step % 3 == 2:
            of_critic.step()
    Proxy.unproxy(actor)
    Proxy.unproxy(critic)
    assert codes(tmp_path) == told
