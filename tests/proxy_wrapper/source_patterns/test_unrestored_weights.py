"""Weights that are stored in a training loop for others to take their place, and never put back, are found."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.unrestored_weights import unrestored_weights
from tests.proxy_wrapper.source_patterns.found import found_in_file

LOOP = """for epoch in range(3):
    for x in data:
        model(x).sum().backward()
        optimizer.step()
    {}
"""
LIBRARY = "ema.store(model.parameters()); ema.copy_to(model.parameters()); validate(model)"
VARIABLE = "own = copy.deepcopy(model.state_dict())\n    model.load_state_dict(ema.state_dict())\n    validate(model)"
CLASS = """
class EMA:
    def apply_shadow(self, model):
        for name, param in model.named_parameters():
            self.backup[name] = param.data
            param.data = self.shadow[name]
    def restore(self, model):
        for name, param in model.named_parameters():
            param.data = self.backup[name]
"""
LOOKAHEAD = CLASS.replace("= param.data\n", "= self.backup[name] + 0.5 * (param.data - self.backup[name])\n", 1)


@pytest.mark.parametrize(
    ("text", "line", "names"),
    [
        pytest.param(LOOP.format(LIBRARY), 5, ("ema.store", "model"), id="by a library"),
        pytest.param(LOOP.format(VARIABLE), 5, ("own", "model"), id="in a variable"),
        pytest.param(LOOP.format("ema.apply_shadow(model)") + CLASS, 5, ("ema.apply_shadow", "model"), id="by a class"),
        pytest.param(
            LOOP.format("ema.apply_shadow()") + CLASS.replace("(self, model)", "(self)").replace("model", "self.model"),
            5,
            ("ema.apply_shadow",),
            id="by an object that has the model",
        ),
        pytest.param(
            LOOP.format("test()") + f"def test():\n    {LIBRARY}", 7, ("ema.store", "model"), id="in a function"
        ),
    ],
)
def test_weights_that_are_not_put_back(text: str, line: int, names: tuple[str, ...]) -> None:
    assert found_in_file(text, unrestored_weights) == [(line, names)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOOP.format(LIBRARY + "; ema.restore(model.parameters())"), id="put back by a library"),
        pytest.param(LOOP.format(VARIABLE + "\n    model.load_state_dict(own)"), id="put back from a variable"),
        pytest.param(LOOP.format("ema.apply_shadow(model)\n    ema.restore(model)") + CLASS, id="put back by a class"),
        pytest.param(LOOP.format("print(epoch)") + LIBRARY, id="after training"),
        pytest.param(LOOP.format(f"if epoch == 2:\n        {LIBRARY}\n        break"), id="at the end of training"),
        pytest.param(LOOP.format("replay.store(x)"), id="stores something else"),
        pytest.param(LOOP.format("best = copy.deepcopy(model.state_dict())"), id="never replaced"),
        pytest.param(
            LOOP.format("best = copy.deepcopy(model.state_dict())") + "model.load_state_dict(torch.load(path))",
            id="replaced after training",
        ),
        pytest.param(LOOP.format("slow.apply_shadow(model)") + LOOKAHEAD, id="an average that is meant to stay"),
    ],
)
def test_weights_that_are_put_back_or_never_replaced(text: str) -> None:
    assert found_in_file(text, unrestored_weights) == []
