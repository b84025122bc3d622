"""Loops that carry the state of a recurrent layer from batch to batch are found by the source."""

from __future__ import annotations

import ast
import textwrap

import pytest

from proxy_wrapper.program_code.syntax import scopes_of
from proxy_wrapper.source_patterns.carried_states import CARRIED, CARRIED_SHUFFLED, carried_states

LOOP = """
hidden = None
for x, y in loader:
    out, hidden = model(x, hidden)
    loss = criterion(out, y)
    {}
    loss.backward()
"""
MODULE = """
class Net(nn.Module):
    def __init__(self):
        self.rnn = nn.GRU(2, 3)
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, x):
        out, state = self.rnn(x, self.state)
        self.state = state.detach()
        return out

def step(net, x, y):
    {helper}
    net(x).sum().backward()

net = Net()
for idx in torch.randperm(100).split(10):
    {loop}
    net(x[idx]).sum().backward()
"""


def found(text: str) -> list[tuple[str, int, tuple[str, ...]]]:
    scopes = list(scopes_of(ast.parse(textwrap.dedent(text))))
    return [(each.what, each.line, each.names) for each in carried_states(scopes)]


@pytest.mark.parametrize(
    "detached",
    ["hidden = hidden.detach()", "hidden = tuple(h.detach() for h in hidden)", "hidden = repackage_hidden(hidden)"],
)
def test_a_variable_that_is_passed_and_returned(detached: str) -> None:
    assert found(LOOP.format(detached)) == [(CARRIED, 4, ("hidden",))]


@pytest.mark.parametrize(
    "batches",
    [
        "for b in torch.randperm(n).split(8):\n    out, (h, c) = model(x[b], (h, c))",
        "p = np.random.permutation(n)\nfor i in range(0, n, 8):\n    b = p[i:i + 8]\n    out, (h, c) = f(x[b], (h, c))",
        "random.shuffle(data)\nfor x in data:\n    out, (h, c) = model(x, (h.detach(), c.detach()))",
    ],
)
def test_the_source_may_show_that_batches_are_shuffled(batches: str) -> None:
    ((what, _, names),) = found(f"h, c = start()\n{batches}\n    out.sum().backward()")
    assert (what, names) == (CARRIED_SHUFFLED, ("c",))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("hidden = None", id="a new state"),
        pytest.param("hidden = model.init_hidden(len(x))", id="a state from a function"),
        pytest.param("if done: hidden = None", id="a new state now and then"),
        pytest.param("hidden.zero_()", id="set to 0 in place"),
        pytest.param("hidden[:, done] = 0", id="set to 0 in part"),
    ],
)
def test_a_variable_that_is_reset_is_not_found(line: str) -> None:
    assert found(LOOP.format(line)) == []


def test_a_loop_that_does_not_train_is_not_found() -> None:
    assert found(LOOP.replace("loss.backward()", "print(loss)").format("pass")) == []


def test_parameters_that_a_function_updates_are_not_a_state() -> None:
    assert found("params = init()\nfor x in loader:\n    loss, params = step(x, params)\n    loss.backward()") == []


def test_a_module_that_keeps_its_state() -> None:
    assert found(MODULE.format(helper="pass", loop="pass")) == [(CARRIED_SHUFFLED, 22, ("Net.state",))]


def test_chunks_of_one_batch_are_another_loop() -> None:
    text = """
    hidden = None
    for b in torch.randperm(n).split(8):
        for chunk in x[b].split(20, dim=1):
            out, hidden = model(chunk, hidden)
            out.sum().backward()
            hidden = hidden.detach()
    """
    assert found(text) == [(CARRIED, 5, ("hidden",))]


@pytest.mark.parametrize(
    ("helper", "loop"),
    [
        pytest.param("pass", "net.reset()", id="by its method"),
        pytest.param("pass", "net.state = None", id="by its attribute"),
        pytest.param("net.reset()", "step(net, x, y)", id="by a function that the loop calls"),
    ],
)
def test_a_module_that_is_reset_is_not_found(helper: str, loop: str) -> None:
    assert found(MODULE.format(helper=helper, loop=loop)) == []


def test_a_module_that_forgets_by_itself_is_not_found() -> None:
    text = MODULE.format(helper="pass", loop="pass").replace(
        "        return out", "        if self.training:\n            self.state = None\n        return out"
    )
    assert found(text) == []
