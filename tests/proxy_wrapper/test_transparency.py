"""A program gives the same results, bit for bit, and leaves the same random state, traced or not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import proxy_wrapper.proxy as Proxy
from tests.proxy_wrapper.programs import PROGRAMS, Plain, Program, images, train


def outcome(program: Program, level: str | None, logdir: str) -> list[Any]:
    torch.manual_seed(0)
    model = program.build()
    if level is not None:
        assert Proxy.Proxy(model, recurse=True, name="model", logdir=logdir, log_level=level) is model
    torch.manual_seed(1)
    return [*tree_leaves(program.run(model)), torch.get_rng_state()]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_traced_program_gives_the_same_bits(
    program: Program, level: str, logdir: str, capfd: pytest.CaptureFixture[str]
) -> None:
    plain = outcome(program, None, logdir)
    traced = outcome(program, level, logdir)
    assert len(plain) == len(traced)
    for expected, actual in zip(plain, traced, strict=True):
        if isinstance(expected, torch.Tensor):
            assert torch.equal(expected, actual)
        else:
            assert expected == actual
    assert "tracing failed" not in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore")
def test_every_program_draws_something_to_compare() -> None:
    for program in PROGRAMS:
        assert len(tree_leaves(program.run(program.build()))) > 0


def test_the_model_stays_the_object_it_was(level: str, logdir: str) -> None:
    model = Plain()
    before = (id(model), type(model), dict(vars(model)), set(vars(model.first)), id(model.first.weight))
    Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
    train(model)
    assert before[:2] == (id(model), type(model))
    assert before[2] == vars(model)
    assert before[3:] == (set(vars(model.first)), id(model.first.weight))


def test_tracing_draws_no_random_number_and_makes_no_autograd_node(level: str, logdir: str) -> None:
    model = Plain()
    state = torch.get_rng_state()
    Proxy.Proxy(model, recurse=True, logdir=logdir, log_level=level)
    out = model(images())
    names = []
    node = out.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions and node.name() != "AddmmBackward0" else None
    assert names == ["ReluBackward0", "AddmmBackward0"]
    assert torch.equal(state, torch.get_rng_state())
