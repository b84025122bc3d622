"""Recurrent states that are detached at every step of a sequence are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.cut_states import cut_states
from tests.proxy_wrapper.source_patterns.found import found_in_file

LOOP = """
cell = nn.LSTMCell(3, 4)
def train(x, y):
    h, c, state = start(), start(), (start(), start())
    for t in range(len(x)):
        {}
        loss = loss + criterion(head(h), y[t])
    loss.backward()
"""
NET = """
class Cell(nn.Module):
    def forward(self, x, h):
        return torch.tanh(self.in_to_h(x) + self.h_to_h(h))
class Net(nn.Module):
    def __init__(self):
        self.unit = Cell()
    def forward(self, x):
        h = x.new_zeros(4)
        for x_t in x.unbind(1):
            {}
            outs.append(h)
        return torch.stack(outs)
"""


@pytest.mark.parametrize(
    ("text", "body", "line", "names"),
    [
        (LOOP, "h, c = cell(x[t], (h.detach(), c.detach()))", 6, "c, h"),
        (LOOP, "h, c = cell(x[t], (h, c))\n        h, c = h.detach(), c.detach()", 7, "c, h"),
        (LOOP, "out, state = cell(x[t], state)\n        state = tuple(s.detach() for s in state)", 7, "state"),
        (LOOP, "h = torch.tanh(w_x(x[:, t]) + w_h(h.detach()))", 6, "h"),
        (NET, "h = self.unit(x_t, h.detach())", 11, "h"),
        (NET, "h.detach_()\n            h = self.unit(x_t, h)", 11, "h"),
    ],
)
def test_a_state_that_is_cut_at_every_step_is_found(text: str, body: str, line: int, names: str) -> None:
    assert found_in_file(text.format(body), cut_states) == [(line, (names,))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOOP.format("h, c = cell(x[t], (h, c))"), id="with its graph"),
        pytest.param(LOOP.format("h, c = cell(x[t], (h.detach(), c))"), id="one state of two"),
        pytest.param(
            LOOP.format(
                "h, c = cell(x[t], (h, c))\n        if t % 20 == 0:\n            h, c = h.detach(), c.detach()"
            ),
            id="every twenty steps",
        ),
        pytest.param(
            LOOP.format("h, c = cell(x[t], (h.detach(), c.detach()))\n        criterion(h, y[t]).backward()"),
            id="a backward pass for each step",
        ),
        pytest.param(
            LOOP.format("h, c = cell(x[t], (h.detach(), c.detach()))\n        update(h)")
            + "def update(h): h.sum().backward()",
            id="a backward pass in a function",
        ),
        pytest.param(LOOP.format("out, h = lstm(x[t], h.detach())"), id="a layer that computes several steps"),
        pytest.param(LOOP.format("h = torch.tanh(x[t] + 0.5 * h + 0.5 * h.detach())"), id="damped gradients"),
        pytest.param(LOOP.format("h, c = cell(x[t], (h, c))\n        saved.append(h.detach())"), id="a copy"),
        pytest.param(LOOP.format("h, c = cell(x[t], (h, c))\n        x = x.detach()"), id="another variable"),
        pytest.param(LOOP.format("h, c = cell(out, (h.detach(), c.detach()))"), id="no sequence"),
        pytest.param(
            LOOP.format("h, c = cell(x[t], (h.detach(), c.detach()))").replace("loss.backward()", "return loss"),
            id="nothing is trained",
        ),
        pytest.param(
            LOOP.format("with torch.no_grad(): pass\n        h, c = cell(x[t], (h.detach(), c.detach()))"),
            id="without gradients",
        ),
        pytest.param(NET.format("h = self.unit(x_t, h)"), id="a module with its graph"),
        pytest.param(NET.format("h = self.other(x_t, h.detach())"), id="another module"),
        pytest.param(NET.replace("torch.tanh(", "self.lstm(").format("h = self.unit(x_t, h.detach())"), id="no cell"),
    ],
)
def test_other_loops(text: str) -> None:
    assert found_in_file(text, cut_states) == []
