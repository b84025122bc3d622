"""Code that resumes with the model alone is found, and code that loads all that it needs is not."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.program_code.syntax import scopes_of
from proxy_wrapper.source_patterns.partial_resumes import partial_resumes

SCRIPT = """
def save(path):
    torch.save({{"epoch": epoch, "model": model.state_dict(), "optim": optimizer.state_dict()}}, path)
saved = torch.load(path)
model.load_state_dict(saved["model"])
start = saved["epoch"] + 1
{}
for epoch in range(start, 10):
    loss.backward()
"""
TRAINER = """
class Trainer:
    def save(self):
        state = {"model": self.model.state_dict(), "step": self.step, "lr_sched": self.scheduler.state_dict()}
        torch.save(state, self.path)
    def resume(self):
        state = torch.load(self.path, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.first = state["step"]
    def fit(self):
        for step in range(self.first, 100):
            loss.backward()
"""
FUNCTIONS = """
def save(path, optimizer):
    torch.save({{"epoch": 1, "model": model.state_dict(), "optim": optimizer.state_dict()}}, path)
def resume(path, model):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    return {}
def train(first, last):
    for epoch in range(first, last):
        loss.backward()
start = resume(path, model)
{}
"""


def found(text: str) -> list[tuple[int, tuple[str, ...], int]]:
    patterns = partial_resumes(list(scopes_of(ast.parse(text))))
    return [(pattern.line, pattern.names, pattern.other) for pattern in patterns]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(SCRIPT.format(""), (5, ("optimizer", "optim"), 3), id="an optimizer"),
        pytest.param(TRAINER, (8, ("self.scheduler", "lr_sched"), 4), id="a scheduler of a trainer"),
        pytest.param(
            FUNCTIONS.format('saved["epoch"] + 1', "train(start, 9)"), (6, ("optimizer", "optim"), 3), id="in functions"
        ),
        pytest.param(
            SCRIPT.format("scheduler.load_state_dict(torch.load(other))"),
            (5, ("optimizer", "optim"), 3),
            id="only the scheduler is loaded",
        ),
    ],
)
def test_state_that_stays_in_the_checkpoint(text: str, expected: tuple[int, tuple[str, ...], int]) -> None:
    assert found(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SCRIPT.format('optimizer.load_state_dict(saved["optim"])'), id="loaded"),
        pytest.param(SCRIPT.format('state = saved["optim"]'), id="read"),
        pytest.param(FUNCTIONS.format('saved["epoch"]', "print(start)"), id="the best epoch is shown"),
        pytest.param(FUNCTIONS.format("model", "train(start, 9)"), id="the model is returned"),
        pytest.param(SCRIPT.format("self.optimizer.load_state_dict(state)"), id="loaded from elsewhere"),
        pytest.param(
            SCRIPT.format('for key in ("model", "optim"): objects[key].load_state_dict(saved[key])'), id="all"
        ),
        pytest.param(SCRIPT.format("for each in objects: each.load_state_dict(saved.get(key(each)))"), id="by keys"),
        pytest.param(SCRIPT.replace("range(start, 10)", "range(10)").format(""), id="fine-tuned from the start"),
        pytest.param(SCRIPT.replace("loss.backward()", "evaluate()").format(""), id="evaluated"),
        pytest.param(SCRIPT.replace(', "optim": optimizer.state_dict()', "").format(""), id="not saved"),
        pytest.param(SCRIPT.replace("torch.load(path)", "restore(path)").format(""), id="loaded by another function"),
    ],
)
def test_nothing_stays_in_the_checkpoint(text: str) -> None:
    assert found(text) == []
