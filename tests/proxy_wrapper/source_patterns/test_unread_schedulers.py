"""Schedulers that nothing advances are told from those that something may advance."""

from __future__ import annotations

import ast
import textwrap

import pytest

from proxy_wrapper.source_patterns.unread_schedulers import unread_scheduler


def unread(text: str) -> str:
    """What is found of the scheduler that the only line with `StepLR(` creates."""
    text = textwrap.dedent(text)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "StepLR(" in each)
    return unread_scheduler(ast.parse(text), line)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sched = StepLR(opt, 3)\nopt.step()\n", id="never mentioned"),
        pytest.param("sched = StepLR(opt, 3)\nprint(sched.get_last_lr())\n", id="its rate is printed"),
        pytest.param("sched = StepLR(opt, 3)\ntorch.save({'s': sched.state_dict()}, path)\n", id="its state is saved"),
        pytest.param("sched: StepLR = lr_scheduler.StepLR(\n    opt, 3\n)\n", id="with a type"),
        pytest.param("def f(opt):\n    sched = StepLR(opt, 3)\n    opt.step()\n", id="in a function"),
    ],
)
def test_a_scheduler_that_nothing_advances(text: str) -> None:
    assert unread(text) == "sched"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sched = StepLR(opt, 3)\nsched.step()\n", id="advanced"),
        pytest.param("sched = StepLR(opt, 3)\ndef f():\n    sched.step()\n", id="advanced in a function"),
        pytest.param("def f():\n    sched = StepLR(opt, 3)\n    return sched\n", id="returned"),
        pytest.param("sched = StepLR(opt, 3)\ntrain(opt, sched)\n", id="passed on"),
        pytest.param("sched = StepLR(opt, 3)\nsteps = [sched]\n", id="in a list"),
        pytest.param("sched = StepLR(opt, 3)\nadvance = sched.step\n", id="its method is kept"),
        pytest.param("sched = StepLR(opt, 3)\nfor key in ('sched',): globals()[key].step()\n", id="looked up"),
        pytest.param("def f():\n    global sched\n    sched = StepLR(opt, 3)\n", id="a global variable"),
        pytest.param("self.sched = StepLR(opt, 3)\n", id="an attribute"),
        pytest.param("opt, sched = make(), StepLR(opt, 3)\n", id="with something else"),
        pytest.param("StepLR(opt, 3).step()\n", id="no variable"),
        pytest.param("sched = StepLR(opt, 3) if decay else None\n", id="or none"),
    ],
)
def test_a_scheduler_that_something_may_advance(text: str) -> None:
    assert unread(text) == ""
